//! `Skill`: instructions for one kind of work, in a folder of the user or of the project.
//!
//! A skill is `<folder>/SKILL.md` below `.claude/skills`, with front matter before its text. The user's own counts
//! before one of the same name in the project, and there the nearest one counts. Folders are looked at where they are
//! and not below, so no links can lead in a circle. Deliberately not here: running what a skill's text would have run
//! as it is read. The model reads it and decides.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Access, Context, Outcome, Spec, Tool, field, files, path};
use crate::transcript::blocking;

/// Skills that are listed at most.
const MOST: usize = 200;
/// What stands in a skill's text for what it is called with.
const ARGUMENTS: &str = "$ARGUMENTS";

const DESCRIPTION: &str = "
Loads a skill: instructions for one kind of work, with the directory in which its files are. Call it before you begin \
such work, and follow what it says.";

/// Loads a skill.
#[derive(Debug)]
pub struct Skill;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Its name.
    skill: String,
    /// What it is called with.
    #[serde(default)]
    args: Option<String>,
}

/// A skill that can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// By this it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where its files are.
    pub dir: PathBuf,
}

/// What stands before a skill's text; others read more of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Front {
    name: Option<String>,
    description: String,
    disable_model_invocation: bool,
}

impl Tool for Skill {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("Skill", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Reads
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "skill")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input: Input = super::read(input)?;
            let (cwd, home) = (context.cwd(), context.env.get("HOME").map(PathBuf::from));
            blocking(move || load(&cwd, home.as_deref(), &input)).await
        }
        .map(super::settle)
        .boxed()
    }
}

/// The skills that an agent in a directory can load, by name. This blocks.
pub fn available(cwd: &Path, home: Option<&Path>) -> Vec<Available> {
    let mut found = BTreeMap::new();
    for folder in folders(cwd, home) {
        let Ok(entries) = folder.read_dir() else { continue };
        for dir in entries.flatten().map(|entry| entry.path()) {
            // One that can't be read is named when it is called.
            let Ok((front, _)) = open(&dir) else { continue };
            if let Some(name) = name(&dir, &front).filter(|_| !front.disable_model_invocation)
                && found.len() < MOST
            {
                let Front { description, .. } = front;
                found.entry(name.clone()).or_insert(Available { name, description, dir });
            }
        }
    }
    found.into_values().collect()
}

/// Where skills are, those that count first.
fn folders(cwd: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut bases: Vec<&Path> = home.into_iter().collect();
    for dir in cwd.ancestors().take_while(|dir| Some(*dir) != home) {
        bases.push(dir);
        // The project ends here.
        if dir.join(".git").exists() {
            break;
        }
    }
    bases.into_iter().map(|base| base.join(".claude/skills")).collect()
}

fn name(dir: &Path, front: &Front) -> Option<String> {
    front.name.clone().or_else(|| Some(dir.file_name()?.to_str()?.to_owned()))
}

/// Reads a skill: what stands before its text, and the text.
fn open(dir: &Path) -> Result<(Front, String), Outcome> {
    let file = dir.join("SKILL.md");
    let (_, bytes) = files::load(&path::open(&file)?).map_err(|error| path::unreadable(&file, &error))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let Some((front, body)) = split(&text) else { return Ok((Front::default(), text)) };
    let front = serde_saphyr::from_str(front).map_err(|error| {
        Outcome::error(format!("{}: its front matter is not right: {error}", file.display()))
    })?;
    Ok((front, body.to_owned()))
}

/// Front matter and text.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let (front, body) = rest.split_once("\n---")?;
    Some((front, body.split_once('\n').map_or("", |(_, body)| body)))
}

