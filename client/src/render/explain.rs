//! What a spawn would do, and why.

use ccagent_proto::agent::{AgentExplainResult, ExplainedFork, ExplainedPrompt, ExplainedTools};

use super::{bytes, definition, details};

/// All of it but for the prompt's text, of which the layers are named.
pub(crate) fn full(found: &AgentExplainResult) -> String {
    let name = found.definition.as_ref().and_then(|def| def.get("name")?.as_str());
    let source = found.source.map(definition::source);
    let by = |value: Option<&str>, source: Option<&str>| match (value, source) {
        (Some(value), Some(source)) => Some(format!("{value} ({source})")),
        (value, source) => value.or(source).map(str::to_owned),
    };
    details(&[
        ("route", Some(found.route.clone())),
        ("because", Some(found.reasons.join("; "))),
        ("agent", by(name, source)),
        ("model", by(found.model.as_deref(), found.model_source.as_deref())),
        ("mode", by(Some(&found.permission_mode), found.permission_mode_source.as_deref())),
        ("isolation", Some(found.isolation.clone())),
        ("directory", Some(found.cwd.clone())),
        ("tools", found.tools.as_ref().map(|tools| tools.pool.join(", "))),
        ("removed", found.tools.as_ref().and_then(removed)),
        ("unmatched", found.tools.as_ref().and_then(|tools| some(tools.unmatched.join(", ")))),
        ("prompt", found.prompt.as_ref().map(layers)),
        ("fork", found.fork.as_ref().map(fork)),
        ("sha256", found.prompt.as_ref().map(|prompt| prompt.sha256.clone())),
        ("command", found.argv.as_ref().map(|argv| argv.join(" "))),
        ("variables", some(found.env_names.join(", "))),
        ("queued", found.queued.then(|| "yes".to_owned())),
    ])
}

fn removed(tools: &ExplainedTools) -> Option<String> {
    let each = tools.removed.iter().map(|one| format!("{} ({})", one.tool, one.stage));
    some(each.collect::<Vec<_>>().join(", "))
}

fn fork(fork: &ExplainedFork) -> String {
    let ExplainedFork { depth, messages, lineage_id, prefix_sha256, .. } = fork;
    format!("{lineage_id}, depth {depth}, behind {} turns; prefix {prefix_sha256}", messages.len())
}

fn layers(prompt: &ExplainedPrompt) -> String {
    let each = prompt.layers.iter().map(|one| format!("{} {}", one.name, bytes(one.text.len() as u64)));
    each.collect::<Vec<_>>().join(", ")
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
