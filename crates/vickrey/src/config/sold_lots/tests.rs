//! What becomes of lots before the exchange has their deals, and of failures.

use std::sync::atomic::{AtomicUsize, Ordering};

use live_core::lots::{LotDeal, LotId};
use pacer_core::messages::CampaignIndex;
use units::{Cpm, Currency};

use super::*;

fn lot(id: &str) -> SoldLot {
    SoldLot {
        lot: LotId::parse(id).expect("it is an id"),
        deal: LotDeal {
            id: "deal".to_owned(),
            publisher: Some("news".to_owned()),
            starts_ms: 1,
            ends_ms: u64::MAX,
            priority: 255,
        },
        winner: "dsp/a/b".to_owned(),
        account: "acme".to_owned(),
        price: Cpm::new(2_500_001).expect("it is a price"),
        currency: Currency::USD,
        impressions: 1_000,
        payment: LotPayment::OnDelivery,
    }
}

/// A worker whose ledger takes only the account `acme`, and is not available for `later`.
fn worker() -> (SoldLots, SoldLotsWorker) {
    channel(LotCampaigns::new(|budget| match &*budget.account {
        "acme" => {
            assert_eq!(budget.cost, Nanos::new(2_500_001_000), "of all impressions");
            assert_eq!(budget.is_prepaid, budget.lot == "paid");
            Ok(CampaignIndex(7))
        }
        "later" => Err(ChangeRefusal::Unavailable("the store is full".to_owned())),
        _ => Err(ChangeRefusal::Invalid(Vec::new())),
    }))
}

#[test]
fn a_lot_becomes_an_offer_paid_by_its_campaign() {
    let (_seller, worker) = worker();
    let paid = SoldLot { payment: LotPayment::AtClose, ..lot("paid") };
    assert!(matches!(worker.prepared(&paid), Ok(Some(_))));
    let Ok(Some(offer)) = worker.prepared(&lot("x")) else { panic!("it can be offered") };
    let SoldOffer { deal, dsp, payer } = offer;
    assert_eq!((&*deal.name, &*deal.id, &*dsp, &*deal.seat), ("x", "deal", "dsp", "a/b"));
    assert_eq!((deal.price.amount.micros(), deal.priority), (2_500_001, 255));
    assert_eq!(
        (deal.publisher.as_deref(), deal.starts_ms, deal.ends_ms),
        (Some("news"), 1, u64::MAX)
    );
    assert_eq!((payer.slot, payer.currency), (CampaignIndex(7), Currency::USD));
}

#[test]
fn what_never_can_be_offered_is_replied_and_the_rest_is_tried_again() {
    let (mut seller, mut worker) = worker();
    let woken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&woken);
    seller.wake_with(Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    let mut check = |change: &dyn Fn(&mut SoldLot), want: &str| {
        let mut lot = lot("x");
        change(&mut lot);
        let Err(failure) = worker.prepared(&lot) else { panic!("{want}") };
        assert_eq!(worker.fail(vec![(lot, failure)]), None, "{want}");
        let reply = seller.poll().expect("a reply");
        assert_eq!((reply.lot.as_str(), reply.offered), ("x", Err(want.to_owned())));
    };
    check(&|lot| lot.winner = "dsp".to_owned(), "its winner is no seat of a DSP, as `dsp/seat`");
    check(&|lot| lot.deal.priority = 256, "its deal's priority is above 255");
    check(&|lot| lot.impressions = u64::MAX, "it costs too much");
    check(&|lot| lot.account = "none".to_owned(), "");
    assert_eq!(woken.load(Ordering::Relaxed), 4);
    let later = SoldLot { account: "later".to_owned(), ..lot("y") };
    let Err(failure) = worker.prepared(&later) else { panic!("it is not available") };
    assert_eq!(worker.fail(vec![(later.clone(), failure)]), Some(RETRY_INTERVAL));
    assert_eq!((worker.waiting, seller.poll()), (vec![later], None));
    let (_seller, worker) = self::worker();
    let ended = SoldLot { deal: LotDeal { ends_ms: 1, ..lot("z").deal }, ..lot("z") };
    assert!(matches!(worker.prepared(&ended), Ok(None)), "there is nothing to offer");
}
