//! Admin API of the record: the newest recorded auctions, or bids, that a query selects.

mod reading;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use audit::{AuctionRow, Filter, GenerationCache, GenerationIndex, RecordDirectory};
use runtime::admin::{Api, ApiCall, ErrorCode, ErrorField, Method, Operation, Reply, Route};
use runtime::process::unix_ms;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use reading::{AuctionVisitor, FoundAuction, ReadingEnd, RecordReading, RowCount};

/// Limits of a reading.
const LIMITS: ReadingLimits = ReadingLimits { time: Duration::from_secs(5), bytes: 64 << 20 };
/// Rows of an answer, unless the query says otherwise, and at most.
const MOST_DEFAULT: usize = 100;
const MOST_MAX: usize = 1_000;
/// Most rows before those of an answer.
const SKIP_MAX: usize = 100_000;

/// Parameters that are terms of a filter, and what they are.
const TERMS: [(&str, &str); 8] = [
    ("id", "Our id of an auction, or the caller's."),
    ("publisher", "`publisher.id`."),
    ("format", "A format that an impression accepts: `banner`, `video`, `audio` or `native`."),
    ("outcome", "How the auction ended, or the fate of a bid."),
    ("seat", "The seat of a bid."),
    ("dsp", "The DSP of a bid."),
    ("deal", "The deal of a bid; empty for open bids."),
    ("campaign", "`Bid.cid`."),
];
/// Parameters that are terms of time, and their operators.
const TIMES: [(&str, &str); 2] = [("since", ">="), ("until", "<=")];

/// The record, of which one query is answered at a time.
struct RecordedAuctions {
    directory: Arc<Path>,
    limits: ReadingLimits,
    /// Locked while one is answered: the generations that were found so far.
    reading: Mutex<GenerationCache>,
}

/// What one query may take.
#[derive(Clone, Copy)]
struct ReadingLimits {
    time: Duration,
    /// Of recorded auctions that are held until the answer is made.
    bytes: usize,
}

/// Routes of the record in this directory. None if the exchange has no record.
pub(super) fn api(directory: Option<Arc<Path>>) -> Api {
    match directory {
        Some(directory) => {
            let reading = Mutex::default();
            Api::new(RecordedAuctions { directory, limits: LIMITS, reading }, routes())
        }
        None => Api::unconfigured(routes(), "the configuration has no [record]"),
    }
}

fn routes() -> Vec<Route<RecordedAuctions>> {
    vec![
        Route {
            method: Method::Get,
            path: "/v1/auctions",
            answer: |record, call| {
                let query = RecordQuery::of(call)?;
                // Until the text is written.
                let mut generations = record.begin()?;
                Ok(Reply::json(&record.auctions(&query, &mut generations)?))
            },
            operation: operation("auctions", "The newest recorded auctions that match.")
                .json::<RecordedAuctionList>(200, "Auctions, the newest first."),
        },
        Route {
            method: Method::Get,
            path: "/v1/bids",
            answer: |record, call| {
                let query = RecordQuery::of(call)?;
                let mut generations = record.begin()?;
                Ok(Reply::json(&record.bids(&query, &mut generations)?))
            },
            operation: operation("bids", "The bids of recorded auctions that match.")
                .json::<RecordedBidList>(200, "Bids, those of the newest auction first."),
        },
    ]
}

fn operation(id: &'static str, summary: &'static str) -> Operation {
    let text = json!({ "type": "string" });
    let count = |most: usize| json!({ "type": "integer", "minimum": 0, "maximum": most });
    // Repeated, one match is enough.
    let texts = json!({ "type": "array", "items": text });
    let terms =
        TERMS.iter().fold(Operation::new("record", id, summary), |operation, (name, doc)| {
            operation.parameter("query", name, &texts, doc)
        });
    terms
        .parameter("query", "since", &text, "Earliest time: as in filters, or in Unix seconds.")
        .parameter("query", "until", &text, "Latest time.")
        .parameter("query", "most", &count(MOST_MAX), "Maximum number; 100 by default.")
        .parameter("query", "skip", &count(SKIP_MAX), "Number to leave out, the newest ones.")
        .error(ErrorCode::NotConfigured, "The configuration has no `[record]`.")
        .error(ErrorCode::TooManyRequests, "Another query is being answered.")
        .error(ErrorCode::Unavailable, "The record cannot be read.")
}

/// Recorded auctions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecordedAuctions")]
struct RecordedAuctionList {
    /// Rows as `vickrey log cat --json` prints them.
    #[schemars(with = "Vec<Value>")]
    auctions: Vec<AuctionRow>,
    /// Places where the record is damaged: auctions may be missing.
    damages: usize,
}

