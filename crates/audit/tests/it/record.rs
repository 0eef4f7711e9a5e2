//! Whole records as an exchange writes them: replay, surveys, generations, rows, and a lane that
//! grows.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use audit::testing::{NODE, START_MS, SampleAuction, SampleLog, gap, generation, samples};
use audit::{
    AuctionRecord, AuctionRow, Filter, FollowEvent, GenerationIndex, GenerationLookup,
    GenerationRecord, LaneFollower, LaneKind, LogItem, LogRecords, RecordDirectory, RecordKind,
    RecordPosition, ReplayFinding, ReplayProblem, ReplayProgress, ReplaySummary, SurveyDepth,
    replay_all, stat, verify,
};
use events::v1;
use prost::Message as _;

/// A record as another writer would produce it: valid and complete.
fn rewritten(record: &[u8], change: impl FnOnce(&mut v1::Auction)) -> Vec<u8> {
    let mut message = v1::Auction::decode(record).unwrap();
    change(&mut message);
    message.length = 0;
    message.length = u32::try_from(message.encoded_len()).unwrap();
    message.encode_to_vec()
}

fn replayed(path: &Path, filter: &str) -> (ReplaySummary, Vec<ReplayFinding>) {
    let directory = RecordDirectory::open(path).unwrap();
    let filter = Filter::parse(filter, 0).unwrap();
    let mut findings = Vec::new();
    let replays = replay_all(&directory, &filter, |progress| {
        if let ReplayProgress::Found(finding) = progress {
            findings.push(finding);
        }
        ControlFlow::Continue(())
    });
    (replays.unwrap(), findings)
}

#[test]
fn what_was_recorded_is_what_comes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    SampleLog::of(folder.path(), &samples());
    let (replays, findings) = replayed(folder.path(), "");
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!((replays.auctions, replays.same), (6, 6));
    assert!(replays.is_exact() && replays.bytes > 1000);
    let (replays, _) = replayed(folder.path(), "seat=b1");
    assert_eq!((replays.auctions, replays.same), (3, 3));
}

#[test]
fn one_changed_price_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples()[..2]);
    let third = &samples()[2];
    let record = rewritten(&third.record(), |auction| auction.sales[0].price_micros += 1);
    log.firehose(RecordKind::Auction.code(), third.time_ms(), &record);
    let (replays, findings) = replayed(folder.path(), "");
    assert_eq!((replays.auctions, replays.same, replays.different), (3, 2, 1));
    assert!(!replays.is_exact());
    let [ReplayFinding { place, id, wrong: ReplayProblem::Different(difference) }] =
        findings.as_slice()
    else {
        panic!("{findings:?}");
    };
    assert_eq!((place.sequence, place.node, id), (3, NODE, &third.id()));
    let told = difference.to_string();
    assert!(told.contains("price: recorded 1.510001, recomputed 1.51"), "{told}");
    // The filter does not select it.
    let (replays, _) = replayed(folder.path(), "id=caller-1,caller-2");
    assert!(replays.is_exact() && replays.auctions == 2);
}

#[test]
fn what_cannot_be_held_again_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples()[..1]);
    log.auction(&SampleAuction { generation: 2, ..samples()[1].clone() });
    let cut = rewritten(&samples()[3].record(), |auction| auction.bids_left_out = 3);
    log.firehose(RecordKind::Auction.code(), START_MS, &cut);
    let abandoned = rewritten(&samples()[3].record(), |auction| {
        auction.ending = v1::Ending::Abandoned.into();
    });
    log.firehose(RecordKind::Auction.code(), START_MS, &abandoned);
    log.firehose(RecordKind::Auction.code(), START_MS, b"no record");
    log.firehose(RecordKind::Gap.code(), START_MS, &gap(5));
    log.firehose(77, START_MS, b"of a later release");
    let (replays, findings) = replayed(folder.path(), "");
    let ReplaySummary {
        auctions,
        same,
        not_held,
        cut,
        different,
        unreadable,
        no_generation,
        shed,
        ref without,
        ..
    } = replays;
    assert_eq!((auctions, same, not_held, cut, different), (4, 1, 1, 1, 0));
    assert_eq!((unreadable, no_generation, shed), (1, 1, 5));
    assert!(!replays.is_exact());
    let wrong: Vec<_> = findings.iter().map(|finding| &finding.wrong).collect();
    assert!(matches!(wrong[..], [ReplayProblem::Unreadable(_)]), "{wrong:?}");
    assert_eq!(without[&2].auctions, 1);
    // Each problem alone makes the replay inexact.
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &[]);
    log.auction(&SampleAuction { generation: 2, ..samples()[1].clone() });
    let (replays, _) = replayed(folder.path(), "");
    assert!(!replays.is_exact(), "an auction whose generation is gone was not held again");
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &[]);
    log.firehose(RecordKind::Auction.code(), START_MS, b"no record");
    assert!(!replayed(folder.path(), "").0.is_exact());
}

