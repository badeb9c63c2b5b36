//! What an agent asks while it runs in the foreground: put to the person at this terminal, or denied where there is none.
//!
//! Anybody else may answer meanwhile; the question here is then over.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccagent_client::{Error, Lasting};
use ccagent_proto::ask::{Ask, AskBehavior, AskRespondParams, AskState, AskSubscribe, AskSubscribeParams};
use ccagent_proto::method::AskRespond;
use ccagent_proto::{AskId, Kind, TaskId};
use tokio::sync::mpsc;

use crate::command::ask::{answer, answers};
use crate::typed::{self, Typed};
use crate::{render, screen, terminal};

/// Lines that are kept until they are read.
const TYPED_MOST: usize = 64;

/// What the model reads where nobody can be asked.
const NOBODY: &str = "nobody can be asked here, for the run has no terminal";

/// Answers for one run.
#[derive(Debug)]
pub(crate) struct Asker {
    line: Arc<Lasting>,
    task: TaskId,
    /// Whether something was denied because nobody could be asked.
    unasked: Arc<AtomicBool>,
    keys: Keys,
    current: Option<Ask>,
    /// What was answered of its questions so far; `None` leaves one open.
    given: Vec<Option<String>>,
    waiting: VecDeque<Ask>,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// It counts.
    Counts,
    /// It is over without it.
    Late,
    /// This is no answer to what was asked.
    Refused,
}

/// Where answers are typed.
#[derive(Debug)]
enum Keys {
    /// There is no terminal, or its input has ended.
    Nowhere,
    /// At this terminal, whose input nobody reads before there is a question.
    Unread,
    /// Line by line.
    Lines(mpsc::Receiver<String>),
}

impl Asker {
    /// One for a run; whether it had to deny something unasked is said by the flag.
    pub(crate) fn new(line: Arc<Lasting>, task: TaskId) -> (Self, Arc<AtomicBool>) {
        let unasked = Arc::new(AtomicBool::new(false));
        let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        let asker = Self {
            line,
            task,
            unasked: unasked.clone(),
            keys: if terminal { Keys::Unread } else { Keys::Nowhere },
            current: None,
            given: Vec::new(),
            waiting: VecDeque::new(),
        };
        (asker, unasked)
    }

    /// Answers until the connection is gone for good.
    pub(crate) async fn run(mut self) {
        while let Err(error) = self.follow().await {
            if !matches!(error, Error::Closed) {
                screen::line(format_args!("what the agent asks is not seen here: {error}"));
                return;
            }
        }
    }

    /// Follows the asks over one subscription; `Closed` where another one may go on.
    async fn follow(&mut self) -> Result<(), Error> {
        let params = AskSubscribeParams { task_id: Some(self.task), session_id: None };
        let (life, mut asks) = self.line.subscribe::<AskSubscribe>(|_| params.clone()).await?;
        // A new daemon withdrew what the last one asked.
        (self.current, self.waiting) = (None, VecDeque::new());
        let mut heard = false;
        loop {
            tokio::select! {
                item = asks.next() => match item {
                    Some(ask) => {
                        heard = true;
                        self.take(ask?).await?;
                    }
                    // What was too slow begins again; what is refused each time does not.
                    None if heard || !life.client.is_connected() => return Err(Error::Closed),
                    None => return Ok(()),
                },
                text = self.keys.next() => self.typed(text).await?,
            }
            self.put();
        }
    }

    async fn take(&mut self, ask: Ask) -> Result<(), Error> {
        if ask.state != AskState::Pending {
            self.waiting.retain(|waiting| waiting.id != ask.id);
            if self.current.take_if(|current| current.id == ask.id).is_some() {
                screen::line(render::ask::closed(&ask));
            }
        } else if matches!(self.keys, Keys::Nowhere) {
            self.deny(&ask).await?;
        } else if !self.knows(ask.id) {
            self.waiting.push_back(ask);
        }
        Ok(())
    }

