//! Rows of every shape, and exports of them.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use audit::{
    AnswerRow, AuctionRow, BidRow, CallRow, DealRow, EnrichmentRow, ImpRow, NotAskedRow, SaleRow,
};
use export::{ExportItem, ExportLimits, ExportOptions, ExportSummary, FileFormat, LogPosition};

/// 2026-11-22T08:00 UTC.
const EIGHT_US: u64 = 1_795_334_400_000_000;

/// An auction with `n` bids and its results: with empty lists, absent values, all kinds of text,
/// and the largest numbers.
pub(crate) fn auction(sequence: u64) -> AuctionRow {
    let some = |n: u64| !sequence.is_multiple_of(n);
    let imps: Vec<_> = (0..sequence % 3).map(imp).collect();
    let bids: Vec<_> = (0..sequence % 5).map(|n| bid(sequence, n)).collect();
    let won = |(_, bid): &(u64, &BidRow)| bid.fate == "won";
    let sales: Vec<_> =
        (0..).zip(&bids).filter(won).map(|(at, bid)| sale(sequence, at, bid)).collect();
    AuctionRow {
        time_us: EIGHT_US + sequence * 97_000_000,
        node: 7,
        epoch: epoch(sequence),
        sequence,
        id: format!("{sequence:032x}"),
        caller_id: format!("\"c\\{sequence}\"\n\u{1}ü𝄞"),
        generation: 1 + sequence / 50,
        publisher: some(4).then(|| format!("publisher {}", sequence % 4)),
        is_test: sequence.is_multiple_of(6),
        tmax_ms: some(5).then_some(120),
        ending: if sales.is_empty() { "no_bid" } else { "filled" }.into(),
        nbr: sales.is_empty().then_some(500),
        currency: some(7).then(|| "USD".into()),
        base_currency: some(8).then(|| "EUR".into()),
        auction_type: some(7).then(|| "second_price".into()),
        increment_micros: some(7).then_some(10_000),
        notices: some(7).then(|| "final".into()),
        bids_returned: some(7).then(|| "winner".into()),
        parsed_us: some(9).then_some(sequence),
        asked_us: some(9).then_some(sequence + 1),
        closed_us: some(3).then_some(sequence + 2),
        cleared_us: some(3).then_some(sequence + 3),
        answered_us: some(3).then_some(u64::MAX - sequence),
        left_us: i64::try_from(sequence).expect("small") - 60,
        calls_count: sequence % 2,
        bids_count: bids.len() as u64,
        wins_count: sales.len() as u64,
        bids_left_out: 0,
        deals: imps.iter().map(deal).collect(),
        imps,
        not_asked: (0..sequence % 2).map(|_| not_asked()).collect(),
        calls: (0..sequence % 2).map(|_| call(sequence)).collect(),
        bids,
        sales,
        request: (sequence % 10 == 1).then(|| r#"{"id":"r","imp":[]}"#.into()),
        answers: (0..sequence % 2).map(|_| answer()).collect(),
        enrichments: (0..sequence % 3).map(enrichment).collect(),
    }
}

fn imp(n: u64) -> ImpRow {
    ImpRow {
        id: n.to_string(),
        formats: ["banner", "video"].map(Into::into)[..usize::try_from(n).expect("small")].to_vec(),
        is_private: n == 1,
        bidfloor_micros: 0,
        shown_floor_micros: 500_000,
        fee_ppm: 150_000,
        multiplier_millionths: 1_000_000,
    }
}

fn deal(imp: &ImpRow) -> DealRow {
    DealRow {
        imp: imp.id.clone(),
        id: "deal".into(),
        auction_type: "agreed".into(),
        class: 1,
        fee_ppm: 100_000,
        discount_ppm: 0,
        floor_micros: imp.is_private.then_some(4_000_000),
    }
}

fn not_asked() -> NotAskedRow {
    NotAskedRow { dsp: "slow".into(), reason: "breaker".into() }
}

fn call(sequence: u64) -> CallRow {
    CallRow {
        dsp: "north".into(),
        imps: (0..sequence % 3).map(|n| n.to_string()).collect(),
        deals: Vec::new(),
        tmax_ms: 100,
        outcome: "answered".into(),
        sent_us: Some(300),
        latency_us: (!sequence.is_multiple_of(3)).then_some(sequence * 11),
        response: Some("bids".into()),
    }
}

fn enrichment(n: u64) -> EnrichmentRow {
    let text = (n == 0).then(|| "\"weather\":{\"celsius\":21}".to_owned());
    let outcome = if text.is_some() { "added" } else { "unknown" }.into();
    EnrichmentRow { name: format!("e{n}"), outcome, age_ms: n * 1_000, text }
}

fn answer() -> AnswerRow {
    AnswerRow { dsp: "north".into(), body: "{\n}".into() }
}

fn bid(sequence: u64, n: u64) -> BidRow {
    let is_winner = n == sequence % 2;
    BidRow {
        dsp: format!("dsp {n}"),
        seat: (n != 2).then(|| "acme".into()),
        imp: (n != 3).then(|| "0".into()),
        id: if n == 3 { String::new() } else { format!("{sequence}-{n}") },
        campaign: is_winner.then(|| format!("campaign {}", sequence % 3)),
        currency: "USD".into(),
        price_micros: (n != 3).then_some(1_000_000 + sequence * 1000 + n),
        deal: None,
        floor_micros: Some(500_000),
        worth_micros: is_winner.then_some(1_000_000),
        tie: u64::MAX - sequence * 16 - n,
        group: (n == 1).then_some(0),
        barred: (n == 2).then(|| "no_markup".into()),
        is_out_of_reach: n == 2,
        fate: if is_winner { "won" } else { "lost_to_higher_bid" }.into(),
    }
}

fn sale(sequence: u64, at: u64, bid: &BidRow) -> SaleRow {
    SaleRow {
        bid: at,
        id: bid.id.clone(),
        imp: "0".into(),
        dsp: bid.dsp.clone(),
        seat: "acme".into(),
        deal: None,
        campaign: bid.campaign.clone(),
        fate: "won".into(),
        price_micros: 900_000 + sequence,
        net_micros: 800_000,
        paid_micros: 900_000 + sequence,
        paid_currency: "USD".into(),
        min_to_win_micros: (at == 0).then_some(700_000),
        revenue_nanos: 900_000 + sequence,
    }
}

fn epoch(sequence: u64) -> u64 {
    1 + sequence / 40
}

/// A hundred auctions over three hours.
pub(crate) fn auctions() -> Vec<AuctionRow> {
    (1..=100).map(auction).collect()
}

/// Exports rows in two runs, of which the second continues within an hour.
pub(crate) fn export(rows: &[AuctionRow], out: &Path, format: FileFormat) -> ExportSummary {
    let limits = ExportLimits { batch_rows: 7, group_rows: 20, ..ExportLimits::default() };
    let options =
        ExportOptions { out: out.to_owned(), node: 7, format, filter: String::new(), limits };
    let item = |row: &AuctionRow| {
        let place = LogPosition { epoch: row.epoch, sequence: row.sequence };
        Ok::<_, Infallible>(ExportItem::Row {
            place,
            time_us: row.time_us,
            bytes: 900,
            row: row.clone(),
        })
    };
    let first = rows.iter().take(20).map(item);
    export::export(first, &options, || false).expect("it is exported");
    let resumed = export::resume_point(out, 7).expect("a state");
    assert_eq!(resumed, Some(LogPosition { epoch: 1, sequence: 20 }));
    export::export(rows.iter().map(item), &options, || false).expect("it goes on")
}

/// Files of rows below a folder, by name.
pub(crate) fn files(out: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| {
        let mut entries: Vec<_> = path
            .read_dir()
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        entries.sort();
        entries
    };
    let is_hour = |path: &PathBuf| path.to_string_lossy().contains("/hour=");
    entries(out).iter().filter(|path| is_hour(path)).flat_map(|hour| entries(hour)).collect()
}
