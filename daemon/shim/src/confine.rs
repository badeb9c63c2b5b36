//! A program that may write only below some directories: `confine DIR... -- PROGRAM ARGS...`.
//!
//! ```text
//! directories ─▶ the kernel takes all others away ─▶ exec: the same process is the program
//!       └───────────────┴─ a sentence on stderr, 126 ─┴─ 127: no such program
//! ```
//!
//! What it starts is confined too, whatever it does. Reading and executing stay free, and so does the network: this
//! guards files against writing and nothing else. Where the kernel can't do it nothing is started.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

/// As shells say it: what could not be executed, and what was not found.
const REFUSED: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What would help where the kernel does not do it.
#[cfg(target_os = "linux")]
const HELP: &str = "it takes Linux 6.2 or later with Landlock in it (CONFIG_SECURITY_LANDLOCK, and `landlock` among \
                    the `lsm=` of the boot parameters) and no container that keeps its system calls back";
#[cfg(not(target_os = "linux"))]
const HELP: &str = "only Linux has what it takes";

/// What a confined program may write to everywhere: it keeps nothing.
#[cfg(target_os = "linux")]
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/random",
    "/dev/urandom",
    "/dev/ptmx",
    "/dev/pts",
];

/// Why a program is not confined.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("give directories, `--`, and a program: confine DIR... -- PROGRAM ARGS...")]
    Usage,
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Place(#[from] ccagent_shim::place::PlaceError),
    #[error("the kernel can't confine writes ({0}): {HELP}. Or switch the config's sandbox.writes off")]
    Kernel(String),
    #[error("{}: {source}", program.display())]
    Exec { program: OsString, source: io::Error },
}

impl Refusal {
    fn code(&self) -> u8 {
        match self {
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            #[cfg(target_os = "linux")]
            Self::Place(_) => REFUSED,
            Self::Usage | Self::Kernel(_) | Self::Exec { .. } => REFUSED,
        }
    }
}

/// Becomes a confined program, or says why not; or says whether it could.
pub(crate) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    if args == ["--check"] {
        return check();
    }
    let refusal = match become_confined(&args) {
        Err(refusal) => refusal,
        Ok(never) => match never {},
    };
    writeln!(io::stderr(), "ccagent-shim: {refusal}").ok();
    ExitCode::from(refusal.code())
}

/// Nothing is started after it, so it tries it out on itself.
fn check() -> ExitCode {
    let (text, code) = match restrict(&[]) {
        Ok(()) => ("the kernel can confine writes (Landlock)".to_owned(), ExitCode::SUCCESS),
        Err(refusal) => (refusal.to_string(), ExitCode::FAILURE),
    };
    writeln!(io::stdout(), "{text}").ok();
    code
}

fn become_confined(args: &[OsString]) -> Result<std::convert::Infallible, Refusal> {
    let at = args.iter().position(|arg| arg == OsStr::new("--")).ok_or(Refusal::Usage)?;
    let (dirs, program) = (&args[..at], &args[at + 1..]);
    let (program, arguments) = program.split_first().ok_or(Refusal::Usage)?;
    if dirs.is_empty() {
        return Err(Refusal::Usage);
    }
    restrict(dirs)?;
    let source = Command::new(program).args(arguments).exec();
    Err(Refusal::Exec { program: program.clone(), source })
}

/// Takes all places away but these; for good, and from all that comes of this process.
#[cfg(target_os = "linux")]
fn restrict(dirs: &[OsString]) -> Result<(), Refusal> {
    use landlock::{
        ABI, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
        RulesetCreatedAttr as _, RulesetError,
    };
    // The first in which a file elsewhere can't be emptied either.
    let all = AccessFs::from_write(ABI::V3);
    // Root could make the disk's own device in its place, and write past all files.
    let below = all & !(AccessFs::MakeBlock | AccessFs::MakeChar);
    let kernel = |error: RulesetError| Refusal::Kernel(error.to_string());
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let mut ruleset = ruleset.handle_access(all).and_then(Ruleset::create).map_err(kernel)?;
    for dir in dirs {
        let place = ccagent_shim::place::open(dir.as_ref())?;
        ruleset = ruleset.add_rule(PathBeneath::new(place, below)).map_err(kernel)?;
    }
    let contents = all & AccessFs::from_file(ABI::V3);
    // One that is not there is not missed.
    for place in DEVICES.iter().filter_map(|device| PathFd::new(device).ok()) {
        ruleset = ruleset.add_rule(PathBeneath::new(place, contents)).map_err(kernel)?;
    }
    ruleset.restrict_self().map(drop).map_err(kernel)
}

#[cfg(not(target_os = "linux"))]
fn restrict(_: &[OsString]) -> Result<(), Refusal> {
    Err(Refusal::Kernel("this system has nothing for it".to_owned()))
}
