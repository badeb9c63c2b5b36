//! Placeholder.

pub mod store;
