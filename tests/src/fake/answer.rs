//! From a request to what is sent: an answer's events, bent by the faults that are due.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::cache::Cached;
use super::events::{self, Dialect, Said};
use super::script::{Fault, Part, Place};

/// What goes onto the wire, in order.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Bytes),
    Pause(Duration),
    /// The connection breaks.
    Break,
}

/// What comes of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// An HTTP error.
    Error { status: u16, after: Option<String>, body: Bytes },
    /// A stream.
    Stream(Vec<Piece>),
}

/// The answer to a request. `due` counts: whether a fault with a number happens this time.
pub(super) fn of(
    dialect: Dialect,
    request: &Value,
    (bytes, cached): (usize, Cached),
    mut due: impl FnMut(&str, &Fault, u32) -> bool,
) -> (Duration, Outcome) {
    let place = Place::of(request);
    let wait = Duration::from_millis(place.script.wait);
    let faults: Vec<&Fault> = place
        .script
        .faults
        .iter()
        .filter(|fault| fault.times.is_none_or(|times| due(&place.prompt, &fault.fault, times)))
        .map(|fault| &fault.fault)
        .collect();
    for fault in &faults {
        if let Fault::Error { status, after } = fault {
            let body = events::error(&format!("http_{status}"), "the script says so");
            return (wait, Outcome::Error { status: *status, after: after.clone(), body: body.into() });
        }
    }
    // As with the real one: nothing is searched where that was not offered.
    let mut parts = place.step();
    parts.retain(|part| searches(request) || !matches!(part, Part::Found { .. }));
    let said = Said {
        think: place.script.think.clone(),
        parts,
        stop: place.script.stop.clone(),
        model: request["model"].as_str().unwrap_or_default().to_owned(),
        input: (bytes / 4) as u64,
        cached,
    };
    let mut events = events::of(dialect, &said);
    if place.script.odd {
        events = events.into_iter().flat_map(|event| [events::odd(dialect), event]).collect();
    }
    (wait, Outcome::Stream(bend(events, &faults)))
}

/// Whether a request offers the server's own search.
fn searches(request: &Value) -> bool {
    let kinds = request["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["type"].as_str());
    kinds.into_iter().any(|kind| kind.starts_with("web_search_"))
}

/// Does to a stream what goes wrong.
fn bend(mut events: Vec<Bytes>, faults: &[&Fault]) -> Vec<Piece> {
    let mut pause = None;
    let mut broken = None;
    for fault in faults {
        match fault {
            Fault::Cut(after) => {
                events.truncate(*after);
                broken = Some(Piece::Break);
            }
            Fault::Half => {
                let last = events.pop().unwrap_or_default();
                events.push(last.slice(..last.len() / 2));
            }
            Fault::Garbage => {
                events.insert(1.min(events.len()), Bytes::from_static(b"data: {\"type\": nonsense\n\n"));
            }
            // A text before its block's beginning, in the dialect that has such.
            Fault::Disorder if events.len() > 3 => events.swap(2, 3),
            Fault::Disorder | Fault::Error { .. } => {}
            Fault::Fail(kind) => {
                events.truncate(1);
                events.push(
                    format!("event: error\ndata: {}\n\n", events::error(kind, "the script says so")).into(),
                );
            }
            Fault::Silent(ms) => pause = Some(Piece::Pause(Duration::from_millis(*ms))),
        }
    }
    let mut pieces = Vec::new();
    for (at, event) in events.into_iter().enumerate() {
        if at == 1 {
            pieces.extend(pause.take());
        }
        pieces.push(Piece::Bytes(event));
    }
    pieces.extend(broken);
    pieces
}
