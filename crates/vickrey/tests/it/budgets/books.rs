//! The data on a process's disk, compared with each other and with what its callers know:
//! settlements, recorded auctions, and the limits in force.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use eventlog::disk::DiskFolder;
use eventlog::{LogEntry, LogReader};
use exchange_core::TokenId;
use exchange_core::delivery::JournalRecord;
use jiff::{Timestamp, tz::TimeZone};
use pacer_serve::Keyring;
use serde_json::Value;

use super::life::SEAT;
use super::load::{Billed, Win};
use crate::program::{run, vickrey};

/// Seconds of a quarter of an hour, the unit of periods.
const QUARTER_S: i64 = 900;

/// A settlement in the durable lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub nanos: u64,
    pub slot: u32,
    /// Start of the hour to which it is booked.
    pub hour_ms: u64,
    pub accepted_ms: u64,
}

/// An authorised amount, from the record or the caller.
#[derive(Clone, Debug)]
pub struct Authorised {
    pub winner: String,
    pub nanos: u64,
    /// The reservation was made between these times.
    asked_ms: u64,
    reserved_ms: u64,
}

/// All books of a process's runs.
#[derive(Default)]
pub struct Books {
    /// By the billing beacon.
    pub settled: BTreeMap<[u8; TokenId::BYTES], (String, Settlement)>,
    pub authorised: BTreeMap<[u8; TokenId::BYTES], Authorised>,
    /// Recorded auctions whose response no caller received.
    pub untold: usize,
}

/// The id in a beacon: version 1, key id 4, id 24, sealed content.
fn beacon_id(beacon: &str) -> [u8; TokenId::BYTES] {
    let bytes = URL_SAFE_NO_PAD.decode(beacon).expect("it is base64url");
    *bytes[5..].first_chunk().expect("a beacon has an id")
}

/// The settlements in the durable lane, each once.
fn settlements(folder: &Path) -> BTreeMap<[u8; TokenId::BYTES], Settlement> {
    let keys = Keyring::open(&folder.join("budgets"), None, None).unwrap();
    let lane = DiskFolder::read_only(folder.join("record/durable"));
    let mut found = BTreeMap::new();
    for item in LogReader::new(&lane).unwrap() {
        let record = match item.unwrap() {
            LogEntry::Record(record) => record,
            // The end of the process cut it short.
            LogEntry::Torn(_) => continue,
            LogEntry::Corruption(corruption) => panic!("{corruption}"),
        };
        if record.kind != events::RecordKind::Notice.code() {
            continue;
        }
        let JournalRecord::Accepted { id, accepted_ms, reservation: Some(reservation), .. } =
            JournalRecord::decode(&record.payload).unwrap()
        else {
            continue;
        };
        assert_eq!(reservation.currency.code(), "USD");
        let token = keys.open_token(reservation.token.as_str().as_bytes()).unwrap();
        let hour_ms = u64::from(token.period().0) * u64::try_from(QUARTER_S).unwrap() * 1000;
        let (nanos, slot) = (token.amount().get(), token.slot().0);
        let settlement = Settlement { nanos, slot, hour_ms, accepted_ms };
        assert_eq!(found.insert(id.0, settlement), None, "{id:?} is settled twice in the record");
    }
    found
}

/// The total billed, in nanos.
pub fn settled(folder: &Path) -> u64 {
    settlements(folder).values().map(|settlement| settlement.nanos).sum()
}

/// The output of `vickrey log`, which must succeed.
pub fn log(folder: &Path, arguments: &[&str]) -> String {
    let mut command = vickrey(&[&["log"], arguments].concat());
    let (code, out, err) = run(command.arg("--dir").arg(folder.join("record")));
    assert_eq!(code, Some(0), "{arguments:?}: {err}\n{}", &out[..out.len().min(2000)]);
    out
}

/// Recorded wins, by the first 16 bytes of their beacons' ids.
fn recorded(folder: &Path) -> BTreeMap<[u8; 16], Authorised> {
    let rows = log(folder, &["cat", "--json", "outcome=filled"]);
    let rows = rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
    let of = |row: Value| {
        let (sale, number) = (&row["sales"][0], |of: &Value| of.as_u64().unwrap());
        let id = u128::from_str_radix(row["id"].as_str().unwrap(), 16).unwrap();
        let cleared_us = number(&row["time_us"]) + number(&row["cleared_us"]);
        let authorised = Authorised {
            winner: sale["campaign"].as_str().unwrap_or(SEAT).to_owned(),
            nanos: number(&sale["paid_micros"]),
            asked_ms: number(&row["time_us"]) / 1000,
            reserved_ms: cleared_us.div_ceil(1000),
        };
        (id.to_be_bytes(), authorised)
    };
    rows.map(of).collect()
}