/// Bids of recorded auctions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecordedBids")]
struct RecordedBidList {
    bids: Vec<RecordedBid>,
    /// Places where the record is damaged: auctions may be missing.
    damages: usize,
}

/// A bid and its auction. Amounts are CPM, in millionths.
#[derive(Serialize, JsonSchema)]
struct RecordedBid {
    /// The id of the auction, and the bid's position there, from 0: `…/3`.
    reference: String,
    /// Our id of the auction.
    auction: String,
    /// When its request arrived, in microseconds of Unix time.
    time_us: u64,
    publisher: Option<String>,
    is_test: bool,
    dsp: String,
    seat: Option<String>,
    /// The impression's id.
    imp: Option<String>,
    /// `Bid.id`.
    id: String,
    /// `Bid.cid`.
    campaign: Option<String>,
    deal: Option<String>,
    price_micros: Option<u64>,
    /// Of `price_micros`, `paid_micros` and `min_to_win_micros`.
    currency: String,
    fate: String,
    /// What the DSP pays, if the bid was returned.
    paid_micros: Option<u64>,
    /// The lowest price that would have won, if the bid was returned.
    min_to_win_micros: Option<u64>,
}

impl RecordedAuctions {
    /// Begins to answer a query, unless another one is being answered.
    fn begin(&self) -> Result<MutexGuard<'_, GenerationCache>, Reply> {
        match self.reading.try_lock() {
            Ok(found) => Ok(found),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let message = "another query of the record is being answered: ask again";
                Err(Reply::error(ErrorCode::TooManyRequests, message).with_retry_after(1))
            }
        }
    }

    fn auctions(
        &self,
        query: &RecordQuery,
        generations: &mut GenerationCache,
    ) -> Result<RecordedAuctionList, Reply> {
        let counted = |auction: &FoundAuction<'_>| usize::from(auction.matches(&query.filter));
        let (mut auctions, mut sought) = (Vec::new(), query.rows());
        let wanted = RowsWanted { query, counted: &counted };
        let damages = self.newest(&wanted, generations, &mut |place, auction| {
            if sought.takes() {
                auctions.push(AuctionRow::of(place, auction.record, auction.generation));
            }
        })?;
        Ok(RecordedAuctionList { auctions, damages })
    }

    fn bids(
        &self,
        query: &RecordQuery,
        generations: &mut GenerationCache,
    ) -> Result<RecordedBidList, Reply> {
        let counted = |auction: &FoundAuction<'_>| auction.bids(&query.filter).count();
        let (mut bids, mut sought) = (Vec::new(), query.rows());
        let wanted = RowsWanted { query, counted: &counted };
        let damages = self.newest(&wanted, generations, &mut |place, auction| {
            let row = AuctionRow::of(place, auction.record, auction.generation);
            for at in auction.bids(&query.filter) {
                if sought.takes() {
                    bids.push(RecordedBid::of(&row, at));
                }
            }
        })?;
        Ok(RecordedBidList { bids, damages })
    }

    /// Visits auctions as [`RecordReading::newest`] does.
    fn newest(
        &self,
        wanted: &RowsWanted<'_>,
        generations: &mut GenerationCache,
        visit: &mut AuctionVisitor<'_>,
    ) -> Result<usize, Reply> {
        let (limits, end) = (self.limits, Instant::now() + self.limits.time);
        let failed = |failure| self.refused(failure);
        let directory =
            RecordDirectory::open(&self.directory).map_err(|error| unreadable(&error))?;
        let index = GenerationIndex::resumed(&directory, std::mem::take(generations));
        let located = index.refresh_until(Some(end));
        let reading = RecordReading {
            directory: &directory,
            generations: &index,
            window: wanted.query.filter.window(),
            wanted: wanted.query.skip + wanted.query.most,
            bytes_max: limits.bytes,
            end,
        };
        let read = match located {
            Ok(true) => reading.newest(wanted.counted, visit),
            Ok(false) => Err(ReadingEnd::TooLong),
            Err(error) => Err(ReadingEnd::Failed(error)),
        };
        *generations = index.into_found();
        read.map_err(failed)
    }

    fn refused(&self, end: ReadingEnd) -> Reply {
        match end {
            ReadingEnd::Failed(error) => unreadable(&error),
            ReadingEnd::TooLong => {
                let time = self.limits.time;
                let message = format!(
                    "the record was read for {time:?}: name a later `since`, or fewer rows"
                );
                wrong("since", &message)
            }
            ReadingEnd::TooLarge => {
                let most = self.limits.bytes >> 20;
                let message =
                    format!("these auctions are more than {most} MiB: ask for fewer rows");
                wrong("most", &message)
            }
        }
    }
}

