//! Tools: what a model may call, and what a call gives.

mod agent;
mod ask_user_question;
mod bash;
mod beat;
mod change;
mod edit;
pub mod files;
mod glob;
mod grep;
#[cfg(test)]
mod lab;
mod memory;
mod notebook_edit;
mod path;
mod place;
mod plan_mode;
mod read;
mod schema;
mod send_message;
pub mod skill;
mod synthetic_output;
mod task_create;
mod task_get;
mod task_list;
mod task_output;
mod task_stop;
mod task_update;
mod team_create;
mod team_delete;
mod todo_write;
mod tool_search;
mod walk;
mod web_fetch;
mod web_search;
mod write;

use std::any::TypeId;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::flags::Flags;
use crate::hook::Word;
use crate::host::Host;
use crate::message::Usage;
use crate::provider::mask::Mask;

pub use agent::Agent;
pub use ask_user_question::{AskUserQuestion, Choice, Question};
pub use bash::{Bash, Left};
pub use beat::Beat;
pub use edit::Edit;
pub use files::Files;
pub use glob::Glob;
pub use grep::Grep;
pub use memory::Memory;
pub use notebook_edit::NotebookEdit;
pub(crate) use place::Place as Held;
pub use plan_mode::{EnterPlanMode, ExitPlanMode};
pub use read::Read;
pub use schema::Schema;
pub use send_message::SendMessage;
pub use skill::Skill;
pub use synthetic_output::SyntheticOutput;
pub use task_create::TaskCreate;
pub use task_get::TaskGet;
pub use task_list::TaskList;
pub use task_output::TaskOutput;
pub use task_stop::TaskStop;
pub use task_update::TaskUpdate;
pub use team_create::TeamCreate;
pub use team_delete::TeamDelete;
pub use todo_write::TodoWrite;
pub use tool_search::ToolSearch;
pub use web_fetch::WebFetch;
pub use web_search::WebSearch;
pub use write::Write;

/// Specs that are held to be used again, at most.
const MADE_MOST: usize = 256;

/// What a model is told of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its input.
    pub schema: Schema,
}

impl Spec {
    /// The spec of a tool whose input is a type. It is made once for all agents: schemas take up a lot.
    pub fn of<T: JsonSchema + 'static>(name: &str, description: &str) -> Arc<Self> {
        static MADE: Mutex<Vec<(TypeId, Arc<Spec>)>> = Mutex::new(Vec::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, description) = (TypeId::of::<T>(), description.trim());
        let same = |(of, spec): &&(TypeId, Arc<Self>)| {
            *of == input && spec.name == name && spec.description == description
        };
        if let Some((_, spec)) = made.iter().find(same) {
            return spec.clone();
        }
        let spec = Self::new::<T>(name, description);
        // Descriptions that differ from project to project don't stay for ever.
        if made.len() == MADE_MOST {
            made.clear();
        }
        made.push((input, spec.clone()));
        spec
    }

    fn new<T: JsonSchema>(name: &str, description: &str) -> Arc<Self> {
        let mut schema = Value::from(schemars::schema_for!(T));
        if let Some(object) = schema.as_object_mut() {
            object.remove("$schema");
            object.remove("title");
        }
        Arc::new(Self { name: name.to_owned(), description: description.to_owned(), schema: schema.into() })
    }
}

/// What a call does to the world: that decides who has to allow it, and what may run beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only looks.
    Reads,
    /// It changes files.
    Writes,
    /// It runs programs.
    Runs,
    /// It looks at the network.
    Fetches,
    /// It speaks to the rest of the daemon.
    Talks,
    /// It changes what the agent may do from then on, so nothing runs beside it.
    Steers,
}

impl Access {
    /// Whether calls of this kind change nothing, so that one may be made again.
    pub const fn is_look(self) -> bool {
        match self {
            Self::Reads | Self::Fetches => true,
            Self::Talks | Self::Writes | Self::Runs | Self::Steers => false,
        }
    }

