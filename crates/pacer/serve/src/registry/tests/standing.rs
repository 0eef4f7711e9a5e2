//! The standing of an account, and how a campaign bids.

use pacer_core::pacing::BiddingStatus;
use pacer_core::refusal::SpendRefusal;
use pacer_core::strategy::BidPace;
use units::Cpm;

use super::*;

fn slot(fixture: &Fixture, id: &str) -> CampaignIndex {
    let slot = fixture.view(id)["slot"].as_u64().expect("a slot");
    CampaignIndex(u32::try_from(slot).expect("few"))
}

#[test]
fn an_account_counts_its_campaigns_by_what_keeps_them() {
    let fixture = Fixture::new(&[(
        "a.toml",
        &[
            ACCOUNT,
            "seats = ['d/s']\n[[account]]\nid = 'b'\ncurrency = 'EUR'\n",
            &toml("x", ""),
            &toml("y", ""),
            &toml("z", ""),
            &toml("other", "").replace("'acme'", "'b'"),
        ]
        .concat(),
    )]);
    let why = fixture.stub.why(slot(&fixture, "y"));
    let spent = Some(SpendRefusal::DayExhausted);
    let refused = pacer_core::ledger::SpendDiagnosis { refusal: spent, ..why };
    for id in ["y", "other"] {
        fixture.stub.state().whys.insert(slot(&fixture, id), refused.clone());
    }
    let standing = fixture.registry().why_account("acme").expect("it is known");
    assert_eq!(standing.campaigns.into_iter().collect::<Vec<_>>(), [(None, 2), (spent, 1)]);
    assert_eq!((standing.seats, standing.currency), (Some(None), Some(Currency::USD)));
    let other = fixture.registry().why_account("b").expect("it is known");
    assert_eq!(other.campaigns.into_iter().collect::<Vec<_>>(), [(spent, 1)]);
    assert_eq!(other.seats, None, "it names none");
    let unknown = ChangeRefusal::Unknown { kind: StoredKind::Account, id: "c".to_owned() };
    assert_eq!(fixture.registry().why_account("c"), Err(unknown.clone()));
    assert_eq!(fixture.registry().spend(StoredKind::Account, "c"), Err(unknown));
    // Removed campaigns do not count.
    fixture.write("a.toml", &[ACCOUNT, "[[account]]\nid = 'b'\ncurrency = 'EUR'\n"].concat());
    fixture.registry().reload().expect("it is read");
    let standing = fixture.registry().why_account("acme").expect("it is known");
    assert_eq!((standing.campaigns.len(), standing.seats), (0, None));
}

#[test]
fn a_campaign_tells_how_it_bids() {
    let fixture = Fixture::new(&[("a.toml", &[ACCOUNT, &toml("x", "")].concat())]);
    let standing = fixture.registry().why("x").expect("it is known");
    assert_eq!((standing.bidding, standing.amount), (None, Cpm::new(2_500_000)));
    let bidding =
        BiddingStatus { strategy: "slot_dual", is_fixed_price: false, pace: BidPace::FULL };
    fixture.stub.state().biddings.insert(slot(&fixture, "x"), bidding);
    assert_eq!(fixture.registry().why("x").expect("it is known").bidding, Some(bidding));
    fixture.write("a.toml", ACCOUNT);
    fixture.registry().reload().expect("it is read");
    assert_eq!(fixture.registry().why("x").expect("it was known").amount, None);
}
