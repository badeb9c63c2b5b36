//! Hooks around a call and at the end of a run. What they say reaches the model as data that says where it is from.

use std::sync::Arc;

use super::{Agent, Counts, Leave};
use crate::hook::{Event, Said, Word, quoted};
use crate::message::{Message, Role};
use crate::quote;
use crate::tool::{Ask, Outcome, Tool};

/// How often in a row hooks may keep a run from ending.
const OBJECTIONS: u32 = 8;

impl Agent {
    /// Asks hooks before a call; they may refuse it, and give it another input.
    pub(super) async fn before(
        &self,
        tool: &Arc<dyn Tool>,
        id: &str,
        ask: &mut Ask,
    ) -> Result<Said, Box<Outcome>> {
        let mut said = self.host.before(ask, id).await;
        let halt = said.halt.take();
        if let Word::Deny(why) = &said.word {
            let why = self.context.mask.text(quote::plain(why));
            let text = format!("A hook denied this call, which was not made: {why}");
            return Err(Box::new(Outcome { halt, ..Outcome::error(text) }));
        }
        if halt.is_some() {
            let text = "A hook stopped the agent before this call.";
            return Err(Box::new(Outcome { halt, ..Outcome::error(text) }));
        }
        if let Some(input) = said.input.take() {
            ask.give(&**tool, input);
        }
        ask.hooked = std::mem::take(&mut said.word);
        Ok(said)
    }

    /// Tells hooks of a call that was made; adds what they and those before it say.
    pub(super) async fn after(&self, ask: &Ask, id: &str, before: Said, outcome: &mut Outcome) {
        let after = if outcome.is_error { Said::default() } else { self.host.after(ask, id, outcome).await };
        let before = before.context.into_iter().map(|text| (Event::PreToolUse, text));
        let objection = if let Word::Deny(why) = after.word { Some(why) } else { None };
        let after_it = objection.into_iter().chain(after.context).map(|text| (Event::PostToolUse, text));
        for (event, text) in before.chain(after_it) {
            outcome.text.push('\n');
            outcome.text.push_str(&self.context.mask.text(quoted(event, &text)));
        }
        outcome.halt = after.halt;
    }

    /// Ends the run, unless hooks object.
    pub(super) async fn ending(&mut self, counts: &mut Counts) -> Result<(), Leave> {
        let last = self.messages.iter().rev().find(|message| message.role == Role::Assistant);
        let text = last.and_then(Message::text);
        let said = tokio::select! {
            biased;
            () = self.halt.graceful.cancelled() => return Err(Leave::Halted),
            said = self.host.ending(text.as_deref(), counts.objections) => said,
        };
        match said.word {
            Word::Deny(why) if said.halt.is_none() && counts.objections < OBJECTIONS => {
                counts.objections += 1;
                let why = self.context.mask.text(quoted(Event::SubagentStop, &why));
                self.say(Message::user(why), Vec::new()).await
            }
            Word::Nothing | Word::Allow | Word::Ask(_) | Word::Deny(_) => Err(Leave::Done),
        }
    }
}
