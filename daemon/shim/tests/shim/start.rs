//! Starting: once, as asked, or not at all.

use std::{fs, io::Write, os::unix::fs::PermissionsExt};

use ccagent_shim::{
    files::{self, Liveness, same_process},
    tree,
    wire::{StartErrorKind, StartReply, StdinKind},
};

use crate::harness::{Lab, reply};

fn kind(reply: &StartReply) -> StartErrorKind {
    match reply {
        StartReply::Failed { kind, .. } => *kind,
        StartReply::Started { .. } => panic!("it started"),
    }
}

/// I9: exit codes are on disk, whoever was there to see.
#[test]
fn exit_code_and_output_are_recorded() {
    let lab = Lab::sh("echo out; echo err >&2; exit 7");
    let record = lab.start().wait();
    assert_eq!((record.code, record.signal), (Some(7), None));
    assert!(!record.stopped && !record.forced && !record.oom && !record.output_truncated);
    assert_eq!(record.output_bytes, 8);
    assert_eq!(lab.output().len(), 8);
    assert!(!lab.spec.dir.join(files::CONTROL).exists());
}

#[test]
fn the_signal_that_ended_the_leader_is_recorded() {
    let record = Lab::sh("kill -9 $$").start().wait();
    assert_eq!((record.code, record.signal), (None, Some(9)));
}

/// I9: nothing runs twice.
#[test]
fn of_two_shims_that_race_for_an_attempt_one_runs() {
    for _ in 0..10 {
        let mut lab = Lab::sh("echo once >> ran");
        lab.spec.append_output = true;
        let mut shims = [lab.spawn(), lab.spawn()];
        let mut started = 0;
        for shim in &mut shims {
            match reply(shim) {
                StartReply::Started { .. } => started += 1,
                StartReply::Failed { kind, .. } => assert_eq!(kind, StartErrorKind::AlreadyClaimed),
            }
        }
        assert_eq!(started, 1);
        for mut shim in shims {
            shim.wait().unwrap();
        }
        assert_eq!(fs::read_to_string(lab.path("ran")).unwrap(), "once\n");
        assert_eq!(lab.exit_record().code, Some(0));
    }
}

/// I9
#[test]
fn an_attempt_that_ended_is_never_run_again() {
    let lab = Lab::sh("exit 3");
    lab.start().wait();
    assert_eq!(kind(&lab.fail()), StartErrorKind::AlreadyClaimed);
    assert_eq!(lab.exit_record().code, Some(3));
}

/// OF-07
#[test]
fn a_planted_link_is_refused_and_its_target_untouched() {
    for name in ["output", "output.index"] {
        for append in [false, true] {
            let mut lab = Lab::sh("echo spoiled");
            lab.spec.append_output = append;
            fs::write(lab.path("target"), "precious").unwrap();
            std::os::unix::fs::symlink(lab.path("target"), lab.path(name)).unwrap();
            assert_eq!(kind(&lab.fail()), StartErrorKind::OutputRefused);
            assert_eq!(fs::read_to_string(lab.path("target")).unwrap(), "precious");
            assert_eq!(lab.exit_record().start_failed.unwrap().kind, StartErrorKind::OutputRefused);
        }
    }
}

/// OF-07
#[test]
fn a_hard_link_to_a_foreign_file_is_refused() {
    let mut lab = Lab::sh("echo spoiled");
    lab.spec.append_output = true;
    fs::write(lab.path("target"), "precious").unwrap();
    fs::hard_link(lab.path("target"), lab.path("output")).unwrap();
    assert_eq!(kind(&lab.fail()), StartErrorKind::OutputRefused);
    assert_eq!(fs::read_to_string(lab.path("target")).unwrap(), "precious");
}

