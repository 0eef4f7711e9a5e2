//! A bidder: sends a higher bid as soon as the feed names another leader.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use units::SplitMix64;

use super::check::SentBid;
use super::socket::LotsSocket;
use super::{INCREMENT_CENTS, START_CENTS, price_text};

/// Reasons of refusals that a bidder expects: others were faster.
const OUTRUN: [&str; 3] = ["below_increment", "below_start", "retraction"];

/// Longest latency of the histogram, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 600_000_000;
/// How long a bidder waits when the server is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// What bidders see of a lot.
#[derive(Clone, Debug, Default)]
pub(super) struct SeenLot {
    /// None before the first bid.
    pub price_cents: Option<u64>,
    /// The leader's public name. None before the first bid.
    pub leader: Option<String>,
}

/// What bidders count.
pub(super) struct BidCounts {
    /// By lot, what the server accepted.
    pub accepted: Vec<Vec<SentBid>>,
    /// Refused because others were faster.
    pub outrun: u64,
    /// Refused because the server was busy.
    pub busy: u64,
    /// From the sending of a bid to its acceptance, in microseconds.
    pub latency_us: Histogram<u64>,
    /// What must not happen.
    pub problems: Vec<String>,
}

impl BidCounts {
    pub fn new(lots: usize) -> Self {
        Self {
            accepted: vec![Vec::new(); lots],
            outrun: 0,
            busy: 0,
            latency_us: Histogram::new_with_max(LATENCY_US_MAX, 3).expect("the range is valid"),
            problems: Vec::new(),
        }
    }
}

pub(super) struct LotsBidder {
    /// Its number among all.
    pub number: usize,
    pub lot: usize,
    pub id: String,
    pub currency: String,
    pub seen: watch::Receiver<SeenLot>,
    pub counts: Rc<RefCell<BidCounts>>,
    pub draws: SplitMix64,
    pub until: Instant,
}

impl LotsBidder {
    /// Bids until the time is over.
    pub async fn run(mut self, mut socket: LotsSocket) {
        if let Err(error) = self.bid(&mut socket).await {
            let problem = format!("bidder {} on {}: {error}", self.number, self.id);
            self.counts.borrow_mut().problems.push(problem);
        }
    }

    async fn bid(&mut self, socket: &mut LotsSocket) -> io::Result<()> {
        let mut own_name: Option<String> = None;
        for turn in 0_u64.. {
            let seen = self.seen.borrow_and_update().clone();
            let is_leading = seen.leader.is_some() && seen.leader == own_name;
            if is_leading && self.news().await {
                continue;
            }
            if is_leading || Instant::now() >= self.until {
                return Ok(());
            }
            let least = seen.price_cents.map_or(START_CENTS, |price| price + INCREMENT_CENTS);
            let maximum_cents = least + self.draws.bits() % 4;
            let begun = Instant::now();
            socket
                .send(&json!({
                    "op": "bid", "lot": self.id, "maximum": price_text(maximum_cents),
                    "currency": self.currency, "key": format!("{}-{turn}", self.number),
                }))
                .await?;
            let answer = socket.next().await?;
            let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            if let Some(name) = self.count(&answer, maximum_cents, took) {
                own_name = Some(name);
            }
            if matches!(answer["code"].as_str(), Some("busy" | "rate_limited")) {
                tokio::time::sleep(BUSY_PAUSE).await;
                continue;
            }
            // The feed tells of the bid, or of the one that was faster.
            if !self.news().await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for news of the lot. False once the time is over.
    async fn news(&mut self) -> bool {
        tokio::select! {
            changed = self.seen.changed() => changed.is_ok(),
            () = tokio::time::sleep_until(self.until) => false,
        }
    }

    /// Counts an answer. Returns the bidder's name, if it was accepted.
    fn count(&self, answer: &Value, maximum_cents: u64, took_us: u64) -> Option<String> {
        let mut counts = self.counts.borrow_mut();
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        if text("type") == "accepted" {
            counts.latency_us.saturating_record(took_us);
            let number = answer["number"].as_u64().unwrap_or_default();
            let bid = SentBid { number, bidder: self.number, maximum_cents };
            counts.accepted[self.lot].push(bid);
            return answer["own"]["alias"].as_str().map(str::to_owned);
        }
        match (text("code"), text("reason")) {
            ("refused", reason) if OUTRUN.contains(&reason) => counts.outrun += 1,
            ("busy" | "rate_limited", _) => counts.busy += 1,
            _ => counts.problems.push(format!("bidder {} on {}: {answer}", self.number, self.id)),
        }
        None
    }
}
