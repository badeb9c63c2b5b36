//! A program's input: one write after the other, and of each write one piece after the other.
//!
//! ```text
//! idle ─begin─▶ waiting ─next─▶ under way ─settled─▶ waiting … ─▶ answered, idle
//!                  ▲                │
//!                  ├── no room ─────┤  until something else was written
//!                  └── never taken ─┘  said by the shim after a new hello
//! ```
//!
//! A piece follows only after the one before it has reached the program: so nothing is left out in the middle, and
//! who is told "written" was told the truth. Deliberately not here: a time limit. A program may read as late as it
//! likes; who does not want to wait gives up the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ccagent_proto::{Error, TaskId};
use ccagent_shim::wire::{DaemonLine, State, StdinError};
use tokio::sync::oneshot;

use super::ended;

/// Bytes of one piece: a quarter of what the shim keeps for a program that does not read.
const PIECE: usize = 64 << 10;

/// Bytes on their way to a program.
#[derive(Debug)]
pub(super) struct Write {
    /// What to write.
    pub(super) bytes: Vec<u8>,
    /// Whether the input ends after it.
    pub(super) eof: bool,
    /// How much of it has reached the program, for who gives it up.
    pub(super) written: Arc<AtomicU64>,
    /// Who waits for the outcome.
    pub(super) reply: oneshot::Sender<Result<(), Error>>,
}

/// The input of one attempt.
#[derive(Debug, Default)]
pub(super) struct Input {
    current: Option<Current>,
    /// The last number that was given to a piece, by whichever daemon.
    seq: u64,
    /// Whether the shim listens and has said how far it is.
    greeted: bool,
}

#[derive(Debug)]
struct Current {
    write: Write,
    written: usize,
    piece: Piece,
}

/// Where the next piece of a write is.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// With us.
    Waiting,
    /// With the shim, or on the way there.
    UnderWay { seq: u64, bytes: usize },
    /// With us, until the shim has written something of an earlier daemon's.
    NoRoom,
}

impl Input {
    /// Whether another write may begin.
    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// Takes a write; only when idle.
    pub(super) fn begin(&mut self, write: Write) {
        self.current = Some(Current { write, written: 0, piece: Piece::Waiting });
    }

    /// The piece to send now, if there is one.
    pub(super) fn next(&mut self) -> Option<DaemonLine> {
        let current =
            self.current.as_mut().filter(|current| self.greeted && current.piece == Piece::Waiting)?;
        if current.write.reply.is_closed() {
            // Its caller gave up: the rest is not wanted any more.
            self.current = None;
            return None;
        }
        let rest = current.write.bytes.get(current.written..).unwrap_or_default();
        let piece = rest.get(..PIECE).unwrap_or(rest);
        let eof = current.write.eof && piece.len() == rest.len();
        self.seq += 1;
        current.piece = Piece::UnderWay { seq: self.seq, bytes: piece.len() };
        Some(DaemonLine::stdin(piece, eof, self.seq))
    }

    /// The shim says what became of a piece.
    pub(super) fn settled(&mut self, task: TaskId, seq: u64, error: Option<StdinError>) {
        let Some(current) = &mut self.current else { return };
        match current.piece {
            Piece::UnderWay { seq: ours, bytes } if ours == seq => match error {
                None => self.reached(bytes),
                Some(StdinError::Full) => current.piece = Piece::NoRoom,
                Some(StdinError::Closed) => self.fail(ended(task).with("cause", "stdinClosed")),
            },
            // A piece that an earlier daemon left made room.
            Piece::NoRoom => current.piece = Piece::Waiting,
            Piece::UnderWay { .. } | Piece::Waiting => {}
        }
    }

    /// The shim says where things stand: a piece that was under way when the last connection broke was written, waits
    /// there, or never came.
    pub(super) fn greeted(&mut self, state: &State) {
        self.greeted = true;
        self.seq = self.seq.max(state.stdin_seq.unwrap_or(0)).max(state.stdin_waiting.unwrap_or(0));
        let Some(current) = &mut self.current else { return };
        match current.piece {
            Piece::UnderWay { seq, bytes } if state.stdin_seq == Some(seq) => self.reached(bytes),
            Piece::UnderWay { seq, .. } if state.stdin_waiting == Some(seq) => {}
            Piece::UnderWay { .. } | Piece::NoRoom | Piece::Waiting => current.piece = Piece::Waiting,
        }
    }

    /// The connection is gone.
    pub(super) fn cut(&mut self) {
        self.greeted = false;
    }

    /// The program is gone: what it does not have by now it never gets.
    pub(super) fn end(&mut self, task: TaskId) {
        self.fail(ended(task));
    }

    fn reached(&mut self, bytes: usize) {
        let Some(mut current) = self.current.take() else { return };
        current.written += bytes;
        current.write.written.store(current.written as u64, Ordering::Relaxed);
        if current.written == current.write.bytes.len() {
            drop(current.write.reply.send(Ok(())));
        } else {
            current.piece = Piece::Waiting;
            self.current = Some(current);
        }
    }

