//! What goes to stdout, in the form that the global options ask for.
//!
//! ```text
//! --json                one JSON document; a stream is one document a line
//! --format TEMPLATE     one line an entry: a template with the entry's fields, `{{.id}} {{.status}}`
//! neither               text for a person, with colour where stdout is a terminal
//! ```
//!
//! Templates are minijinja's; a field may be written with a leading dot.

use std::io::{self, Write};

use anyhow::Context;
use minijinja::Environment;
use serde::Serialize;

/// Where data goes, and how it looks.
#[derive(Debug)]
pub(crate) struct Output {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Text,
    Json,
    Template(Box<Template>),
}

/// A compiled `--format`.
#[derive(Debug)]
pub(crate) struct Template(Environment<'static>);

const NAME: &str = "--format";

impl Template {
    /// Compiles a template.
    pub(crate) fn new(text: &str) -> anyhow::Result<Self> {
        let mut environment = Environment::empty();
        let source =
            text.replace("{{ .", "{{ ").replace("{{.", "{{").replace("\\n", "\n").replace("\\t", "\t");
        environment.add_template_owned(NAME, source).context("--format is no template")?;
        environment
            .add_filter("json", |value: minijinja::Value| serde_json::to_string(&value).unwrap_or_default());
        Ok(Self(environment))
    }

    /// Fills it with an entry's fields.
    pub(crate) fn fill(&self, entry: &impl Serialize) -> anyhow::Result<String> {
        let value = minijinja::value::Serde(serde_json::to_value(entry)?);
        self.0.get_template(NAME).and_then(|template| template.render(value)).context("--format does not fit")
    }
}

impl Output {
    /// The output of these options.
    pub(crate) fn new(json: bool, format: Option<&str>) -> anyhow::Result<Self> {
        let form = match (json, format) {
            (_, Some(text)) => Form::Template(Box::new(Template::new(text)?)),
            (true, None) => Form::Json,
            (false, None) => Form::Text,
        };
        Ok(Self { form })
    }

    /// Whether a person reads it.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.form, Form::Text)
    }

    /// One object.
    pub(crate) fn one<T: Serialize>(
        &self,
        object: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        match &self.form {
            Form::Text => write(&text(object)),
            Form::Json => write_json(object),
            Form::Template(template) => write(&template.fill(object)?),
        }
    }

    /// A list: `document` is what `--json` gives, `rows` are the entries that a template is filled with.
    pub(crate) fn list<D: Serialize, T: Serialize>(
        &self,
        document: &D,
        rows: &[T],
        text: impl FnOnce(&[T]) -> String,
    ) -> anyhow::Result<()> {
        match &self.form {
            Form::Text => write(&text(rows)),
            Form::Json => write_json(document),
            Form::Template(template) => rows.iter().try_for_each(|row| write(&template.fill(row)?)),
        }
    }

    /// One entry of a stream.
    pub(crate) fn item<T: Serialize>(&self, item: &T, text: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
        match &self.form {
            Form::Text => write(&text(item)),
            Form::Json => write(&serde_json::to_string(item)?),
            Form::Template(template) => write(&template.fill(item)?),
        }
    }
}

/// Writes a text and ends its line; an empty text writes nothing.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Writes a document: in lines where a person reads it, else in one.
fn write_json(document: &impl Serialize) -> anyhow::Result<()> {
    let text = if io::IsTerminal::is_terminal(&io::stdout()) {
        serde_json::to_string_pretty(document)?
    } else {
        serde_json::to_string(document)?
    };
    write(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// cli.md: `--format TEMPLATE`, with fields written in either way.
    #[test]
    fn a_template_takes_fields_with_and_without_a_dot() {
        let entry = json!({ "id": "agent_1", "status": "running", "exit": { "code": 3 } });
        let fill = |text: &str| Template::new(text).unwrap().fill(&entry).unwrap();
        assert_eq!(fill("{{.id}} {{ .status }}"), "agent_1 running");
        assert_eq!(fill("{{ id }}\\t{{ exit.code }}"), "agent_1\t3");
        assert_eq!(fill("{{ name }}"), "");
        assert_eq!(fill("{{ exit | json }}"), "{\"code\":3}");
        assert!(Template::new("{{ id").is_err());
    }
}
