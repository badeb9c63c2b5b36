//! All methods of the contract with no daemon behind them, for fuzzing: a text goes the whole way of a request, through
//! batches, cancellation and the look-up of its method, up to its params, which the answer then shows.
//!
//! Deliberately not here: streams and framings, which have a target of their own.

use std::sync::Arc;

use ccagent_core::Who;
use ccagent_proto::{Error, Kind, Method, method as wire};
use futures_util::FutureExt;
use serde_json::value::RawValue;

use super::Limits;
use super::budget::Budget;
use super::connection::{Connection, Origin};
use super::peer::{Environment, Peer};
use super::registry::{Registry, open};
use super::service::{Begun, Service};
use super::taken::Answer;

/// A service that gives every call's params back in `error.data.params`.
#[derive(Debug)]
pub struct Mirror(Service);

impl Mirror {
    /// A mirror of all methods; `None` when two have one name.
    pub fn new() -> Option<Self> {
        let mut registry = Registry::new(Arc::new(()), open());
        macro_rules! mirror {
            ($($name:ident),*) => { $(registry.work::<wire::$name, _, _>(show::<wire::$name>);)* };
        }
        ccagent_proto::for_each_call!(mirror);
        ccagent_proto::for_each_edge!(mirror);
        let api = Arc::new(registry.finish().ok()?);
        let connection = Connection::new(
            1,
            Peer::nobody(),
            Who::Operator,
            Environment::default(),
            Budget::new(usize::MAX),
        );
        Some(Self(Service::new(api, connection, Arc::new(Limits::default()), None)))
    }

    /// The answer to a text; `None` where none is due.
    pub fn answer(&self, text: &[u8]) -> Option<Box<RawValue>> {
        match self.0.begin(text) {
            Begun::Silent => None,
            Begun::Now(answer) => Some(Answer::from(answer).text),
            // No handler waits for anything.
            Begun::Later(later) => later.answer.now_or_never().flatten().map(|answer| answer.text),
        }
    }
}

async fn show<M: Method>(_: Arc<()>, _: Origin, params: M::Params) -> Result<M::Result, Error> {
    let shown = serde_json::to_value(params).unwrap_or_else(|error| error.to_string().into());
    Err(Error::new(Kind::NotFound, M::NAME).with("params", shown))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn params(text: &str) -> Value {
        let answer = Mirror::new().unwrap().answer(text.as_bytes()).unwrap();
        let answer: Value = serde_json::from_str(answer.get()).unwrap();
        answer["error"]["data"]["params"].clone()
    }

    /// SV-03: what the fuzzer looks at are the params as they were understood.
    #[test]
    fn a_mirror_shows_the_params() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"task.get","params":{"taskId":"a"}}"#;
        assert_eq!(params(call), json!({ "taskId": "a" }));
        assert_eq!(params(&call.replace("taskId", "task")), Value::Null);
    }

    /// SV-03: JSON inside a private key of the library would be read in turn, without end: it is refused wherever
    /// params may have any shape.
    #[test]
    fn no_params_are_json_in_json() {
        let odd = r#"{"$serde_json::private::RawValue":"[1]"}"#;
        for (method, params) in [
            ("message.send", format!(r#"{{"to":"a","message":{odd}}}"#)),
            ("agent.spawn", format!(r#"{{"overrides":{odd}}}"#)),
            ("agent.spawn", format!(r#"{{"overrides":{{"a":{odd}}}}}"#)),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let answer = Mirror::new().unwrap().answer(text.as_bytes()).unwrap();
            assert!(answer.get().contains("reserved") && answer.get().contains("-32602"), "{answer}");
        }
    }
}
