//! What a spawn sets of its agent's context, as the agent has it: whether that is there and can be, and what it begins
//! with (CX-08).

use std::path::Path;
use std::sync::Arc;

use ccagent_core::task::overrides::{Overrides, bad};
use ccagent_core::task::{Brief, Given};
use ccagent_llm::definition::Effort;
use ccagent_llm::message;
use ccagent_llm::tool::Files;
use ccagent_llm::transcript::Found;
use ccagent_proto::Error;

use super::run::said;

/// What is stored of it. Reads files, so it may block.
///
/// # Errors
/// `invalidParams`: turns that are no conversation, files that can't be read.
pub(super) fn given(overrides: &Overrides, cwd: &Path) -> Result<Given, Error> {
    message::given(&overrides.messages)
        .map_err(|turn| bad(&format!(".messages[{}]", turn.at), &turn.to_string()))?;
    let mut files = Vec::with_capacity(overrides.read_file_state.len());
    for (at, file) in overrides.read_file_state.iter().enumerate() {
        let path = cwd.join(file);
        Files::default().note(&path).map_err(|why| bad(&format!(".readFileState[{at}]"), &why))?;
        files.push(path.display().to_string());
    }
    Ok(Given { messages: overrides.messages.clone(), files, stopped_with: None })
}

/// How much its model is to think.
///
/// # Errors
/// `invalidParams`.
pub(super) fn effort(overrides: &Overrides) -> Result<Option<Effort>, Error> {
    let effort = overrides.options.effort.as_deref().map(|effort| serde_json::from_value(effort.into()));
    effort.transpose().map_err(|error| bad(".options.effort", &error.to_string()))
}

/// A fork has the conversation, the type and the files of its parent, byte for byte.
///
/// # Errors
/// `invalidParams`.
pub(super) fn refuse_of_fork(overrides: &Overrides) -> Result<(), Error> {
    let set = [
        (".messages", !overrides.messages.is_empty()),
        (".agentType", overrides.agent_type.is_some()),
        (".readFileState", !overrides.read_file_state.is_empty()),
        (".options.model", overrides.options.model.is_some()),
        (".options.effort", overrides.options.effort.is_some()),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        None => Ok(()),
        Some((place, _)) => Err(bad(place, "a fork has this of its parent: leave it out")),
    }
}

/// Gives an agent the turns that its conversation begins with, where it has none yet.
pub(super) async fn begin(brief: &Brief, found: &mut Found) -> Result<(), String> {
    if brief.given.messages.is_empty() || !found.messages.is_empty() {
        return Ok(());
    }
    let turns = message::given(&brief.given.messages).map_err(said)?;
    found.transcript.given(turns.clone()).await.map_err(said)?;
    (found.begins, found.asked) = (turns.len(), turns.len());
    found.messages = turns;
    Ok(())
}

/// Notes the files that an agent has seen as it begins; one that is gone by now it has not seen.
pub(super) async fn note(brief: &Arc<Brief>, files: &Files) {
    let (brief, files) = (brief.clone(), files.clone());
    let noted = tokio::task::spawn_blocking(move || {
        for file in &brief.given.files {
            if let Err(why) = files.note(Path::new(file)) {
                tracing::info!(why, "a file that an agent was to have seen is not there");
            }
        }
    });
    if let Err(error) = noted.await {
        tracing::warn!(%error, "the files that an agent was to have seen were not noted");
    }
}
