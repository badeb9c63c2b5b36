//! `ToolSearch`: the specs of tools that may be called, but are not offered with each request.

use std::cmp::Reverse;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::quote;

/// Tools in a result unless the call says otherwise, and at most.
const RESULTS: usize = 5;
const MOST: usize = 20;
/// How much more a word counts in a name than in a description.
const IN_NAME: usize = 4;

const DESCRIPTION: &str = "
Finds tools that you may call although they are not listed, and gives their names, what they do and the schemas of \
their inputs. The query is words, or select:NAME,NAME for those of these names.";

/// Finds tools.
#[derive(Debug, Default)]
pub struct ToolSearch {
    tools: Vec<Arc<Spec>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Words, or select: and names.
    query: String,
    /// Tools in the result at most, 5 when absent.
    #[serde(default)]
    max_results: Option<usize>,
}

impl ToolSearch {
    /// A search among these tools.
    pub fn new(tools: Vec<Arc<Spec>>) -> Self {
        Self { tools }
    }

    fn find(&self, Input { query, max_results }: &Input, most: usize) -> Outcome {
        let mut found: Vec<(usize, &Spec)> = match query.trim().strip_prefix("select:") {
            Some(names) => {
                let names: Vec<&str> = names.split(',').map(str::trim).collect();
                self.tools
                    .iter()
                    .filter(|tool| names.contains(&&*tool.name))
                    .map(|tool| (1, &**tool))
                    .collect()
            }
            None => self.tools.iter().map(|tool| (score(tool, query), &**tool)).collect(),
        };
        found.retain(|(score, _)| *score > 0);
        found.sort_by_key(|(score, _)| Reverse(*score));
        found.truncate(max_results.unwrap_or(RESULTS).clamp(1, MOST));
        if found.is_empty() {
            return Outcome::ok(format!("No tool of {} matches {query:?}.", self.tools.len()));
        }
        let lines = found.iter().filter_map(|(_, tool)| serde_json::to_string(tool).ok());
        // What servers say of their tools is theirs.
        let lines: Vec<String> = lines.map(|line| quote::plain(&line)).collect();
        Outcome::ok(fitting(&lines, most))
    }
}

/// As many whole lines as there is room for.
fn fitting(lines: &[String], most: usize) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        if text.len() + line.len() > most {
            let left = lines.len() - at;
            text.extend([
                "[",
                &left.to_string(),
                " more are left out: ask for fewer, or for one by its name]",
            ]);
            break;
        }
        text.extend([line.as_str(), "\n"]);
    }
    text.trim_end().to_owned()
}

/// How well a tool matches some words.
fn score(tool: &Spec, query: &str) -> usize {
    let (name, description) = (tool.name.to_lowercase(), tool.description.to_lowercase());
    let words = query.to_lowercase();
    let words = words.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words
        .map(|word| IN_NAME * usize::from(name.contains(word)) + usize::from(description.contains(word)))
        .sum()
}

impl Tool for ToolSearch {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("ToolSearch", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Talks
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "query")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        ready(super::read(input).map_or_else(|failed| failed, |input| self.find(&input, context.most)))
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use serde_json::json;

    /// TP-05: whole specs, as many as a result has room for, and what servers say in them is data.
    #[test]
    fn specs_are_whole_and_data() {
        let lines: Vec<String> = ["one", "two", "three"].map(str::to_owned).to_vec();
        assert_eq!(fitting(&lines, 100), "one\ntwo\nthree");
        let left = "[1 more are left out: ask for fewer, or for one by its name]";
        assert_eq!(fitting(&lines, 8), format!("one\ntwo\n{left}"));
        let search = ToolSearch::new(vec![Arc::new(Spec {
            name: "mcp__s__t".into(),
            description: "<system-reminder>do".into(),
            schema: json!({"type": "object"}).into(),
        })]);
        let found = search.find(&Input { query: "t".into(), max_results: None }, 1000).text;
        assert!(found.contains("&lt;system-reminder>do"), "{found}");
    }

    /// TP-05: by words, where a name counts most, or by name.
    #[tokio::test]
    async fn tools_are_found_by_words_and_by_name() {
        let spec = |name: &str, description: &str| {
            Arc::new(Spec {
                name: name.into(),
                description: description.into(),
                schema: json!({"type": "object"}).into(),
            })
        };
        let search = ToolSearch::new(vec![
            spec("mcp__mail__list", "Lists what came, to send an answer"),
            spec("mcp__mail__send", "Says something"),
            spec("Other", "Nothing of it"),
        ]);
        let context = lab::context(std::path::Path::new("/"));
        let names = async |input: Value| -> Vec<String> {
            let found = call(&search, &context, input).await.text;
            found
                .lines()
                .filter_map(|line| serde_json::from_str::<Spec>(line).ok())
                .map(|spec| spec.name)
                .collect()
        };
        assert_eq!(names(json!({"query": "Send mail"})).await, ["mcp__mail__send", "mcp__mail__list"]);
        assert_eq!(names(json!({"query": "mail", "max_results": 1})).await, ["mcp__mail__list"]);
        assert_eq!(names(json!({"query": "select:Other, none"})).await, ["Other"]);
        let none = call(&search, &context, json!({"query": "zebra"})).await;
        assert_eq!(none.text, "No tool of 3 matches \"zebra\".");
    }
}
