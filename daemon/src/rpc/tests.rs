//! The edge as a client meets it: a small set of methods behind a real socket, in all framings.

mod batches;
mod bounds;
mod budget;
mod client;
mod ends;
mod foreground;
mod framings;
mod identity;
mod life;
mod mail;
mod methods;
mod pages;
mod places;
mod roles;
mod sessions;
mod tasks;
mod world;