    fn fail(&mut self, error: Error) {
        if let Some(current) = self.current.take() {
            drop(current.write.reply.send(Err(error.with("written", current.written))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = oneshot::Receiver<Result<(), Error>>;

    fn state(stdin_seq: Option<u64>, stdin_waiting: Option<u64>) -> State {
        State {
            leader_exited: None,
            output_bytes: 0,
            output_truncated: false,
            output_error: None,
            descendants: 1,
            stdin_seq,
            stdin_waiting,
            answers_resize: true,
            closes_output: true,
        }
    }

    fn input(len: usize, eof: bool) -> (Input, Answer) {
        let (reply, answer) = oneshot::channel();
        let mut input = Input::default();
        input.begin(Write { bytes: vec![b'x'; len], eof, written: Arc::default(), reply });
        (input, answer)
    }

    fn sent(input: &mut Input) -> Option<(usize, bool, u64)> {
        match input.next()? {
            DaemonLine::Stdin { data, eof, seq } => Some((data.len() / 4 * 3, eof, seq)),
            other => panic!("{other:?}"),
        }
    }

    fn task() -> TaskId {
        "agent_01890000-0000-7000-8000-0000000000ff".parse().unwrap()
    }

    /// CD-03, I8: the caller hears of success when the last piece has reached the program, and of nothing before.
    #[test]
    fn pieces_follow_one_another() {
        let (mut input, mut answer) = input(2 * PIECE + 3, true);
        assert_eq!(sent(&mut input), None, "the shim has not said how far it is");
        input.greeted(&state(Some(7), Some(9)));
        for (place, seq) in (10..13).enumerate() {
            let (_, eof, number) = sent(&mut input).unwrap();
            assert_eq!((number, eof), (seq, place == 2));
            assert_eq!(sent(&mut input), None, "one at a time");
            assert!(answer.try_recv().is_err());
            input.settled(task(), seq, None);
        }
        assert_eq!(answer.try_recv().unwrap(), Ok(()));
        assert!(input.is_idle());
    }

    /// CD-03: a piece that found no room is sent again, and none is left out.
    #[test]
    fn a_piece_without_room_is_sent_again() {
        let (mut input, mut answer) = input(PIECE + 1, false);
        input.greeted(&state(None, Some(4)));
        assert_eq!(sent(&mut input).unwrap().2, 5);
        input.settled(task(), 5, Some(StdinError::Full));
        assert_eq!(sent(&mut input), None);
        input.settled(task(), 4, None);
        assert_eq!(sent(&mut input).unwrap().2, 6);
        input.settled(task(), 6, None);
        assert_eq!(sent(&mut input).unwrap().2, 7);
        input.settled(task(), 7, None);
        assert_eq!(answer.try_recv().unwrap(), Ok(()));
    }

    /// CD-03: who is refused hears how much the program has, and is not told to try again.
    #[test]
    fn a_write_that_is_cut_off_says_how_much_was_written() {
        let (mut input, mut answer) = input(2 * PIECE, false);
        input.greeted(&state(None, None));
        let (_, _, seq) = sent(&mut input).unwrap();
        input.settled(task(), seq, None);
        let (_, _, seq) = sent(&mut input).unwrap();
        input.settled(task(), seq, Some(StdinError::Closed));
        let error = answer.try_recv().unwrap().unwrap_err();
        assert_eq!(error.data.get("written"), Some(&PIECE.into()));
        assert!(!error.kind.retryable());
    }

    /// I16: after a broken connection a piece is neither lost nor written twice.
    #[test]
    fn a_broken_connection_neither_loses_nor_repeats_a_piece() {
        for (after, repeated) in
            [(state(Some(1), None), None), (state(None, Some(1)), None), (state(None, None), Some(2))]
        {
            let (mut input, _answer) = input(1, false);
            input.greeted(&state(None, None));
            assert_eq!(sent(&mut input).unwrap().2, 1);
            input.cut();
            assert_eq!(sent(&mut input), None);
            input.greeted(&after);
            assert_eq!(sent(&mut input).map(|(_, _, seq)| seq), repeated, "{after:?}");
        }
    }

    /// CD-03: of a call that was given up nothing more is written, and how much was can be told.
    #[test]
    fn a_given_up_write_ends_after_its_piece() {
        let (mut input, answer) = input(2 * PIECE, false);
        let written = input.current.as_ref().unwrap().write.written.clone();
        input.greeted(&state(None, None));
        let (_, _, seq) = sent(&mut input).unwrap();
        drop(answer);
        assert_eq!(written.load(Ordering::Relaxed), 0);
        input.settled(task(), seq, None);
        assert_eq!(sent(&mut input), None);
        assert!(input.is_idle());
        assert_eq!(written.load(Ordering::Relaxed), PIECE as u64);
    }
}