    fn knows(&self, id: AskId) -> bool {
        self.current.iter().chain(&self.waiting).any(|ask| ask.id == id)
    }

    async fn deny(&self, ask: &Ask) -> Result<(), Error> {
        let message = Some(NOBODY.to_owned());
        let denied = AskRespondParams { message, ..answer(ask.id, AskBehavior::Deny) };
        if self.respond(denied).await? == Heard::Counts {
            self.unasked.store(true, Ordering::Relaxed);
            screen::line(render::ask::unasked(ask));
        }
        Ok(())
    }

    /// Shows the next question. What was typed before it answers something else.
    fn put(&mut self) {
        if self.current.is_none() {
            self.current = self.waiting.pop_front();
            if let Some(ask) = &self.current {
                self.keys.forget();
                self.given.clear();
                prompt(&format!("{}\n", render::form::of(ask, 0)));
            }
        }
    }

    async fn typed(&mut self, text: Option<String>) -> Result<(), Error> {
        let Some(text) = text else {
            self.keys = Keys::Nowhere;
            for ask in self.current.take().into_iter().chain(std::mem::take(&mut self.waiting)) {
                self.deny(&ask).await?;
            }
            return Ok(());
        };
        let Some(ask) = &self.current else { return Ok(()) };
        match typed::read(&text, ask, self.given.len()) {
            Typed::Answer(params) => self.answer(*params).await?,
            Typed::One(answer) => {
                self.given.push(answer);
                let questions = ask.questions.as_deref().unwrap_or_default();
                if self.given.len() < questions.len() {
                    prompt(&format!("{}\n", render::form::of(ask, self.given.len())));
                } else {
                    let params = answers(ask.id, questions, std::mem::take(&mut self.given));
                    self.answer(params).await?;
                }
            }
            Typed::Nothing => prompt(""),
        }
        Ok(())
    }

    /// Answers what is asked at the moment. It is asked again where it can't be answered so.
    async fn answer(&mut self, params: AskRespondParams) -> Result<(), Error> {
        let heard = self.respond(params).await?;
        if let (Some(ask), Heard::Refused) = (self.current.take(), heard) {
            self.waiting.push_front(ask);
        }
        Ok(())
    }

    /// Whether an answer counts. One that does not is said, and no reason to end.
    async fn respond(&self, params: AskRespondParams) -> Result<Heard, Error> {
        match self.line.call::<AskRespond>(params).await {
            Ok(_) => Ok(Heard::Counts),
            Err(error) if error.kind() == Some(Kind::AskAnswered) => Ok(Heard::Late),
            Err(Error::Rpc(error)) => {
                let heard =
                    if error.kind == Some(Kind::InvalidParams) { Heard::Refused } else { Heard::Late };
                screen::line(render::line(&Error::Rpc(error).to_string()));
                Ok(heard)
            }
            Err(error) => Err(error),
        }
    }
}

/// Asks in one piece: the agent's output goes to the same screen.
fn prompt(question: &str) {
    let mut screen = anstream::stderr();
    // Where it can't be written, nobody reads it.
    screen.write_all(format!("{question}> ").as_bytes()).and_then(|()| screen.flush()).ok();
}

impl Keys {
    /// Drops what was typed until now, and listens from now on.
    fn forget(&mut self) {
        match self {
            Self::Nowhere => {}
            Self::Unread => {
                terminal::forget_typed();
                *self = Self::Lines(lines());
            }
            Self::Lines(lines) => while lines.try_recv().is_ok() {},
        }
    }

    /// The next line that is typed; `None` after the last.
    async fn next(&mut self) -> Option<String> {
        let Self::Lines(lines) = self else { return std::future::pending().await };
        lines.recv().await
    }
}

/// Lines of stdin, read by a thread of their own: nothing that waits for one is kept from its end.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(TYPED_MOST);
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
