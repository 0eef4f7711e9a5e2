//! A subscriber: reads in its own way, and checks that no message is missing or comes twice.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};
use units::SplitMix64;

use super::counts::{LiveLoadCounts, now_us};
use super::frames::{OpenSocket, connect, next_frame, number_behind, write_text};
use super::options::{LiveLoadError, LiveLoadOptions};

/// How a subscriber reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriberKind {
    Healthy,
    Stalled,
    Slow,
    Reconnecting,
}

/// Bytes that a slow subscriber reads at once.
const SLOW_BYTES: usize = 4 << 10;
/// Its pause.
const SLOW_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// The position of a message in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    epoch: u64,
    sequence: u64,
}

pub(super) struct Subscriber {
    pub options: Rc<LiveLoadOptions>,
    pub kind: SubscriberKind,
    pub counts: Rc<RefCell<LiveLoadCounts>>,
    /// Where all subscribers read.
    pub scratch: Rc<RefCell<Vec<u8>>>,
    pub draws: SplitMix64,
    pub until: Instant,
    pub progress: SubscriberProgress,
}

/// What a subscriber has read.
pub(super) struct SubscriberProgress {
    /// By publisher, the number of the last message.
    last: Vec<Option<u64>>,
    after: Option<Place>,
}

impl SubscriberProgress {
    /// Nothing, of so many publishers.
    pub fn new(publishers: usize) -> Self {
        Self { last: vec![None; publishers.max(1)], after: None }
    }
}

/// Why a connection ended.
enum SubscriberEnd {
    /// The run is over.
    Over,
    /// It is to be opened again.
    Again,
}

impl Subscriber {
    /// Connects and subscribes.
    pub async fn open(&self) -> Result<OpenSocket, LiveLoadError> {
        let mut socket = connect(self.options.address, self.options.token.as_deref()).await?;
        let LiveLoadOptions { topic, policy, .. } = &*self.options;
        let after = self.progress.after.map_or(String::new(), |Place { epoch, sequence }| {
            format!(r#","after":{{"epoch":{epoch},"sequence":{sequence}}}"#)
        });
        let command =
            format!(r#"{{"op":"subscribe","topic":"{topic}","policy":"{policy}"{after}}}"#);
        let mut frame = Vec::new();
        write_text(&mut frame, command.as_bytes());
        socket.stream.write_all(&frame).await?;
        Ok(socket)
    }

    /// Reads until the run is over.
    pub async fn run(mut self, mut socket: OpenSocket) -> Result<(), LiveLoadError> {
        loop {
            match self.read(&socket.stream, &mut socket.read).await {
                Ok(SubscriberEnd::Over) => return Ok(()),
                Ok(SubscriberEnd::Again) | Err(_) => (),
            }
            self.counts.borrow_mut().reconnections += 1;
            socket = self.open().await?;
        }
    }

    async fn read(
        &mut self,
        stream: &TcpStream,
        rest: &mut BytesMut,
    ) -> std::io::Result<SubscriberEnd> {
        if self.kind == SubscriberKind::Stalled {
            tokio::time::sleep_until(self.until).await;
            return Ok(SubscriberEnd::Over);
        }
        let leaves = (self.kind == SubscriberKind::Reconnecting)
            .then(|| Instant::now() + Duration::from_millis(500 + self.draws.bits() % 1_000));
        let until = leaves.map_or(self.until, |leaves| leaves.min(self.until));
        loop {
            if !self.take(rest) {
                return Ok(SubscriberEnd::Again);
            }
            if timeout_at(until, stream.readable()).await.is_err() {
                let is_over = Instant::now() >= self.until;
                return Ok(if is_over { SubscriberEnd::Over } else { SubscriberEnd::Again });
            }
            let most = if self.kind == SubscriberKind::Slow { SLOW_BYTES } else { READ_BYTES };
            if !read_once(stream, &mut self.scratch.borrow_mut()[..most], rest)? {
                return Ok(SubscriberEnd::Again);
            }
            if self.kind == SubscriberKind::Slow {
                sleep(SLOW_PAUSE).await;
            }
        }
    }

    /// Takes whole frames; returns whether the connection goes on.
    fn take(&mut self, bytes: &mut BytesMut) -> bool {
        let now = now_us();
        let mut read = 0;
        let mut goes_on = true;
        while let Some((first, payload, behind)) = next_frame(&bytes[read..]) {
            match first {
                0x81 => self.take_message(payload, now),
                0x88 => {
                    goes_on = false;
                    self.counts.borrow_mut().closed += 1;
                }
                _ => (),
            }
            read = bytes.len() - behind.len();
        }
        bytes::Buf::advance(bytes, read);
        goes_on
    }
}

/// Appends what has arrived; returns whether the connection goes on.
fn read_once(stream: &TcpStream, scratch: &mut [u8], rest: &mut BytesMut) -> std::io::Result<bool> {
    match stream.try_read(scratch) {
        Ok(length) => {
            rest.extend_from_slice(&scratch[..length]);
            Ok(length > 0)
        }
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

impl Subscriber {
    fn take_message(&mut self, payload: &[u8], now: u64) {
        let progress = &mut self.progress;
        let mut counts = self.counts.borrow_mut();
        if !payload.starts_with(br#"{"type":"message""#) {
            if payload.starts_with(br#"{"type":"skipped""#) {
                counts.skipped += number_behind(payload, br#""messages":"#).unwrap_or(0);
            } else if payload.starts_with(br#"{"type":"error""#) {
                let words = String::from_utf8_lossy(payload).into_owned();
                counts.refusal.get_or_insert(words);
            }
            return;
        }
        let number = |name: &[u8]| number_behind(payload, name);
        if let (Some(epoch), Some(sequence)) = (number(br#""epoch":"#), number(br#""sequence":"#)) {
            progress.after = Some(Place { epoch, sequence });
        }
        let body = (number(br#""p":"#), number(br#""n":"#), number(br#""due_us":"#));
        let (Some(publisher), Some(n), Some(due_us)) = body else { return };
        let known =
            usize::try_from(publisher).ok().and_then(|publisher| progress.last.get_mut(publisher));
        if let Some(last) = known {
            match *last {
                Some(before) if n <= before => counts.duplicates += 1,
                Some(before) => counts.gaps += n - before - 1,
                None => (),
            }
            *last = (*last).max(Some(n));
        }
        if self.kind == SubscriberKind::Healthy && counts.window.contains(&due_us) {
            counts.delivered += 1;
            counts.latency_us.saturating_record(now.saturating_sub(due_us));
        }
    }
}
