//! A typed client of ccagentd: connect to its socket, call its methods, follow its subscriptions, and start it where
//! it doesn't run.
//!
//! ```text
//! Client::connect(path)                 a daemon that runs
//! start::connect_or_start(&place, …)    or starts one, once, whoever races
//! client.call::<TaskGet>(params)        a typed result, or Error::Rpc with its kind
//! client.subscribe::<TaskFollow>(…)     a stream of typed items
//! Lasting::begin(client, …)             the same calls over one daemon after the other
//! ```
//!
//! Deliberately not here: state. A client may die at any time and loses nothing.

pub mod connection;
pub mod error;
pub mod lasting;
pub mod place;
pub mod start;
pub mod subscription;
mod transport;

pub use connection::Client;
pub use error::{Error, RpcError};
pub use lasting::Lasting;
pub use place::Place;
pub use subscription::Subscription;
