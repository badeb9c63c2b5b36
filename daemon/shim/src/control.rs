//! The control socket: at most one client, and at most one more that has not said hello yet.
//!
//! ```text
//! connect ─▶ greeting ──hello with the token──▶ client (an older one is dropped)
//!               └──anything else──▶ refused
//! ```
//!
//! A client may vanish or stop reading at any time; it is dropped and the agent never notices. What requests mean is
//! not decided here.

mod client;

use std::{
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixListener,
    },
    time::Instant,
};

use ccagent_shim::wire::{DaemonLine, OutputState, ShimLine};
use rustix::{net::sockopt::socket_peercred, process::getuid};

use client::{Client, Reading};

/// Which connection is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// The one that has not said hello.
    Greeting,
    /// The one that is served.
    Served,
}

/// What came in.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// A client has just been let in and wants to know where things stand.
    pub(crate) greeted: bool,
    /// Its requests in order.
    pub(crate) requests: Vec<DaemonLine>,
}

/// The socket and who is connected to it.
#[derive(Debug)]
pub(crate) struct Control {
    listener: UnixListener,
    token: String,
    greeting: Option<Client>,
    served: Option<Client>,
    told: Option<OutputState>,
}

impl Control {
    /// Serves a bound, non-blocking listener.
    pub(crate) fn new(listener: UnixListener, token: String) -> Self {
        Self { listener, token, greeting: None, served: None, told: None }
    }

    /// What to poll for new connections.
    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// What to poll for a connection, and whether it has something to write.
    pub(crate) fn connection(&self, seat: Seat) -> Option<(BorrowedFd<'_>, bool)> {
        let client = match seat {
            Seat::Greeting => self.greeting.as_ref(),
            Seat::Served => self.served.as_ref(),
        };
        client.map(|client| (client.fd(), client.wants_write()))
    }

    /// Lets a newcomer of our uid wait for its hello, in place of one that never said it.
    pub(crate) fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        let ours = socket_peercred(&stream).is_ok_and(|peer| peer.uid == getuid());
        if ours && stream.set_nonblocking(true).is_ok() {
            self.greeting = Some(Client::new(stream));
        }
    }

    /// Reads what a connection sent; one that ended or talks nonsense is gone afterwards.
    pub(crate) fn read(&mut self, seat: Seat) -> Incoming {
        let mut incoming = Incoming::default();
        let slot = match seat {
            Seat::Greeting => &mut self.greeting,
            Seat::Served => &mut self.served,
        };
        let Some(mut client) = slot.take() else {
            return incoming;
        };
        let reading = client.read(&mut incoming.requests);
        if seat == Seat::Greeting {
            match self.greet(client, reading, &mut incoming) {
                Some(client) if incoming.greeted => self.served = Some(client),
                still_waiting => self.greeting = still_waiting,
            }
        } else if reading == Reading::Open {
            self.served = Some(client);
        }
        incoming
    }

    fn greet(&mut self, mut client: Client, reading: Reading, incoming: &mut Incoming) -> Option<Client> {
        if incoming.requests.is_empty() {
            return (reading == Reading::Open).then_some(client);
        }
        match incoming.requests.remove(0) {
            DaemonLine::Hello { token } if token == self.token => {
                incoming.greeted = true;
                self.told = None;
                Some(client)
            }
            _ => {
                incoming.requests.clear();
                client.send(&ShimLine::Refused {
                    reason: "the first line is a hello with the token".to_owned(),
                });
                None
            }
        }
    }

    /// Sends a line to the served client, if there is one that still listens.
    pub(crate) fn send(&mut self, line: &ShimLine) {
        if self.served.as_mut().is_some_and(|client| !client.send(line)) {
            self.served = None;
        }
    }

    /// Drops the served client, which talks nonsense.
    pub(crate) fn hang_up(&mut self) {
        self.served = None;
    }

    /// Writes on what a connection did not take at once.
    pub(crate) fn flush(&mut self, seat: Seat) {
        let slot = match seat {
            Seat::Greeting => &mut self.greeting,
            Seat::Served => &mut self.served,
        };
        if slot.as_mut().is_some_and(|client| !client.flush()) {
            *slot = None;
        }
    }

    /// Takes this of the output as known to the client.
    pub(crate) fn knows_output(&mut self, output: OutputState) {
        self.told = Some(output);
        if let Some(client) = &mut self.served {
            client.credit = true;
        }
    }

    /// The client has used up the last `output` line.
    pub(crate) fn acknowledge_output(&mut self) {
        if let Some(client) = &mut self.served {
            client.credit = true;
        }
    }

    /// Announces what has become of the output where it is news and the client has asked for news.
    pub(crate) fn announce_output(&mut self, output: OutputState) {
        let has_credit = self.served.as_ref().is_some_and(|client| client.credit);
        if has_credit && self.told.as_ref().is_some_and(|told| *told != output) {
            self.told = Some(output.clone());
            if let Some(client) = &mut self.served {
                client.credit = false;
            }
            self.send(&ShimLine::Output(output));
        }
    }

    /// Says the last line and waits for it to leave, but not beyond the deadline: it is on disk as well.
    pub(crate) fn farewell(mut self, line: &ShimLine, deadline: Instant) {
        self.send(line);
        while let Some(client) = &mut self.served {
            if !client.wants_write() || !client.await_room(deadline) || !client.flush() {
                break;
            }
        }
    }
}