fn load(cwd: &Path, home: Option<&Path>, input: &Input) -> Result<Outcome, Outcome> {
    let wanted = &input.skill;
    let skills = available(cwd, home);
    let dir = match skills.iter().find(|skill| skill.name == *wanted) {
        Some(skill) => skill.dir.clone(),
        None => unlisted(cwd, home, wanted).ok_or_else(|| {
            let names: Vec<&str> = skills.iter().map(|skill| &*skill.name).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Outcome::error(format!("There is no skill {wanted:?}. You have: {names}"))
        })?,
    };
    let (front, body) = open(&dir)?;
    if front.disable_model_invocation {
        return Err(Outcome::error(format!("The skill {wanted:?} is for people to call.")));
    }
    let args = input.args.as_deref().unwrap_or_default();
    let mut text = format!("The files of this skill are in {}\n\n{}", dir.display(), body.trim());
    if text.contains(ARGUMENTS) {
        text = text.replace(ARGUMENTS, args);
    } else if !args.is_empty() {
        text.extend(["\n\nARGUMENTS: ", args]);
    }
    Ok(Outcome::ok(text))
}

/// The folder of this name, although what is in it could not be listed: it can say why.
fn unlisted(cwd: &Path, home: Option<&Path>, name: &str) -> Option<PathBuf> {
    let plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    let dirs = folders(cwd, home).into_iter().map(|folder| folder.join(name));
    dirs.filter(|_| plain).find(|dir| dir.join("SKILL.md").symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use serde_json::json;
    use std::fs;

    fn skill(base: &Path, name: &str, text: &str) {
        let dir = base.join(".claude/skills").join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("SKILL.md"), text).unwrap();
    }

    /// TP-05: the user's own before the project's, the nearest there, and nothing beyond the project.
    #[tokio::test]
    async fn a_skill_is_found_by_its_name() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("project/.git")).unwrap();
        fs::create_dir_all(at("project/below")).unwrap();
        let text = |of: &str| {
            format!("---\nname: {of}\ndescription: For {of}\nmodel: x\n---\nDo $ARGUMENTS in {of}.\n")
        };
        skill(&at("home"), "a", &text("a"));
        skill(&at("project"), "a", "Not this one");
        skill(&at("project"), "folder", &text("b"));
        skill(&at("project/below"), "plain", "Plain text");
        skill(root.path(), "outside", &text("outside"));
        skill(&at("project"), "hidden", "---\ndisable-model-invocation: true\n---\n");
        let mut context = lab::context(&at("project/below"));
        context.env.insert("HOME".into(), at("home").to_str().unwrap().into());
        let listed = available(&context.cwd(), Some(&at("home")));
        let listed: Vec<_> = listed.iter().map(|skill| (&*skill.name, &*skill.description)).collect();
        assert_eq!(listed, [("a", "For a"), ("b", "For b"), ("plain", "")]);
        let loaded = async |skill: &str| call(&Skill, &context, json!({"skill": skill, "args": "it"})).await;
        let dir = at("home/.claude/skills/a");
        assert_eq!(
            loaded("a").await.text,
            format!("The files of this skill are in {}\n\nDo it in a.", dir.display())
        );
        assert!(loaded("plain").await.text.ends_with("Plain text\n\nARGUMENTS: it"));
        for (name, said) in
            [("outside", "You have: a, b, plain"), ("../a", "no skill"), ("hidden", "for people")]
        {
            let refused = loaded(name).await;
            assert!(refused.is_error && refused.text.contains(said), "{refused:?}");
        }
    }

    /// TP-17: a skill that can't be read says why.
    #[tokio::test]
    async fn a_skill_that_is_not_right_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        skill(dir.path(), "wrong", "---\nname: [\n---\n");
        fs::create_dir_all(dir.path().join(".claude/skills/loop")).unwrap();
        std::os::unix::fs::symlink("SKILL.md", dir.path().join(".claude/skills/loop/SKILL.md")).unwrap();
        for (name, said) in [("wrong", "front matter is not right"), ("loop", "can't be read")] {
            let refused = call(&Skill, &context, json!({"skill": name})).await;
            assert!(refused.is_error && refused.text.contains(said), "{refused:?}");
        }
    }
}
