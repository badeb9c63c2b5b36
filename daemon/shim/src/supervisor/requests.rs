//! What the daemon's requests do to a running attempt.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use ccagent_shim::wire::{DaemonLine, ResizeError, ShimLine};

use super::Supervisor;
use crate::control::Seat;

impl Supervisor {
    /// Reads a connection and does what it asks for.
    pub(super) fn take_requests(&mut self, seat: Seat) {
        let incoming = self.control.read(seat);
        if incoming.greeted {
            self.control.knows_output(self.sink.state());
            let state = self.state();
            self.control.send(&ShimLine::State(state));
        }
        for request in incoming.requests {
            self.take_request(request);
        }
    }

    fn take_request(&mut self, request: DaemonLine) {
        match request {
            // A second hello changes nothing.
            DaemonLine::Hello { .. } => {}
            DaemonLine::Stop { grace_ms } => {
                self.stop.ask(Duration::from_millis(grace_ms), self.cgroup.as_ref());
            }
            DaemonLine::Kill {} => self.stop.ask(Duration::ZERO, self.cgroup.as_ref()),
            DaemonLine::Stdin { data, eof, seq } => self.take_stdin(&data, eof, seq),
            DaemonLine::Resize { cols, rows } => {
                let error = match &self.terminal {
                    None => Some(ResizeError::NoTerminal),
                    // A size that the kernel refuses leaves the old one.
                    Some(terminal) => terminal.resize(cols, rows).err().map(|_| ResizeError::Refused),
                };
                self.control.send(&ShimLine::Resized { cols, rows, error });
            }
            DaemonLine::OutputAck {} => self.control.acknowledge_output(),
            DaemonLine::CloseOutput {} => self.sink.close(),
        }
    }

    fn take_stdin(&mut self, data: &str, eof: bool, seq: u64) {
        let Ok(bytes) = BASE64_STANDARD.decode(data) else {
            self.control.hang_up();
            return;
        };
        match self.stdin.push(seq, bytes, eof) {
            Ok(()) => self.write_stdin(),
            Err(error) => self.control.send(&ShimLine::StdinDone { seq, error: Some(error) }),
        }
    }
}
