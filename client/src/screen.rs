//! What goes to stderr, for the eye alone. A terminal that went away, a reader that ended and a full disk take it, and
//! nothing else: whatever is to be done is done all the same.

use std::fmt;
use std::io::Write;

/// Writes a line.
pub(crate) fn line(text: impl fmt::Display) {
    // There is no other place to say that it can't be said.
    writeln!(anstream::stderr(), "{text}").ok();
}

/// Rings the bell.
pub(crate) fn bell() {
    anstream::stderr().write_all(b"\x07").ok();
}
