//! A confined program: it writes where it may, and nowhere else.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

use ccagent_tests::skip::skip_anywhere;

fn shim() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccagent-shim"));
    command.arg("confine");
    command
}

fn can_confine() -> bool {
    let check = shim().arg("--check").output().unwrap();
    if !check.status.success() {
        skip_anywhere(&text(&check.stdout));
    }
    check.status.success()
}

fn sh(dir: &Path, script: &str) -> Output {
    shim().arg(dir).args(["--", "sh", "-c", script]).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// rpc.md, who is calling: what is outside is neither written, emptied, made, renamed, linked nor deleted, by no way that leads there.
#[test]
fn a_confined_program_changes_nothing_outside() {
    if !can_confine() {
        return;
    }
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let kept = outside.path().join("kept");
    fs::write(&kept, "kept").unwrap();
    symlink(outside.path(), inside.path().join("link")).unwrap();
    fs::write(inside.path().join("own"), "own").unwrap();
    let out = outside.path().display();
    for script in [
        format!("echo x > {out}/new"),
        format!("echo x >> {out}/kept"),
        format!("truncate -s 0 {out}/kept"),
        format!("rm {out}/kept"),
        format!("mkdir {out}/new"),
        format!("mv own {out}/new"),
        format!("ln own {out}/new"),
        format!("ln {out}/kept mine && echo x > mine"),
        "echo x > link/new".to_owned(),
        "echo x > link/kept".to_owned(),
        "(setsid sh -c 'echo x > link/new')".to_owned(),
    ] {
        let ended = sh(inside.path(), &script);
        assert!(!ended.status.success(), "{script}: {ended:?}");
    }
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

/// rpc.md, who is calling: below its directories it does as it likes, it reads and runs what is elsewhere, and devices take what it says.
#[test]
fn a_confined_program_works_in_its_directories() {
    if !can_confine() {
        return;
    }
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let script = format!(
        "mkdir -p a/b && echo x > a/b/c && mv a/b/c a/d && mv a/d {}/e && rm -r a && echo y > /dev/null && \
         cat /etc/passwd > /dev/null && echo $$ && exit 3",
        two.path().display()
    );
    let mut command = shim();
    command.arg(one.path()).arg(two.path()).args(["--", "sh", "-c", &script]).current_dir(one.path());
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    assert_eq!(text(&ended.stdout).trim(), pid.to_string(), "the process stays the same");
    assert_eq!(fs::read_to_string(two.path().join("e")).unwrap(), "x\n");
}

/// rpc.md, who is calling: no device is made in a place, which would lead to what is elsewhere on its disk: by root, and by
/// others, who may make the one that marks what is gone.
#[test]
fn a_confined_program_makes_no_device() {
    if !can_confine() {
        return;
    }
    let inside = tempfile::tempdir().unwrap();
    for device in ["b 7 0", "c 1 3", "c 0 0"] {
        let ended = sh(inside.path(), &format!("mknod device {device}"));
        assert!(!ended.status.success() && !inside.path().join("device").exists(), "{device}: {ended:?}");
    }
    let ended = sh(inside.path(), "mkfifo pipe && ln -s pipe link && mkdir dir");
    assert!(ended.status.success(), "{ended:?}");
}

/// rpc.md, who is calling: a directory that became a link, or lies behind one by now, is no place, and nothing is started.
#[test]
fn a_place_behind_a_link_starts_nothing() {
    if !can_confine() {
        return;
    }
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (root, out) = (inside.path().canonicalize().unwrap(), outside.path().canonicalize().unwrap());
    fs::create_dir(out.join("own")).unwrap();
    symlink(&out, root.join("above")).unwrap();
    symlink(out.join("own"), root.join("own")).unwrap();
    for place in [root.join("own"), root.join("above/own")] {
        let mut command = shim();
        command.arg(&root).arg(&place).args(["--", "sh", "-c", "echo x > new"]).current_dir(&place);
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(126), "{ended:?}");
        assert!(text(&ended.stderr).contains("leads through a link now"), "{ended:?}");
    }
    assert_eq!(fs::read_dir(out.join("own")).unwrap().count(), 0);
}

/// rpc.md, who is calling: what can't be confined or started is not started, and says why.
#[test]
fn what_can_not_be_started_says_why() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&[][..], &["--", "true"], &["/tmp"], &["/tmp", "--"]] {
        let ended = shim().args(args).output().unwrap();
        assert_eq!(ended.status.code(), Some(126), "{ended:?}");
        assert!(text(&ended.stderr).contains("confine DIR... -- PROGRAM"), "{ended:?}");
    }
    if !can_confine() {
        let ended = sh(dir.path(), "true");
        assert_eq!(ended.status.code(), Some(126), "{ended:?}");
        assert!(text(&ended.stderr).contains("sandbox.writes"), "{ended:?}");
        return;
    }
    let ended = shim().arg(dir.path()).args(["--", "no-such-program"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(127), "{ended:?}");
    assert!(text(&ended.stderr).contains("no-such-program"), "{ended:?}");
    let ended = shim().arg(dir.path().join("none")).args(["--", "true"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(126), "{ended:?}");
    assert!(text(&ended.stderr).contains("can't be made a place"), "{ended:?}");
}
