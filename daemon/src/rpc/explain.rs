//! Saying what a spawn would do, and why, without doing it: what the core decides, and for an agent with a model what is
//! worked out of definitions and environment at a spawn.

use std::sync::Arc;

use ccagent_core::{Caller, bounds};
use ccagent_proto::Error;
use ccagent_proto::agent::{
    AgentExplainResult, AgentSpawnParams, ExplainedFork, ExplainedPrompt, ExplainedTools, PromptLayer,
    RemovedTool,
};
use ccagent_proto::method::AgentExplain;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::connection::Origin;
use super::context::Context;
use super::{definition, spawn};
use crate::llm::brief::{self, ModeSource, Worked};
use crate::llm::fork;

/// Says what a spawn would do.
pub(crate) async fn explain(
    context: Arc<Context>,
    origin: Origin,
    params: AgentSpawnParams,
) -> Result<AgentExplainResult, Error> {
    let caller = origin.connection.creator();
    let inside = params.command.is_none() && params.resume_agent_id.is_none();
    let worked = if inside { Some(worked(&context, &caller, &params).await?) } else { None };
    let answer = context.call::<AgentExplain>(&caller, params).await?;
    match worked {
        Some((worked, fork)) => of_model(AgentExplainResult { fork, ..answer }, worked),
        None => Ok(answer),
    }
}

async fn worked(
    context: &Context,
    caller: &Caller,
    params: &AgentSpawnParams,
) -> Result<(Worked, Option<ExplainedFork>), Error> {
    bounds::spawn(params)?;
    let given = params.env.clone().unwrap_or_default();
    let by = spawn::surroundings(context, caller, params, given).await?;
    let (params, known) = (params.clone(), context.runner.known());
    Context::blocking(move || {
        let worked = brief::explained(&params, &by, &known)?;
        let fork = fork::preview(&worked, &params, &by, &known);
        Ok((worked, fork))
    })
    .await
}

/// The answer about an agent with a model.
fn of_model(answer: AgentExplainResult, worked: Worked) -> Result<AgentExplainResult, Error> {
    let Worked { brief, entry, routed, pool, prompt, model_source, missing, mode_source, held } = worked;
    let mut reasons = routed.reasons;
    reasons.extend(missing.as_ref().map(|error| format!("it could not run: {}", error.message)));
    reasons.extend(held);
    let removed = pool.removed.into_iter();
    let text = prompt.text();
    let layers = prompt.layers.into_iter();
    Ok(AgentExplainResult {
        route: word(&routed.route),
        reasons,
        permission_mode: brief.permission_mode,
        permission_mode_source: Some(said(mode_source).to_owned()),
        definition: Some(definition::shown(&entry.definition)?),
        source: Some(definition::source(entry.source)),
        shadowed: Some(definition::shadowed(&entry)),
        tools: Some(ExplainedTools {
            pool: pool.tools,
            removed: removed.map(|one| RemovedTool { tool: one.tool, stage: word(&one.stage) }).collect(),
            unmatched: pool.unmatched,
        }),
        prompt: Some(ExplainedPrompt {
            sha256: format!("{:x}", Sha256::digest(&text)),
            text,
            layers: layers
                .map(|layer| PromptLayer { name: layer.name.to_owned(), text: layer.text })
                .collect(),
        }),
        model: missing.is_none().then_some(brief.model),
        model_source: Some(word(&model_source)),
        ..answer
    })
}

const fn said(source: ModeSource) -> &'static str {
    match source {
        ModeSource::Call => "call",
        ModeSource::Definition => "definition",
        ModeSource::Settings => "settings",
        ModeSource::Default => "default",
    }
}

/// How a value is spelt on the wire.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}
