//! Agents in files: Markdown, with front matter in YAML that says what the agent is; the rest is its prompt.
//!
//! What is wrong with a file is a problem with its place. A key that nobody knows, and a wrong value of one that only
//! decorates, is said and passed over; anything else that is wrong skips the file, since it could widen what the agent
//! may do.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Definition, plugin};
use crate::document;

/// Bytes of a file at most.
pub(super) const MOST: usize = 256 * 1024;
/// Keys of the front matter.
const KEYS: &[&str] = &[
    "name",
    "description",
    "tools",
    "disallowedTools",
    "disallowed_tools",
    "model",
    "permissionMode",
    "permission_mode",
    "maxTurns",
    "max_turns",
    "skills",
    "mcpServers",
    "hooks",
    "memory",
    "background",
    "effort",
    "isolation",
    "color",
    "initialPrompt",
    "label",
    "toolCapabilityProfile",
    "allowedTools",
    "canFork",
    "canAsk",
    "systemPromptSuffix",
    "permissionRole",
];
/// Keys without which the agent does the same work.
const DECORATIONS: [&str; 2] = ["color", "effort"];

/// Something that is wrong with a file, or with a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Where in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub message: String,
    /// Whether the file is skipped for it.
    pub skipped: bool,
}

impl Problem {
    /// A reason why a file is skipped.
    pub(crate) fn skip(line: Option<usize>, message: impl Into<String>) -> Self {
        Self { path: None, line, message: message.into(), skipped: true }
    }

    pub(crate) fn warning(line: Option<usize>, message: impl Into<String>) -> Self {
        Self { skipped: false, ..Self::skip(line, message) }
    }

    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }
}

/// What is wrong with a file.
pub fn validate(path: &Path) -> Vec<Problem> {
    let mut problems = Vec::new();
    match document::read(path, MOST) {
        Ok(Some(text)) => {
            let definition = parse(&text, &mut problems).filter(|_| plugin::has(path));
            problems.extend(definition.iter().flat_map(plugin::passed_over));
        }
        Ok(None) => problems.push(Problem::skip(None, "there is no such file")),
        Err(error) => problems.push(Problem::skip(None, error.to_string())),
    }
    problems.into_iter().map(|problem| problem.at(path)).collect()
}

