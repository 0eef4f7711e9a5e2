//! Opportunities in hand-written records, compared with what was recorded.

use std::ops::ControlFlow;
use std::path::Path;

use events::{RecordKind, v1};
use exchange_core::Fate;
use exchange_core::record::AuctionRecord;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::filter::Filter;
use crate::log::directory::RecordDirectory;
use crate::testing::{START_MS, SampleAuction, SampleBid, SampleLog, gap, samples};

fn campaign(id: &str) -> OpportunityQuery {
    let buyer = Buyer::Campaign(id.to_owned());
    OpportunityQuery { buyer, value: None, currency: None, most: 1000 }
}

fn seat(dsp: Option<&str>, seat: &str) -> OpportunityQuery {
    let buyer =
        Buyer::Seat { dsps: dsp.map(str::to_owned).into_iter().collect(), seat: seat.to_owned() };
    OpportunityQuery { buyer, ..campaign("") }
}

fn search(
    path: &Path,
    filter: &str,
    sought: &OpportunityQuery,
) -> Result<Opportunities, OpportunityError> {
    let directory = RecordDirectory::open(path).unwrap();
    let filter = Filter::parse(filter, 0).unwrap();
    opportunities(&directory, &filter, sought, |_, _| ControlFlow::Continue(()))
}

fn found(path: &Path, filter: &str, sought: &OpportunityQuery) -> Opportunities {
    search(path, filter, sought).unwrap()
}

/// Seconds since the start, price to beat and value, in micros.
fn list(found: &Opportunities) -> Vec<(u64, u64, u64)> {
    let told = |it: &Opportunity| {
        let seconds = (it.time_us - START_MS * 1000) / 1_000_000;
        (seconds, it.market_price.micros(), it.value.micros())
    };
    found.list.iter().map(told).collect()
}

/// A record as another writer would produce it: valid and complete.
fn rewritten(sample: &SampleAuction, change: impl FnOnce(&mut v1::Auction)) -> Vec<u8> {
    let mut message = v1::Auction::decode(&*sample.record()).unwrap();
    change(&mut message);
    message.length = 0;
    message.length = u32::try_from(message.encoded_len()).unwrap();
    message.encode_to_vec()
}

/// An increment of a cent, and a floor of 0.555556 for open bids: 0.50 plus our tenth.
#[test]
fn a_buyer_meets_the_best_other_bid_or_the_floor() {
    let folder = tempfile::tempdir().unwrap();
    SampleLog::of(folder.path(), &samples());
    let summer = found(folder.path(), "", &campaign("summer"));
    assert_eq!(list(&summer), [(2, 1_210_000, 1_500_000), (3, 1_510_000, 3_000_000)]);
    assert_eq!((summer.wins, summer.paid_nanos, summer.bids), (2, 2_720_000, 2));
    assert_eq!((summer.currency, summer.first_price), (Some(Currency::USD), 0));
    assert_eq!(summer.left_out, ExclusionCounts::default());
    // It lost the second auction, where only the other's bid or more would have won.
    let a1 = found(folder.path(), "", &seat(Some("alpha"), "a1"));
    let [first, second, third] = list(&a1)[..] else { panic!("{:?}", a1.list) };
    assert_eq!((first, third), ((1, 1_510_000, 2_500_000), (3, 1_510_000, 3_000_000)));
    assert!((1_500_000..=1_500_001).contains(&second.1) && second.2 == 1_200_000, "{second:?}");
    assert_eq!((a1.wins, a1.bids, a1.left_out.tests), (2, 4, 1));
    // Without rivals it meets its floor, in a video too.
    let a2 = found(folder.path(), "", &seat(None, "a2"));
    assert_eq!(list(&a2), [(3600, 555_556, 4_000_000)]);
    // Its bid below the floor lost; a higher one would have won.
    let g1 = found(folder.path(), "", &seat(None, "g1"));
    let [(3600, least, 200_000)] = list(&g1)[..] else { panic!("{:?}", g1.list) };
    assert!((4_000_000..=4_000_001).contains(&least) && g1.wins == 0, "{least}");
    for nobody in [campaign("autumn"), seat(Some("beta"), "a1"), seat(None, "#0")] {
        let nothing = found(folder.path(), "", &nobody);
        assert!(nothing.list.is_empty() && nothing.bids == 0 && nothing.currency.is_none());
    }
}

