//! What a real shell does with lines that were let through.

use super::*;

/// What lines are made of; `mark` is denied, and so are reading and changing `secret`.
const PIECES: &[&str] = &[
    " ",
    " ",
    " ",
    "mark",
    "mark ",
    "ma",
    "rk",
    "'",
    "\"",
    "\\",
    "$",
    "{",
    "}",
    ",",
    "ma{rk,}",
    "{mark,x}",
    "$'\\155ark'",
    "${IFS}",
    "X=mark;",
    "X=mark ",
    "X=",
    "$X",
    "${X}",
    "${X:-mark}",
    "\"$X\"",
    "Y=secret;",
    "$Y",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "\n",
    "(",
    ")",
    "$(",
    "`",
    "<",
    ">",
    ">>",
    "&>",
    "<<<",
    "<<E\n",
    "\nE\n",
    "secret",
    "secret ",
    "sec",
    "ret",
    "s*",
    "sec?et",
    "s[e]cret",
    "/",
    "./",
    "cat ",
    "cat ",
    "echo ",
    "printf '%s\\n' ",
    "sh",
    "sh -c ",
    "bash -c ",
    "bash ",
    "eval ",
    ". ",
    "source ",
    "env ",
    "env -u A ",
    "timeout 5 ",
    "timeout -s KILL 5 ",
    "exec ",
    "exec -a z ",
    "command ",
    "xargs ",
    "nice -n 1 ",
    "if ",
    "then ",
    ";fi",
    "for X in ",
    "mark; do ",
    ";done",
    "function f { ",
    "f(){ ",
    "; f",
    "case x in x)",
    ";;esac",
    "[[ ",
    " ]]",
    "((",
    "))",
    "!",
    "#",
    "cd .;",
    "cd sub;",
    "../",
    "read X",
    "find . -exec ",
    " {} \\;",
    "tee ",
    "cp ",
    "x",
    "=",
    "+=",
    "-c ",
    "-- ",
    "trap ",
    " EXIT",
    "$@",
    "~",
    "a",
];

proptest::proptest! {
    /// PM-03: what a real shell runs, reads or writes of a line is not let through by a rule that denies it.
    #[test]
    fn what_a_shell_really_does_is_not_let_through(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 1..10),
    ) {
        let world = World::new();
        let rules = [(Deny, "Bash(mark:*)"), (Deny, "Read(secret)"), (Deny, "Edit(secret)")];
        let line = pieces.concat();
        let decision = world.decide(Mode::BypassPermissions, &rules, &line);
        if decision == Allow {
            fs::write(world.at("repo/secret"), "hidden\n").unwrap();
            let mut shell = std::process::Command::new("/bin/bash");
            let path = format!("{}:/usr/bin:/bin", programs(&world).display());
            shell.args(["-c", &line]).env_clear().env("PATH", path).current_dir(world.at("repo"));
            let output = shell.stdin(std::process::Stdio::null()).output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            proptest::prop_assert!(!world.at("marked").exists(), "{:?} runs", line);
            proptest::prop_assert!(!String::from_utf8_lossy(&said).contains("hidden"), "{:?} reads", line);
            proptest::prop_assert_eq!(fs::read_to_string(world.at("repo/secret")).unwrap_or_default(), "hidden\n", "{:?} writes", line);
        }
    }
}

/// A directory with a program that leaves a file.
fn programs(world: &World) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let bin = world.at("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("mark"), format!("#!/bin/sh\n: > {}\n", world.at("marked").display())).unwrap();
    fs::set_permissions(bin.join("mark"), fs::Permissions::from_mode(0o700)).unwrap();
    bin
}
