//! One connection over a plain byte stream, from its first text to its end.
//!
//! ```text
//! open ──end of input──▶ half-closed ──nothing left to say──▶ over
//!   └──────hang-up, stall, stop, broken stream──────────────▶ over
//! ```
//!
//! One future does it all: it cuts texts, polls the calls and writes, so an answer costs no hop between tasks, and
//! calls reach the driver in the order in which they came. Answers go out as they come, many in one write.
//! Nothing is begun while answers wait to be written, or behind a page that is not answered yet: a client that reads
//! nothing costs about one large answer, and hears of a cancellation only once it reads. One that leaves an answer
//! unread is dropped after a while. One that leaves only items of subscriptions unread stays: a bounded number of them
//! waits for it, and what says then that it lagged is behind them.
//! A stop waits for answers, and for no items.
//! When the connection is over, calls that only wait are dropped, and calls that change something are finished.

use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use ccagent_core::input::Run;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use tokio_util::bytes::BytesMut;
use tokio_util::sync::CancellationToken;

use super::framing::{Cutter, Frame};
use super::registry::Course;
use super::service::{Begun, Later, Service};
use super::stall::Owed;
use super::taken::Answer;

/// Nothing more is read or gathered while so many bytes wait to be written.
pub(crate) const HIGH_WATER: usize = 64 << 10;
const READ: usize = 16 << 10;

/// How an item of a subscription begins, and no answer.
const ITEM: &str = r#"{"jsonrpc":"2.0","method":"#;

/// Whether a text is an item of a subscription.
pub(crate) fn is_item(text: &str) -> bool {
    text.starts_with(ITEM)
}

type Answers = FuturesUnordered<BoxFuture<'static, Option<Answer>>>;

/// A connection.
pub(crate) struct Stream<R, W> {
    reader: R,
    writer: W,
    cutter: Cutter,
    service: Service,
    outbox: mpsc::Receiver<Box<RawValue>>,
    input: BytesMut,
    output: Vec<u8>,
    written: usize,
    /// Where the last answer ends in the output; what follows it are items of subscriptions.
    answered: usize,
    /// Where each answer is counted, where another one writes what is written here.
    owed: Option<Owed>,
    /// Where in the output an answer ends that tells of ends.
    told: VecDeque<(usize, Vec<Run>)>,
    /// Whether the calls were told that there is room.
    room: bool,
    /// Whether the other end has left a write waiting.
    stuck: bool,
    /// Calls that end with the connection.
    waits: Answers,
    /// The same, and nothing is begun behind it: one at most.
    page: Answers,
    /// Calls that are finished in any case.
    work: Answers,
    ended: bool,
    stall: Duration,
    /// When the first text must have come; `None` once it has.
    first: Option<Instant>,
}

/// Calls that outlive their connection.
pub(crate) struct Unfinished(Answers);

