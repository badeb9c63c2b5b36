//! Versions of the protocol and of the project.

/// The protocol that this build speaks; a break of shapes raises it, growth does not.
pub const PROTOCOL: u32 = 1;

/// The project's version.
pub const PACKAGE: &str = env!("CARGO_PKG_VERSION");