#[test]
fn a_missing_program_is_told_from_one_that_is_not_executable() {
    let mut lab = Lab::sh("");
    lab.spec.argv = vec!["no-such-program-anywhere".to_owned()];
    assert_eq!(kind(&lab.fail()), StartErrorKind::NotFound);
    assert_eq!(lab.exit_record().start_failed.unwrap().errno, Some(2));

    let mut lab = Lab::sh("");
    fs::write(lab.path("plain"), "no program").unwrap();
    fs::set_permissions(lab.path("plain"), fs::Permissions::from_mode(0o600)).unwrap();
    lab.spec.argv = vec!["./plain".to_owned()];
    assert_eq!(kind(&lab.fail()), StartErrorKind::NotExecutable);
}

/// I14
#[test]
fn a_missing_working_directory_is_not_a_missing_program() {
    let mut lab = Lab::sh("true");
    lab.spec.cwd = lab.path("gone");
    assert_eq!(kind(&lab.fail()), StartErrorKind::CwdMissing);
    assert_eq!(lab.exit_record().start_failed.unwrap().kind, StartErrorKind::CwdMissing);
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let lab = Lab::sh("true");
    fs::set_permissions(&lab.spec.dir, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(kind(&lab.fail()), StartErrorKind::Other);
    assert!(files::read_claim(&lab.spec.dir).unwrap().is_none());
}

/// I14: secrets are on no command line, in no environment but the agent's, in no file.
#[test]
fn secrets_reach_the_agent_and_nothing_else() {
    let mut lab = Lab::sh("test \"$KEY\" = s3cret-value && echo ready; read line");
    lab.spec.stdin = StdinKind::Pipe;
    lab.spec.env.insert("KEY".to_owned(), "s3cret-value".to_owned());
    let running = lab.start();
    running.client_after("ready");
    let mut places: Vec<_> = ["cmdline", "environ"]
        .map(|name| format!("/proc/{}/{name}", running.shim.id()).into())
        .into_iter()
        .chain(fs::read_dir(&lab.spec.dir).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| !path.ends_with(files::CONTROL))
        .collect();
    places.push(lab.spec.output_file.clone());
    assert!(places.len() >= 5, "{places:?}");
    for place in places {
        let text = fs::read(&place).unwrap();
        for secret in ["s3cret-value", &lab.spec.token] {
            let found = text.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} holds a secret", place.display());
        }
    }
    let shown = format!("{:?}", lab.spec);
    assert!(!shown.contains("s3cret-value") && !shown.contains(&lab.spec.token));
}

#[test]
fn the_agent_gets_its_environment_and_marks_only() {
    let mut lab = Lab::sh("");
    lab.spec.argv = vec!["env".to_owned()];
    lab.start().wait();
    let mut lines: Vec<String> = lab.output().lines().map(str::to_owned).collect();
    lines.sort();
    // The token itself would let the agent take the daemon's place on the control socket.
    let mark = format!("CCAGENT_SHIM={}", ccagent_shim::files::token_hash(&lab.spec.token));
    assert_eq!(lines, [&mark, "CCAGENT_TASK_ID=agent_test", "PATH=/usr/bin:/bin"]);
}

#[test]
fn the_agent_starts_with_default_signals_and_three_descriptors() {
    let lab = Lab::sh("grep -E '^Sig(Blk|Ign)' /proc/self/status; ls -m /proc/$$/fd");
    lab.start().wait();
    let output = lab.output();
    assert!(output.contains("SigBlk:\t0000000000000000"), "{output}");
    let ignored = output.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    // 32 and 33 belong to the C library, which lets nobody change them.
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & !0x1_8000_0000, 0, "{output}");
    assert!(output.lines().any(|line| line == "0, 1, 2"), "{output}");
}

/// D62
#[test]
fn agent_and_shim_lead_sessions_of_their_own() {
    let mut lab = Lab::sh("read line");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let session = |pid: i32| {
        rustix::process::getsid(rustix::process::Pid::from_raw(pid)).unwrap().as_raw_nonzero().get()
    };
    assert_eq!(session(running.leader.pid), running.leader.pid);
    let shim = running.shim.id().cast_signed();
    assert_eq!(session(shim), shim);
    assert_eq!(fs::read_link(format!("/proc/{shim}/cwd")).unwrap().to_str(), Some("/"));
}

