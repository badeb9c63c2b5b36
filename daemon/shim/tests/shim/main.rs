//! The real shim, driven as the daemon drives it. Nothing here sleeps: every wait is for a line, an end or a file.

#![cfg(test)]

mod confine;
mod control;
mod harness;
mod output;
mod start;
mod stdin;
mod stop;
mod tether;