#[test]
fn generations_are_found_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &[]);
    for number in 2..=40 {
        log.durable(RecordKind::Notice.code(), START_MS, &[0; 3000]);
        log.durable(RecordKind::Generation.code(), START_MS + number, &generation(number, number));
    }
    log.durable(RecordKind::Generation.code(), START_MS, b"no generation");
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let generations = GenerationIndex::find(&directory).unwrap();
    for number in (1..=40).chain((1..=40).rev()) {
        assert_eq!(generations.get(number).unwrap().unwrap().number, number);
    }
    assert!(generations.get(41).unwrap().is_none());
    let listed: Vec<_> = generations.list().iter().map(|put| put.number).collect();
    assert_eq!(listed, (1..=40).collect::<Vec<_>>());
    assert_eq!(generations.problems().unreadable.len(), 1);
    // A lookup finds what has come since.
    let mut lookup = GenerationLookup::new(&generations);
    log.durable(RecordKind::Generation.code(), START_MS, &generation(41, 0));
    assert!(lookup.get(41).unwrap().is_none());
    generations.refresh().unwrap();
    assert!(lookup.get(41).unwrap().is_none(), "it is remembered until it is forgotten");
    lookup.forget();
    assert_eq!(lookup.get(41).unwrap().unwrap().number, 41);
    assert_eq!(generations.problems().unreadable.len(), 1);
}

#[test]
fn a_lane_is_counted_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples());
    for n in 0..30 {
        log.firehose(200, START_MS + n, &[7; 1000]);
    }
    log.firehose(RecordKind::Gap.code(), START_MS - 1, &gap(5));
    drop(log);
    let mut log = SampleLog::open(folder.path(), 4096);
    log.firehose(RecordKind::Auction.code(), START_MS, b"no record");
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let [durable, firehose] = stat(&directory).unwrap();
    assert_eq!((durable.tally.records, durable.epochs, durable.node), (1, 1, Some(NODE)));
    assert_eq!(durable.tally.kinds[&RecordKind::Generation.code()], 1);
    let tally = &firehose.tally;
    assert_eq!((tally.records, tally.shed, firehose.epochs), (38, 5, 2));
    assert_eq!((tally.kinds[&3], tally.kinds[&4], tally.kinds[&200]), (7, 1, 30));
    assert_eq!(tally.times_ms, Some((START_MS - 1, START_MS + 3_600_000)));
    assert!(firehose.by_index > 5 && firehose.by_index < firehose.segments);
    assert!(firehose.is_sound());
    // Verification finds the same by reading everything.
    let all = |depth| verify(&directory, depth, |_, _, _| ControlFlow::Continue(())).unwrap();
    let [_, verified] = all(SurveyDepth::Frames);
    assert_eq!((&verified.tally.kinds, verified.tally.records), (&tally.kinds, tally.records));
    assert_eq!((verified.bytes, verified.tally.times_ms), (firehose.bytes, tally.times_ms));
    assert!(verified.is_sound());
    let [durable, verified] = all(SurveyDepth::Records);
    assert!(durable.is_sound() && !verified.is_sound());
    assert_eq!(verified.tally.unreadable_count, 1);
    assert_eq!(verified.tally.unreadable[0].place.sequence, 38);
}

#[test]
fn a_row_says_what_the_record_says() {
    let sample = &samples()[2];
    let bytes = sample.record();
    let record = AuctionRecord::decode(&bytes).unwrap();
    let facts = GenerationRecord::decode(&generation(1, START_MS)).unwrap();
    let place = RecordPosition { node: NODE, epoch: 2, sequence: 3, time_ms: START_MS };
    let row = AuctionRow::of(&place, &record, Some(&facts));
    assert_eq!((row.node, row.epoch, row.sequence), (7, 2, 3));
    assert_eq!((row.time_us, &row.id), (sample.time_ms() * 1000, &sample.id()));
    assert_eq!((&*row.ending, row.currency.as_deref()), ("filled", Some("USD")));
    assert_eq!((row.calls_count, row.bids_count, row.wins_count), (3, 2, 1));
    assert_eq!((row.answered_us, row.left_us, row.nbr), (Some(44_200), 57_800, None));
    assert_eq!(row.imps[0].formats, ["banner"]);
    assert_eq!((row.imps[0].multiplier_millionths, row.imps[0].fee_ppm), (1_000_000, 100_000));
    assert_eq!((row.deals[0].imp.as_str(), row.deals[0].id.as_str()), ("top", "spring"));
    let call = &row.calls[1];
    assert_eq!((call.dsp.as_str(), &*call.outcome), ("beta", "answered"));
    assert_eq!((&call.imps, &call.deals), (&vec!["top".to_owned()], &vec!["spring".to_owned()]));
    let bid = &row.bids[0];
    assert_eq!((bid.dsp.as_str(), bid.seat.as_deref()), ("alpha", Some("a1")));
    assert_eq!((bid.campaign.as_deref(), bid.deal.as_deref()), (Some("summer"), Some("spring")));
    assert_eq!((bid.price_micros, &*bid.fate), (Some(3_000_000), "won"));
    assert_eq!((row.bids[1].campaign.as_deref(), &*row.bids[1].fate), (None, "lost_to_deal"));
    let sale = &row.sales[0];
    assert_eq!((sale.bid, sale.id.as_str(), sale.dsp.as_str()), (0, "a1-0", "alpha"));
    assert_eq!((sale.price_micros, sale.net_micros), (1_510_000, 1_359_000));
    assert_eq!((sale.revenue_nanos, sale.paid_currency.as_str()), (1_510_000, "USD"));
    let unknown = AuctionRow::of(&place, &record, None);
    assert_eq!((unknown.bids[1].dsp.as_str(), unknown.base_currency), ("#1", None));
    let text = serde_json::to_string(&row).unwrap();
    assert_eq!(serde_json::from_str::<AuctionRow>(&text).unwrap(), row);
}