/// What is asked for, and how many rows an auction has of it.
struct RowsWanted<'w> {
    query: &'w RecordQuery,
    counted: &'w RowCount<'w>,
}

fn unreadable(error: &dyn std::fmt::Display) -> Reply {
    Reply::error(ErrorCode::Unavailable, &format!("the record cannot be read: {error}"))
}

impl RecordedBid {
    /// The bid at a position of an auction.
    fn of(auction: &AuctionRow, at: usize) -> Self {
        let (bid, sale) =
            (&auction.bids[at], auction.sales.iter().find(|sale| sale.bid == at as u64));
        let bid = bid.clone();
        Self {
            reference: format!("{}/{at}", auction.id),
            auction: auction.id.clone(),
            time_us: auction.time_us,
            publisher: auction.publisher.clone(),
            is_test: auction.is_test,
            dsp: bid.dsp,
            seat: bid.seat,
            imp: bid.imp,
            id: bid.id,
            campaign: bid.campaign,
            deal: bid.deal,
            price_micros: bid.price_micros,
            currency: bid.currency,
            fate: bid.fate.into_owned(),
            paid_micros: sale.map(|sale| sale.paid_micros),
            min_to_win_micros: sale.and_then(|sale| sale.min_to_win_micros),
        }
    }
}

/// What is asked of the record.
struct RecordQuery {
    filter: Filter,
    most: usize,
    skip: usize,
}

/// Which of the rows that are found, the newest first, an answer has.
struct SoughtRows {
    skip: usize,
    most: usize,
}

impl SoughtRows {
    /// Whether the next row is one of them.
    fn takes(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        let takes = self.most > 0;
        self.most = self.most.saturating_sub(1);
        takes
    }
}

impl RecordQuery {
    fn of(call: &ApiCall) -> Result<Self, Reply> {
        let known = || TERMS.into_iter().chain(TIMES).map(|(name, _)| name).chain(["most", "skip"]);
        if let Some(name) = call.query_names().find(|name| known().all(|known| known != name)) {
            let message = format!("there is no parameter `{}`", diagnostics::shortened(&name));
            return Err(wrong(&name, &message));
        }
        let single = TIMES.map(|(name, _)| name).into_iter().chain(["most", "skip"]);
        for name in single {
            if call.query_names().filter(|of| of == name).count() > 1 {
                let message = format!("`{name}` is given twice");
                return Err(wrong(name, &message));
            }
        }
        let mut terms = Vec::new();
        for (name, _) in TERMS {
            let values = call.queries(name)?;
            if !values.is_empty() {
                let values: Vec<_> = values.iter().map(|value| quoted(value)).collect();
                terms.push((name, format!("{name}={}", values.join(","))));
            }
        }
        for (name, operator) in TIMES {
            if let Some(value) = call.query(name)? {
                terms.push((name, format!("time{operator}{}", quoted(&value))));
            }
        }
        let now_us = unix_ms().saturating_mul(1_000);
        for (name, term) in &terms {
            if let Err(problem) = Filter::parse(term, now_us) {
                let message = format!("`{name}`: {}; {}", problem.problem, problem.remedy);
                return Err(wrong(name, &message));
            }
        }
        let terms: Vec<_> = terms.into_iter().map(|(_, term)| term).collect();
        let filter = Filter::parse(&terms.join(" "), now_us)
            .map_err(|problem| Reply::error(ErrorCode::BadRequest, &problem.to_string()))?;
        let most = number(call, "most", MOST_DEFAULT, MOST_MAX)?;
        let skip = number(call, "skip", 0, SKIP_MAX)?;
        Ok(Self { filter, most, skip })
    }

    const fn rows(&self) -> SoughtRows {
        SoughtRows { skip: self.skip, most: self.most }
    }
}

/// A value of a filter, whatever it contains.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn number(call: &ApiCall, name: &str, default: usize, most: usize) -> Result<usize, Reply> {
    let Some(text) = call.query(name)? else { return Ok(default) };
    text.parse().ok().filter(|number| *number <= most).ok_or_else(|| {
        let message = format!("`{name}` is a number, at most {most}");
        wrong(name, &message)
    })
}

/// The answer to a request whose parameter is wrong.
fn wrong(name: &str, message: &str) -> Reply {
    Reply::error_with(ErrorCode::BadRequest, message, ErrorField::at(name))
}