    /// Whether calls of this kind may run beside each other.
    pub const fn is_parallel(self) -> bool {
        match self {
            Self::Reads | Self::Fetches | Self::Talks => true,
            Self::Writes | Self::Runs | Self::Steers => false,
        }
    }
}

/// A call that somebody has to allow.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The tool.
    pub tool: String,
    /// What it is called with.
    pub input: Value,
    /// A line for the eye.
    pub summary: String,
    /// What it does.
    pub access: Access,
    /// Where relative paths begin.
    pub cwd: PathBuf,
    /// What hooks said to it.
    pub hooked: Word,
}

impl Ask {
    /// The same call with another input.
    pub fn give(&mut self, tool: &dyn Tool, input: Value) {
        (self.summary, self.access) = (tool.summary(&input), tool.access(&input));
        self.input = input;
    }
}

/// What a call gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What the model reads.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Files that it changed.
    pub changed: Vec<PathBuf>,
    /// What is acknowledged to the host once the result stands in the transcript.
    pub heard: Vec<String>,
    /// Why the agent is to end now.
    pub halt: Option<String>,
    /// Whether nothing came of it for too long.
    pub stalled: bool,
    /// Tokens of a model that it asked.
    pub used: Option<Box<Usage>>,
}

impl Outcome {
    /// A call that did what it should.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A call that failed, with what was wrong and what would be right.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }
}

/// What the tools of one agent share. Nothing of it is another agent's.
#[derive(Debug)]
pub struct Context {
    /// Where relative paths begin. A shell command may change it.
    pub cwd: Mutex<PathBuf>,
    /// The environment of programs.
    pub env: BTreeMap<String, String>,
    /// A directory of the task's own for what tools leave.
    pub temp: PathBuf,
    /// The only directories below which files are written, the last one for what is temporary; none is anywhere.
    pub writable: Vec<PathBuf>,
    /// The directory of its memory, where it has one.
    pub memory: Option<PathBuf>,
    /// Ends what runs.
    pub stop: CancellationToken,
    /// Bytes of a result at most; what is more is cut, and the result says so.
    pub most: usize,
    /// Keeps secrets out of results, and so out of all that follows from them.
    pub mask: Arc<Mask>,
    /// The files that the agent has seen.
    pub files: Files,
    /// The shim, under which programs run.
    pub shim: PathBuf,
    /// What shell commands left running.
    pub left: Left,
    /// Signs of life of its calls.
    pub beat: Beat,
    /// The rest of the daemon.
    pub host: Arc<dyn Host>,
}

impl Context {
    /// Where relative paths begin.
    pub fn cwd(&self) -> PathBuf {
        self.cwd.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A tool.
pub trait Tool: std::fmt::Debug + Send + Sync {
    /// What the model is told of it; the same each time, so that a provider's cache holds.
    fn spec(&self) -> Arc<Spec>;

    /// What a call with this input does.
    fn access(&self, input: &Value) -> Access;

    /// A line for the eye about a call.
    fn summary(&self, input: &Value) -> String;

    /// Runs a call that was allowed. Dropping the future ends it, and leaves nothing running.
    fn call<'a>(&'a self, context: &'a Context, input: Value) -> BoxFuture<'a, Outcome>;

    /// The same for the call with an id. What a person answers is remembered by that, so these tools need it.
    fn call_as<'a>(&'a self, context: &'a Context, _id: &'a str, input: Value) -> BoxFuture<'a, Outcome> {
        self.call(context, input)
    }
}

/// Reads a call's input.
///
/// # Errors
/// A failed outcome that names the place and what is wrong there.
pub fn read<T: DeserializeOwned>(input: Value) -> Result<T, Outcome> {
    serde_path_to_error::deserialize(input).map_err(|error| {
        let place = error.path().to_string();
        let inner = error.into_inner();
        Outcome::error(if place == "." {
            format!("bad input: {inner}")
        } else {
            format!("bad input at {place}: {inner}")
        })
    })
}

