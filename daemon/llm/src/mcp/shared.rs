//! Connections that agents have in common: a lead and the teammates of its team that work inside the daemon speak with a
//! server over one connection, and its program runs once (CX-17).
//!
//! ```text
//! the first ─ opens ─▶ one, two, … use it ─ one leaves ─▶ the program is another's ─ the last leaves ─▶ ended
//!                       ▲ next turn   │ a lead's turn ends                        a while, or a closed session ▲
//!                       └──────────── rests ───────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A session's lead is there between two turns, and so is what a server knows of it. A program that several use acts for
//! none of them: what one tells it would be done as another. What differs in anything that a server could tell, its place,
//! its environment, where it may write, is another connection. A connection that is over, or never came about, is
//! nobody's: who comes later opens one anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::config::Server;
use super::connect::{Line, Means};

/// How long a connection is kept for a lead's next turn.
const REST: Duration = Duration::from_mins(5);
/// Variables that say who an agent is, and nothing that its servers are started for.
const IDENTITY: &str = "CCAGENT_";

/// The connections of all agents.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<BTreeMap<String, Vec<Weak<Held>>>>>);

/// Who uses servers.
#[derive(Clone, Debug, Default)]
pub struct User {
    /// Its task.
    pub task: String,
    /// The task whose connections it shares: its team's lead, or itself.
    pub circle: String,
}

/// A connection, and who uses it.
#[derive(Debug)]
struct Held {
    server: Server,
    of: Of,
    users: Mutex<Vec<Task>>,
    /// Whether several tasks have used it: it may do for one what another one told it.
    several: AtomicBool,
    opened: OnceCell<Result<Line, String>>,
    /// Nobody rests any more.
    closed: CancellationToken,
}

/// A task that uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    id: String,
    /// Whether it has no turn just now.
    rests: bool,
}

/// What a server could tell apart of those who start it.
#[derive(PartialEq, Eq)]
struct Of {
    env: BTreeMap<String, String>,
    cwd: PathBuf,
    writable: Vec<PathBuf>,
}

/// There may be secrets in variables.
impl std::fmt::Debug for Of {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Of").field("cwd", &self.cwd).field("writable", &self.writable).finish_non_exhaustive()
    }
}

impl Of {
    fn new(means: &Means) -> Self {
        let tells = |(name, _): &(&String, &String)| !name.starts_with(IDENTITY);
        let env = means.env.iter().filter(tells);
        Self {
            env: env.map(|(name, value)| (name.clone(), value.clone())).collect(),
            cwd: means.cwd.clone(),
            writable: means.writable.clone(),
        }
    }
}

impl Held {
    fn users(&self) -> MutexGuard<'_, Vec<Task>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, task: Task) {
        let mut users = self.users();
        self.several.fetch_or(users.iter().any(|user| user.id != task.id), Ordering::Relaxed);
        users.push(task);
        self.belongs_to(&users);
    }

    fn leave(&self, task: &Task) {
        let mut users = self.users();
        if let Some(at) = users.iter().position(|user| user == task) {
            users.remove(at);
        }
        self.belongs_to(&users);
    }

    /// Whether somebody who comes now can use it.
    fn is_fit(&self, server: &Server, of: &Of) -> bool {
        let works =
            self.opened.get().is_none_or(|opened| opened.as_ref().is_ok_and(|opened| !opened.is_over()));
        works && self.server == *server && self.of == *of
    }

    /// Says of its program whose it is: of those who have a turn that of the one who is there the longest; the last one's
    /// stays that one's.
    fn belongs_to(&self, users: &[Task]) {
        let owner = users.iter().find(|user| !user.rests).or_else(|| users.first());
        if let (Some(Ok(opened)), Some(owner)) = (self.opened.get(), owner) {
            opened.belongs_to(&owner.id, (owner.rests, self.several.load(Ordering::Relaxed)));
        }
    }
}

/// That somebody uses a connection. Dropping it ends a connection that nobody uses any more; [`end`](Self::end) lets it
/// end by itself first.
#[derive(Debug)]
pub(super) struct Use {
    held: Option<Arc<Held>>,
    task: Task,
}

impl Shared {
    /// A connection to a server for somebody, which is not open yet where nobody else uses it.
    pub(super) fn of(&self, server: &Server, means: &Means, user: &User) -> Use {
        let of = Of::new(means);
        let mut circles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        circles.retain(|_, all| {
            all.retain(|held| held.strong_count() > 0);
            !all.is_empty()
        });
        let all = circles.entry(user.circle.clone()).or_default();
        let fit = all.iter().filter_map(Weak::upgrade).find(|held| held.is_fit(server, &of));
        let held = fit.unwrap_or_else(|| {
            let new = Arc::new(Held {
                server: server.clone(),
                of,
                users: Mutex::default(),
                several: AtomicBool::new(false),
                opened: OnceCell::new(),
                closed: CancellationToken::new(),
            });
            all.push(Arc::downgrade(&new));
            new
        });
        let task = Task { id: user.task.clone(), rests: false };
        held.join(task.clone());
        Use { held: Some(held), task }
    }

    /// Ends what rests for a lead that has no next turn.
    pub fn close(&self, circle: &str) {
        let circles = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = circles.get(circle).into_iter().flatten().filter_map(Weak::upgrade);
        held.for_each(|held| held.closed.cancel());
    }
}