/// I9: the record is enough to find the attempt again.
#[test]
fn the_record_names_shim_and_leader() {
    let mut lab = Lab::sh("read line");
    lab.spec.stdin = StdinKind::Pipe;
    let running = lab.start();
    let record = files::read_shim(&lab.spec.dir).unwrap().unwrap();
    assert_eq!(record.pid, Some(running.leader.pid));
    assert_eq!(record.start_time, Some(running.leader.start_time));
    assert_eq!(same_process(record.shim_pid, record.shim_start), Liveness::Alive);
    assert_eq!(record.boot_id, files::boot_id().unwrap());
    assert_eq!(record.token_hash, files::token_hash(&lab.spec.token));
    let claim = files::read_claim(&lab.spec.dir).unwrap().unwrap();
    assert_eq!((claim.shim_pid, claim.shim_start), (record.shim_pid, record.shim_start));
    assert!(files::read_exit(&lab.spec.dir).unwrap().is_none());
}

/// I9: the daemon is killed right after it wrote the start line.
#[test]
fn a_daemon_that_died_before_the_reply_changes_nothing() {
    let lab = Lab::sh("echo done; exit 4");
    let mut shim = lab.spawn();
    drop((shim.stdin.take(), shim.stdout.take()));
    assert!(shim.wait().unwrap().success());
    assert_eq!(lab.exit_record().code, Some(4));
    assert_eq!(lab.output(), "done\n");
}

/// I9
#[test]
fn half_a_start_line_runs_nothing() {
    let lab = Lab::sh("echo ran");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ccagent-shim"));
    let piped = std::process::Stdio::piped;
    let mut shim = command.env_clear().stdin(piped()).stdout(piped()).spawn().unwrap();
    let line = ccagent_shim::wire::encode(&lab.spec).unwrap();
    shim.stdin.take().unwrap().write_all(&line[..line.len() / 2]).unwrap();
    assert_eq!(kind(&reply(&mut shim)), StartErrorKind::Other);
    assert!(!shim.wait().unwrap().success());
    assert!(files::read_claim(&lab.spec.dir).unwrap().is_none());
}

#[test]
fn a_directory_beyond_the_length_of_a_socket_address_works() {
    let mut lab = Lab::sh("read line");
    lab.spec.stdin = StdinKind::Pipe;
    lab.spec.dir = lab.path(&"d".repeat(200));
    fs::create_dir(&lab.spec.dir).unwrap();
    fs::set_permissions(&lab.spec.dir, fs::Permissions::from_mode(0o700)).unwrap();
    let running = lab.start();
    assert_eq!(running.client().1.descendants, 1);
}

/// C46
#[test]
fn the_memory_limit_is_the_agents() {
    let mut lab = Lab::sh("ulimit -v");
    lab.spec.max_memory_bytes = Some(512 << 20);
    lab.start().wait();
    assert_eq!(lab.output(), format!("{}\n", 512 << 10));
}

/// D52: the shim itself was killed; what it supervised is found by its marks.
#[test]
fn the_tree_of_a_killed_shim_can_be_found_and_ended() {
    let lab = Lab::sh("setsid sh -c 'trap \"\" TERM; echo ready; sleep 1000' & sleep 1000");
    let mut running = lab.start();
    running.client_after("ready");
    running.shim.kill().unwrap();
    running.shim.wait().unwrap();
    let leader = tree::open(running.leader).unwrap().expect("the leader lives on");
    let found = lab.marked();
    assert!(found.len() >= 3, "{found:?}");
    lab.kill_marked();
    let mut fds = [rustix::event::PollFd::new(&leader, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, None).unwrap();
    assert_eq!(lab.marked(), []);
}
