//! The contract between the daemon and the shim of one process agent.
//!
//! The binary of this crate supervises one process; this library holds what both sides must agree on: the lines they
//! exchange ([`wire`]), the files an attempt leaves behind ([`files`]), how a file of ours is opened where an agent writes
//! too ([`owned`]), how an argv is confined ([`confined`]) and to what ([`place`]), the index beside an output file ([`index`], [`timeline`]) and how a process tree is found and signalled safely
//! ([`tree`]). Supervision itself is deliberately not here: the daemon can only reach it through these eight.

pub mod confined;
pub mod files;
pub mod index;
pub mod owned;
pub mod place;
pub mod timeline;
pub mod tree;
pub mod wire;