impl Use {
    /// The connection, opened by the first who asks; who comes meanwhile waits for it, and goes on with it where that one
    /// is stopped.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn opened(
        &self,
        open: impl Future<Output = Result<Line, String>>,
    ) -> Result<&Line, String> {
        let held = self.held.as_ref().ok_or("it has ended")?;
        let opened = held.opened.get_or_init(|| open).await.as_ref().map_err(Clone::clone)?;
        // Who came meanwhile is known by now.
        held.belongs_to(&held.users());
        Ok(opened)
    }

    /// Ends the connection, where nobody else uses it.
    pub(super) async fn end(mut self) {
        let last = self.leave().and_then(Arc::into_inner).and_then(|held| held.opened.into_inner());
        if let Some(Ok(opened)) = last {
            opened.end().await;
        }
    }

    /// Keeps the connection for a while, then ends it.
    pub(super) async fn rest(mut self) {
        let Some(held) = &self.held else { return };
        let rests = Task { id: self.task.id.clone(), rests: true };
        held.join(rests.clone());
        held.leave(&std::mem::replace(&mut self.task, rests));
        drop(tokio::time::timeout(REST, held.closed.cancelled()).await);
        self.end().await;
    }

    fn leave(&mut self) -> Option<Arc<Held>> {
        let held = self.held.take()?;
        held.leave(&self.task);
        Some(held)
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::config::Way;
    use super::*;

    fn server(command: &str) -> Server {
        Server {
            name: "all".to_owned(),
            way: Way::Stdio { command: command.to_owned(), args: Vec::new(), env: BTreeMap::new() },
            timeout: Duration::from_mins(1),
            path: "/project/.mcp.json".into(),
        }
    }

    fn means(variable: &str, value: &str, cwd: &Path, writable: &[&Path]) -> Means {
        Means {
            shim: PathBuf::new(),
            env: BTreeMap::from([(variable.to_owned(), value.to_owned())]),
            cwd: cwd.to_owned(),
            writable: writable.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    fn user(task: &str, circle: &str) -> User {
        User { task: task.to_owned(), circle: circle.to_owned() }
    }

    fn are_one(one: &Use, other: &Use) -> bool {
        one.held.as_ref().zip(other.held.as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
    }

    fn users(used: &Use) -> Vec<String> {
        let name = |task: &Task| if task.rests { format!("({})", task.id) } else { task.id.clone() };
        used.held.as_ref().unwrap().users().iter().map(name).collect()
    }

    /// CX-17, SP-30: what a lead leaves rests for its next turn, as long as its session is open.
    #[tokio::test]
    async fn a_connection_rests_until_its_session_is_closed() {
        let shared = Shared::default();
        let (server, means) = (server("s"), means("PATH", "/bin", Path::new("/project"), &[]));
        let lead = user("lead", "lead");
        let mut rest = Box::pin(shared.of(&server, &means, &lead).rest());
        assert!(futures_util::poll!(&mut rest).is_pending());
        let next = shared.of(&server, &means, &lead);
        assert_eq!(users(&next), ["(lead)", "lead"]);
        assert!(!next.held.as_ref().unwrap().several.load(Ordering::Relaxed));
        shared.close("other");
        assert!(futures_util::poll!(&mut rest).is_pending());
        shared.close("lead");
        rest.await;
        assert_eq!(users(&next), ["lead"]);
    }

    /// CX-17: a team's agents share a connection where they would start the same, whoever they are; what differs otherwise
    /// is another one, and so is that of another team.
    #[test]
    fn only_what_is_the_same_is_shared() {
        let shared = Shared::default();
        let (here, there) = (Path::new("/project"), Path::new("/other"));
        let own = means("CCAGENT_TOKEN", "a", here, &[]);
        let lead = shared.of(&server("s"), &own, &user("lead", "lead"));
        let mate = shared.of(&server("s"), &means("CCAGENT_TOKEN", "b", here, &[]), &user("mate", "lead"));
        assert!(are_one(&lead, &mate));
        for (server, means, circle) in [
            (server("s"), own.clone(), "other"),
            (server("t"), own.clone(), "lead"),
            (server("s"), means("PATH", "/bin", here, &[]), "lead"),
            (server("s"), means("CCAGENT_TOKEN", "a", there, &[]), "lead"),
            (server("s"), means("CCAGENT_TOKEN", "a", here, &[here]), "lead"),
        ] {
            assert!(!are_one(&lead, &shared.of(&server, &means, &user("mate", circle))), "{means:?}");
        }
        assert_eq!(users(&lead), ["lead", "mate"]);
        let several = lead.held.clone().unwrap();
        drop(lead);
        assert!(several.several.load(Ordering::Relaxed), "what the mate told it is there yet");
        drop(several);
        assert_eq!(users(&mate), ["mate"]);
        let again = shared.of(&server("s"), &own, &user("lead", "lead"));
        assert!(are_one(&again, &mate));
    }

    /// CX-17: who waits for another one to open a connection opens it where that one is stopped; one that failed is tried
    /// again by who comes later.
    #[tokio::test]
    async fn a_connection_that_never_came_about_is_nobodys() {
        let shared = Shared::default();
        let means = means("PATH", "/bin", Path::new("/project"), &[]);
        let one = shared.of(&server("s"), &means, &user("one", "lead"));
        let two = shared.of(&server("s"), &means, &user("two", "lead"));
        let mut stopped = Box::pin(one.opened(std::future::pending()));
        assert!(futures_util::poll!(&mut stopped).is_pending());
        let mut waits = Box::pin(two.opened(async { Err("no such program".to_owned()) }));
        assert!(futures_util::poll!(&mut waits).is_pending());
        drop(stopped);
        assert_eq!(waits.await.unwrap_err(), "no such program");
        let later = shared.of(&server("s"), &means, &user("later", "lead"));
        assert!(!are_one(&later, &two));
    }
}
