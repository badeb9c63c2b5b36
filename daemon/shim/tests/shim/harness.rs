//! One attempt in a directory of its own, and a client of its control socket.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::DirBuilderExt, net::UnixStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use ccagent_shim::{
    files, tree,
    wire::{self, DaemonLine, ExitRecord, ShimLine, StartReply, StartSpec, State, StdinKind},
};
use tempfile::TempDir;

/// Longer than anything takes; a test that gets there has failed.
const PATIENCE: Duration = Duration::from_mins(1);

/// An attempt that has not started.
pub(crate) struct Lab {
    pub(crate) root: TempDir,
    pub(crate) spec: StartSpec,
}

impl Lab {
    /// An attempt that runs a shell script.
    pub(crate) fn sh(script: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("attempt");
        fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
        let token = root.path().file_name().unwrap().to_str().unwrap().to_owned();
        let env = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        let spec = StartSpec {
            task_id: "agent_test".to_owned(),
            attempt: 1,
            token: format!("token{token}"),
            dir,
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            cwd: root.path().to_owned(),
            env,
            stdin: StdinKind::Null,
            cols: None,
            rows: None,
            output_file: root.path().join("output"),
            append_output: false,
            max_output_bytes: 1 << 30,
            output_rate: 0,
            max_memory_bytes: None,
            open_files: None,
            cgroup: None,
        };
        Self { root, spec }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.spec.output_file).unwrap()).into_owned()
    }

    /// A shim with the start line written to it.
    pub(crate) fn spawn(&self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccagent-shim"));
        let mut shim = command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let line = wire::encode(&self.spec).unwrap();
        shim.stdin.as_mut().unwrap().write_all(&line).unwrap();
        shim
    }

    /// Starts it and expects it to run.
    pub(crate) fn start(&self) -> Running<'_> {
        let mut shim = self.spawn();
        match reply(&mut shim) {
            StartReply::Started { shim_pid, pid, start_time, .. } => {
                assert_eq!(shim_pid.cast_unsigned(), shim.id());
                Running { lab: self, shim, leader: tree::Process { pid, start_time } }
            }
            failed @ StartReply::Failed { .. } => panic!("{failed:?}"),
        }
    }

    /// Starts it and expects that nothing runs.
    pub(crate) fn fail(&self) -> StartReply {
        let mut shim = self.spawn();
        let reply = reply(&mut shim);
        assert!(!shim.wait().unwrap().success());
        reply
    }

    /// The living processes of the agent that carry its marks, and those below them.
    pub(crate) fn marked(&self) -> Vec<tree::Process> {
        let hashes = [files::token_hash(&self.spec.token)];
        tree::find_marked(&self.spec.task_id, &hashes, drop).unwrap().found
    }

    /// Kills them until there is none.
    pub(crate) fn kill_marked(&self) {
        loop {
            let marked = self.marked();
            if marked.is_empty() {
                return;
            }
            for process in marked {
                tree::send(process, rustix::process::Signal::KILL).ok();
            }
        }
    }

    pub(crate) fn exit_record(&self) -> ExitRecord {
        files::read_exit(&self.spec.dir).unwrap().expect("an exit record")
    }
}

/// The one line that a shim says on its stdout, and the end after it.
pub(crate) fn reply(shim: &mut Child) -> StartReply {
    let mut text = String::new();
    shim.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    wire::decode(text.as_bytes()).unwrap()
}

/// A started attempt.
pub(crate) struct Running<'a> {
    lab: &'a Lab,
    pub(crate) shim: Child,
    pub(crate) leader: tree::Process,
}

impl Running<'_> {
    /// A connection that has not said hello.
    pub(crate) fn connect(&self) -> Client {
        let shim = tree::stat::read(self.shim.id().cast_signed()).unwrap().unwrap().process();
        let stream = files::connect_control(&self.lab.spec.dir, shim).unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { lines: BufReader::new(stream) }
    }

    /// A client that is let in, and the state it is told.
    pub(crate) fn client(&self) -> (Client, State) {
        let mut client = self.connect();
        client.send(&DaemonLine::Hello { token: self.lab.spec.token.clone() });
        match client.next() {
            Some(ShimLine::State(state)) => (client, state),
            other => panic!("{other:?}"),
        }
    }

    /// A client, once the output holds this text.
    pub(crate) fn client_after(&self, text: &str) -> Client {
        let (mut client, _) = self.client();
        client.await_output(self.lab, text);
        client
    }

    /// Waits for the shim's end and reads what it left.
    pub(crate) fn wait(mut self) -> ExitRecord {
        assert!(self.shim.wait().unwrap().success());
        self.lab.exit_record()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if matches!(self.shim.try_wait(), Ok(None)) {
            self.shim.kill().ok();
            self.shim.wait().ok();
        }
        self.lab.kill_marked();
    }
}

/// A connection to the control socket.
pub(crate) struct Client {
    lines: BufReader<UnixStream>,
}

impl Client {
    pub(crate) fn send(&mut self, line: &DaemonLine) {
        self.send_bytes(&wire::encode(line).unwrap());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.lines.get_mut().write_all(bytes).unwrap();
    }

    /// Allows the next announcement; the shim may have ended since it made this one.
    fn acknowledge(&mut self) {
        self.try_send_bytes(&wire::encode(&DaemonLine::OutputAck {}).unwrap()).ok();
    }

    pub(crate) fn try_send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.lines.get_mut().write_all(bytes)
    }

    /// The next line; `None` when the shim closed the connection.
    pub(crate) fn next(&mut self) -> Option<ShimLine> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(wire::decode(line.as_bytes()).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next line that is none about output.
    pub(crate) fn next_fact(&mut self) -> Option<ShimLine> {
        loop {
            match self.next() {
                Some(ShimLine::Output(_)) => self.acknowledge(),
                other => return other,
            }
        }
    }

    /// The last line, whatever is said before it.
    pub(crate) fn exited(&mut self) -> ExitRecord {
        loop {
            match self.next() {
                Some(ShimLine::Exited(record)) => return record,
                Some(_) => {}
                None => panic!("closed without a last line"),
            }
        }
    }

    /// Waits until the output holds this text, whatever else is said meanwhile.
    pub(crate) fn await_output(&mut self, lab: &Lab, text: &str) {
        while !lab.output().contains(text) {
            match self.next() {
                Some(ShimLine::Output(_)) => self.acknowledge(),
                Some(_) => {}
                None => panic!("the end before {text:?}"),
            }
        }
    }
}
