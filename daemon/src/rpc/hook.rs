//! Which hooks there are in a place. Nothing is run.

use std::sync::Arc;

use ccagent_core::bounds;
use ccagent_llm::hook::Hooks;
use ccagent_proto::Error;
use ccagent_proto::hook::{Hook, HookListParams, HookListResult};

use super::connection::Origin;
use super::context::Context;
use super::definition;
use super::trust::{Place, state};

/// Lists the hooks.
pub(crate) async fn list(
    context: Arc<Context>,
    origin: Origin,
    params: HookListParams,
) -> Result<HookListResult, Error> {
    bounds::place(params.cwd.as_deref(), None)?;
    let place = Place::of(&context, &origin, params.cwd.as_deref()).await?;
    Context::blocking(move || {
        let (found, trusted) = (place.all(), place.known.trust.current());
        let mut problems = found.problems;
        let mut hooks = Vec::new();
        for item in &found.items {
            let read = Hooks::of(std::slice::from_ref(item));
            problems.extend(read.problems.into_iter().chain(read.unheard));
            hooks.extend(read.hooks.into_iter().map(|hook| Hook {
                event: hook.event.as_str().to_owned(),
                matcher: hook.written.clone(),
                command:
                    hook.args.iter().flatten().fold(hook.command.clone(), |all, arg| format!("{all} {arg}")),
                timeout_ms: u64::try_from(hook.timeout.as_millis()).unwrap_or(u64::MAX),
                path: hook.path.display().to_string(),
                state: state(trusted.standing(item)),
            }));
        }
        Ok(HookListResult { hooks, problems: definition::problems(problems) })
    })
    .await
}
