//! The files that a command names, and what becomes of them.
//!
//! Not here: what is really there; that is `permission::named`.

use super::guess::Guesser;
use super::known;
use super::word::Field;

/// Names that a tree is searched for, or not, at most.
const MOST_FILTERS: usize = 64;

/// A file that a command may read or change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The tool whose rules speak of that.
    pub(crate) tool: &'static str,
    pub(crate) path: String,
    /// As a pattern of names, where it is one.
    pub(crate) glob: Option<String>,
    /// How many of the line's directories it may be relative to.
    pub(crate) dirs: usize,
    /// What becomes of all that is below it.
    pub(crate) tree: Option<Tree>,
}

/// Which files below a directory are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Patterns of names, one of which has to be like it; without any, all are meant.
    pub(crate) only: Vec<String>,
    /// Patterns of names that are left out.
    pub(crate) not: Vec<String>,
    pub(crate) hidden: Hidden,
}

/// What becomes of files whose name begins with a dot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hidden {
    #[default]
    Seen,
    Skipped,
}

/// A path below a directory.
pub(super) fn join(dir: &str, path: &str) -> String {
    let is_absolute = path.starts_with(['/', super::word::HOME, super::word::HERE]);
    if is_absolute || dir.is_empty() { path.to_owned() } else { format!("{dir}/{path}") }
}

/// Notes the files of a command.
pub(super) fn of(guesser: &mut Guesser, name: &str, args: &[Field]) {
    let options: Vec<&str> = args
        .iter()
        .map(|field| field.text.as_str())
        .filter(|text| text.starts_with('-'))
        .take(MOST_FILTERS)
        .collect();
    let is_word = |field: &&Field| !field.text.starts_with('-');
    // Before the word that says what git is to do stand options with values.
    let takes_value =
        |at: usize| at > 0 && name == "git" && ["-C", "-c"].contains(&args[at - 1].text.as_str());
    let first = args.iter().enumerate().find(|(at, field)| is_word(field) && !takes_value(*at));
    let first = first.map_or("", |(_, field)| field.text.as_str());
    let (tools, tree) = match name {
        "find" => find(args),
        _ => (known::tools(name, first), known::goes_down(name, &options).then(|| filters(name, args))),
    };
    let mut writes_next = false;
    for field in args {
        let text = field.text.as_str();
        // Whatever it is, most take this for where their output goes.
        if std::mem::take(&mut writes_next) || text.starts_with("--output=") {
            let path = text.strip_prefix("--output=").unwrap_or(text);
            guesser.name("Edit", path, field.glob.as_deref(), None);
        }
        writes_next = !tools.is_empty() && ["-o", "-O", "--output", "--output-document"].contains(&text);
        for tool in tools {
            let (tool, only) = (*tool, if name == "dd" { text.split_once('=') } else { None });
            match only {
                Some(("if", path)) if tool == "Read" => guesser.name(tool, path, None, None),
                Some(("of", path)) if tool == "Edit" => guesser.name(tool, path, None, None),
                Some(("if" | "of", _)) => {}
                Some(_) | None => arg(guesser, tool, field, tree.as_ref()),
            }
        }
    }
    // Without a path, these look where they stand.
    if let Some(tree) = tree.filter(|_| ["grep", "egrep", "fgrep", "rg", "ag", "ack", "find"].contains(&name))
    {
        let paths = args.iter().filter(is_word).count();
        if paths <= usize::from(name != "find") {
            for tool in tools {
                guesser.name(tool, ".", None, Some(tree.clone()));
            }
        }
    }
}

/// The files that one argument may name: itself, and what stands behind an option's name, `=`, `:` or `@`.
fn arg(guesser: &mut Guesser, tool: &'static str, field: &Field, tree: Option<&Tree>) {
    let text = field.text.as_str();
    match text.split_once("://") {
        Some((before, path)) if before.ends_with("file") => return guesser.name(tool, path, None, None),
        Some(_) => return,
        None => {}
    }
    if !text.starts_with('-') {
        guesser.name(tool, text, field.glob.as_deref(), tree.cloned());
    } else if !text.starts_with("--") && text.is_char_boundary(2) && text.len() > 2 {
        guesser.name(tool, &text[2..], None, None);
    }
    for mark in ['=', ':', '@'] {
        if let Some((before, path)) = text.rsplit_once(mark)
            && before != "-"
            && !["--include", "--exclude", "--exclude-dir", "--glob"].contains(&before)
        {
            guesser.name(tool, path, None, None);
        }
    }
}

/// What becomes of what find finds.
fn find(args: &[Field]) -> (&'static [&'static str], Option<Tree>) {
    let runs =
        args.iter().position(|field| ["-exec", "-execdir", "-ok", "-okdir"].contains(&field.text.as_str()));
    let run = runs.and_then(|at| args.get(at + 1));
    let deletes = args.iter().any(|field| field.text == "-delete");
    let tools = run.map_or(&[][..], |run| known::tools(run.name(), ""));
    (if deletes { &["Edit"] } else { tools }, Some(filters("find", args)))
}

/// Which files below a directory a command means by its options.
fn filters(name: &str, args: &[Field]) -> Tree {
    let mut tree = Tree::default();
    let value = |at: usize, option: &str| {
        let text = args[at].text.as_str();
        match text.strip_prefix(option)? {
            "" => args.get(at + 1).map(|next| next.text.clone()),
            rest => rest.strip_prefix('=').map(str::to_owned),
        }
    };
    let mut others = 0_usize;
    for (at, field) in args.iter().enumerate().take(1024) {
        let text = field.text.as_str();
        if name == "find" {
            let is_turned = at > 0 && ["!", "-not"].contains(&args[at - 1].text.as_str());
            others += usize::from(["-o", "-or", ","].contains(&text));
            if ["-name", "-iname"].contains(&text) && !is_turned {
                tree.only.extend(args.get(at + 1).map(|next| next.text.clone()));
            }
            continue;
        }
        tree.only.extend(value(at, "--include"));
        tree.not.extend(value(at, "--exclude").or_else(|| value(at, "--exclude-dir")));
        if let Some(glob) = value(at, "-g").or_else(|| value(at, "--glob")).filter(|_| name == "rg") {
            match glob.strip_prefix('!') {
                Some(not) => tree.not.push(not.to_owned()),
                None => tree.only.push(glob),
            }
        }
    }
    // One of the others may mean any file.
    if others >= tree.only.len() {
        tree.only.clear();
    }
    tree.only.truncate(MOST_FILTERS);
    tree.not.truncate(MOST_FILTERS);
    let shows = |field: &Field| {
        ["--hidden", "-.", "-uu", "-uuu", "-a", "--unrestricted"].contains(&field.text.as_str())
    };
    if ["rg", "ag"].contains(&name) && !args.iter().any(shows) {
        tree.hidden = Hidden::Skipped;
    }
    tree
}
