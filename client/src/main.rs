//! `ccagentctl`: the command line of ccagentd.
//!
//! Data goes to stdout and nothing else does; everything for the eye goes to stderr.

mod app;
mod command;
mod exit;
mod follow;
mod interactive;
mod output;
mod render;
mod terminal;
mod value;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match command::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&command::with_tip(error)),
    };
    let start = cli.how_to_start();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&error.into()),
    };
    let outcome = runtime.block_on(command::run(cli));
    // A read of the terminal may still be under way in a thread, and must not keep the process.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            let code = exit::report(&error);
            if let Some(start) = start.filter(|_| exit::is_not_running(&error)) {
                anstream::eprintln!("start it with: {start}");
            }
            code
        }
    }
}