#[test]
fn a_value_is_what_every_impression_is_worth() {
    let folder = tempfile::tempdir().unwrap();
    SampleLog::of(folder.path(), &samples());
    let valued = |micros: u64, sought: OpportunityQuery| {
        let sought = OpportunityQuery { value: Cpm::new(micros), ..sought };
        list(&found(folder.path(), "", &sought))
    };
    // A second price is what a bid of the value would have paid: between the other bid and the
    // increment above it, at most the value.
    let a1 = seat(None, "a1");
    assert_eq!(valued(2_000_000, a1.clone())[1], (2, 1_510_000, 2_000_000));
    assert_eq!(valued(1_505_000, a1.clone())[1], (2, 1_505_000, 1_505_000));
    let (_, least, value) = valued(1_000_000, a1)[1];
    assert!((1_500_000..=1_500_001).contains(&least) && value == 1_000_000, "{least}");
    // The value is reduced by the deal's discount, as bids are.
    let folder = tempfile::tempdir().unwrap();
    let third = &samples()[2];
    let mut log = SampleLog::of(folder.path(), &[]);
    let discounted = rewritten(third, |auction| auction.deals[0].discount_ppm = 100_000);
    log.firehose(RecordKind::Auction.code(), third.time_ms(), &discounted);
    let sought = OpportunityQuery { value: Cpm::new(2_000_000), ..campaign("summer") };
    assert_eq!(list(&found(folder.path(), "", &sought)), [(3, 1_510_000, 1_800_000)]);
}

/// A bid below its floor has no recorded worth.
#[test]
fn a_bid_below_its_floor_is_converted_as_bids_are() {
    let folder = tempfile::tempdir().unwrap();
    let sixth = &samples()[5];
    let mut log = SampleLog::of(folder.path(), &[]);
    let in_euro = rewritten(sixth, |auction| {
        assert_eq!(auction.bids[1].worth_micros, None);
        auction.bids[1].currency = "EUR".into();
    });
    log.firehose(RecordKind::Auction.code(), sixth.time_ms(), &in_euro);
    // The generation has no rate for it, but a value is in the auction's currency already.
    let unknown = found(folder.path(), "", &seat(None, "g1"));
    assert_eq!((unknown.list.len(), unknown.left_out.no_generation), (0, 1));
    let sought = OpportunityQuery { value: Cpm::new(2_000_000), ..seat(None, "g1") };
    assert_eq!(found(folder.path(), "", &sought).list[0].value.micros(), 2_000_000);
}

#[test]
fn a_filter_chooses_auctions_and_bids() {
    let folder = tempfile::tempdir().unwrap();
    SampleLog::of(folder.path(), &samples());
    let many = |filter: &str| found(folder.path(), filter, &seat(None, "a1")).list.len();
    assert_eq!(many("time<2026-11-22T08:00:03Z"), 2);
    assert_eq!(many("deal=spring"), 1);
    assert_eq!(many("outcome=won"), 2);
    // Terms about bids must hold for the buyer's bid.
    assert_eq!(many("seat=b1"), 0);
    // The buyer's own bids that the filter excludes are no rivals.
    let folder = tempfile::tempdir().unwrap();
    let bids = [("a1", 0, "2.5"), ("a1", 0, "2"), ("b1", 1, "1.5")];
    let bids = bids.map(|(seat, dsp, price)| SampleBid::new(dsp, seat, price));
    SampleLog::of(folder.path(), &[SampleAuction::new(1, &bids)]);
    let won = found(folder.path(), "outcome=won", &seat(None, "a1"));
    assert_eq!((list(&won), won.bids), (vec![(1, 1_510_000, 2_500_000)], 1));
}

