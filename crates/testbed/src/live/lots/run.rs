//! One run: creates lots, lets bidders fight, closes the lots, and checks all that was said.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use runtime::process::unix_ms;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};
use units::SplitMix64;

use super::bidder::{BidCounts, LotsBidder, SeenLot};
use super::check::{ToldBid, problems};
use super::report::LotsLoadReport;
use super::socket::LotsSocket;
use super::{INCREMENT_CENTS, LotsLoadOptions, START_CENTS, parse_cents, price_text};
use crate::live::options::LiveLoadError;
use crate::live::server_process::ProcessFigures;

/// How long a lot could stay open, in milliseconds.
const OPEN_MS: u64 = 24 * 3600 * 1000;
/// How long the feed may take to tell of the last bid.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is told meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct LotsLoadProgress {
    /// Since the first bid.
    pub elapsed: Duration,
    /// Accepted bids.
    pub accepted: u64,
}

/// Bids on a live floor until the run is over or `stop` is set. Blocks.
///
/// # Errors
/// The options make no sense, or the server refuses a client or a lot.
pub fn run(
    options: &LotsLoadOptions,
    stop: &Arc<AtomicBool>,
    on_progress: &mut dyn FnMut(LotsLoadProgress),
) -> Result<LotsLoadReport, LiveLoadError> {
    options.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, fight(options, stop, on_progress))
}

/// A lot as the feed tells it.
struct ToldLot {
    bids: Vec<ToldBid>,
    seen: watch::Sender<SeenLot>,
}

type ToldLots = Rc<RefCell<Vec<ToldLot>>>;

async fn fight(
    options: &LotsLoadOptions,
    stop: &Arc<AtomicBool>,
    on_progress: &mut dyn FnMut(LotsLoadProgress),
) -> Result<LotsLoadReport, LiveLoadError> {
    let mut operator = LotsSocket::open(options, &options.operator).await?;
    for lot in 0..options.lots {
        ask(options, &mut operator, &terms(options, lot)).await?;
    }
    let told: ToldLots = Rc::new(RefCell::new(
        (0..options.lots)
            .map(|_| ToldLot { bids: Vec::new(), seen: watch::Sender::default() })
            .collect(),
    ));
    let watcher = watch_lots(options, Rc::clone(&told)).await?;
    let counts = Rc::new(RefCell::new(BidCounts::new(options.lots)));
    let mut sockets = Vec::with_capacity(options.bidders.len());
    for token in &options.bidders {
        sockets.push(LotsSocket::open(options, token).await?);
    }
    let figures = || ProcessFigures::of(options.server?, options.address);
    let (before, started) = (figures(), Instant::now());
    let until = started + options.duration;
    let mut draws = SplitMix64::new(options.seed);
    let mut bidders = tokio::task::JoinSet::new();
    for (number, socket) in sockets.into_iter().enumerate() {
        let lot = number % options.lots;
        let seen = told.borrow()[lot].seen.subscribe();
        let (id, currency) = (options.id(lot), options.currency.clone());
        let (counts, draws) = (Rc::clone(&counts), SplitMix64::new(draws.bits()));
        let bidder = LotsBidder { number, lot, id, currency, seen, counts, draws, until };
        bidders.spawn_local(bidder.run(socket));
    }
    let accepted = || counts.borrow().accepted.iter().map(|lot| lot.len() as u64).sum::<u64>();
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        on_progress(LotsLoadProgress { elapsed: started.elapsed(), accepted: accepted() });
        let left = until.saturating_duration_since(Instant::now());
        sleep(left.min(Duration::from_millis(200))).await;
    }
    let (after, elapsed) = (figures(), started.elapsed());
    if stop.load(Ordering::Relaxed) {
        bidders.shutdown().await;
    }
    while bidders.join_next().await.is_some() {}
    let mut pages = Vec::with_capacity(options.lots);
    for lot in 0..options.lots {
        let close = json!({ "op": "close_lot", "lot": options.id(lot) });
        pages.push(ask(options, &mut operator, &close).await?);
    }
    until_told(&told, &accepted, stop).await;
    watcher.abort();
    let mut counts = counts.borrow_mut();
    let told = told.borrow();
    let is_checked = !stop.load(Ordering::Relaxed);
    if is_checked {
        for (lot, page) in pages.iter().enumerate() {
            let found = problems(&options.id(lot), &counts.accepted[lot], &told[lot].bids, page);
            counts.problems.extend(found);
        }
    }
    let server_cpu_us = before.zip(after).map(|(before, after)| after.cpu_us - before.cpu_us);
    Ok(LotsLoadReport::of(options, &mut counts, elapsed, server_cpu_us, is_checked))
}

/// The command that creates a lot, which is open at once. Its deal is over, so that no exchange
/// offers it.
fn terms(options: &LotsLoadOptions, lot: usize) -> Value {
    let (id, now) = (options.id(lot), unix_ms());
    json!({ "op": "create_lot", "terms": {
        "id": id, "currency": options.currency, "impressions": 1000,
        "start_price": price_text(START_CENTS),
        "increments": [{ "from": "0", "increment": price_text(INCREMENT_CENTS) }],
        "opens_ms": 0, "closes_ms": now + OPEN_MS, "payment": "at_close",
        "deal": { "id": id, "starts_ms": 0, "ends_ms": 1 },
    } })
}

/// Sends the operator's command; returns the lot's page.
async fn ask(
    options: &LotsLoadOptions,
    operator: &mut LotsSocket,
    command: &Value,
) -> Result<Value, LiveLoadError> {
    let refused = |reason: String| LiveLoadError::Refused { address: options.address, reason };
    operator.send(command).await?;
    let answer = operator.next().await?;
    match answer["type"].as_str() {
        Some("lot") => Ok(answer),
        _ => Err(refused(answer.to_string())),
    }
}

/// Follows the topic `lots`, and tells bidders of each bid.
async fn watch_lots(
    options: &LotsLoadOptions,
    told: ToldLots,
) -> Result<tokio::task::JoinHandle<io::Result<()>>, LiveLoadError> {
    let mut socket = LotsSocket::open(options, &options.operator).await?;
    socket.send(&json!({ "op": "subscribe", "topic": "lots" })).await?;
    let answer = socket.next().await?;
    if answer["type"] != "subscribed" {
        let reason = answer.to_string();
        return Err(LiveLoadError::Refused { address: options.address, reason });
    }
    let prefix = format!("{}-", options.prefix);
    Ok(spawn_local(async move {
        loop {
            let message = socket.next().await?;
            let data = &message["data"];
            let lot = data["id"].as_str().and_then(|id| id.strip_prefix(&prefix));
            let lot = lot.and_then(|lot| lot.parse::<usize>().ok());
            let Some((lot, number)) = lot.zip(data["bid"]["number"].as_u64()) else { continue };
            let text = |name: &str| data[name].as_str();
            let price_cents = text("price").and_then(parse_cents);
            let leader = text("leader").map(str::to_owned);
            if let Some(lot) = told.borrow_mut().get_mut(lot) {
                lot.bids.push(ToldBid { number, price_cents, leader: leader.clone() });
                lot.seen.send_replace(SeenLot { price_cents, leader });
            }
        }
    }))
}

/// Waits until the feed has told of all accepted bids, or for long enough.
async fn until_told(told: &ToldLots, accepted: &impl Fn() -> u64, stop: &AtomicBool) {
    let begun = Instant::now();
    let count = || told.borrow().iter().map(|lot| lot.bids.len() as u64).sum::<u64>();
    while count() < accepted() && begun.elapsed() < PATIENCE && !stop.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(10)).await;
    }
}
