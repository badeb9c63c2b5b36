//! The terminal that this program runs in: its size, and raw mode for as long as a guard lives.

use std::io::{self, IsTerminal};

use rustix::termios::{OptionalActions, Termios};

/// Columns and rows, where stdout is a terminal.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Raw mode of stdin; the old mode comes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Raw(Termios);

impl Raw {
    /// Puts stdin into raw mode; `None` where it is no terminal.
    pub(crate) fn enter() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = rustix::termios::tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        rustix::termios::tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Some(Self(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that went away.
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.0).ok();
    }
}