/// Reads a definition from the text of a file; what is wrong is appended to the problems.
pub fn parse(text: &str, problems: &mut Vec<Problem>) -> Option<Definition> {
    match read(text, problems) {
        Ok(definition) => Some(definition),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

fn read(text: &str, problems: &mut Vec<Problem>) -> Result<Definition, Problem> {
    let Some((front, body)) = halves(text) else {
        return Err(Problem::skip(
            Some(1),
            "there is no front matter: the file has to begin with a line `---`, keys such as `name: reviewer` and \
             `description: …`, and another line `---`",
        ));
    };
    let line_of = |key: &str| {
        let is = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
        // The front matter begins in the second line.
        front.lines().position(is).map(|at| at + 2)
    };
    let mut keys = yaml(front)?;
    keys.retain(|key, _| {
        let known = KEYS.contains(&key.as_str());
        if !known {
            problems.push(Problem::warning(line_of(key), unknown(key)));
        }
        known
    });
    keys.retain(|_, value| !value.is_null());
    for key in DECORATIONS {
        if let Some(value) = keys.get(key).cloned()
            && let Err(problem) = typed([(key.to_owned(), value)].into_iter().collect(), line_of)
        {
            problems.push(Problem { skipped: false, ..problem });
            keys.remove(key);
        }
    }
    let mut definition = typed(keys, line_of)?;
    body.trim().clone_into(&mut definition.prompt);
    check(&definition, line_of)?;
    Ok(definition)
}

/// Front matter and body.
fn halves(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches('\u{feff}');
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn yaml(front: &str) -> Result<Map<String, Value>, Problem> {
    if front.trim().is_empty() {
        return Ok(Map::new());
    }
    // YAML ends a line there, and nothing else that counts lines does.
    let lone = |line: &str| line.strip_suffix('\r').unwrap_or(line).contains('\r');
    if let Some(at) = front.split('\n').position(lone) {
        let why = "there is a carriage return inside this line: lines end with a line feed, or with both";
        return Err(Problem::skip(Some(at + 2), why));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: 10_000, max_depth: 32, max_anchors: 64, max_aliases: 64 },
        with_snippet: false,
    };
    // What the parser says of lines is true of the file then, which has one more above.
    serde_saphyr::from_str_with_options(&format!("\n{front}"), options).map_err(|error| {
        let line = error.location().and_then(|at| usize::try_from(at.line()).ok());
        Problem::skip(line, format!("the front matter is no YAML mapping: {error}"))
    })
}

fn typed(keys: Map<String, Value>, line_of: impl Fn(&str) -> Option<usize>) -> Result<Definition, Problem> {
    serde_path_to_error::deserialize(Value::Object(keys)).map_err(|error| {
        let place = error.path().to_string();
        let key = place.split(['.', '[']).next().unwrap_or_default();
        Problem::skip(line_of(key), format!("`{place}` is not right: {}", error.inner()))
    })
}

fn check(definition: &Definition, line_of: impl Fn(&str) -> Option<usize>) -> Result<(), Problem> {
    let name = &definition.name;
    let wrong = if name.is_empty() {
        "there is no `name`".to_owned()
    } else if name.contains(':') || name.starts_with('-') {
        format!("the name {name:?} may not contain `:` nor begin with `-`")
    } else if name.trim() != name || name.chars().any(|letter| letter.is_control() || letter == '/') {
        format!("the name {name:?} may have no space around it, no `/` and no control characters")
    } else if name.len() > 128 {
        "the name is longer than 128 bytes".to_owned()
    } else if definition.description.trim().is_empty() {
        return Err(Problem::skip(
            line_of("description"),
            "there is no `description`: it says when the agent is used",
        ));
    } else {
        return Ok(());
    };
    Err(Problem::skip(line_of("name"), wrong))
}

fn unknown(key: &str) -> String {
    let near = KEYS.iter().map(|known| (strsim::jaro_winkler(known, key), known));
    match near.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((score, known)) if score > 0.85 => {
            format!("`{key}` is no key that is known; did you mean `{known}`?")
        }
        _ => format!("`{key}` is no key that is known; it is passed over"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<(Option<usize>, bool, String)> {
        let mut problems = Vec::new();
        let definition = parse(text, &mut problems);
        assert_eq!(definition.is_none(), problems.iter().any(|problem| problem.skipped), "{problems:?}");
        problems.into_iter().map(|one| (one.line, one.skipped, one.message)).collect()
    }

    /// AD-17: front matter and body make a definition.
    #[test]
    fn front_matter_and_body_make_a_definition() {
        let mut problems = Vec::new();
        let text = "---\r\nname: reviewer\r\ndescription: Reviews\r\ntools: Read, Grep\r\nmodel: opus\r\nbackground: \
                    true\r\n---\r\n\r\nYou review.\r\n---\r\nStill the prompt.\r\n";
        let one = parse(text, &mut problems).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(
            (one.name.as_str(), one.model.as_deref(), one.background),
            ("reviewer", Some("opus"), true)
        );
        assert_eq!(one.tools.unwrap(), ["Read", "Grep"]);
        assert_eq!(one.prompt, "You review.\r\n---\r\nStill the prompt.");
    }

    /// AD-17: each reason to skip a file has a line and says what would be right.
    #[test]
    fn every_reason_to_skip_a_file_has_its_line() {
        for (text, line, says) in [
            ("# Notes\n", Some(1), "no front matter"),
            ("---\nname: a\n", Some(1), "no front matter"),
            ("---\n---\nx", None, "no `name`"),
            ("---\ndescription: d\nname: a:b\n---\n", Some(3), "may not contain `:`"),
            ("---\nname: -a\ndescription: d\n---\n", Some(2), "begin with `-`"),
            ("---\nname: ../a\ndescription: d\n---\n", Some(2), "no `/`"),
            ("---\nname: a\n---\n", None, "no `description`"),
            ("---\nname: a\ndescription: use it when: x: y\n---\n", Some(3), "at line 3"),
            ("---\nname: a\ndescription: d\npermissionMode: root\n---\n", Some(4), "`bypassPermissions`"),
            ("---\nname: a\ndescription: d\ntools:\n  - 1\n---\n", Some(4), "`tools[0]` is not right"),
            ("---\nname: a\nname: b\ndescription: d\n---\n", Some(3), "duplicate"),
            ("---\nname: a\r\ndescription:\r d\r\n---\n", Some(3), "carriage return"),
        ] {
            let found = problems(text);
            assert_eq!(found.len(), 1, "{text:?}: {found:?}");
            assert!(found[0].1 && found[0].2.contains(says), "{text:?}: {found:?}");
            assert_eq!(found[0].0, line, "{text:?}: {found:?}");
        }
    }

    /// AD-17: what is unknown or only decorates is said, and the agent is there all the same.
    #[test]
    fn unknown_keys_are_passed_over_with_a_word() {
        let found = problems(
            "---\nname: a\ndescription: d\ntool: Read\nfoo: {a: [1]}\ncolor: teal\neffort: 3\n---\n",
        );
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|(_, skipped, _)| !skipped));
        assert!(found.iter().any(|(line, _, message)| *line == Some(4) && message.contains("`tools`?")));
        assert!(found.iter().any(|(line, _, message)| *line == Some(6) && message.contains("`red`")));
    }

    /// AD-17: a file is checked without being taken up.
    #[test]
    fn a_file_is_checked_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.md");
        assert!(validate(&path)[0].message.contains("no such file"));
        std::fs::write(&path, "---\nname: a\n---\n").unwrap();
        let found = validate(&path);
        assert_eq!((found.len(), found[0].path.as_deref()), (1, Some(path.as_path())));
        std::fs::write(&path, "---\nname: a\ndescription: d\n---\n").unwrap();
        assert_eq!(validate(&path), []);
    }

    /// AD-17: a document that grows beyond all bounds is refused.
    #[test]
    fn a_yaml_bomb_is_refused() {
        let mut bomb = "---\nname: a\ndescription: d\na: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (at, letter) in ('b'..='j').enumerate() {
            let before = char::from(b'a' + u8::try_from(at).unwrap());
            let list = vec![format!("*{before}"); 9].join(", ");
            bomb.extend([letter.to_string(), format!(": &{letter} [{list}]\n")]);
        }
        bomb.push_str("---\n");
        assert!(problems(&bomb)[0].1);
        let deep =
            format!("---\nname: a\ndescription: d\nhooks: {}{}\n---\n", "[".repeat(5000), "]".repeat(5000));
        assert!(problems(&deep)[0].1);
    }
}
