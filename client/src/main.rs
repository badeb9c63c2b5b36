//! `ccagentctl`: the command line of ccagentd.
//!
//! Data goes to stdout and nothing else does; everything for the eye goes to stderr.

mod app;
mod asker;
mod command;
mod exit;
mod follow;
mod interactive;
mod output;
mod render;
mod screen;
mod terminal;
mod typed;
mod value;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::Voice;

fn main() -> ExitCode {
    let cli = match command::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            return Voice::of_arguments(std::env::args_os()).usage(&error);
        }
    };
    let voice = cli.voice();
    let start = cli.how_to_start();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return voice.report(&error.into()),
    };
    let outcome = runtime.block_on(command::run(cli));
    // A read of the terminal may still be under way in a thread, and must not keep the process.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            let code = voice.report(&error);
            if let Some(start) = start.filter(|_| voice == Voice::Text && exit::is_not_running(&error)) {
                screen::line(format_args!("start it with: {start}"));
            }
            code
        }
    }
}
