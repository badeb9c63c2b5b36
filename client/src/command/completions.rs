//! `completions` and `man`: files for shells and for man, made from the commands themselves.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ccagentctl", &mut script);
    crate::output::write(&String::from_utf8(script)?)?;
    Ok(Exit::OK)
}

#[derive(Debug, clap::Args)]
pub(super) struct ManArgs {
    /// The directory; it must exist
    directory: PathBuf,
}

pub(super) fn man(args: ManArgs) -> anyhow::Result<Exit> {
    clap_mangen::generate_to(Cli::command(), args.directory)?;
    Ok(Exit::OK)
}
