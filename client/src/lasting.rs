//! A connection that outlives the daemon at its other end: who waits for something, waits on with the next daemon.
//!
//! ```text
//! connected ──closed──▶ renewing ──a daemon answers──▶ connected
//!                          └──nobody does in time──▶ Error::Gone
//! ```
//!
//! Deliberately not here: calls that must not be made twice. They are made over a `Life`, and fail with it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ccagent_proto::daemon::DaemonHelloParams;
use ccagent_proto::{Kind, Method, Subscription as Subscribe};
use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use crate::connection::Client;
use crate::error::Error;
use crate::subscription::Subscription;

/// How long a daemon may be away: programs are replaced meanwhile, and a large store takes its time to open.
const AWAY: Duration = Duration::from_secs(30);

/// Between two tries: that another process listens is no event here.
const AGAIN: Duration = Duration::from_millis(50);

/// How a daemon is reached.
pub type Dial = Box<dyn Fn() -> BoxFuture<'static, Result<Client, Error>> + Send + Sync>;

/// A connection to one daemon.
#[derive(Debug)]
pub struct Life {
    /// The connection.
    pub client: Client,
    /// The daemon's name for its life, to which numbers of events belong; `None` where it told none.
    pub epoch: Option<String>,
}

impl Life {
    /// Whether a call failed since the daemon ends; one that refuses new calls on its way there is waited for.
    pub async fn is_over(&self, error: &Error) -> bool {
        if error.kind() == Some(Kind::ShuttingDown) {
            drop(tokio::time::timeout(AWAY, self.client.closed()).await);
            return true;
        }
        matches!(error, Error::Closed)
    }
}

/// A connection to one daemon after the other.
pub struct Lasting {
    dial: Dial,
    hello: DaemonHelloParams,
    life: Mutex<Arc<Life>>,
}

impl fmt::Debug for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lasting").field("life", &self.life).finish_non_exhaustive()
    }
}

impl Lasting {
    /// Begins with a connection that stands; further ones are dialled, and all of them are greeted.
    ///
    /// # Errors
    /// When the daemon doesn't take the token; as `renew` when it ends just now.
    pub async fn begin(client: Client, hello: DaemonHelloParams, dial: Dial) -> Result<Self, Error> {
        let life = match greet(client, &hello).await {
            Err(Error::Closed) => next(&dial, &hello).await,
            greeted => greeted,
        };
        Ok(Self { life: Mutex::new(Arc::new(life?)), dial, hello })
    }

    /// The connection as it is now, or once it is renewed.
    pub async fn life(&self) -> Arc<Life> {
        self.life.lock().await.clone()
    }

    /// Calls a method that may be called twice: at the next daemon where this one ends before it answers.
    ///
    /// # Errors
    /// What a daemon answered; `Gone` when there is none any more.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, Error>
    where
        M::Params: Clone,
    {
        self.call_with::<M>(|| params.clone()).await
    }

    /// The same with params that are made for each call: what is left of a time, for example.
    ///
    /// # Errors
    /// As `call`.
    pub async fn call_with<M: Method>(&self, params: impl Fn() -> M::Params) -> Result<M::Result, Error> {
        loop {
            let life = self.life().await;
            match life.client.call::<M>(params()).await {
                Err(error) if life.is_over(&error).await => self.renew(&life).await?,
                answered => return answered,
            }
        }
    }

    /// Follows a subscription, with params for the daemon that is there; gives the connection that it ends with.
    ///
    /// # Errors
    /// As `call`.
    pub async fn subscribe<S: Subscribe>(
        &self,
        params: impl Fn(&Life) -> S::Params,
    ) -> Result<(Arc<Life>, Subscription<S::Item>), Error> {
        loop {
            let life = self.life().await;
            match life.client.subscribe::<S>(params(&life)).await {
                Err(error) if life.is_over(&error).await => self.renew(&life).await?,
                followed => return followed.map(|items| (life, items)),
            }
        }
    }

    /// Connects again where that connection was lost and nobody did so before.
    ///
    /// # Errors
    /// `Gone` when no daemon comes in time, or what kept the last one from being talked to.
    pub async fn renew(&self, lost: &Arc<Life>) -> Result<(), Error> {
        let mut life = self.life.lock().await;
        if !Arc::ptr_eq(&life, lost) {
            return Ok(());
        }
        *life = Arc::new(next(&self.dial, &self.hello).await?);
        Ok(())
    }
}

