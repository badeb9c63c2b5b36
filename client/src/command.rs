//! The commands: one file a noun, each with its arguments and what it does.

mod agent;
pub(crate) mod ask;
mod attach;
mod completions;
mod config;
mod daemon;
mod definition;
mod demo;
mod doctor;
mod event;
mod exec;
mod explain;
mod list;
mod logs;
mod mail;
mod notify;
mod pause;
mod rpc;
mod run;
mod send;
mod session;
mod spawn;
mod tasklist;
mod team;
pub(crate) mod trust;
mod version;
mod wait;

use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::app::{App, Global};
use crate::exit::{Exit, Stop, Voice};

/// Supervises AI agents: starts, watches, messages and stops them through ccagentd.
#[derive(Debug, Parser)]
#[command(name = "ccagentctl", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
ID is a full id, a unique prefix of one, or the name of an agent (name or name@team) that lives or ended a moment ago.
DURATION is written as 500ms, 3s, 10m, 24h or '1h 30m', a bare number counts seconds. SIZE is written as 512MiB or \
5GiB, a bare number counts bytes.

Exit codes: 0 done, 1 failed, 2 usage, 3 not running or not found, 4 not permitted, 5 needs an answer and nobody can \
give one, 6 conflict, 7 limit hit, 69 daemon unreachable, 75 overloaded (try again), 124 --timeout elapsed, 130 \
interrupted, 143 terminated. exec in the foreground gives the program's own.")]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Give work to an agent with a model; follow it, and end with its outcome
    Run(Box<run::Args>),
    /// Run any program as a supervised agent; follow it, and end with its exit code
    Exec(Box<exec::Args>),
    /// Say what a run would do and why, without doing it
    Explain(Box<explain::Args>),
    /// List agents
    #[command(aliases = ["ls", "list"])]
    Ps(list::Args),
    /// Show one agent in full
    Show(agent::ShowArgs),
    /// Print an agent's output
    Logs(logs::Args),
    /// Connect this terminal to a running agent
    Attach(attach::Args),
    /// Send a message to an agent, a team member, or everyone in a team
    Send(send::Args),
    /// Wait until agents are done
    Wait(wait::Args),
    /// End agents and everything below them
    Stop(agent::StopArgs),
    /// Kill agents and everything below them at once
    Kill(agent::KillArgs),
    /// Run an ended agent again, under the same id
    Resume(agent::ResumeArgs),
    /// Delete ended agents with their records and output
    Rm(agent::RemoveArgs),
    /// Delete ended agents that are no longer listed, or those of them that ended long ago
    Prune(agent::PruneArgs),
    /// Start nothing new, in a session or anywhere
    Pause(pause::Args),
    /// Start agents again after a pause
    Unpause(pause::Args),
    /// Read, acknowledge and send messages
    #[command(subcommand)]
    Mail(mail::Command),
    /// Read and acknowledge notifications of agents that ended
    #[command(subcommand)]
    Notify(notify::Command),
    /// See what agents wait for an answer to, and answer
    #[command(subcommand)]
    Ask(ask::Command),
    /// Make, join and delete teams
    #[command(subcommand)]
    Team(team::Command),
    /// See and change what a team or a session has to do
    Tasklist(tasklist::Args),
    /// Open and close sessions
    #[command(subcommand)]
    Session(session::Command),
    /// Show which types of agents there are
    #[command(subcommand)]
    Agents(definition::Command),
    /// Say what of a repository may run: its hooks, its MCP servers, agents that bring either
    #[command(subcommand)]
    Trust(trust::Command),
    /// Print events, past or as they come
    Events(event::Args),
    /// Call any method by its name
    Rpc(rpc::Args),
    /// Print the OpenRPC document of all methods
    Schema,
    /// Start, stop and inspect the daemon
    #[command(subcommand)]
    Daemon(daemon::Command),
    /// Check that everything is as it should be
    Doctor(doctor::Args),
    /// Read and change the config file
    #[command(subcommand)]
    Config(config::Command),
    /// Print a script that completes commands in a shell
    Completions(completions::Args),
    /// Write man pages into a directory
    #[command(hide = true)]
    Man(completions::ManArgs),
    /// Print versions of this program and of the daemon
    Version,
    /// Show what ccagent does, in an instance of its own that leaves nothing behind
    Demo,
    /// The teammate of the demo
    #[command(hide = true)]
    DemoTeammate(demo::TeammateArgs),
}

impl Cli {
    /// How failures are said.
    pub(crate) fn voice(&self) -> Voice {
        self.global.voice()
    }

    /// The command that starts the daemon that was meant; none where the daemon was to end.
    pub(crate) fn how_to_start(&self) -> Option<String> {
        let ends = matches!(&self.command, Command::Daemon(daemon::Command::Stop(_)));
        (!ends).then(|| format!("ccagentctl{} daemon start", self.global.place()))
    }
}