/// What a call gives, whichever way it went.
fn settle(result: Result<Outcome, Outcome>) -> Outcome {
    result.unwrap_or_else(|failed| failed)
}

/// A text in a call's input, for the eye.
fn field(input: &Value, name: &str) -> String {
    input[name].as_str().unwrap_or_default().to_owned()
}

/// All tools, in the order in which they are offered. Which of them an agent has its pool says.
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    with(Flags::default(), None)
}

/// The same, where these features are on, and with these types of agents in the tool that spawns them.
pub fn with(flags: Flags, types: Option<String>) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(Read),
        Arc::new(Write),
        Arc::new(Edit),
        Arc::new(NotebookEdit),
        Arc::new(Glob),
        Arc::new(Grep),
        Arc::new(Bash),
        Arc::new(TodoWrite),
        Arc::new(Skill),
        Arc::new(Agent::new(flags, types)),
        Arc::new(SendMessage),
        Arc::new(TaskOutput),
        Arc::new(TaskStop),
        Arc::new(AskUserQuestion),
        Arc::new(EnterPlanMode),
        Arc::new(ExitPlanMode),
        Arc::new(WebFetch::default()),
        Arc::new(WebSearch),
        Arc::new(Memory),
        Arc::new(TaskCreate),
        Arc::new(TaskGet),
        Arc::new(TaskList),
        Arc::new(TaskUpdate),
        Arc::new(TeamCreate),
        Arc::new(TeamDelete),
    ];
    let search = ToolSearch::new(tools.iter().map(|tool| tool.spec()).collect());
    tools.push(Arc::new(search));
    tools.push(Arc::new(SyntheticOutput::default()));
    tools
}

/// Cuts a text to a number of bytes, at a character's border; says how much is missing.
pub fn cut(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let all = text.len();
    text.truncate(text.floor_char_boundary(most));
    let left = text.len();
    text.extend(["\n[", &(all - left).to_string(), " of ", &all.to_string(), " bytes are left out here]"]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Input {
        /// The file.
        file_path: String,
        limit: Option<u64>,
    }

    /// TP-17: bad input of a tool is an answer that names the place.
    #[test]
    fn bad_input_names_the_place() {
        let bad = |input: Value| read::<Input>(input).unwrap_err().text;
        assert_eq!(
            bad(json!({"file_path": "a", "limit": "x"})),
            "bad input at limit: invalid type: string \"x\", expected u64"
        );
        assert!(bad(json!({"file_path": "a", "extra": 1})).contains("unknown field `extra`"));
        assert!(bad(json!("text")).starts_with("bad input: "));
        let input: Input = read(json!({"file_path": "a"})).unwrap();
        assert_eq!((input.file_path.as_str(), input.limit), ("a", None));
    }

    /// TP-05: the order is fixed, and so are the specs: a provider's cache depends on it.
    #[test]
    fn the_tools_come_in_a_fixed_order() {
        let names: Vec<String> = builtin().iter().map(|tool| tool.spec().name.clone()).collect();
        let expected = "Read Write Edit NotebookEdit Glob Grep Bash TodoWrite Skill Agent SendMessage TaskOutput TaskStop AskUserQuestion EnterPlanMode ExitPlanMode WebFetch WebSearch Memory TaskCreate TaskGet TaskList TaskUpdate TeamCreate TeamDelete ToolSearch SyntheticOutput";
        assert_eq!(names.join(" "), expected);
        for (tool, again) in builtin().iter().zip(builtin()) {
            let spec = tool.spec();
            let schema: Value = serde_json::from_str(spec.schema.text()).unwrap();
            assert_eq!((&spec, &schema["type"]), (&again.spec(), &json!("object")));
        }
    }

    /// SP-35
    #[test]
    fn a_cut_text_says_how_much_is_missing() {
        let mut text = "aé".repeat(10);
        cut(&mut text, 5);
        assert_eq!(text, "aéa\n[26 of 30 bytes are left out here]");
        let mut short = "short".to_owned();
        cut(&mut short, 5);
        assert_eq!(short, "short");
    }
}