/// The next daemon that answers.
async fn next(dial: &Dial, hello: &DaemonHelloParams) -> Result<Life, Error> {
    let connected = async || greet(dial().await?, hello).await;
    let mut last = Error::Gone { waited: AWAY };
    let life = tokio::time::timeout(AWAY, async {
        loop {
            match connected().await {
                // Started in vain once, and not again and again.
                life @ (Ok(_) | Err(Error::Start { .. })) => return life,
                Err(Error::NotRunning { .. } | Error::Closed) => {}
                // It may be a daemon that does not know us yet, or one that is about to end.
                Err(error) => last = error,
            }
            tokio::time::sleep(AGAIN).await;
        }
    });
    life.await.unwrap_or(Err(last))
}

/// Makes sure that a daemon answers, and one that takes the token; what else it says of a hello is no matter.
async fn greet(client: Client, hello: &DaemonHelloParams) -> Result<Life, Error> {
    match client.greet(hello.clone()).await {
        Ok(answer) => Ok(Life { client, epoch: Some(answer.epoch) }),
        Err(error)
            if hello.token.is_some() || !client.is_connected() || matches!(error, Error::Silent { .. }) =>
        {
            Err(error)
        }
        Err(_) => Ok(Life { client, epoch: None }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ccagent_proto::Empty;
    use ccagent_proto::method::TeamLeave;
    use futures_util::FutureExt;
    use serde_json::Value;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::UnixStream;

    use super::*;

    /// A daemon that answers so many calls, and ends at the next one.
    fn daemon(answers: usize) -> Client {
        daemon_that(answers, None)
    }

    /// The same, where the last answer may be an error.
    fn daemon_that(mut answers: usize, last: Option<Value>) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        tokio::spawn(async move {
            let (read, mut write) = theirs.into_split();
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await
                && answers > 0
            {
                answers -= 1;
                let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
                let mut answer = serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": {} });
                if let Some(error) = last.clone().filter(|_| answers == 0) {
                    answer = serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": error });
                }
                write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
                if answers == 0 && last.is_some() {
                    break;
                }
            }
        });
        Client::over_stream(ours)
    }

    /// A connection to a daemon that ends at its first call; what comes after it are tries to reach the next one.
    async fn lasting(next: impl Fn(usize) -> Result<Client, Error> + Send + Sync + 'static) -> Lasting {
        lasting_from(daemon(1), next).await
    }

    async fn lasting_from(
        first: Client,
        next: impl Fn(usize) -> Result<Client, Error> + Send + Sync + 'static,
    ) -> Lasting {
        let tries = AtomicUsize::new(0);
        let dial = move || std::future::ready(next(tries.fetch_add(1, Ordering::Relaxed))).boxed();
        Lasting::begin(first, DaemonHelloParams::default(), Box::new(dial)).await.unwrap()
    }

    fn nobody() -> Result<Client, Error> {
        Err(Error::NotRunning { socket: "/none".into() })
    }

    /// CD-02, SV-07: a call that a daemon left unanswered is answered by the next one, however many tries that takes.
    #[tokio::test]
    async fn a_call_goes_on_at_the_next_daemon() {
        // The second one takes the connection, and ends before it says a word.
        let line =
            lasting(|tries| if tries < 2 { nobody() } else { Ok(daemon(if tries == 2 { 0 } else { 2 })) })
                .await;
        line.call::<TeamLeave>(Empty {}).await.unwrap();
        assert!(line.life().await.client.is_connected());
    }

    /// CD-06: a call that a daemon refuses since it is about to end is made at the next one.
    #[tokio::test]
    async fn a_refusal_on_the_way_to_the_end_is_no_answer() {
        let data = serde_json::json!({ "kind": "shuttingDown", "retryable": true });
        let error = serde_json::json!({ "code": -32020, "message": "no", "data": data });
        let line = lasting_from(daemon_that(2, Some(error)), |_| Ok(daemon(2))).await;
        line.call::<TeamLeave>(Empty {}).await.unwrap();
    }

    /// CD-02: a daemon that does not come back is given up, and not before its time.
    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_stays_away_is_given_up() {
        let line = lasting(|_| nobody()).await;
        let before = tokio::time::Instant::now();
        let error = line.call::<TeamLeave>(Empty {}).await.unwrap_err();
        assert!(matches!(error, Error::Gone { waited: AWAY }), "{error:?}");
        assert!(before.elapsed() >= AWAY);
        assert!(error.to_string().contains("30s; agents go on"), "{error}");
    }

    /// SV-01: a daemon that can't be started is started once.
    #[tokio::test]
    async fn a_start_in_vain_is_told_at_once() {
        let reason = || "no".to_owned();
        let line = lasting(move |_| Err(Error::Start { reason: reason() })).await;
        let error = line.call::<TeamLeave>(Empty {}).await.unwrap_err();
        assert!(matches!(error, Error::Start { .. }), "{error:?}");
    }
}
