//! Asking a person for permission, where no rule allows a call and none denies it: the ask is the daemon's, everybody
//! sees it, and the call waits for its end. Nothing becomes allowed because time passed (PM-09, C17).

use std::sync::{Arc, PoisonError};

use ccagent_core::ask::{Asked, What};
use ccagent_core::bounds::SHOWN_MOST;
use ccagent_llm::alias;
use ccagent_llm::hook::Word;
use ccagent_llm::host::Permission;
use ccagent_llm::tool::{self, Access, Ask};
use ccagent_proto::ask::{self as wire, AskAnswer, AskBehavior, AskState};
use ccagent_proto::{Error, Kind};
use serde_json::{Value, json};

use super::desk::Desk;
use super::fork;
use super::judge::{Judge, Verdict};

/// Characters of a text that are shown, where a whole input is too long.
const TEXT_SHOWN: usize = 4000;

impl Desk {
    /// Whether a call may go on, once that is known.
    pub(super) async fn permit(&self, ask: Ask) -> Permission {
        let verdict = self.judged(&ask).await;
        let permission = match verdict.map(|verdict| hooked(verdict, &ask.hooked)) {
            Ok(Verdict::Allowed) => Ok(Permission::Allowed),
            Ok(Verdict::Denied(why)) => Ok(Permission::Denied(why)),
            Ok(Verdict::Asks { reason, by_rule }) => match self.hooks_permit(&ask, by_rule).await {
                Some(denied @ (Permission::Denied(_) | Permission::Halted(..))) => Ok(denied),
                // What a rule wants asked a person is asked.
                Some(Permission::Allowed) if !by_rule => self.allowed(&ask, None).await,
                Some(Permission::Changed(input)) if !by_rule => self.changed(&ask, input).await,
                Some(Permission::Allowed | Permission::Changed(_)) | None => {
                    self.ask_somebody(&ask, &reason).await
                }
            },
            Err(error) => Err(error),
        };
        permission.unwrap_or_else(|error| {
            let Ask { tool, summary, .. } = &ask;
            Permission::Denied(format!(
                "This call needs a person's permission, and nobody can be asked: {error}. {tool}({summary}) was not run."
            ))
        })
    }

    /// What the mode and the rules of this moment say: what was granted or forbidden meanwhile counts, by whomever and in
    /// whichever file. Rules are read again where one of these is another one now.
    async fn judged(&self, ask: &Ask) -> Result<Verdict, Error> {
        let (judge, task) = (self.judge(), self.task);
        let (session, root) = (self.caller.session.clone().unwrap_or_default(), judge.root());
        let now = self.handle.ask(move |core, _| (core.granted(&session, &root), core.setting(task)));
        let (granted, setting) = now.await?;
        let gone = || Error::new(Kind::TaskNotFound, "the task of this agent is gone");
        let mode = fork::mode(&self.means.brief, &setting.ok_or_else(gone)?.mode).to_owned();
        let ask = ask.clone();
        let judged = tokio::task::spawn_blocking(move || {
            if judge.is_of_now(&mode, &granted) {
                return (judge.judge(&ask), None);
            }
            let judge = Arc::new(judge.renewed(Some(&mode), &granted));
            (judge.judge(&ask), Some(judge))
        });
        let (verdict, renewed) =
            judged.await.map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        if let Some(judge) = renewed {
            *self.judge.lock().unwrap_or_else(PoisonError::into_inner) = judge;
        }
        Ok(verdict)
    }

    pub(super) fn judge(&self) -> Arc<Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A call that a hook allowed with another input: a person is asked where a rule wants that asked.
    async fn changed(&self, ask: &Ask, input: Value) -> Result<Permission, Error> {
        let mut changed = ask.clone();
        change(&mut changed, input.clone());
        match self.judged(&changed).await? {
            Verdict::Asks { reason, by_rule: true } => {
                let permission = self.ask_somebody(&changed, &reason).await?;
                Ok(if permission == Permission::Allowed { Permission::Changed(input) } else { permission })
            }
            Verdict::Denied(why) => Ok(Permission::Denied(why)),
            Verdict::Allowed | Verdict::Asks { by_rule: false, .. } => Ok(Permission::Changed(input)),
        }
    }

    async fn ask_somebody(&self, ask: &Ask, reason: &str) -> Result<Permission, Error> {
        let input = shown(&ask.input);
        let what = What::Permission {
            tool: ask.tool.as_str().into(),
            cut: input != ask.input,
            input,
            reason: reason.into(),
            risk: risk(ask.access).into(),
            root: self.judge().root().into(),
            rules: self.judge().suggest(ask),
        };
        let cwd = ask.cwd.display().to_string();
        let asked = Asked { what, call: None, summary: ask.summary.clone(), cwd };
        let ended = self.put(asked).await?;
        match end_of(&ended, ask) {
            denied @ (Permission::Denied(_) | Permission::Halted(..)) => Ok(denied),
            Permission::Allowed => self.allowed(ask, None).await,
            Permission::Changed(input) => self.allowed(ask, Some(input)).await,
        }
    }

