//! A process agent's environment: the caller's base, the session's and the call's values, then ours.

use std::collections::BTreeMap;
use std::path::Path;

use ccagent_core::effect::Start;

/// What a program finds on its PATH when its caller had none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The whole environment of an attempt.
pub(super) fn of(
    start: &Start,
    base: BTreeMap<String, String>,
    given: BTreeMap<String, String>,
    socket: &Path,
) -> BTreeMap<String, String> {
    let mut env = base;
    env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    env.extend(given);
    let optional = [
        ("CCAGENT_AGENT_NAME", start.name.as_deref().map(str::to_owned)),
        ("CCAGENT_TEAM", start.team.as_deref().map(str::to_owned)),
        ("CCAGENT_PARENT_ID", start.parent.map(|id| id.to_string())),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            env.insert(name.to_owned(), value);
        }
    }
    env.insert("CCAGENT_TASK_ID".to_owned(), start.task.to_string());
    env.insert("CCAGENT_SOCKET".to_owned(), socket.display().to_string());
    env.insert("CCAGENT_TOKEN".to_owned(), start.token.clone());
    env
}
