//! Whether agents inside the daemon are held to their directories, and whether the kernel could do it.

use std::process::Stdio;

use ccagent_client::{Place, start};

use super::Check;

/// The config key that switches it on.
const KEY: &str = "sandbox.writes";

/// What holds, by the config and by what the shim finds out of the kernel.
pub(super) async fn check(place: &Place) -> Check {
    judge(is_on(&std::fs::read_to_string(&place.config).unwrap_or_default()), kernel().await)
}

/// What the shim says of the kernel, good or bad.
async fn kernel() -> Result<String, String> {
    let shim = start::daemon_program().map_err(|error| error.to_string())?.with_file_name("ccagent-shim");
    let mut command = tokio::process::Command::new(&shim);
    let output = command.args(["confine", "--check"]).stdin(Stdio::null()).output().await;
    let output = output.map_err(|error| format!("{} could not be run: {error}", shim.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// A file that is no config is another check's business.
fn is_on(config: &str) -> bool {
    let table: toml::Table = toml::from_str(config).unwrap_or_default();
    KEY.split_once('.').and_then(|(section, key)| table.get(section)?.get(key)?.as_bool()).unwrap_or_default()
}

fn judge(on: bool, kernel: Result<String, String>) -> Check {
    match (on, kernel) {
        (true, Ok(can)) => Check::ok(
            "writes",
            format!("{KEY} is on: agents with a model write below their directories; {can}"),
        ),
        (false, Ok(can)) => {
            Check::ok("writes", format!("{KEY} is off: agents with a model write wherever you can; {can}"))
        }
        (true, Err(why)) => {
            let advice = "until then their commands are refused, and run nowhere unconfined";
            Check::fail("writes", format!("{KEY} is on, but {why}"), advice)
        }
        (false, Err(why)) => Check::warn(
            "writes",
            format!("{KEY} is off: agents with a model write wherever you can"),
            &format!("to switch it on would not do: {why}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    /// cli.md, `doctor`: what is on and can't be is a failure; what is off is said.
    #[test]
    fn what_is_on_and_can_not_be_is_a_failure() {
        assert!(is_on("[sandbox]\nwrites = true\n") && is_on("sandbox.writes = true"));
        assert!(!is_on("") && !is_on("[sandbox]\nwrites = false") && !is_on("[sandbox"));
        let level = |on, kernel: Result<&str, &str>| {
            judge(on, kernel.map(str::to_owned).map_err(str::to_owned)).level
        };
        assert_eq!(level(true, Ok("")), Level::Ok);
        assert_eq!(level(false, Ok("")), Level::Ok);
        assert_eq!(level(true, Err("")), Level::Fail);
        assert_eq!(level(false, Err("")), Level::Warn);
    }
}
