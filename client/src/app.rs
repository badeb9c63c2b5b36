//! What every command has at hand: the global options, where the daemon is, and where data goes.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccagent_client::place::Chosen;
use ccagent_client::{Client, Error, Lasting, Place, start};
use ccagent_proto::daemon::{ClientInfo, DaemonHelloParams};
use ccagent_proto::{place, version};
use clap::Args;
use futures_util::FutureExt;

use crate::exit::{Exit, Stop, Voice};
use crate::output::Output;
use crate::{screen, value};

/// Options that every command takes.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print one JSON document, failures on stderr as well; a stream prints one a line
    #[arg(long, global = true)]
    json: bool,
    /// Print each entry by a template, for example '{{.id}} {{.status}}'
    #[arg(long, global = true, value_name = "TEMPLATE", conflicts_with = "json")]
    format: Option<String>,
    /// Print ids only, and nothing for the eye
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more on stderr
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// The daemon's socket: a path, or uds: and a path
    #[arg(long, global = true, value_name = "ADDRESS")]
    socket: Option<String>,
    /// The config file
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The state directory; one of your own is an instance of your own
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Give up after this time, with exit code 124; exec ends its agent then
    #[arg(long, global = true, value_name = "DURATION", value_parser = value::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Don't start a daemon where none runs
    #[arg(long, global = true)]
    no_start: bool,
    /// Don't ask before something is destroyed
    #[arg(short, long, global = true)]
    yes: bool,
}

impl Global {
    /// How failures are said.
    pub(crate) fn voice(&self) -> Voice {
        if self.json { Voice::Json } else { Voice::Text }
    }

    /// The options that say which daemon is meant, as they would be typed again.
    pub(crate) fn place(&self) -> String {
        let path = |path: Option<&PathBuf>| path.map(|path| path.display().to_string());
        let options = [
            ("--socket", self.socket.clone()),
            ("--state-dir", path(self.state_dir.as_ref())),
            ("--config", path(self.config.as_ref())),
        ];
        let typed = |(name, value): (&str, Option<String>)| Some(format!(" {name} {}", quoted(&value?)));
        options.into_iter().filter_map(typed).collect()
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What a command does where no daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// It says so.
    Never,
    /// It starts one, unless it was told not to.
    WhereNone,
}

/// The state of one invocation.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) global: Global,
    pub(crate) out: Output,
}

impl App {
    pub(crate) fn new(global: Global) -> anyhow::Result<Self> {
        let out = Output::new(global.json, global.format.as_deref())
            .map_err(|why| Stop::new(Exit::USAGE, format!("{why:#}")))?;
        Ok(Self { global, out })
    }

    /// Where the daemon is.
    pub(crate) fn place(&self) -> Result<Place, Error> {
        Place::find(&Chosen {
            socket: self.global.socket.clone(),
            state_dir: self.global.state_dir.clone(),
            config: self.global.config.clone(),
        })
    }

    /// Connects to a daemon that runs: what commands do that only read.
    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        self.introduced(Start::Never).await
    }

    /// Connects, and starts a daemon first where none runs.
    pub(crate) async fn connect_or_start(&self) -> anyhow::Result<Client> {
        self.introduced(Start::WhereNone).await
    }

    /// Connects for a wait that outlives the daemon. One that ended as it should is started again by whom it was ended
    /// for; one that was killed, by a command that starts one where none runs.
    pub(crate) async fn connect_lasting(&self, start: Start) -> anyhow::Result<Arc<Lasting>> {
        let place = self.place()?;
        let client = self.reach(&place, start).await?;
        let may_start = start == Start::WhereNone && !self.global.no_start;
        let hello = hello(&place);
        let dial = move || {
            let place = place.clone();
            async move {
                match Client::connect(&place.socket).await {
                    Err(Error::NotRunning { .. }) if may_start && place.socket.exists() => {
                        start::start(&place).await?;
                        Client::connect(&place.socket).await
                    }
                    connected => connected,
                }
            }
            .boxed()
        };
        Ok(Arc::new(Lasting::begin(client, hello, Box::new(dial)).await?))
    }

    /// An agent presents its token.
    async fn introduced(&self, start: Start) -> anyhow::Result<Client> {
        let place = self.place()?;
        let client = self.reach(&place, start).await?;
        let hello = hello(&place);
        let (known, greeted) = (hello.token.is_none(), start == Start::WhereNone && !self.global.no_start);
        if known && greeted {
            return Ok(client);
        }
        match client.greet(hello).await {
            // Without a token only that it answers matters; what else it says, the calls that follow say as well.
            Err(Error::Rpc(_) | Error::Unexpected(_)) if known => Ok(client),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(client),
        }
    }

    async fn reach(&self, place: &Place, start: Start) -> Result<Client, Error> {
        if start == Start::Never || self.global.no_start {
            return Client::connect(&place.socket).await;
        }
        let (client, started) = start::connect_or_start(place).await?;
        if started {
            self.detail(&format!("started a daemon at {}", place.socket.display()));
        }
        Ok(client)
    }

    /// A line for the eye.
    pub(crate) fn note(&self, line: &str) {
        if !self.global.quiet {
            screen::line(line);
        }
    }

    /// What can be done next, for somebody who sits at a terminal and reads text.
    pub(crate) fn hint(&self, lines: &str) {
        if self.out.is_text() && io::stderr().is_terminal() {
            self.note(lines);
        }
    }

    /// A line for the eye of who asked for more.
    pub(crate) fn detail(&self, line: &str) {
        if self.global.verbose > 0 {
            screen::line(line);
        }
    }

    /// Asks before something is destroyed; refuses where nobody can be asked.
    pub(crate) fn confirm(&self, what: &str) -> anyhow::Result<()> {
        if self.global.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            let message = format!("this would {what}; say --yes to do so without being asked");
            return Err(Stop::new(Exit::NEEDS_INPUT, message).into());
        }
        let mut screen = anstream::stderr();
        write!(screen, "This will {what}. Go on? [y/N] ")?;
        screen.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            Ok(())
        } else {
            Err(Stop::new(Exit::FAILED, "nothing was done").into())
        }
    }
}

/// What a daemon is greeted with: by an agent with its token, if that daemon gave it and no other.
pub(crate) fn hello(place: &Place) -> DaemonHelloParams {
    let own = place::socket_from_env(&|name| std::env::var_os(name));
    let token = std::env::var("CCAGENT_TOKEN").ok().filter(|_| own == Ok(Some(place.socket.clone())));
    DaemonHelloParams { protocol_version: version::PROTOCOL, client: client_info(), token, session_id: None }
}

/// Who this program is.
pub(crate) fn client_info() -> ClientInfo {
    ClientInfo { name: "ccagentctl".into(), version: version::PACKAGE.into(), kind: Some("cli".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The daemon that was meant is named again, in words that a shell takes as they are.
    #[test]
    fn the_place_can_be_typed_again() {
        let global = Global { state_dir: Some("/a dir/it's".into()), ..Global::default() };
        assert_eq!(global.place(), r" --state-dir '/a dir/it'\''s'");
        let global = Global { socket: Some("uds:/run/d.sock".into()), ..Global::default() };
        assert_eq!(global.place(), " --socket uds:/run/d.sock");
        assert_eq!(Global::default().place(), "");
    }
}
