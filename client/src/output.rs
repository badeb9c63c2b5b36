//! What goes to stdout, in the form that the global options ask for.
//!
//! ```text
//! --json                one JSON document; a stream is one document a line
//! --format TEMPLATE     one line an entry: a template with the entry's fields, `{{.id}} {{.status}}`
//! neither               text for a person, with colour where stdout is a terminal
//! ```
//!
//! Templates are minijinja's; a field may be written with a leading dot.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use minijinja::Environment;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::exit::{Exit, Stop};
use crate::render;

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
pub(crate) struct Template {
    environment: Environment<'static>,
    /// Whether its fields were found to be there.
    fits: Cell<bool>,
}

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
        Ok(Self { environment, fits: Cell::new(false) })
    }

    /// Refuses a field that no entry of this kind has; one that an entry may have is empty where it is absent.
    fn check<T: JsonSchema>(&self) -> anyhow::Result<()> {
        if self.fits.replace(true) {
            return Ok(());
        }
        let schema = schemars::schema_for!(T).to_value();
        let mut known = BTreeSet::new();
        fields(&schema, &schema, &mut known);
        let named = self.environment.get_template(NAME)?.undeclared_variables(false);
        match named.into_iter().filter(|name| !known.contains(name)).min() {
            Some(name) if !known.is_empty() => {
                let fields = known.into_iter().collect::<Vec<_>>().join(", ");
                Err(Stop::new(
                    Exit::USAGE,
                    format!("--format: there is no field {name}; there are: {fields}"),
                )
                .into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Fills it with an entry's fields; for a terminal, with what can't steer it.
    pub(crate) fn fill(&self, entry: &impl Serialize, screen: Screen) -> anyhow::Result<String> {
        let mut value = serde_json::to_value(entry)?;
        if screen == Screen::Terminal {
            clean(&mut value);
        }
        let value = minijinja::value::Serde(value);
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(value))
            .context("--format does not fit")
    }
}

/// Who shows what goes to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    /// A terminal, which obeys control characters.
    Terminal,
    /// A program or a file, which gets all as it is.
    None,
}

impl Screen {
    fn find() -> Self {
        if io::stdout().is_terminal() { Self::Terminal } else { Self::None }
    }
}

/// Takes control characters out of all texts.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = render::clean(text),
        Value::Array(entries) => entries.iter_mut().for_each(clean),
        Value::Object(fields) => {
            for (key, mut field) in std::mem::take(fields) {
                clean(&mut field);
                fields.insert(render::clean(&key), field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A JSON text, with what could steer a terminal escaped also where JSON itself would leave it: it says the same.
pub(crate) fn json(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, character| {
        if render::steers(character) && !matches!(character, '\n' | '\t') {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // A text takes all that is written to it.
                write!(escaped, "\\u{unit:04x}").ok();
            }
        } else {
            escaped.push(character);
        }
        escaped
    })
}

/// The names of the fields that a schema knows, in all of its forms.
fn fields(schema: &Value, whole: &Value, known: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        fields(&whole["$defs"][name], whole, known);
    }
    known.extend(schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    for forms in ["anyOf", "oneOf", "allOf"] {
        for form in schema[forms].as_array().into_iter().flatten() {
            fields(form, whole, known);
        }
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
    pub(crate) fn one<T: Serialize + JsonSchema>(
        &self,
        object: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        match &self.form {
            Form::Text => write(&text(object)),
            Form::Json => write_json(object),
            Form::Template(template) => template.check::<T>().and_then(|()| write_filled(template, object)),
        }
    }

    /// A list: `document` is what `--json` gives, `rows` are the entries that a template is filled with.
    pub(crate) fn list<D: Serialize, T: Serialize + JsonSchema>(
        &self,
        document: &D,
        rows: &[T],
        text: impl FnOnce(&[T]) -> String,
    ) -> anyhow::Result<()> {
        match &self.form {
            Form::Text => write(&text(rows)),
            Form::Json => write_json(document),
            Form::Template(template) => {
                template.check::<T>()?;
                rows.iter().try_for_each(|row| write_filled(template, row))
            }
        }
    }

    /// One entry of a stream.
    pub(crate) fn item<T: Serialize + JsonSchema>(
        &self,
        item: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        match &self.form {
            Form::Text => write(&text(item)),
            Form::Json => write(&json(&serde_json::to_string(item)?)),
            Form::Template(template) => template.check::<T>().and_then(|()| write_filled(template, item)),
        }
    }
}

/// Writes a text and ends its line; an empty text writes nothing.
pub(crate) fn write(text: &str) -> anyhow::Result<()> {
    write_to(&mut anstream::stdout().lock(), text)
}

/// Writes a filled template; what is no terminal gets it as it is.
fn write_filled(template: &Template, entry: &impl Serialize) -> anyhow::Result<()> {
    write_to(&mut io::stdout().lock(), &template.fill(entry, Screen::find())?)
}

fn write_to(out: &mut impl Write, text: &str) -> anyhow::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Writes a document: in lines where a person reads it, else in one.
fn write_json(document: &impl Serialize) -> anyhow::Result<()> {
    let text = if Screen::find() == Screen::Terminal {
        serde_json::to_string_pretty(document)?
    } else {
        serde_json::to_string(document)?
    };
    write(&json(&text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// cli.md: `--format TEMPLATE`, with fields written in either way.
    #[test]
    fn a_template_takes_fields_with_and_without_a_dot() {
        let entry = json!({ "id": "agent_1", "status": "running", "exit": { "code": 3 } });
        let fill = |text: &str| Template::new(text).unwrap().fill(&entry, Screen::None).unwrap();
        assert_eq!(fill("{{.id}} {{ .status }}"), "agent_1 running");
        assert_eq!(fill("{{ id }}\\t{{ exit.code }}"), "agent_1\t3");
        assert_eq!(fill("{{ name }}"), "");
        assert_eq!(fill("{{ exit | json }}"), "{\"code\":3}");
        assert!(Template::new("{{ id").is_err());
    }

    /// cli.md, `--format`: what an agent wrote can't steer a terminal, whatever the template does with it; what is no
    /// terminal gets the text as it is.
    #[test]
    fn a_template_is_filled_with_what_cannot_steer_a_terminal() {
        let entry =
            json!({ "text": "a\u{1b}]0;t\u{7}\u{9b}2J\u{202e}\nb", "all": [{ "k\u{9b}": "\u{7f}c" }] });
        let fill = |text: &str, screen| Template::new(text).unwrap().fill(&entry, screen).unwrap();
        assert_eq!(fill("{{.text}}", Screen::Terminal), "a]0;t2J\nb");
        assert_eq!(fill("{{ all | json }}", Screen::Terminal), "[{\"k\":\"c\"}]");
        assert_eq!(fill("{{.text}}", Screen::None), entry["text"].as_str().unwrap());
    }

    /// cli.md, `--json`: a document says the same everywhere, and steers no terminal.
    #[test]
    fn a_document_has_no_raw_control_character() {
        let value = json!({ "a\u{9b}": "\u{1b}[2J\u{9b}\u{7f}\u{202e}\u{2066}\u{e0041}写\n" });
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let escaped = json(&text);
            assert!(!escaped.chars().any(|c| c != '\n' && render::steers(c)), "{escaped}");
            assert!(
                escaped.contains("\\u009b") && escaped.contains("\\u202e") && escaped.contains('写'),
                "{escaped}"
            );
            assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
        }
    }

    /// cli.md: a field that no entry has is refused with those that there are, also where there is no entry; one that is
    /// absent from this entry, and any of an object of any shape, is not.
    #[test]
    fn a_field_that_is_not_there_is_refused() {
        let check = |text: &str| Template::new(text).unwrap().check::<ccagent_proto::task::Task>();
        check("{{.id}} {{ name }} {{ exit.code }} {% for one in after %}{{ one }}{% endfor %}").unwrap();
        let refused = check("{{.id}} {{.nmae}}").unwrap_err();
        assert_eq!(crate::exit::of(&refused), Exit::USAGE);
        let said = refused.to_string();
        assert!(said.contains("no field nmae") && said.contains("id, ") && said.contains("name"), "{said}");
        let item = |text: &str| Template::new(text).unwrap().check::<ccagent_proto::event::EventItem>();
        item("{{ seq }} {{ data.x }} {{ tasks }}").unwrap();
        assert!(item("{{ x }}").is_err());
        Template::new("{{ x }}").unwrap().check::<serde_json::Value>().unwrap();
    }
}