#[test]
fn a_lane_is_followed_as_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("durable")).unwrap();
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let mut follow = LaneFollower::new(&directory, LaneKind::Firehose, 1);
    let told = |follow: &mut LaneFollower<'_>| {
        let mut sequences = Vec::new();
        let mut tell = |coming: FollowEvent<'_>| match coming {
            FollowEvent::Record(place, ..) => sequences.push((place.node, place.sequence)),
            FollowEvent::Corruption(corruption) => panic!("{corruption}"),
        };
        follow.poll(&mut tell).unwrap();
        sequences
    };
    assert_eq!(told(&mut follow), [], "there is nothing yet");
    let mut log = SampleLog::of(folder.path(), &samples()[..2]);
    assert_eq!(told(&mut follow), [(NODE, 1), (NODE, 2)]);
    assert_eq!(told(&mut follow), []);
    for sample in &samples()[2..] {
        log.auction(sample);
    }
    drop(log);
    let mut log = SampleLog::open(folder.path(), 4096);
    log.auction(&samples()[0]);
    let want: Vec<_> = (3..=7).map(|sequence| (NODE, sequence)).collect();
    assert_eq!(told(&mut follow), want);
    // The lane as it is now, from a sequence on.
    let records = LogRecords::open(&directory, LaneKind::Firehose, 6).unwrap();
    let records: Vec<_> = records
        .map(|item| match item.unwrap() {
            LogItem::Record(place, kind, _) => (place.epoch, place.sequence, kind),
            LogItem::Corruption(corruption) => panic!("{corruption}"),
        })
        .collect();
    assert_eq!(records.iter().map(|(_, sequence, _)| *sequence).collect::<Vec<_>>(), [6, 7]);
    assert!(records[0].0 < records[1].0, "{records:?}");
}

/// Damage in the firehose makes every replay inexact.
#[test]
fn damage_makes_a_replay_inexact() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| Duration::from_secs(n);
    let samples: Vec<_> = (1..40)
        .map(|n| SampleAuction { at: at(n), ..SampleAuction::new(n, &samples()[0].bids) })
        .collect();
    SampleLog::of(folder.path(), &samples);
    let entries = std::fs::read_dir(folder.path().join("firehose")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "segment"));
    files.sort();
    let mut bytes = std::fs::read(&files[1]).unwrap();
    bytes[300] ^= 1;
    std::fs::write(&files[1], bytes).unwrap();
    let (replays, findings) = replayed(folder.path(), "");
    assert_eq!((replays.auctions, replays.same), (38, 38));
    assert_eq!((replays.damage.corruptions.len(), findings.len()), (1, 0));
    assert!(!replays.is_exact());
}

/// A generation is durable before its auctions. A reader that meets an unknown number searches
/// again.
#[test]
fn a_generation_that_comes_meanwhile_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &[]);
    let directory = RecordDirectory::open(folder.path()).unwrap();
    let generations = GenerationIndex::find(&directory).unwrap();
    let mut lookup = GenerationLookup::new(&generations);
    assert_eq!(lookup.get(1).unwrap().unwrap().number, 1);
    log.durable(RecordKind::Generation.code(), START_MS + 5, &generation(2, START_MS + 5));
    log.durable(RecordKind::Generation.code(), START_MS + 9, &generation(1, START_MS));
    assert_eq!(lookup.get(2).unwrap().unwrap().number, 2);
    assert!(lookup.get(3).unwrap().is_none());
    assert_eq!(lookup.get(1).unwrap().unwrap().number, 1, "by its later record as well");
    let list: Vec<_> =
        generations.list().iter().map(|put| (put.number, put.place.sequence)).collect();
    assert_eq!(list, [(1, 1), (2, 2)], "each where it came in force");
}
