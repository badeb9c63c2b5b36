//! `NotebookEdit`: one cell of a Jupyter notebook.
//!
//! The rest of the file goes through as it is, in the form in which Jupyter itself writes it: names in order, one
//! blank for each level. What a cell printed belongs to the source that it had, so a changed cell has no output.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::Target;
use super::files::Files;
use super::{Access, Context, Outcome, Spec, Tool, field};
use crate::transcript::blocking;

const DESCRIPTION: &str = "
Changes one cell of a Jupyter notebook that was read before: replaces its source, inserts a new cell after it (before \
all others without cell_id), or deletes it. A cell is named by its id, or by its place as cell-0, cell-1 and so on.";

/// Changes a cell of a notebook.
#[derive(Debug)]
pub struct NotebookEdit;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Code,
    Markdown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Replace,
    Insert,
    Delete,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The notebook; best an absolute path.
    notebook_path: String,
    /// The cell.
    #[serde(default)]
    cell_id: Option<String>,
    /// Its source from now on; nothing where it is deleted.
    #[serde(default)]
    new_source: String,
    /// What kind of cell it is; a new one needs it.
    #[serde(default)]
    cell_type: Option<Kind>,
    /// What is done; replace when absent.
    #[serde(default)]
    edit_mode: Mode,
}

impl Tool for NotebookEdit {
    fn spec(&self) -> Arc<Spec> {
        Spec::of::<Input>("NotebookEdit", DESCRIPTION)
    }

    fn access(&self, _: &Value) -> Access {
        Access::Writes
    }

    fn summary(&self, input: &Value) -> String {
        field(input, "notebook_path")
    }

    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome> {
        async move {
            let input: Input = super::read(input)?;
            let (path, files) = (context.path(&input.notebook_path)?, context.files.clone());
            let writable = context.writable.clone();
            blocking(move || edit(&files, &writable, &path, &input)).await
        }
        .map(super::settle)
        .boxed()
    }
}

fn edit(files: &Files, writable: &[PathBuf], path: &Path, input: &Input) -> Result<Outcome, Outcome> {
    let target = Target::find(files, writable, path)?;
    let wrong = |why: String| Outcome::error(format!("{} is no notebook: {why}", path.display()));
    let mut notebook: Value =
        serde_json::from_str(target.text()?).map_err(|error| wrong(error.to_string()))?;
    // From this version of the format on cells have ids.
    let ids = (notebook["nbformat"].as_u64(), notebook["nbformat_minor"].as_u64()) >= (Some(4), Some(5));
    let cells = notebook["cells"].as_array_mut().ok_or_else(|| wrong("it has no list of cells".into()))?;
    let at = input.cell_id.as_deref().map(|id| find(cells, id)).transpose()?;
    let said = change(cells, at, input, ids)?;
    let mut bytes = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b" ");
    notebook
        .serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, form))
        .map_err(|error| wrong(error.to_string()))?;
    bytes.push(b'\n');
    target.save(files, &bytes)?;
    Ok(Outcome { changed: vec![target.path], ..Outcome::ok(format!("{}: {said}", path.display())) })
}

/// The place of a cell.
fn find(cells: &[Value], id: &str) -> Result<usize, Outcome> {
    let by_id = cells.iter().position(|cell| cell["id"] == id);
    let by_place = || id.strip_prefix("cell-")?.parse().ok().filter(|at| *at < cells.len());
    by_id.or_else(by_place).ok_or_else(|| {
        Outcome::error(format!("There is no cell {id:?}: the notebook has {}, from cell-0 on.", cells.len()))
    })
}

fn change(cells: &mut Vec<Value>, at: Option<usize>, input: &Input, ids: bool) -> Result<String, Outcome> {
    match (input.edit_mode, at) {
        (Mode::Insert, at) => {
            let Some(kind) = input.cell_type else {
                return Err(Outcome::error("A new cell needs its cell_type: code or markdown."));
            };
            let at = at.map_or(0, |at| at + 1);
            cells.insert(at, made(kind, &input.new_source, ids));
            Ok(format!("cell-{at} is new."))
        }
        (Mode::Replace | Mode::Delete, None) => {
            Err(Outcome::error("Name the cell by cell_id: only a new one can do without."))
        }
        (Mode::Delete, Some(at)) => {
            cells.remove(at);
            Ok(format!("cell-{at} is deleted; those behind it have moved up."))
        }
        (Mode::Replace, Some(at)) => {
            let mut fresh = made(kind_of(input.cell_type, &cells[at])?, &input.new_source, false);
            for kept in ["id", "metadata", "attachments"] {
                if let Some(value) = cells[at].get(kept) {
                    fresh[kept] = value.clone();
                }
            }
            cells[at] = fresh;
            Ok(format!("cell-{at} is changed, and its output is gone."))
        }
    }
}