/// Runs a command line.
pub(crate) async fn run(cli: Cli) -> anyhow::Result<Exit> {
    let own_timeout = matches!(cli.command, Command::Run(_) | Command::Exec(_) | Command::Wait(_));
    let limit = cli.global.timeout.filter(|_| !own_timeout);
    let app = App::new(cli.global)?;
    let work = Box::pin(dispatch(&app, cli.command));
    match limit {
        Some(limit) => bounded(limit, work).await,
        None => work.await,
    }
}

async fn bounded(limit: Duration, work: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("not done within {}", humantime::format_duration(limit));
        Err(Stop::new(Exit::TIMEOUT, message).into())
    })
}

async fn dispatch(app: &App, command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(args) => run::run(app, *args).await,
        Command::Exec(args) => exec::run(app, *args).await,
        Command::Explain(args) => explain::run(app, *args).await,
        Command::Ps(args) => list::run(app, args).await,
        Command::Show(args) => agent::show(app, args).await,
        Command::Logs(args) => logs::run(app, args).await,
        Command::Attach(args) => attach::run(app, args).await,
        Command::Send(args) => send::run(app, args).await,
        Command::Wait(args) => wait::run(app, args).await,
        Command::Stop(args) => agent::stop(app, args).await,
        Command::Kill(args) => agent::kill(app, args).await,
        Command::Resume(args) => agent::resume(app, args).await,
        Command::Rm(args) => agent::remove(app, args).await,
        Command::Prune(args) => agent::prune(app, args).await,
        Command::Pause(args) => pause::pause(app, args).await,
        Command::Unpause(args) => pause::unpause(app, args).await,
        Command::Mail(command) => mail::run(app, command).await,
        Command::Notify(command) => notify::run(app, command).await,
        Command::Ask(command) => ask::run(app, command).await,
        Command::Team(command) => team::run(app, command).await,
        Command::Tasklist(args) => tasklist::run(app, args).await,
        Command::Session(command) => session::run(app, command).await,
        Command::Agents(command) => definition::run(app, command).await,
        Command::Trust(command) => trust::run(app, command).await,
        Command::Events(args) => event::run(app, args).await,
        Command::Rpc(args) => rpc::run(app, args).await,
        Command::Schema => rpc::schema(app),
        Command::Daemon(command) => daemon::run(app, command).await,
        Command::Doctor(args) => doctor::run(app, &args).await,
        Command::Config(command) => config::run(app, command).await,
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => completions::man(args),
        Command::Version => version::run(app).await,
        Command::Demo => demo::run().await,
        Command::DemoTeammate(args) => demo::teammate(app, args).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// clap's own checks hold for every command: no option is declared twice, every default is valid.
    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// cli.md: the commands and their options are as documented.
    #[test]
    fn help_is_as_documented() {
        let mut command = Cli::command();
        insta::assert_snapshot!("help", command.render_help());
        for name in ["exec", "ps", "logs", "wait", "prune"] {
            let help = command.find_subcommand_mut(name).unwrap().render_help();
            insta::assert_snapshot!(format!("help_{name}"), help);
        }
    }

    /// cli.md: options of `exec` end at `--`, and what follows is the program's.
    #[test]
    fn what_follows_two_dashes_is_the_programs() {
        let cli =
            Cli::try_parse_from(["ccagentctl", "exec", "-d", "--name", "a", "--", "ls", "-q", "--json"]);
        let Command::Exec(args) = cli.unwrap().command else {
            panic!("not exec");
        };
        assert_eq!(args.command, ["ls", "-q", "--json"]);
    }

    /// cli.md, `exec`: an option that is misspelled is no program, and the right one is named.
    #[test]
    fn a_misspelled_option_is_not_run_as_a_program() {
        let typed = |words: &str| Cli::try_parse_from(words.split(' ')).map(|_| ());
        let error = typed("ccagentctl exec --nmae x -- true").unwrap_err();
        assert!(error.use_stderr() && error.to_string().contains("--name"), "{error}");
        assert!(typed("ccagentctl exec -d -X true").is_err());
        typed("ccagentctl exec ls -l --nmae").unwrap();
        typed("ccagentctl exec -- -odd --nmae").unwrap();
    }

    /// The commands that people try by habit are there.
    #[test]
    fn habits_lead_somewhere() {
        for words in [["ccagentctl", "ls"], ["ccagentctl", "list"]] {
            assert!(matches!(Cli::try_parse_from(words).unwrap().command, Command::Ps(_)));
        }
    }

    /// cli.md, exit code 3: what starts the daemon is said with its place, and not to who wants it to end.
    #[test]
    fn the_start_of_the_daemon_that_was_meant_is_named() {
        let said = |words: &str| Cli::try_parse_from(words.split(' ')).unwrap().how_to_start();
        let started = said("ccagentctl ps --state-dir /s").unwrap();
        assert_eq!(started, "ccagentctl --state-dir /s daemon start");
        assert_eq!(said("ccagentctl daemon stop"), None);
    }

    /// cli.md: a usage error is exit code 2.
    #[test]
    fn an_unknown_option_is_a_usage_error() {
        let error = Cli::try_parse_from(["ccagentctl", "ps", "--no-such"]).unwrap_err();
        assert!(error.use_stderr());
    }
}
