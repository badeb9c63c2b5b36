//! What runs programs, and whether it may.

use ccagent_proto::trust::{TrustItem, TrustState};

use super::line;

/// Files, each with what it would run below it.
pub(crate) fn list(items: &[TrustItem]) -> String {
    let rows = |item: &TrustItem| {
        let runs = item.runs.iter().map(|run| format!("           {}\n", line(run)));
        let own = format!("{:<9}  {}\n", word(item.state), line(&item.path));
        std::iter::once(own).chain(runs).collect::<Vec<_>>()
    };
    items.iter().flat_map(rows).collect()
}

const fn word(state: TrustState) -> &'static str {
    match state {
        TrustState::Own => "own",
        TrustState::Trusted => "trusted",
        TrustState::Changed => "changed",
        TrustState::Untrusted => "untrusted",
    }
}