#[test]
fn what_is_left_out_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let sample = &samples()[0];
    let mut log = SampleLog::of(folder.path(), std::slice::from_ref(sample));
    let mut put = |record: &[u8]| log.firehose(RecordKind::Auction.code(), START_MS, record);
    put(b"no record");
    put(&rewritten(sample, |auction| auction.generation = 2));
    put(&rewritten(sample, |auction| auction.bids_left_out = 3));
    put(&rewritten(sample, |auction| auction.is_test = true));
    put(&rewritten(sample, |auction| auction.terms.as_mut().unwrap().currency = "EUR".into()));
    let of_own = |change: &dyn Fn(&mut v1::Auction)| rewritten(sample, change);
    // A bid refused for its size, and one whose markup could not be fetched.
    put(&of_own(&|auction| {
        let bid = &mut auction.bids[0];
        (bid.worth_micros, bid.floor_micros, bid.fate) = (None, None, v1::Fate::Size.into());
        (auction.sales, auction.ending) = (Vec::new(), v1::Ending::NoBid.into());
    }));
    put(&of_own(&|auction| auction.bids[0].barred = v1::Fate::NoMarkup.into()));
    put(&of_own(&|auction| {
        (auction.bids[0].deal, auction.deals[0].auction_type) =
            (Some(0), v1::AuctionType::Agreed.into());
    }));
    put(&of_own(&|auction| {
        auction.bids[0].group = Some(0);
        auction.groups.push(v1::Group { imps: vec![0], is_possible: true });
    }));
    put(&of_own(&|auction| (auction.bids[1].deal, auction.deals[0].class) = (Some(0), 1)));
    log.firehose(RecordKind::Gap.code(), START_MS, &gap(5));
    let sought = OpportunityQuery { currency: Some(Currency::USD), ..seat(None, "a1") };
    let told = found(folder.path(), "", &sought);
    let want = ExclusionCounts {
        shed: 5,
        unreadable: 1,
        no_generation: 1,
        cut: 1,
        tests: 1,
        other_currency: 1,
        not_admitted: 2,
        agreed: 1,
        in_group: 1,
        outranked: 1,
    };
    assert_eq!((told.left_out, told.list.len(), told.bids), (want, 1, 8));
    // A campaign's bids carry its name themselves.
    let told = found(folder.path(), "", &campaign("summer"));
    assert_eq!((told.left_out.no_generation, told.bids), (0, 0));
}

#[test]
fn one_stream_has_one_currency() {
    let folder = tempfile::tempdir().unwrap();
    let sample = &samples()[0];
    let mut log = SampleLog::of(folder.path(), &samples()[..2]);
    let in_euro = rewritten(sample, |auction| {
        auction.terms.as_mut().unwrap().currency = "EUR".into();
    });
    log.firehose(RecordKind::Auction.code(), START_MS, &in_euro);
    let error = search(folder.path(), "", &seat(None, "a1")).unwrap_err();
    assert_eq!(error.to_string(), "the bids are in several currencies (EUR: 1, USD: 2)");
    let euro = Currency::parse("EUR");
    let told = found(folder.path(), "", &OpportunityQuery { currency: euro, ..seat(None, "a1") });
    assert_eq!((told.currency, told.list.len(), told.left_out.other_currency), (euro, 1, 2));
    // An auction without a usable bid is no opportunity.
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &samples()[..2]);
    let refused = rewritten(sample, |auction| {
        auction.terms.as_mut().unwrap().currency = "EUR".into();
        auction.bids[0].barred = v1::Fate::NoMarkup.into();
    });
    log.firehose(RecordKind::Auction.code(), START_MS, &refused);
    let told = found(folder.path(), "", &seat(None, "a1"));
    assert_eq!((told.currency, told.list.len()), (Some(Currency::USD), 2));
    assert_eq!(told.left_out.not_admitted, 1);
}

#[test]
fn displays_of_several_impressions_cost_as_many() {
    let folder = tempfile::tempdir().unwrap();
    let sample = &samples()[0];
    let mut log = SampleLog::of(folder.path(), &[]);
    for millionths in [2_500_000, 333_333] {
        let record = rewritten(sample, |auction| {
            auction.imps[0].multiplier_millionths = millionths;
        });
        log.firehose(RecordKind::Auction.code(), START_MS, &record);
    }
    let a1 = found(folder.path(), "", &seat(None, "a1"));
    let prices: Vec<_> = list(&a1).into_iter().map(|(_, market, value)| (market, value)).collect();
    assert_eq!(prices, [(3_775_000, 6_250_000), (503_332, 833_332)]);
    assert_eq!(a1.paid_nanos, 3_775_000 + 503_332);
    // Rounding does not make a lost bid win.
    let sought = OpportunityQuery { value: Cpm::new(1_499_999), ..seat(None, "a1") };
    let lost = found(folder.path(), "", &sought);
    let lost = list(&lost);
    assert!(lost.iter().all(|(_, market, value)| market > value), "{lost:?}");
}

/// Offered beside the winner: the caller's own auction decides which one wins.
#[test]
fn what_was_offered_is_not_won() {
    let folder = tempfile::tempdir().unwrap();
    let sample = &samples()[0];
    let mut log = SampleLog::of(folder.path(), &[]);
    let offered = rewritten(sample, |auction| auction.bids[0].fate = v1::Fate::Offered.into());
    log.firehose(RecordKind::Auction.code(), START_MS, &offered);
    let a1 = found(folder.path(), "", &seat(None, "a1"));
    assert_eq!((a1.list.len(), a1.wins, a1.paid_nanos, a1.left_out.unreadable), (1, 0, 0, 0));
}

