//! A publisher: sends messages at a constant rate, each with the time at which it was due.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::counts::{LiveLoadCounts, now_us};
use super::frames::{OpenSocket, next_frame, write_text};
use super::options::LiveLoadOptions;

/// How often what is due is sent.
const TICK: Duration = Duration::from_millis(1);

pub(super) struct LoadPublisher {
    /// Its number among all.
    pub number: usize,
    pub options: Rc<LiveLoadOptions>,
    pub counts: Rc<RefCell<LiveLoadCounts>>,
    pub until: Instant,
}

/// Sends until the run is over.
pub(super) async fn publish(publisher: LoadPublisher, socket: OpenSocket) -> std::io::Result<()> {
    let LoadPublisher { number, options, counts, until } = publisher;
    let OpenSocket { stream, read: rest } = socket;
    let (mut reading, mut writing) = stream.into_split();
    let answers = tokio::task::spawn_local(take_answers(counts, rest, async move |rest| {
        reading.read_buf(rest).await
    }));
    let (begun, begun_us) = (Instant::now(), now_us());
    let count = u64::try_from(options.publishers).unwrap_or(1).max(1);
    let interval_us = 1_000_000.0 * as_f64(count) / f64::from(options.rate);
    // Publishers take turns.
    let offset_us = interval_us * as_f64(number as u64) / as_f64(count);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut sent, mut frames) = (0_u64, Vec::new());
    while Instant::now() < until {
        ticks.tick().await;
        frames.clear();
        let passed_us = begun.elapsed().as_secs_f64() * 1_000_000.0;
        while offset_us + as_f64(sent) * interval_us <= passed_us {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive, and hours at most"
            )]
            let due_us = begun_us + (offset_us + as_f64(sent) * interval_us) as u64;
            write_text(&mut frames, command(&options, number, sent, due_us).as_bytes());
            sent += 1;
        }
        writing.write_all(&frames).await?;
    }
    answers.abort();
    Ok(())
}

/// Exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// The command that publishes message `n`.
fn command(options: &LiveLoadOptions, publisher: usize, n: u64, due_us: u64) -> String {
    let body = body(options.bytes, publisher, n, due_us);
    format!(r#"{{"op":"publish","topic":"{}","body":{body}}}"#, options.topic)
}

/// A body of this length.
fn body(bytes: usize, publisher: usize, n: u64, due_us: u64) -> String {
    let head = format!(r#"{{"p":{publisher},"n":{n},"due_us":{due_us},"filler":""#);
    let filler = "x".repeat(bytes.saturating_sub(head.len() + 2));
    format!(r#"{head}{filler}"}}"#)
}

/// Counts what the server accepts and refuses.
async fn take_answers(
    counts: Rc<RefCell<LiveLoadCounts>>,
    mut rest: BytesMut,
    mut read: impl AsyncFnMut(&mut BytesMut) -> std::io::Result<usize>,
) {
    loop {
        let mut taken = 0;
        while let Some((_, payload, behind)) = next_frame(&rest[taken..]) {
            let mut counts = counts.borrow_mut();
            if payload.starts_with(br#"{"type":"published""#) {
                counts.published += 1;
            } else if payload.starts_with(br#"{"type":"error""#) {
                counts.refused += 1;
                counts.refusal.get_or_insert(String::from_utf8_lossy(payload).into_owned());
            }
            taken = rest.len() - behind.len();
        }
        rest.advance(taken);
        if !matches!(read(&mut rest).await, Ok(1..)) {
            return;
        }
    }
}