    /// What a person, or a hook in a person's place, allowed, if the rules and the mode of by now don't deny it: whoever
    /// answers gives a call no more than that, and no other input that they would deny.
    async fn allowed(&self, ask: &Ask, input: Option<Value>) -> Result<Permission, Error> {
        let mut ask = ask.clone();
        if let Some(input) = &input {
            change(&mut ask, input.clone());
        }
        Ok(match (self.judged(&ask).await?, input) {
            (Verdict::Denied(why), _) => Permission::Denied(why),
            (Verdict::Allowed | Verdict::Asks { .. }, Some(input)) => Permission::Changed(input),
            (Verdict::Allowed | Verdict::Asks { .. }, None) => Permission::Allowed,
        })
    }
}

/// Gives a call another input; what a server's tool does with that nobody here knows.
fn change(ask: &mut Ask, input: Value) {
    match tool::builtin().iter().find(|tool| alias::same(&tool.spec().name, &ask.tool)) {
        Some(tool) => ask.give(&**tool, input),
        None => ask.input = input,
    }
}

/// What hooks make of what the rules said: they can want a question, and spare one that no rule wants.
fn hooked(verdict: Verdict, word: &Word) -> Verdict {
    match (verdict, word) {
        (Verdict::Asks { by_rule: false, .. }, Word::Allow) => Verdict::Allowed,
        (Verdict::Allowed, Word::Ask(why)) => {
            Verdict::Asks { reason: format!("a hook wants it: {why}"), by_rule: true }
        }
        (verdict, Word::Nothing | Word::Allow | Word::Ask(_) | Word::Deny(_)) => verdict,
    }
}

/// What the end of an ask means for the call.
fn end_of(now: &wire::Ask, ask: &Ask) -> Permission {
    let call = format!("{}({}) was not run.", ask.tool, ask.summary);
    let why = match (&now.answer, now.state) {
        (Some(AskAnswer { behavior: AskBehavior::Allow, updated_input: Some(input), .. }), _) => {
            return Permission::Changed(input.clone());
        }
        (Some(AskAnswer { behavior: AskBehavior::Allow, updated_input: None, .. }), _) => {
            return Permission::Allowed;
        }
        (Some(AskAnswer { behavior: AskBehavior::Deny, message: Some(message), .. }), _) => {
            format!("This call was denied: {message}. {call}")
        }
        (Some(AskAnswer { behavior: AskBehavior::Deny, message: None, .. }), _) => {
            format!("A person denied this call. {call}")
        }
        (None, AskState::Withdrawn) => {
            format!("The agent was stopped before anybody answered whether this call may be. {call}")
        }
        (None, AskState::Expired | AskState::Pending | AskState::Answered) => {
            format!("Nobody answered in time whether this call may be, which denies it. {call}")
        }
    };
    Permission::Denied(why)
}

const fn risk(access: Access) -> &'static str {
    match access {
        Access::Reads => "reads",
        Access::Writes => "writes",
        Access::Runs => "runs",
        Access::Fetches => "fetches",
        Access::Talks => "talks",
        Access::Steers => "steers",
    }
}

/// An input as an ask shows it: where it is too long, the beginnings of its texts.
fn shown(input: &Value) -> Value {
    let fits = |value: &Value| value.to_string().len() <= SHOWN_MOST;
    if fits(input) {
        return input.clone();
    }
    let cut = shortened(input);
    if fits(&cut) { cut } else { json!({ "notShown": "it is too large; the agent's transcript has it" }) }
}

fn shortened(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.char_indices().nth(TEXT_SHOWN) {
            Some((at, _)) => json!(format!("{}… [{} bytes more]", &text[..at], text.len() - at)),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(shortened).collect(),
        Value::Object(keys) => {
            Value::Object(keys.iter().map(|(key, value)| (key.clone(), shortened(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E77, I8: of an input that is too long the beginnings are shown, and how much is not.
    #[test]
    fn a_long_input_is_shown_in_part() {
        let small = json!({ "file_path": "a" });
        assert_eq!(shown(&small), small);
        let cut = shown(&json!({ "file_path": "a", "content": "x".repeat(100_000) }));
        assert_eq!(cut["file_path"], "a");
        assert!(cut["content"].as_str().unwrap().ends_with("[96000 bytes more]"), "{cut}");
        let many = json!({ "edits": vec!["x".repeat(3000); 100] });
        assert!(shown(&many)["notShown"].is_string());
    }
}
