//! Which model an agent asks: an order of who may say so, and who said it (MD-01 … MD-05).
//!
//! Deliberately not here: which models there are, and what a short name such as `opus` stands for.

use serde::Serialize;

/// The word for the parent's model.
pub const INHERIT: &str = "inherit";
/// The variable of the requesting client's environment that goes before everything else.
pub const ENV: &str = "CLAUDE_CODE_SUBAGENT_MODEL";

/// Who said which model it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The environment.
    Env,
    /// The call.
    Call,
    /// The configuration.
    Config,
    /// The definition.
    Definition,
    /// Nobody, or somebody said `inherit`: it is the parent's.
    Parent,
}

/// A model, and who said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The model.
    pub model: String,
    /// Who said so.
    pub source: Source,
}

/// What is said of an agent's model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// By the environment.
    pub env: Option<&'a str>,
    /// By the call.
    pub call: Option<&'a str>,
    /// By the definition.
    pub definition: Option<&'a str>,
    /// The parent's model.
    pub parent: &'a str,
}

impl Said<'_> {
    /// The model of an agent (MD-01, MD-02). A value `inherit` in the environment is as none.
    pub fn choose(self) -> Choice {
        let env = self.env.filter(|model| model.trim() != INHERIT);
        let said = [(Source::Env, env), (Source::Call, self.call), (Source::Definition, self.definition)];
        first(&said, self.parent)
    }

    /// The model of a fork: its parent's, since its requests begin as its parent's (MD-05).
    pub fn of_fork(self) -> Choice {
        first(&[], self.parent)
    }
}

/// The model of an agent of the executor (MD-03).
pub fn of_executor(config: Option<&str>, definition: Option<&str>, parent: &str) -> Choice {
    first(&[(Source::Config, config), (Source::Definition, definition)], parent)
}

fn first(said: &[(Source, Option<&str>)], parent: &str) -> Choice {
    let mut words = said.iter().filter_map(|(source, model)| Some((*source, model.map(str::trim)?)));
    match words.find(|(_, model)| !model.is_empty()) {
        Some((source, model)) if model != INHERIT => Choice { model: model.to_owned(), source },
        Some(_) | None => Choice { model: parent.to_owned(), source: Source::Parent },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MD-01: in all eight combinations, the first who says something decides.
    #[test]
    fn environment_call_definition_and_parent_decide_in_that_order() {
        let some = |on: bool, model| on.then_some(model);
        for bits in 0..8 {
            let (env, call, definition) = (bits & 4 > 0, bits & 2 > 0, bits & 1 > 0);
            let choice = Said {
                env: some(env, "e"),
                call: some(call, "c"),
                definition: some(definition, "d"),
                parent: "p",
            }
            .choose();
            let want = match (env, call, definition) {
                (true, _, _) => ("e", Source::Env),
                (false, true, _) => ("c", Source::Call),
                (false, false, true) => ("d", Source::Definition),
                (false, false, false) => ("p", Source::Parent),
            };
            assert_eq!((choice.model.as_str(), choice.source), want);
        }
    }

    /// MD-01, MD-02: `inherit` is the parent's; in the environment it is as nothing.
    #[test]
    fn inherit_is_the_parents_model() {
        let said = Said { env: Some("inherit"), call: Some("c"), definition: Some("d"), parent: "p" };
        assert_eq!(said.choose().source, Source::Call);
        let said = Said { env: Some(" "), call: Some("inherit"), ..said };
        assert_eq!(said.choose(), Choice { model: "p".into(), source: Source::Parent });
        let said = Said { env: None, call: None, definition: Some("inherit"), ..said };
        assert_eq!(said.choose(), Choice { model: "p".into(), source: Source::Parent });
    }

    /// MD-03, MD-05: the executor asks its configuration first, and a fork its parent alone.
    #[test]
    fn executor_and_forks_have_their_own_order() {
        assert_eq!(of_executor(Some("c"), Some("d"), "p").source, Source::Config);
        assert_eq!(of_executor(None, Some("d"), "p").model, "d");
        assert_eq!(of_executor(None, Some("inherit"), "p").model, "p");
        assert_eq!(of_executor(None, None, "p").source, Source::Parent);
        let said = Said { env: Some("e"), call: Some("c"), definition: Some("d"), parent: "p" };
        assert_eq!(said.of_fork().model, "p");
    }
}
