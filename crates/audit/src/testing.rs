//! A record for tests: auctions among three DSPs, run by the rules and written as by an exchange.
//! Deterministic.

#![expect(missing_docs, reason = "it is no part of the product")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use eventlog::disk::DiskFolder;
use eventlog::lane::LaneKind;
use eventlog::{LogWriter, WriterOptions};
use events::{Gap, RecordKind, Watermark};
use exchange_core::record::{
    AuctionContext, AuctionEnding, BudgetRefusals, CallOutcome, GenerationInForce, JudgedAuction,
    RecordedBodies, RecordedCall, Timings, encode, encode_generation,
};
use exchange_core::{
    Auction, ClearedAuction, DealTerms, Dsp, DspAnswer, Market, NotAsked, Publishers, Rates,
    Targeting, TieKey, TrackingSignals, clear, eligible, judge, sales,
};
use openrtb::codes::NoBidReason;
use units::{Currency, Ppm, Price, Ratio, Rounding};

/// 2026-11-22T08:00:00Z, in milliseconds of Unix time.
pub const START_MS: u64 = 1_795_334_400_000;

/// The node that writes it.
pub const NODE: u32 = 7;

/// DSPs and their seats, in market order.
pub const DSPS: [(&str, &[&str]); 3] =
    [("alpha", &["a1", "a2"]), ("beta", &["b1"]), ("gamma", &["g1"])];

/// A bid of a DSP, by position.
#[derive(Clone, Copy, Debug)]
pub struct SampleBid {
    pub dsp: usize,
    pub seat: &'static str,
    pub price: &'static str,
    pub deal: Option<&'static str>,
    pub campaign: Option<&'static str>,
}

impl SampleBid {
    pub const fn new(dsp: usize, seat: &'static str, price: &'static str) -> Self {
        Self { dsp, seat, price, deal: None, campaign: None }
    }
}

/// An auction of one impression.
#[derive(Clone, Debug)]
pub struct SampleAuction {
    /// The number in its id.
    pub number: u64,
    /// Its time, from [`START_MS`].
    pub at: Duration,
    pub generation: u64,
    pub publisher: Option<&'static str>,
    pub format: &'static str,
    pub is_test: bool,
    pub bids: Vec<SampleBid>,
}

impl SampleAuction {
    /// A banner of `news` in generation 1, one second after the previous auction.
    pub fn new(number: u64, bids: &[SampleBid]) -> Self {
        Self {
            number,
            at: Duration::from_secs(number),
            generation: 1,
            publisher: Some("news"),
            format: "banner",
            is_test: false,
            bids: bids.to_vec(),
        }
    }

    pub fn id(&self) -> String {
        format!("{:032x}", self.number)
    }

    pub fn time_ms(&self) -> u64 {
        START_MS + u64::try_from(self.at.as_millis()).expect("a short time")
    }