#[test]
fn what_is_found_is_in_order_of_time_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = SampleLog::of(folder.path(), &[]);
    let bids = [SampleBid::new(0, "a1", "2.5")];
    for number in [9, 3, 7, 3, 100] {
        log.auction(&SampleAuction::new(number, &bids));
    }
    let a1 = found(folder.path(), "", &seat(None, "a1"));
    let times: Vec<_> = list(&a1).into_iter().map(|(seconds, ..)| seconds).collect();
    assert_eq!(times, [3, 3, 7, 9, 100]);
    assert!(search(folder.path(), "", &OpportunityQuery { most: 5, ..seat(None, "a1") }).is_ok());
    let error =
        search(folder.path(), "", &OpportunityQuery { most: 4, ..seat(None, "a1") }).unwrap_err();
    assert_eq!(error.to_string(), "there are more than 4 impressions that were bid on");
}

#[test]
fn what_is_damaged_is_told_and_the_rest_is_found() {
    let folder = tempfile::tempdir().unwrap();
    SampleLog::of(folder.path(), &samples());
    let lane = folder.path().join("firehose");
    let files = std::fs::read_dir(&lane).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |file: &std::path::PathBuf| file.extension().is_some_and(|it| it == "segment");
    let file = files.filter(is_segment).min().unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0xff;
    std::fs::write(&file, bytes).unwrap();
    let a1 = found(folder.path(), "", &seat(None, "a1"));
    assert!(a1.damage.is_corrupt() && !a1.list.is_empty() && a1.list.len() < 3, "{a1:?}");
}

fn bids() -> impl Strategy<Value = Vec<(usize, u64)>> {
    // Seats of three DSPs, two of one DSP; prices around the floor, the increment and each other.
    prop::collection::vec((0..4_usize, 50..60_u64), 0..6)
}

const PRICES: [&str; 10] =
    ["0.3", "0.555556", "0.56", "0.6", "1", "1", "1.005", "1.01", "1.02", "2.5"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A buyer that repeats its bids wins the same impressions at the same prices.
    #[test]
    fn the_same_bids_win_the_same_at_the_same_price(auctions in prop::collection::vec(bids(), 1..6)) {
        const SEATS: [(usize, &str); 4] = [(0, "a1"), (0, "a2"), (1, "b1"), (2, "g1")];
        let samples: Vec<_> = (1..).zip(&auctions).map(|(number, bids)| {
            let bid = |(seat, price): &(usize, u64)| {
                let (dsp, name) = SEATS[*seat];
                SampleBid::new(dsp, name, PRICES[usize::try_from(price - 50).unwrap()])
            };
            SampleAuction::new(number, &bids.iter().map(bid).collect::<Vec<_>>())
        }).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut log = SampleLog::of(folder.path(), &[]);
        log.many(&samples);
        for (position, (dsp, name)) in SEATS.into_iter().enumerate() {
            let dsp = crate::testing::DSPS[dsp].0;
            let told = found(folder.path(), "", &seat(Some(dsp), name));
            let (mut wins, mut paid, mut met) = (0, 0, 0);
            for (sample, bids) in samples.iter().zip(&auctions) {
                let bytes = sample.record();
                let record = AuctionRecord::decode(&bytes).unwrap();
                let is_own = |bid: &exchange_core::record::BidRecord<'_>| {
                    (crate::testing::DSPS[bid.dsp].0, bid.seat) == (dsp, Some(position % 2 * usize::from(dsp == "alpha")))
                };
                let own = record.bids.iter().filter(|bid| is_own(bid));
                prop_assert_eq!(own.count(), bids.iter().filter(|(seat, _)| *seat == position).count());
                met += usize::from(record.bids.iter().any(&is_own));
                for sale in record.sales.iter().filter(|sale| is_own(&record.bids[sale.bid])) {
                    prop_assert_eq!(record.bids[sale.bid].fate, Fate::Won);
                    (wins, paid) = (wins + 1, paid + u128::from(sale.price.micros()));
                }
            }
            prop_assert_eq!((told.wins, told.paid_nanos, told.list.len()), (wins, paid, met));
            let won = told.list.iter().filter(|it| it.value >= it.market_price);
            let won: Vec<_> = won.map(|it| u128::from(it.market_price.micros())).collect();
            prop_assert_eq!((won.len() as u64, won.iter().sum::<u128>()), (wins, paid));
        }
    }
}
