//! The rules of the core, noun by noun, over the calls of the contract and a clock of our own.

#[cfg(test)]
mod ask;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod confine;
#[cfg(test)]
mod desk;
#[cfg(test)]
mod idempotency;
mod inside;
#[cfg(test)]
mod lead;
#[cfg(test)]
mod mailbox;
#[cfg(test)]
mod message;
#[cfg(test)]
mod notification;
#[cfg(test)]
mod permission;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod question;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod resume;
#[cfg(test)]
mod role;
mod run;
#[cfg(test)]
mod session;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod task;
#[cfg(test)]
mod tasklist;
#[cfg(test)]
mod team;
#[cfg(test)]
mod team_lead;
#[cfg(test)]
mod texts;
