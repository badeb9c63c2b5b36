//! Which servers there are, as files say it; nothing is started here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::name;
use crate::definition::Problem;
use crate::trust::{Item, Kind};

/// Servers of one agent at most.
const SERVERS_MOST: usize = 50;
/// How long a call may take unless the file says otherwise, and at most.
const TIMEOUT: Duration = Duration::from_mins(2);
const TIMEOUT_MOST: Duration = Duration::from_hours(1);

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Its name, as its tools have it.
    pub name: String,
    /// How it is reached.
    pub way: Way,
    /// How long a call may take.
    pub timeout: Duration,
    /// The file that says so.
    pub path: PathBuf,
}

/// How a server is reached. Variables are not replaced yet.
#[derive(Clone, PartialEq)]
pub enum Way {
    /// A program, by its stdin and stdout.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables above those of the agent's programs.
        env: BTreeMap<String, String>,
    },
    /// An address.
    Http {
        /// The address.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
    },
}

/// There may be secrets in variables, headers and addresses.
impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:?})", self.kind(), self.target())
    }
}

impl Way {
    /// What it speaks over.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
        }
    }

    /// The program, or the address without what may be secret in it.
    pub fn target(&self) -> String {
        match self {
            Self::Stdio { command, args, .. } => {
                format!("{command} {}", args.join(" ")).trim_end().to_owned()
            }
            Self::Http { url, .. } => {
                let plain = url.split(['?', '#']).next().unwrap_or_default();
                match (plain.split_once("://"), plain.rsplit_once('@')) {
                    (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
                    (Some(_), None) | (None, _) => plain.to_owned(),
                }
            }
        }
    }
}

/// A server as a file has it.
#[derive(Debug, Deserialize)]
struct Written {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Milliseconds.
    timeout: Option<u64>,
    #[serde(default)]
    disabled: bool,
}

/// All servers of an agent, by name.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    /// The servers; of two with one name the later one counts.
    pub servers: BTreeMap<String, Server>,
    /// What is wrong with what was written.
    pub problems: Vec<Problem>,
}

impl Servers {
    /// Reads what may run.
    pub fn of(items: &[Item]) -> Self {
        let mut servers = Self::default();
        for item in items {
            match item.kind {
                Kind::McpServers => servers.add(&item.value, &item.path),
                Kind::Agent => servers.add(&item.value["mcpServers"], &item.path),
                Kind::Hooks => {}
            }
        }
        servers
    }

    /// Adds what one place says: a map, or a list of names and maps, as definitions have it. A name alone means a server
    /// that is there anyway.
    pub fn add(&mut self, value: &Value, path: &Path) {
        match value {
            Value::Object(servers) => {
                servers.iter().for_each(|(name, server)| self.server(name, server, path));
            }
            Value::Array(list) => list.iter().for_each(|one| match one {
                Value::String(_) => {}
                Value::Object(servers) => {
                    servers.iter().for_each(|(name, server)| self.server(name, server, path));
                }
                other => {
                    self.problem(path, format!("in `mcpServers`, {other} is neither a name nor a server"));
                }
            }),
            Value::Null => {}
            other => {
                self.problem(path, format!("`mcpServers` has to be an object of servers, and is {other}"));
            }
        }
    }

    fn problem(&mut self, path: &Path, message: String) {
        self.problems.push(Problem::warning(None, message).at(path));
    }

    fn server(&mut self, written_name: &str, value: &Value, path: &Path) {
        let name = name::of_server(written_name);
        match read(value) {
            _ if name.is_empty() => {
                self.problem(
                    path,
                    format!("{written_name:?} is no name of a server: use letters and digits"),
                );
            }
            Ok(None) => {}
            Ok(Some(_)) if self.servers.len() >= SERVERS_MOST && !self.servers.contains_key(&name) => {
                let why = format!("there are more than {SERVERS_MOST} MCP servers: {name} is left out");
                self.problem(path, why);
            }
            Ok(Some((way, timeout))) => {
                let server = Server { name: name.clone(), way, timeout, path: path.to_owned() };
                self.servers.insert(name, server);
            }
            Err(why) => self.problem(path, format!("the MCP server {written_name} is left out: {why}")),
        }
    }
}

fn read(value: &Value) -> Result<Option<(Way, Duration)>, String> {
    let written: Written = serde_path_to_error::deserialize(value).map_err(|error| error.to_string())?;
    if written.disabled {
        return Ok(None);
    }
    let timeout =
        written.timeout.map_or(TIMEOUT, Duration::from_millis).clamp(Duration::from_millis(1), TIMEOUT_MOST);
    let kind = written.kind.as_deref();
    let way = match (kind, written.command, written.url) {
        (None | Some("stdio"), Some(command), _) => {
            Way::Stdio { command, args: written.args, env: written.env }
        }
        (None | Some("http" | "streamable-http" | "streamableHttp"), None, Some(url)) => {
            Way::Http { url, headers: written.headers }
        }
        (None | Some("stdio"), None, _) => return Err("it has neither `command` nor `url`".to_owned()),
        (Some("http" | "streamable-http" | "streamableHttp"), _, _) => {
            return Err("`url` is missing".to_owned());
        }
        (Some(kind), _, _) => {
            return Err(format!("type {kind:?} can't be used: there are \"stdio\" and \"http\""));
        }
    };
    Ok(Some((way, timeout)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: &Value) -> Servers {
        let mut servers = Servers::default();
        servers.add(value, Path::new("/f"));
        servers
    }

    /// AD-17: both ways to write servers are read; what can't be used is left out with what would be right.
    #[test]
    fn servers_are_read_and_bad_ones_are_named() {
        let found = of(&json!({
            "a.b": {"command": "run", "args": ["x"], "env": {"K": "secret"}},
            "web": {"type": "http", "url": "https://u:secret@host/mcp?key=secret", "timeout": 5},
            "old": {"type": "sse", "url": "http://host"},
            "none": {}, "odd": {"command": 1}, "off": {"command": "x", "disabled": true}, "__": {"command": "x"},
        }));
        assert_eq!(found.servers.keys().collect::<Vec<_>>(), ["a_b", "web"]);
        assert_eq!(found.servers["web"].timeout, Duration::from_millis(5));
        let said = format!("{:?}", found.servers);
        assert!(said.contains("https://host/mcp") && !said.contains("secret"), "{said}");
        let problems: Vec<&str> = found.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems.iter().any(|one| one.contains("old") && one.contains("\"http\"")), "{problems:?}");
        assert!(problems.iter().any(|one| one.contains("odd") && one.contains("command")), "{problems:?}");
        let listed = of(&json!(["shared", {"own": {"command": "x"}}, 7]));
        assert_eq!((listed.servers.len(), listed.problems.len()), (1, 1));
    }
}