    fn request(&self) -> String {
        let format = match self.format {
            "video" => r#""video":{"mimes":["video/mp4"]}"#,
            _ => r#""banner":{"w":300,"h":250}"#,
        };
        let publisher = self.publisher.map_or_else(String::new, |publisher| {
            format!(r#","site":{{"publisher":{{"id":"{publisher}"}}}}"#)
        });
        let test = u8::from(self.is_test);
        format!(
            r#"{{"id":"caller-{}","at":2,"tmax":120,"test":{test},"imp":[{{"id":"top","bidfloor":0.5,
            "pmp":{{"deals":[{{"id":"spring","bidfloor":1}}]}},{format}}}]{publisher}}}"#,
            self.number
        )
    }

    fn body(&self, dsp: usize) -> Option<String> {
        let mut seats = String::new();
        let markup = if self.format == "video" { "<VAST/>" } else { "<p>" };
        for (at, bid) in self.bids.iter().filter(|bid| bid.dsp == dsp).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let named = |name: &str, value: Option<&str>| {
                value.map_or_else(String::new, |value| format!(r#","{name}":"{value}""#))
            };
            let (deal, campaign) = (named("dealid", bid.deal), named("cid", bid.campaign));
            let (seat, price) = (bid.seat, bid.price);
            let _ = write!(
                seats,
                r#"{comma}{{"seat":"{seat}","bid":[{{"id":"{seat}-{at}","impid":"top","price":{price},"adm":"{markup}","crid":"c"{deal}{campaign}}}]}}"#
            );
        }
        let id = self.id();
        (!seats.is_empty()).then(|| format!(r#"{{"id":"{id}","cur":"USD","seatbid":[{seats}]}}"#))
    }

    /// The auction as a record.
    pub fn record(&self) -> Vec<u8> {
        let (market, text, id) = (market(), self.request(), self.id());
        let request = openrtb::parse_request(&text).expect("it is valid");
        let auction = Auction::new(&id, &request, &market).expect("it can be held");
        let bodies: Vec<_> = (0..DSPS.len()).map(|dsp| self.body(dsp)).collect();
        let (mut answers, mut calls) = (Vec::new(), Vec::new());
        for (dsp, body) in bodies.iter().enumerate() {
            let ask = eligible(&auction, dsp).expect("all are asked");
            answers.extend(body.iter().map(|body| DspAnswer { ask, body: body.as_bytes() }));
            let outcome = if body.is_some() { CallOutcome::Answered } else { CallOutcome::NoBid };
            let latency = Duration::from_millis(20 + 10 * u64::try_from(dsp).expect("few"));
            let sent = Some(Duration::from_micros(400));
            calls.push(RecordedCall { ask, tmax_ms: 100, outcome, sent, latency: Some(latency) });
        }
        let judgement = judge(&auction, &answers);
        let mut refusals = BudgetRefusals::default();
        let (entries, groups) = (&judgement.entries, &judgement.groups);
        let clearing = clear(entries, groups, auction.imps_len(), auction.increment, |win| {
            refusals.note(win, Ok(()))
        });
        let sales = sales(&auction, &judgement, &clearing);
        let is_sold = !sales.is_empty();
        let cleared = ClearedAuction {
            answers: &answers,
            judgement: &judgement,
            clearing: &clearing,
            sales: &sales,
        };
        let us = |us| Some(Duration::from_micros(us));
        let context = AuctionContext {
            id: &id,
            request: &request,
            generation: self.generation,
            arrival_unix_us: self.time_ms() * 1000,
            timings: Timings {
                parsed: us(80),
                asked: us(300),
                closed: us(41_000),
                cleared: us(41_100),
                answered: us(41_200 + 1000 * (self.number % 10)),
                left_us: 57_800,
            },
            ending: if is_sold { AuctionEnding::Filled } else { AuctionEnding::NoBid },
            no_bid: (!is_sold).then_some(NoBidReason::Unknown),
            auction: Some(&auction),
            judged: Some(JudgedAuction { cleared, refusals: refusals.refused() }),
            bodies: RecordedBodies::default(),
        };
        let none: [(usize, NotAsked); 0] = [];
        let mut record = Vec::new();
        encode(&context, none, calls, &mut record).expect("it is short");
        record
    }
}

fn market() -> Market {
    let dsp = |(id, seats): &(&str, &[&str])| Dsp {
        id: (*id).into(),
        seats: seats.iter().map(|seat| (*seat).into()).collect(),
        formats: 0b1111,
        sizes: Vec::new(),
        countries: Vec::new(),
        publishers_allowed: Vec::new(),
        publishers_blocked: Vec::new(),
        currencies: vec![Currency::USD],
        timeout: Duration::from_millis(120),
        network_margin: None,
        targeting: Targeting::default(),
        privacy: TrackingSignals::default(),
        notice_hosts: Vec::new(),
    };
    let mut publishers = Publishers::default();
    publishers.others.fee = Ppm::new(100_000).expect("a tenth");
    Market {
        dsps: DSPS.iter().map(dsp).collect(),
        publishers,
        deals: HashMap::from([("spring".into(), DealTerms::default())]),
        sold: exchange_core::SoldDeals::default(),
        floors: Vec::new(),
        rates: Rates::new([(Currency::USD, Ratio::ONE)]),
        currency: Currency::USD,
        increment: Price::parse("0.01 USD", Rounding::Up).expect("it is a price"),
        deals_first: false,
        creative_id_required: true,
        bid_macros_max: 1000,
        tie_key: TieKey::new([7; 16]),
        supply_chain: None,
        enrichments: Vec::new(),
    }
}

/// The record of a generation.
pub fn generation(number: u64, since_ms: u64) -> Vec<u8> {
    let market = market();
    let mut record = Vec::new();
    let in_force = GenerationInForce {
        number,
        since_unix_ms: since_ms,
        market: &market,
        rates: &[],
        toml: b"",
        campaigns: 0,
    };
    encode_generation(&in_force, &mut record).expect("it can be recorded");
    record
}

/// The record of a gap.
pub fn gap(records: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Gap { shard: 0, records, since_unix_ms: START_MS, through_unix_ms: START_MS }.encode(&mut out);
    out
}

/// A record's directory, while it is written.
pub struct SampleLog {
    durable: LogWriter<DiskFolder>,
    firehose: LogWriter<DiskFolder>,
}

impl SampleLog {
    /// Opens or creates a record. `segment_bytes` limits a segment, which holds one record at
    /// least.
    pub fn open(path: &Path, segment_bytes: u64) -> Self {
        let options = WriterOptions { segment_bytes, node: NODE, ..WriterOptions::DEFAULT };
        let open = |kind: LaneKind| {
            let folder = DiskFolder::new(path.join(kind.name())).expect("a folder");
            LogWriter::open(folder, options, |_| ()).expect("a log").0
        };
        Self { durable: open(LaneKind::Durable), firehose: open(LaneKind::Firehose) }
    }

    /// A record with generation 1, from [`START_MS`] on, and these auctions.
    pub fn of(path: &Path, samples: &[SampleAuction]) -> Self {
        let mut log = Self::open(path, 4096);
        log.durable(RecordKind::Generation.code(), START_MS, &generation(1, START_MS));
        for sample in samples {
            log.auction(sample);
        }
        log
    }

    /// A billing beacon of an auction's bid: an account owes this many nanos of a dollar.
    pub fn settle(&mut self, time_ms: u64, auction: u128, bid: u32, nanos: u64) {
        let mut record = vec![1, 4];
        record.extend(auction.to_be_bytes());
        record.extend(bid.to_be_bytes());
        record.extend([2, 0, 0, 0]);
        record.extend(time_ms.to_le_bytes());
        record.extend((START_MS + 3_600_000).to_le_bytes());
        let mut token = [0; 48];
        token[0] = 1;
        token[32..40].copy_from_slice(&nanos.to_be_bytes());
        record.extend(token);
        record.extend(b"USD");
        record.push(0);
        self.durable(RecordKind::Notice.code(), time_ms, &record);
    }

    /// Writes a watermark: the firehose is durable up to `sequence`.
    pub fn watermark(&mut self, time_ms: u64, sequence: u64) {
        let mut record = Vec::new();
        Watermark { epoch: 1, sequence }.encode(&mut record);
        self.durable(RecordKind::Watermark.code(), time_ms, &record);
    }

    /// Removes every segment of the firehose that retention allows.
    pub fn retain_newest(&mut self) {
        self.firehose.retain(Some(0), None, u64::MAX).expect("nothing fails");
    }

    /// Stops it cleanly, at a Unix time in milliseconds.
    pub fn seal(mut self, time_ms: u64) {
        self.durable.seal_end(time_ms).expect("nothing fails");
        self.firehose.seal_end(time_ms).expect("nothing fails");
    }

    pub fn durable(&mut self, kind: u8, time_ms: u64, payload: &[u8]) {
        self.durable.append(kind, time_ms, payload).expect("it fits");
        self.durable.commit().expect("nothing fails");
    }

    pub fn firehose(&mut self, kind: u8, time_ms: u64, payload: &[u8]) {
        self.firehose.append(kind, time_ms, payload).expect("it fits");
        self.firehose.commit().expect("nothing fails");
    }

    /// Writes a record `times` times, in one commit.
    pub fn raw(&mut self, record: &[u8], times: u64, time_ms: u64) {
        for _ in 0..times {
            self.firehose.append(RecordKind::Auction.code(), time_ms, record).expect("it fits");
        }
        self.firehose.commit().expect("nothing fails");
    }

    /// Writes all auctions in one commit.
    pub fn many(&mut self, samples: &[SampleAuction]) {
        for sample in samples {
            let record = sample.record();
            self.firehose
                .append(RecordKind::Auction.code(), sample.time_ms(), &record)
                .expect("it fits");
        }
        self.firehose.commit().expect("nothing fails");
    }

    pub fn auction(&mut self, sample: &SampleAuction) {
        self.firehose(RecordKind::Auction.code(), sample.time_ms(), &sample.record());
    }
}

/// Six auctions: three won by `a1`, `b1` and `a1`, one without bids, a test, and, an hour later, a
/// video of another publisher.
pub fn samples() -> Vec<SampleAuction> {
    let (a1, b1) = (SampleBid::new(0, "a1", "2.5"), SampleBid::new(1, "b1", "1.5"));
    let campaign = |bid: SampleBid| SampleBid { campaign: Some("summer"), ..bid };
    let deal = |bid: SampleBid| SampleBid { deal: Some("spring"), ..bid };
    let first = SampleAuction::new(1, &[a1, b1]);
    let second = SampleAuction::new(2, &[SampleBid::new(0, "a1", "1.2"), campaign(b1)]);
    let third = SampleAuction::new(3, &[deal(campaign(SampleBid::new(0, "a1", "3"))), b1]);
    let fourth = SampleAuction::new(4, &[]);
    let fifth = SampleAuction { is_test: true, ..SampleAuction::new(5, &[a1]) };
    let sixth = SampleAuction {
        at: Duration::from_secs(3600),
        publisher: Some("films"),
        format: "video",
        ..SampleAuction::new(6, &[SampleBid::new(0, "a2", "4"), SampleBid::new(2, "g1", "0.2")])
    };
    vec![first, second, third, fourth, fifth, sixth]
}
