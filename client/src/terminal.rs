//! The terminal that this program runs in: its size, and a mode of its keys for as long as a guard lives.

use std::io::{self, IsTerminal};

use rustix::termios::{OptionalActions, SpecialCodeIndex, Termios};

/// Columns and rows, where stdout is a terminal.
pub(crate) fn size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// Drops what was typed and that nobody has read yet.
pub(crate) fn forget_typed() {
    // What is no terminal has nothing of the kind.
    rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush).ok();
}

/// How stdin takes keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// All of them go on as they are; nothing is changed on the way out either.
    Raw,
    /// As before, by lines and with Ctrl-C; but this key ends a line, so that it is heard at once.
    Lines(u8),
}

/// A mode of stdin; the old one comes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Mode(Termios);

impl Mode {
    /// Changes the mode of stdin; `None` where it is no terminal, or one that another job has.
    pub(crate) fn enter(keys: Keys) -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        let ours = |group| group == rustix::process::getpgrp();
        if !stdin.is_terminal() || !rustix::termios::tcgetpgrp(&stdin).is_ok_and(ours) {
            return Ok(None);
        }
        let before = rustix::termios::tcgetattr(&stdin)?;
        let mut mode = before.clone();
        match keys {
            Keys::Raw => mode.make_raw(),
            Keys::Lines(key) => {
                for index in SPECIAL {
                    if mode.special_codes[index] == key {
                        mode.special_codes[index] = DISABLED;
                    }
                }
                mode.special_codes[SpecialCodeIndex::VEOL] = key;
            }
        }
        rustix::termios::tcsetattr(&stdin, OptionalActions::Now, &mode)?;
        Ok(Some(Self(before)))
    }
}

/// Keys that a terminal in its usual mode keeps to itself.
const SPECIAL: [SpecialCodeIndex; 11] = [
    SpecialCodeIndex::VINTR,
    SpecialCodeIndex::VQUIT,
    SpecialCodeIndex::VERASE,
    SpecialCodeIndex::VKILL,
    SpecialCodeIndex::VEOF,
    SpecialCodeIndex::VSTART,
    SpecialCodeIndex::VSTOP,
    SpecialCodeIndex::VSUSP,
    SpecialCodeIndex::VREPRINT,
    SpecialCodeIndex::VWERASE,
    SpecialCodeIndex::VLNEXT,
];

/// `_POSIX_VDISABLE`: no key does this.
const DISABLED: u8 = 0;

impl Drop for Mode {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that went away.
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.0).ok();
    }
}