impl Books {
    /// Compares the record with the callers: each win whose billing was acknowledged is settled
    /// once, at its price, and nothing else is settled.
    pub fn read(folder: &Path, wins: &[Win]) -> Self {
        let mut recorded = recorded(folder);
        let mut books = Self::default();
        let mut settlements = settlements(folder);
        let mut winners: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
        for win in wins {
            let id = beacon_id(&win.sold.beacon);
            let (winner, nanos) = (win.sold.winner.clone(), win.sold.nanos);
            let settled = settlements.remove(&id);
            match (win.billed, &settled) {
                (Billed::Never, Some(_)) => panic!("nobody billed {win:?}"),
                (Billed::Answered, None) => panic!("lost: {win:?}"),
                _ => (),
            }
            let of_auction = recorded.remove(id.first_chunk::<16>().unwrap());
            let known = Authorised {
                winner: winner.clone(),
                nanos,
                asked_ms: win.asked_ms,
                reserved_ms: win.answered_ms,
            };
            let authorised = of_auction.unwrap_or_else(|| known.clone());
            assert_eq!((&authorised.winner, authorised.nanos), (&known.winner, known.nanos));
            books.authorised.insert(id, authorised);
            if let Some(settlement) = settled {
                assert_eq!(settlement.nanos, nanos, "{win:?}");
                winners.entry(settlement.slot).or_default().insert(&win.sold.winner);
                books.settled.insert(id, (winner, settlement));
            }
        }
        assert!(settlements.is_empty(), "nobody was ever handed these: {settlements:?}");
        for (slot, of) in winners {
            assert_eq!(of.len(), 1, "one campaign for slot {slot}: {of:?}");
        }
        books.untold = recorded.len();
        for (auction, authorised) in recorded {
            // No caller received it, so only its auction is known.
            let mut id = [0; TokenId::BYTES];
            id[..16].copy_from_slice(&auction);
            books.authorised.insert(id, authorised);
        }
        books
    }

    /// The total billed for these winners, in nanos.
    pub fn spent(&self, winners: &[&str]) -> u64 {
        let of = self.settled.values().filter(|(winner, _)| winners.contains(&winner.as_str()));
        of.map(|(_, settlement)| settlement.nanos).sum()
    }

    /// The total billed after the reservation may have expired, which limits do not bound.
    pub fn late(&self, winners: &[&str], lasts_ms: u64) -> u64 {
        let late = self.settled.iter().filter(|(id, (winner, settlement))| {
            winners.contains(&winner.as_str())
                && self.authorised[*id].asked_ms + lasts_ms <= settlement.accepted_ms
        });
        late.map(|(_, (_, settlement))| settlement.nanos).sum()
    }
}

/// The period of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    Life,
    Day,
    Hour,
}

/// A limit.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// A campaign or an account, and the winners that it pays for.
    pub owner: &'static str,
    pub of: &'static [&'static str],
    pub span: Span,
    pub zone: &'static str,
    /// In the first run; the second run has twice that, and so on.
    pub nanos: u64,
}

impl Level {
    pub const fn new(
        (owner, of): (&'static str, &'static [&'static str]),
        span: Span,
        zone: &'static str,
        nanos: u64,
    ) -> Self {
        Self { owner, of, span, zone, nanos }
    }

    /// The name of the period that contains a time.
    fn span_of(&self, at_ms: u64) -> String {
        let at = Timestamp::from_millisecond(at_ms.try_into().unwrap()).unwrap();
        let at = at.to_zoned(TimeZone::get(self.zone).unwrap());
        match self.span {
            Span::Life => String::new(),
            Span::Day => at.date().to_string(),
            // By its local start: a zone's hours need not begin with UTC's.
            Span::Hour => at.strftime("%F %H %z").to_string(),
        }
    }

    /// Checks that the authorised amount never exceeded the limit: settlements, except for late
    /// ones beyond the holdback, plus reservations too recent to have expired. `lives` has the
    /// start of each run. Returns the highest amount and its limit.
    pub fn check(&self, books: &Books, lives: &[u64], lasts_ms: u64) -> (u64, u64) {
        let mut changes: Vec<(u64, i128, String)> = Vec::new();
        for (id, authorised) in &books.authorised {
            if !self.of.contains(&authorised.winner.as_str()) {
                continue;
            }
            let expires_ms = authorised.asked_ms + lasts_ms;
            let settled = books.settled.get(id).map(|(_, settlement)| settlement);
            let hour_ms = settled.map_or(authorised.asked_ms, |settlement| settlement.hour_ms);
            let span = self.span_of(hour_ms);
            if settled.is_none() && span != self.span_of(authorised.reserved_ms) {
                // It may be booked to either period.
                continue;
            }
            let nanos = i128::from(authorised.nanos);
            let is_kept = settled.is_some_and(|settlement| settlement.accepted_ms < expires_ms);
            if is_kept || authorised.reserved_ms < expires_ms {
                changes.push((authorised.reserved_ms, nanos, span.clone()));
            }
            if !is_kept && authorised.reserved_ms < expires_ms {
                changes.push((expires_ms, -nanos, span));
            }
        }
        // Ends sort before starts at the same time: one may have ended before the other began.
        changes.sort_unstable();
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        let mut most = (0, self.nanos);
        for (at_ms, nanos, span) in changes {
            let sum = sums.entry(span).or_default();
            *sum += nanos;
            let life = lives.partition_point(|begun| *begun <= at_ms) as u64;
            let (sum, limit) = (u64::try_from(*sum).unwrap(), life * self.nanos);
            assert!(sum <= limit, "{self:?}: {sum} of {limit} at {at_ms}, in life {life}");
            // The highest use of the limit.
            if u128::from(sum) * u128::from(most.1) > u128::from(most.0) * u128::from(limit) {
                most = (sum, limit);
            }
        }
        most
    }
}
