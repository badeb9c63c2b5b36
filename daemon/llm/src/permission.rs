//! What an agent may do unasked.
mod mode;
pub use mode::Mode;