/// What kind a cell is to be: as it was, unless the call says otherwise.
fn kind_of(given: Option<Kind>, cell: &Value) -> Result<Kind, Outcome> {
    if let Some(kind) = given {
        return Ok(kind);
    }
    Kind::deserialize(&cell["cell_type"]).map_err(|_| {
        Outcome::error(format!("The cell is of the kind {}: give cell_type.", cell["cell_type"]))
    })
}

fn made(kind: Kind, source: &str, with_id: bool) -> Value {
    let lines: Vec<&str> = source.split_inclusive('\n').collect();
    let mut cell = json!({"cell_type": kind, "metadata": {}, "source": lines});
    if kind == Kind::Code {
        cell["execution_count"] = Value::Null;
        cell["outputs"] = json!([]);
    }
    if with_id {
        cell["id"] = format!("{:08x}", fastrand::u32(..)).into();
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::lab::{self, call};
    use crate::tool::read::Read;
    use std::fs;

    async fn edited(context: &Context, mut input: Value) -> Outcome {
        input["notebook_path"] = "n.ipynb".into();
        call(&NotebookEdit, context, input).await
    }

    fn notebook() -> Value {
        json!({
            "cells": [
                {"cell_type": "code", "id": "one", "metadata": {"tags": ["x"]}, "execution_count": 3,
                 "outputs": [{"output_type": "stream"}], "source": ["1\n", "2"]},
                {"cell_type": "raw", "id": "two", "metadata": {}, "source": []},
            ],
            "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5,
        })
    }

    /// TP-05: a cell is changed, made or deleted, and the rest stays.
    #[tokio::test]
    async fn a_cell_is_changed_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        let file = dir.path().join("n.ipynb");
        fs::write(&file, notebook().to_string()).unwrap();
        assert!(
            edited(&context, json!({"cell_id": "one", "new_source": "3"}))
                .await
                .text
                .contains("not been read")
        );
        call(&Read, &context, json!({"file_path": "n.ipynb"})).await;
        for input in [
            json!({"cell_id": "one", "new_source": "3\n4"}),
            json!({"cell_id": "cell-0", "new_source": "# T", "cell_type": "markdown", "edit_mode": "insert"}),
            json!({"cell_id": "two", "edit_mode": "delete"}),
        ] {
            let said = edited(&context, input).await;
            assert!(!said.is_error, "{said:?}");
        }
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("{\n \"cells\": [\n  {\n   \"cell_type\": \"code\"") && text.ends_with("}\n"),
            "{text}"
        );
        let now: Value = serde_json::from_str(&text).unwrap();
        let first = json!({"cell_type": "code", "id": "one", "metadata": {"tags": ["x"]}, "execution_count": null,
                           "outputs": [], "source": ["3\n", "4"]});
        assert_eq!((&now["cells"][0], &now["metadata"]), (&first, &notebook()["metadata"]));
        assert_eq!(
            (&now["cells"][1]["source"], now["cells"].as_array().unwrap().len()),
            (&json!(["# T"]), 2)
        );
        assert_eq!(now["cells"][1]["id"].as_str().unwrap().len(), 8);
    }

    /// TP-17
    #[tokio::test]
    async fn what_can_not_be_meant_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let context = lab::context(dir.path());
        let file = dir.path().join("n.ipynb");
        fs::write(&file, notebook().to_string()).unwrap();
        call(&Read, &context, json!({"file_path": "n.ipynb"})).await;
        for (input, said) in [
            (json!({"cell_id": "none"}), "no cell \"none\": the notebook has 2"),
            (json!({"new_source": "x"}), "by cell_id"),
            (json!({"edit_mode": "insert", "new_source": "x"}), "needs its cell_type"),
            (json!({"cell_id": "two", "new_source": "x"}), "of the kind \"raw\""),
        ] {
            let wrong = edited(&context, input).await;
            assert!(wrong.is_error && wrong.text.contains(said), "{wrong:?}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), notebook().to_string());
        fs::write(&file, "text").unwrap();
        call(&Read, &context, json!({"file_path": "n.ipynb"})).await;
        assert!(edited(&context, json!({"cell_id": "one"})).await.text.contains("is no notebook"));
    }
}
