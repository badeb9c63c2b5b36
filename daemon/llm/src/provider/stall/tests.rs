//! The clock is turned by the test: nothing here takes time.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::super::retry::{self, Patience};
use super::super::stub::request;
use super::super::{Stop, Usage};
use super::*;
use crate::host::{Background, Errand, Host, Incoming, Permission, Progress};
use crate::message::{Block, Message};
use crate::tool::{Ask, Outcome};

const STALL: Duration = Duration::from_mins(10);

/// What a provider does in a try: says so much, each after a pause, and then answers or never does.
#[derive(Clone, Copy, Debug)]
struct Try {
    held: Duration,
    says: u32,
    every: Duration,
    ends: bool,
}

const WHOLE: Try = Try { held: Duration::ZERO, says: 1, every: Duration::from_secs(1), ends: true };
const MUTE: Try = Try { says: 0, ends: false, ..WHOLE };

#[derive(Debug)]
struct Plays {
    tries: Vec<Try>,
    made: AtomicU32,
}

impl Provider for Plays {
    fn answer<'a>(&'a self, _: Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        async move {
            let made = self.made.fetch_add(1, Ordering::Relaxed) as usize;
            let plays = self.tries[made];
            tokio::time::sleep(plays.held).await;
            sink(Delta::Sent);
            for _ in 0..plays.says {
                tokio::time::sleep(plays.every).await;
                sink(Delta::Text("x"));
            }
            if !plays.ends {
                std::future::pending::<()>().await;
            }
            let message = Message::assistant(vec![Block::Text { text: "x".into() }]);
            Ok(Answer { message, stop: Stop::EndTurn, usage: Usage::default() })
        }
        .boxed()
    }
}

/// Nobody looks on.
#[derive(Debug)]
struct Nobody;

impl Host for Nobody {
    fn incoming(&self) -> BoxFuture<'_, Vec<Incoming>> {
        async { Vec::new() }.boxed()
    }

    fn acknowledge(&self, _: Vec<String>) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn more(&self) -> BoxFuture<'_, bool> {
        async { false }.boxed()
    }

    fn progress(&self, _: Progress) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }

    fn show(&self, _: &str) {}

    fn ask(&self, _: Ask) -> BoxFuture<'_, Permission> {
        async { Permission::Allowed }.boxed()
    }

    fn errand(&self, _: Errand) -> BoxFuture<'_, Outcome> {
        async { Outcome::default() }.boxed()
    }

    fn background(&self, _: Background) -> BoxFuture<'_, Result<String, String>> {
        async { Ok(String::new()) }.boxed()
    }
}

/// What comes of tries, how many were made, and how long it took.
async fn played(tries: &[Try], stall: Option<Duration>) -> (Result<Answer, Failure>, u32, Duration) {
    let (plays, start) = (Plays { tries: tries.to_vec(), made: AtomicU32::new(0) }, Instant::now());
    let patience = Patience { stall, ..Patience::default() };
    let answer = retry::answer(&plays, request(&[]), &mut |_| {}, patience, &Nobody).await;
    (answer, plays.made.into_inner(), start.elapsed())
}

/// M150: a request of which nothing comes for too long is made once more, before its answer began as within it, and then
/// it has failed with the phase as the cause.
#[tokio::test(start_paused = true)]
async fn a_request_that_stalls_is_made_once_more() {
    let within = Try { says: 3, ..MUTE };
    for (stalls, phase) in [(MUTE, Phase::Waiting), (within, Phase::Within)] {
        let (answer, made, took) = played(&[stalls, WHOLE], Some(STALL)).await;
        assert!(answer.is_ok() && made == 2, "{answer:?}");
        assert!((STALL..STALL + Duration::from_secs(10)).contains(&took), "{took:?}");
        let (answer, made, took) = played(&[stalls, stalls, WHOLE], Some(STALL)).await;
        let failure = answer.unwrap_err();
        assert_eq!((&failure, made), (&Failure::Stalled { phase, after: STALL }, 2));
        assert!(took < STALL * 2 + Duration::from_secs(10), "{took:?}");
        assert_eq!(failure.kind(), "stalled");
        assert!(failure.to_string().contains("600 s") && failure.to_string().contains(phase.place()));
    }
}

/// M150, C19: who is held back by a limit, and whose answer goes on however slowly, does not stall; without a timer nothing
/// does.
#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_or_goes_on_does_not_stall() {
    let held = Try { held: STALL * 5, ..WHOLE };
    let slow = Try { says: 20, every: Duration::from_secs(599), ..WHOLE };
    let late = Try { every: STALL * 9, ..WHOLE };
    for (plays, stall) in [(held, Some(STALL)), (slow, Some(STALL)), (late, None)] {
        let (answer, made, _) = played(&[plays], stall).await;
        assert!(answer.is_ok() && made == 1, "{plays:?}: {answer:?}");
    }
}

/// M150: the silence of a connection is a stall as well: it is not tried ten times.
#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_tried_twice() {
    #[derive(Debug)]
    struct Silent(AtomicU32);
    impl Provider for Silent {
        fn answer<'a>(&'a self, _: Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
            sink(Delta::Sent);
            self.0.fetch_add(1, Ordering::Relaxed);
            async { Err(Failure::Silent(Duration::from_mins(5))) }.boxed()
        }
    }
    let silent = Silent(AtomicU32::new(0));
    let asked = retry::answer(&silent, request(&[]), &mut |_| {}, Patience::default(), &Nobody).await;
    let stalled = Failure::Stalled { phase: Phase::Waiting, after: Duration::from_mins(5) };
    assert_eq!((asked, silent.0.into_inner()), (Err(stalled), 2));
}