impl Unfinished {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finishes them; their answers have no reader any more.
    pub(crate) async fn finish(mut self) {
        while self.0.next().await.is_some() {}
    }
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// All was said.
    Done,
    /// The other end is gone.
    HungUp,
    /// It did not read what it was sent.
    Stalled,
    /// It did not say a whole text in time.
    Silent,
    /// The daemon stops.
    Stopped,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Stream<R, W> {
    /// A connection whose first bytes were read already; its first text has to be there by the deadline.
    pub(crate) fn new(
        (reader, writer): (R, W),
        (input, first): (BytesMut, Option<Instant>),
        cutter: Cutter,
        service: Service,
        (outbox, owed): (mpsc::Receiver<Box<RawValue>>, Option<Owed>),
    ) -> Self {
        let stall = service.limits.stall;
        Self {
            reader,
            writer,
            cutter,
            service,
            outbox,
            input,
            output: Vec::with_capacity(READ),
            written: 0,
            answered: 0,
            owed,
            told: VecDeque::new(),
            room: true,
            stuck: false,
            waits: Answers::new(),
            page: Answers::new(),
            work: Answers::new(),
            ended: false,
            stall,
            first,
        }
    }

    /// Serves the connection until it is over; gives the calls that must still be finished.
    pub(crate) async fn serve(
        mut self,
        hangup: impl Future<Output = ()>,
        stop: &CancellationToken,
    ) -> (Over, Unfinished) {
        let over = self.run(hangup, stop).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "a connection failed");
            Over::HungUp
        });
        (over, Unfinished(self.work))
    }

    async fn run(&mut self, hangup: impl Future<Output = ()>, stop: &CancellationToken) -> io::Result<Over> {
        let mut hangup = pin!(hangup);
        let mut stalled = pin!(tokio::time::sleep(self.stall));
        let mut silent = pin!(tokio::time::sleep_until(self.first.unwrap_or_else(Instant::now)));
        let mut stopping = false;
        loop {
            self.cut();
            self.hear()?;
            let paged = !self.page.is_empty();
            self.gather();
            // What came behind a page is begun now, even where there was nothing to be said.
            if self.flush(stalled.as_mut())? || (paged && self.page.is_empty()) {
                continue;
            }
            // Items that are not read by now hold up no stop.
            if stopping && self.work.is_empty() && !self.owes() {
                return Ok(Over::Stopped);
            }
            let quiet = self.under_way() == 0 && self.output.is_empty();
            if self.ended && quiet && !self.service.connection.has_subscriptions() {
                return Ok(Over::Done);
            }
            let room = self.has_room();
            let begins = self.begins();
            tokio::select! {
                biased;
                Some(answer) = self.work.next() => self.say(answer),
                Some(answer) = self.waits.next() => self.say(answer),
                Some(answer) = self.page.next() => self.say(answer),
                Some(item) = self.outbox.recv(), if room => self.write(item.into()),
                read = self.reader.read_buf(&mut self.input), if begins => self.ended = read? == 0,
                wrote = self.writer.write(&self.output[self.written..]), if !self.output.is_empty() => {
                    self.wrote(wrote?)?;
                }
                () = stalled.as_mut(), if self.owes() => return Ok(Over::Stalled),
                () = silent.as_mut(), if self.first.is_some() && !self.ended => return Ok(Over::Silent),
                () = hangup.as_mut(), if self.ended => return Ok(Over::HungUp),
                () = self.service.connection.subscription_ended(), if self.ended => {}
                () = stop.cancelled(), if !stopping => {
                    (stopping, self.ended) = (true, true);
                    self.input.clear();
                    self.waits.clear();
                    self.page.clear();
                    // What waits in it is still said, and no more: a flood of items would have no end.
                    self.outbox.close();
                    self.service.connection.end();
                }
            }
        }
    }

    /// Whether something more may be read.
    fn begins(&self) -> bool {
        self.has_room() && self.page.is_empty() && !self.ended
    }

    /// Reads what is there, before items fill up the room: a flood of them must not drown the calls, least of all the
    /// one that ends it.
    fn hear(&mut self) -> io::Result<()> {
        if self.begins()
            && let Some(read) = self.reader.read_buf(&mut self.input).now_or_never()
        {
            self.ended = read? == 0;
            self.cut();
        }
        Ok(())
    }

    /// Whether an answer may be added to those that wait to be written.
    fn has_room(&self) -> bool {
        self.output.len() < HIGH_WATER
    }

    fn under_way(&self) -> usize {
        self.waits.len() + self.page.len() + self.work.len()
    }

    /// Begins with every text that is complete, up to a page.
    fn cut(&mut self) {
        let large = self.input.len() > HIGH_WATER;
        while self.has_room() && self.page.is_empty() {
            let next = self.cutter.next(&mut self.input);
            let next = if self.ended { next.or_else(|| self.cutter.end(&mut self.input)) } else { next };
            if next.is_some() {
                self.first = None;
            }
            match next {
                None => break,
                Some(Frame::Text(text)) => self.begin(&text),
                Some(Frame::TooLong) => self.write(self.service.too_long().into()),
                Some(Frame::NoRoom) => self.write(self.service.no_room().into()),
                Some(Frame::Broken(why)) => {
                    self.write(Service::broken(why).into());
                    self.ended = true;
                }
            }
        }
        let small = self.input.len() <= HIGH_WATER;
        if small && (large || self.input.capacity() > 2 * HIGH_WATER) {
            // One large text must not cost its size for the rest of the connection: what follows it has its buffer.
            let mut rest = BytesMut::with_capacity(self.input.len() + READ);
            rest.extend_from_slice(&self.input);
            self.input = rest;
        }
        if self.input.capacity() - self.input.len() < READ / 2 {
            self.input.reserve(READ);
        }
    }

    fn begin(&mut self, text: &[u8]) {
        match self.service.begin(text) {
            Begun::Silent => {}
            Begun::Now(answer) => self.write(answer.into()),
            Begun::Later(Later { course: Course::Kept, answer }) => self.work.push(answer),
            Begun::Later(Later { course: Course::Dropped, answer }) => self.waits.push(answer),
            Begun::Later(Later { course: Course::Page, answer }) => self.page.push(answer),
        }
    }

    /// Takes what is there to be said, so that it goes out in one write.
    fn gather(&mut self) {
        while self.has_room() {
            let answer = self.work.next().now_or_never().flatten();
            let answer = answer.or_else(|| self.waits.next().now_or_never().flatten());
            // Last, so that what came before it is with the driver before it.
            let answer = answer.or_else(|| self.page.next().now_or_never().flatten());
            if let Some(answer) = answer {
                self.say(answer);
            } else if let Ok(item) = self.outbox.try_recv() {
                self.write(item.into());
            } else {
                break;
            }
        }
    }

    fn say(&mut self, answer: Option<Answer>) {
        if let Some(answer) = answer {
            self.write(answer);
        }
    }

    /// Whether an answer waits to be written.
    fn owes(&self) -> bool {
        self.written < self.answered
    }

    fn write(&mut self, Answer { text, ends }: Answer) {
        let is_answer = !is_item(text.get());
        if is_answer && !self.owes() {
            // Its time is its own, however long items have waited.
            self.stuck = false;
        }
        self.cutter.write(text.get(), &mut self.output);
        if is_answer {
            self.answered = self.output.len();
            match &self.owed {
                Some(owed) => owed.add(ends),
                None if ends.is_empty() => {}
                None => self.told.push_back((self.answered, ends)),
            }
        }
        self.tell_room();
    }

    fn tell_room(&mut self) {
        let room = self.has_room();
        if std::mem::replace(&mut self.room, room) != room {
            self.service.connection.turns().set_room(room);
        }
    }

    /// Writes what can be written without waiting; says whether something was.
    fn flush(&mut self, stalled: Pin<&mut Sleep>) -> io::Result<bool> {
        if self.output.is_empty() {
            return Ok(false);
        }
        if let Some(wrote) = self.writer.write(&self.output[self.written..]).now_or_never() {
            return self.wrote(wrote?).map(|()| true);
        }
        // The clock starts with the first write that was put off, and not anew with each try.
        if !std::mem::replace(&mut self.stuck, true) {
            stalled.reset(Instant::now() + self.stall);
        }
        Ok(false)
    }

    fn wrote(&mut self, bytes: usize) -> io::Result<()> {
        if bytes == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.stuck = false;
        self.written += bytes;
        while let Some((_, ends)) = self.told.pop_front_if(|(end, _)| *end <= self.written) {
            self.service.heard(ends);
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.output.shrink_to(4 * HIGH_WATER);
            (self.written, self.answered) = (0, 0);
            self.tell_room();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Limits;
    use super::super::connection::tests::operator;
    use super::super::registry::{Registry, open};
    use super::*;

    /// I8: what follows a large text does not keep the memory of that text.
    #[tokio::test]
    async fn what_follows_a_large_text_has_a_buffer_of_its_own() {
        let api = Arc::new(Registry::new(Arc::new(()), open()).finish().unwrap());
        let service = Service::new(api, operator(1), Arc::new(Limits::default()), None);
        let text = [b"{\"a\":\"", "x".repeat(2 * HIGH_WATER).as_bytes(), b"\"}\n{"].concat();
        let input = BytesMut::from(&text[..]);
        let large = input.as_ptr_range();
        let (_sink, outbox) = mpsc::channel(1);
        let cutter = Cutter::ndjson(4 * HIGH_WATER);
        let streams = (tokio::io::empty(), tokio::io::sink());
        let mut stream = Stream::new(streams, (input, None), cutter, service, (outbox, None));
        stream.cut();
        assert_eq!(stream.input, "{");
        assert!(!large.contains(&stream.input.as_ptr()));
    }

    /// SV-08: a reader that takes little by little stays; the time counts from the last byte that it took.
    #[tokio::test(start_paused = true)]
    async fn a_stall_counts_from_the_last_byte_taken() {
        let api = Arc::new(Registry::new(Arc::new(()), open()).finish().unwrap());
        let service = Service::new(api, operator(1), Arc::new(Limits::default()), None);
        let (ours, mut theirs) = tokio::io::duplex(32);
        let (_sink, outbox) = mpsc::channel(1);
        let first = (BytesMut::from(&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"none\"}\n"[..]), None);
        let stream = Stream::new(tokio::io::split(ours), first, Cutter::ndjson(100), service, (outbox, None));
        let served =
            tokio::spawn(
                async move { stream.serve(std::future::pending(), &CancellationToken::new()).await.0 },
            );
        for _ in 0..4 {
            theirs.read_exact(&mut [0; 8]).await.unwrap();
            tokio::time::advance(Duration::from_secs(4)).await;
        }
        theirs.read_exact(&mut [0; 8]).await.unwrap();
        let last = Instant::now();
        assert_eq!(served.await.unwrap(), Over::Stalled);
        assert_eq!(last.elapsed(), Duration::from_secs(5));
    }
}
