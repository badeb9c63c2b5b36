//! One budget for the large messages of all connections: for their bytes while they are not whole, and while what they
//! ask is not answered. Each connection alone has bounds of its own; thousands of them together would still take all
//! the memory.
//!
//! A small message needs none of it, so whoever finds it spent can still look and stop. Agents and teammates get half
//! of it together: a person finds room whatever they do.
//!
//! Deliberately not here: what becomes of a message that finds no room. Each framing discards it in its own way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::connection::Connection;

/// Bytes of a message that needs no share at most.
pub(crate) const SMALL: usize = 64 << 10;

/// The budget.
#[derive(Debug)]
pub struct Budget {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    /// So many of them by agents and teammates.
    of_agents: usize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// How many bytes there are.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// How many bytes are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.lock().bytes
    }

    /// Makes a share that was so large so large; it always may shrink.
    fn exchange(&self, old: usize, new: usize, payer: Payer) -> bool {
        let mut taken = self.lock();
        let bytes = (taken.bytes - old).saturating_add(new);
        let (of_agents, fits) = match payer {
            Payer::Person => (taken.of_agents, bytes <= self.most),
            Payer::Agent => {
                let of_agents = (taken.of_agents - old).saturating_add(new);
                (of_agents, bytes <= self.most && of_agents <= self.most / 2)
            }
        };
        let may = new <= old || fits;
        if may {
            *taken = Taken { bytes, of_agents };
        }
        may
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose half a share is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payer {
    Person,
    Agent,
}

/// What one message of a connection takes; it goes back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    connection: Arc<Connection>,
    bytes: usize,
    payer: Payer,
}

impl Share {
    /// A share of this connection that has taken nothing yet.
    pub(crate) fn of(connection: &Arc<Connection>) -> Self {
        Self { connection: Arc::clone(connection), bytes: 0, payer: Payer::Agent }
    }

    /// Takes what a message of so many bytes needs, all in all; where there is no room for it, what was taken stays.
    #[must_use]
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let needed = if bytes > SMALL { bytes } else { 0 };
        if self.bytes == 0 {
            // A connection may become someone else: what is taken goes back to where it came from.
            self.payer = if self.connection.is_operator() { Payer::Person } else { Payer::Agent };
        }
        let held = self.connection.budget().exchange(self.bytes, needed, self.payer);
        if held {
            self.bytes = needed;
        }
        held
    }

    /// Gives all of it back.
    pub(crate) fn release(&mut self) {
        self.connection.budget().exchange(self.bytes, 0, self.payer);
        self.bytes = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ccagent_core::Who;
    use ccagent_proto::TaskId;
    use uuid::Uuid;

    use super::super::peer::{Environment, Peer};
    use super::*;

    /// A connection that pays from this budget.
    pub(crate) fn connection(who: Who, budget: &Arc<Budget>) -> Arc<Connection> {
        Connection::new(1, Peer::own(), who, Environment::default(), Arc::clone(budget))
    }

    /// I8: small messages need no share; large ones of all connections together find room up to the bound, and what is
    /// let go is room again.
    #[test]
    fn large_messages_of_all_connections_share_one_budget() {
        let budget = Budget::new(4 * SMALL);
        let one = connection(Who::Operator, &budget);
        let (mut first, mut second) = (Share::of(&one), Share::of(&connection(Who::Operator, &budget)));
        assert!(first.hold(SMALL) && budget.taken() == 0);
        assert!(first.hold(2 * SMALL) && first.hold(3 * SMALL) && budget.taken() == 3 * SMALL);
        assert!(!second.hold(SMALL + 1) || budget.taken() <= 4 * SMALL);
        assert!(!second.hold(2 * SMALL) && second.hold(SMALL));
        drop(first);
        assert!(second.hold(4 * SMALL) && !second.hold(4 * SMALL + 1));
        second.release();
        assert_eq!(budget.taken(), 0);
    }

    /// I8, SV-05: agents and teammates get half together, however many connections they have; a person gets what is left.
    #[test]
    fn agents_leave_room_for_a_person() {
        let budget = Budget::new(8 * SMALL);
        let agent = || Share::of(&connection(Who::Agent(TaskId(Uuid::from_u128(1))), &budget));
        let (mut first, mut second) = (agent(), agent());
        assert!(first.hold(2 * SMALL) && second.hold(2 * SMALL) && !second.hold(2 * SMALL + 1));
        assert!(Share::of(&connection(Who::Operator, &budget)).hold(4 * SMALL));
        // Who became an agent meanwhile gives back what it took as a person.
        let late = connection(Who::Operator, &budget);
        let mut share = Share::of(&late);
        assert!(share.hold(4 * SMALL));
        late.become_who(Who::Agent(TaskId(Uuid::from_u128(1))));
        share.release();
        assert!(!share.hold(2 * SMALL));
        drop((first, second));
        assert_eq!(budget.taken(), 0);
    }
}
