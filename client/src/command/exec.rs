//! `exec`: any program as a supervised agent, in the foreground with its own exit code, or detached.

use ccagent_proto::agent::AgentSpawnParams;
use ccagent_proto::task::Stdin;

use super::spawn;
use crate::app::App;
use crate::exit::{Exit, Stop};
use crate::value;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
In the foreground the program's stdout and stderr come out here. Ctrl-C sends TERM to it and everything below it, and \
KILL after the grace time or at the second Ctrl-C. The exit code is the program's own: 128 and the signal after a \
signal, 127 when it can't be found, 126 when it can't be executed, 124 when --timeout ended it. With -t, Ctrl-] leaves \
it running.

--timeout is a limit of the run, also with -d: an agent that runs longer is ended.")]
pub(super) struct Args {
    #[command(flatten)]
    spawn: spawn::Common,
    /// Memory at most, for it and everything below it
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    max_memory: Option<u64>,
    /// Give it this stdin
    #[arg(short, long)]
    interactive: bool,
    /// Give it a terminal of its own
    #[arg(short, long)]
    tty: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(super) command: Vec<String>,
}

pub(super) async fn run(app: &App, args: Args) -> anyhow::Result<Exit> {
    let detach = args.spawn.detach;
    if detach && args.interactive {
        let message = "-i needs the foreground; leave out -d, or attach later";
        return Err(Stop::new(Exit::USAGE, message).into());
    }
    let stdin = match (args.tty, args.interactive) {
        (true, _) => Some(Stdin::Pty),
        (false, true) => Some(Stdin::Pipe),
        (false, false) => None,
    };
    let params = AgentSpawnParams {
        command: Some(args.command),
        stdin,
        max_memory_bytes: args.max_memory,
        ..args.spawn.params(app)?
    };
    spawn::run(app, params, detach).await
}
