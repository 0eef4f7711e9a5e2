//! What a process left on its disk, held against each other and against what its callers know: the
//! record's settlements, its auctions, and the limits that held when they were.

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

/// Seconds of a quarter of an hour, by which periods are named.
const QUARTER_S: i64 = 900;

/// A settlement, as the durable lane has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub nanos: u64,
    pub slot: u32,
    /// When the hour begins to which it is booked.
    pub hour_ms: u64,
    pub accepted_ms: u64,
}

/// What was authorised, as the record or its caller knows it.
#[derive(Clone, Debug)]
pub struct Authorised {
    pub winner: String,
    pub nanos: u64,
    /// It was reserved between these.
    asked_ms: u64,
    reserved_ms: u64,
}

/// All that is known of the lives of a process.
#[derive(Default)]
pub struct Books {
    /// By the billing beacon.
    pub settled: BTreeMap<[u8; TokenId::BYTES], (String, Settlement)>,
    pub authorised: BTreeMap<[u8; TokenId::BYTES], Authorised>,
    /// Auctions that the record knows and no caller was told of.
    pub untold: usize,
}

/// The id of a beacon: version 1, key id 4, id 24, and what is sealed.
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
            // What the end of a process cut short.
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

/// All that is billed, in nanos.
pub fn settled(folder: &Path) -> u64 {
    settlements(folder).values().map(|settlement| settlement.nanos).sum()
}

/// What `vickrey log` says, which must end well.
pub fn log(folder: &Path, arguments: &[&str]) -> String {
    let mut command = vickrey(&[&["log"], arguments].concat());
    let (code, out, err) = run(command.arg("--dir").arg(folder.join("record")));
    assert_eq!(code, Some(0), "{arguments:?}: {err}\n{}", &out[..out.len().min(2000)]);
    out
}

/// Wins as the record of auctions has them, by the first 16 bytes of their beacons' ids.
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
    /// Holds what the record says against what callers know: what they were told is billed is settled,
    /// once, for its price; and nothing is that nobody called for.
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
            // Of whom nobody heard: by the auction alone.
            let mut id = [0; TokenId::BYTES];
            id[..16].copy_from_slice(&auction);
            books.authorised.insert(id, authorised);
        }
        books
    }

    /// All that was billed of these, in nanos.
    pub fn spent(&self, winners: &[&str]) -> u64 {
        let of = self.settled.values().filter(|(winner, _)| winners.contains(&winner.as_str()));
        of.map(|(_, settlement)| settlement.nanos).sum()
    }

    /// What came after its reservation may have expired: in all, and not bound by limits.
    pub fn late(&self, winners: &[&str], lasts_ms: u64) -> u64 {
        let late = self.settled.iter().filter(|(id, (winner, settlement))| {
            winners.contains(&winner.as_str())
                && self.authorised[*id].asked_ms + lasts_ms <= settlement.accepted_ms
        });
        late.map(|(_, (_, settlement))| settlement.nanos).sum()
    }
}

/// What a limit counts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    Life,
    Day,
    Hour,
}

/// A limit.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// A campaign or an account, and whose wins it pays for.
    pub owner: &'static str,
    pub of: &'static [&'static str],
    pub span: Span,
    pub zone: &'static str,
    /// In the first life; in the second it is twice that, and so on.
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

    /// Within which span of it a moment is: any two in the same have the same name.
    fn span_of(&self, at_ms: u64) -> String {
        let at = Timestamp::from_millisecond(at_ms.try_into().unwrap()).unwrap();
        let at = at.to_zoned(TimeZone::get(self.zone).unwrap());
        match self.span {
            Span::Life => String::new(),
            Span::Day => at.date().to_string(),
            // By its beginning: the hours of a zone need not begin with those of UTC.
            Span::Hour => at.strftime("%F %H %z").to_string(),
        }
    }

    /// Whether at any moment more was authorised than the limit: what is settled, save what came too
    /// late to be held back for, and what was reserved so shortly before that it cannot have expired.
    /// `lives` are when each life began. How much was authorised at the most, of how much.
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
                // Nobody knows to which of the two it was booked.
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
        // At the same moment what ends goes first: it was over when the other began, or may have been.
        changes.sort_unstable();
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        let mut most = (0, self.nanos);
        for (at_ms, nanos, span) in changes {
            let sum = sums.entry(span).or_default();
            *sum += nanos;
            let life = lives.partition_point(|begun| *begun <= at_ms) as u64;
            let (sum, limit) = (u64::try_from(*sum).unwrap(), life * self.nanos);
            assert!(sum <= limit, "{self:?}: {sum} of {limit} at {at_ms}, in life {life}");
            // The fullest that it was.
            if u128::from(sum) * u128::from(most.1) > u128::from(most.0) * u128::from(limit) {
                most = (sum, limit);
            }
        }
        most
    }
}
