//! Campaigns of sold lots: defined once, changed by nobody, and known again after a restart.

use pacer_core::strategy::StrategySettings;

use super::*;
use crate::PacedCampaign;

/// Of 1,000 impressions at 2.500001.
fn budget(lot: &str) -> LotBudget {
    LotBudget {
        lot: lot.to_owned(),
        account: "acme".to_owned(),
        is_prepaid: false,
        cost: Nanos::new(2_500_001_000),
        currency: Currency::USD,
        starts_ms: NOW_UNIX_MS + 1,
        ends_ms: NOW_UNIX_MS + 1_001,
    }
}

#[test]
fn a_lot_has_one_campaign_with_the_cost_of_its_impressions() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT)]);
    let slot = fixture.registry().ensure_lot(&budget("spring.7")).expect("it is defined");
    assert_eq!(fixture.registry().ensure_lot(&budget("spring.7")), Ok(slot));
    let other = fixture.registry().ensure_lot(&budget("other")).expect("it is defined");
    assert_ne!(slot, other);
    let check = |fixture: &Fixture| {
        let told = fixture.stub.state();
        let PacedCampaign { terms, pacing } = &told.campaigns[&slot];
        let life = terms.budget.limits.life.expect("it has a limit").amount;
        assert_eq!((life, terms.budget.limits.day), (Nanos::new(2_500_001_000), None));
        let flight = (terms.budget.start_unix_ms, terms.budget.end_unix_ms);
        assert_eq!(flight, (NOW_UNIX_MS + 1, NOW_UNIX_MS + 1_001));
        let pacing = pacing.as_ref().expect("it paces");
        assert_eq!(pacing.settings, StrategySettings::Asap);
        drop(told);
        let view = fixture.view("lot:spring.7");
        assert_eq!((&view["lot"], &view["file"]), (&json!(true), &Value::Null));
    };
    check(&fixture);
    let fixture = fixture.restart(|| NOW_UNIX_MS);
    assert_eq!(fixture.registry().ensure_lot(&budget("spring.7")), Ok(slot));
    check(&fixture);
}

#[test]
fn what_a_lot_was_paid_with_is_an_account_that_pays_for_nothing_else() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT)]);
    let paid = LotBudget { is_prepaid: true, ..budget("x") };
    let slot = fixture.registry().ensure_lot(&paid).expect("it is defined");
    let check = |fixture: &Fixture| {
        assert_eq!(fixture.registry().ensure_lot(&paid), Ok(slot));
        assert_eq!(fixture.view("lot:x")["definition"]["account"], "lot:x");
        let account = fixture.registry().show(StoredKind::Account, "lot:x").expect("it is defined");
        let defined = &account.view["definition"];
        assert_eq!((&defined["budget"], &defined["currency"]), (&json!("2.500001"), &json!("USD")));
        let told = fixture.stub.state();
        let account = told.campaigns[&slot].terms.account;
        let life = told.accounts[&account.0].limits.life.expect("it has a limit").amount;
        assert_eq!(life, Nanos::new(2_500_001_000));
    };
    check(&fixture);
    let fixture = fixture.restart(|| NOW_UNIX_MS);
    check(&fixture);
    let options = ChangeOptions::default();
    let own = object(body("y", &json!({ "account": "lot:x" })));
    let Err(ChangeRefusal::Invalid(problems)) =
        fixture.registry().create(StoredKind::Campaign, &own, &options)
    else {
        panic!("it is paid by the lot");
    };
    assert_eq!(problems[0].to_string(), "account = \"lot:x\": is no account: define it first");
    let edit = DefinitionEdit::Budgets(object(json!({ "budget": "9" })));
    let refused = fixture.registry().edit(StoredKind::Account, "lot:x", &edit, &options);
    assert_eq!(refused.map(|_| ()), Err(ChangeRefusal::OfLot("lot:x".to_owned())));
}

#[test]
fn bidders_are_told_that_it_is_a_lots() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT)]);
    fixture.registry().ensure_lot(&budget("x")).expect("it is defined");
    fixture.create(StoredKind::Campaign, body("x", &json!({})));
    let known = |catalogue: &PublishedCatalogue<PriceRules>| -> Vec<_> {
        catalogue.campaigns.iter().map(|it| (it.id.to_string(), it.is_lot)).collect()
    };
    let want = [("lot:x".to_owned(), true), ("x".to_owned(), false)];
    fixture.published(|catalogue| known(catalogue) == want);
}

#[test]
fn nobody_changes_or_defines_one() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT)]);
    fixture.registry().ensure_lot(&budget("x")).expect("it is defined");
    let refused = Err(ChangeRefusal::OfLot("lot:x".to_owned()));
    for edit in [
        DefinitionEdit::Pause(true),
        DefinitionEdit::Budgets(object(json!({ "budget": "9" }))),
        DefinitionEdit::Merge(object(json!({ "budget": "9" }))),
        DefinitionEdit::Replace(object(body("lot:x", &json!({})))),
        DefinitionEdit::Remove,
    ] {
        assert_eq!(fixture.edit("lot:x", &edit), refused, "{edit:?}");
    }
    let defined = object(body("lot:y", &json!({})));
    let options = ChangeOptions::default();
    let defined = fixture.registry().create(StoredKind::Campaign, &defined, &options);
    assert!(matches!(defined, Err(ChangeRefusal::Invalid(_))), "{defined:?}");
}

#[test]
fn what_cannot_be_paid_is_refused() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT)]);
    let check = |change: &dyn Fn(&mut LotBudget), want: &str| {
        let mut budget = budget("x");
        change(&mut budget);
        let refused = fixture.registry().ensure_lot(&budget);
        let Err(ChangeRefusal::Invalid(problems)) = &refused else { panic!("{refused:?}") };
        assert_eq!(problems[0].to_string(), want);
    };
    check(
        &|budget| budget.account = "none".to_owned(),
        "account = \"none\": is no account: define it first",
    );
    check(
        &|budget| budget.currency = Currency::parse("EUR").expect("a currency"),
        "budget = \"2.500001 EUR\": is in EUR, but the account is in USD: give it in USD",
    );
    check(&|budget| budget.ends_ms = u64::MAX, "end: is beyond the year 9999");
    fixture.registry().ensure_lot(&budget("x")).expect("it is defined");
    let earlier = "id = \"x\": was an earlier lot's, whose campaign is kept: give each its own";
    check(&|budget| budget.ends_ms += 1, earlier);
    check(&|budget| budget.is_prepaid = true, earlier);
}
