//! Changes through the API: versions, idempotency keys, warnings, and the state after a restart.

use pacer_core::ledger::{Holdback, Spend};
use pacer_core::store::{AuditEntry, DefinitionChange};

use super::*;

fn with_account() -> Fixture {
    let fixture = Fixture::new(&[]);
    fixture.create(StoredKind::Account, account_body());
    fixture
}

#[test]
fn versions_grow_by_one() {
    let fixture = with_account();
    let created = fixture.create(StoredKind::Campaign, body("x", &json!({ "budget": "5" })));
    assert_eq!((created.version, &created.view["definition"]["budget"]), (1, &json!("5")));
    let edit = |edit: DefinitionEdit, version: u64| {
        let answered = fixture.edit("x", &edit).expect("a change");
        assert_eq!(answered.version, version, "{edit:?}");
        assert_eq!(answered.view["version"], version, "{edit:?}");
        answered.view["definition"].clone()
    };
    let of = |value: Value| object(value);
    assert_eq!(edit(DefinitionEdit::Pause(true), 2)["paused"], true);
    assert_eq!(edit(DefinitionEdit::Pause(true), 2)["paused"], true, "nothing has changed");
    assert_eq!(edit(DefinitionEdit::Pause(false), 3)["paused"], false);
    let definition =
        edit(DefinitionEdit::Budgets(of(json!({ "budget": null, "daily_budget": "1" }))), 4);
    assert_eq!((&definition["budget"], &definition["daily_budget"]), (&Value::Null, &json!("1")));
    assert_eq!(
        edit(DefinitionEdit::Merge(of(json!({ "hours": ["mon"] }))), 5)["hours"],
        json!(["mon"])
    );
    assert_eq!(edit(DefinitionEdit::Replace(of(body("x", &json!({})))), 6).get("hours"), None);
    assert_eq!(edit(DefinitionEdit::Remove, 7)["id"], "x");
    let removed = ChangeRefusal::Removed { kind: StoredKind::Campaign, id: "x".to_owned() };
    assert_eq!(fixture.edit("x", &DefinitionEdit::Pause(true)), Err(removed.clone()));
    let again =
        fixture.registry().create(StoredKind::Campaign, &of(body("x", &json!({}))), &keyed(None));
    assert_eq!(again, Err(removed));
    edit(DefinitionEdit::Replace(of(body("x", &json!({})))), 8);
    assert_eq!(fixture.view("x")["slot"], created.view["slot"], "its number is its own");
    let told = fixture.stub.state();
    assert_eq!(told.campaigns.values().next().expect("it is told").terms.version, 8);
}

#[test]
fn what_is_refused() {
    let fixture = with_account();
    fixture.create(StoredKind::Campaign, body("x", &json!({})));
    let unknown = ChangeRefusal::Unknown { kind: StoredKind::Campaign, id: "y".to_owned() };
    assert_eq!(fixture.edit("y", &DefinitionEdit::Pause(true)), Err(unknown.clone()));
    assert_eq!(fixture.registry().spend(StoredKind::Campaign, "y"), Err(unknown.clone()));
    assert_eq!(fixture.registry().why("y"), Err(unknown.clone()));
    assert_eq!(fixture.registry().curve("y"), Err(unknown));
    let again = fixture.registry().create(
        StoredKind::Campaign,
        &object(body("x", &json!({}))),
        &keyed(None),
    );
    let exists =
        ChangeRefusal::Exists { kind: StoredKind::Campaign, id: "x".to_owned(), version: 1 };
    assert_eq!(again, Err(exists));
    let check = |edit: DefinitionEdit, want: &str| {
        let refused = fixture.edit("x", &edit);
        let Err(ChangeRefusal::Invalid(problems)) = refused else {
            panic!("{edit:?}: {refused:?}")
        };
        let found: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(found, [want], "{edit:?}");
    };
    check(
        DefinitionEdit::Replace(object(body("z", &json!({})))),
        "id = \"z\": is another than the path's, \"x\": an id does not change",
    );
    check(
        DefinitionEdit::Budgets(Map::new()),
        "budget: is missing: give budget, daily_budget or hourly_budget, null for no limit",
    );
    check(
        DefinitionEdit::Budgets(object(json!({ "delta": "1" }))),
        "delta: unknown key, write budget, daily_budget or hourly_budget",
    );
    check(
        DefinitionEdit::Budgets(object(json!({ "budget": "-1" }))),
        "budget = \"-1\": is negative: give 0 or more",
    );
    fixture.create(StoredKind::Account, json!({ "id": "b", "currency": "EUR", "seats": ["d/s"] }));
    check(
        DefinitionEdit::Merge(object(json!({ "account": "b" }))),
        "account = \"b\": was \"acme\" and does not change: make another campaign",
    );
    let account = |edit: DefinitionEdit, want: &str| {
        let refused = fixture.registry().edit(StoredKind::Account, "acme", &edit, &at(None));
        let Err(ChangeRefusal::Invalid(problems)) = refused else {
            panic!("{edit:?}: {refused:?}")
        };
        assert_eq!(problems[0].to_string(), want, "{edit:?}");
    };
    account(
        DefinitionEdit::Merge(object(json!({ "currency": "EUR" }))),
        "currency: was USD and does not change: open another account",
    );
    account(
        DefinitionEdit::Merge(object(json!({ "seats": ["d/s"] }))),
        "seats: names `d/s`, as does account `b`: remove one",
    );
}

#[test]
fn a_limit_below_what_is_spent_is_taken_and_told() {
    let fixture = with_account();
    let created = fixture.create(StoredKind::Campaign, body("x", &json!({ "budget": "9" })));
    let slot =
        CampaignIndex(u32::try_from(created.view["slot"].as_u64().expect("a slot")).expect("few"));
    let amount = |units: u64| Nanos::new(units * 1_000_000_000);
    let (life, today, now) = (amount(7), amount(5), amount(1));
    let spend = Spend { currency: Currency::USD, life, today, now, hours: Vec::new() };
    fixture.stub.state().spends.insert(slot, spend);
    let budgets = json!({ "budget": "6.5", "daily_budget": "5", "hourly_budget": "0.5" });
    let answered =
        fixture.edit("x", &DefinitionEdit::Budgets(object(budgets))).expect("it is taken");
    assert_eq!(
        answered.view["warnings"],
        json!([
            "budget: 6.50 USD is below the 7.00 USD spent in all: nothing more will be spent",
            "hourly_budget: 0.50 USD is below the 1.00 USD spent in this hour: nothing more will be spent",
        ])
    );
    let limits = fixture.stub.state().campaigns[&slot].terms.budget.limits;
    assert_eq!(limits.life.expect("a limit").amount, Nanos::new(6_500_000_000));
}

#[test]
fn an_account_s_limit_is_held_beside_what_all_its_campaigns_have_spent() {
    let fixture = with_account();
    let amount = |units: u64| Nanos::new(units * 1_000_000_000);
    let (life, today, now) = (amount(7), amount(5), amount(1));
    let spend = Spend { currency: Currency::USD, life, today, now, hours: Vec::new() };
    fixture.stub.state().account_spends.insert(0, spend);
    let budgets = DefinitionEdit::Budgets(object(json!({ "budget": "6.5", "daily_budget": "5" })));
    let answered = fixture.registry().edit(StoredKind::Account, "acme", &budgets, &at(None));
    let want = "budget: 6.50 USD is below the 7.00 USD spent in all: nothing more will be spent";
    assert_eq!(answered.expect("it is taken").view["warnings"], json!([want, LATE_WINS]));
}

#[test]
fn an_account_that_keeps_nothing_back_is_told_that_wins_may_come_late() {
    let fixture = Fixture::new(&[]);
    let check = |id: &str, keys: Value, want: Value| {
        let mut given = object(json!({ "id": id, "currency": "USD" }));
        given.extend(object(keys));
        let created = fixture.create(StoredKind::Account, Value::Object(given));
        assert_eq!(created.view["warnings"], want, "{id}");
    };
    check("limited", json!({ "hourly_budget": "1" }), json!([LATE_WINS]));
    check("unlimited", json!({}), json!([]));
    check("careful", json!({ "budget": "1", "late_holdback": "1%" }), json!([]));
    let told = fixture.stub.state();
    let held = told.accounts.values().map(|account| account.late_holdback);
    assert_eq!(held.filter(|held| *held != Holdback::default()).count(), 1, "it is told");
}

#[test]
fn what_clocks_skip_is_told() {
    let fixture = with_account();
    let skipped = json!({ "start": "2026-03-08T02:30:00" });
    let created = fixture.create(StoredKind::Campaign, body("x", &skipped));
    let want = json!([
        "start: 2026-03-08T02:30:00 is skipped by the account's clocks: 2026-03-08T03:30:00-04:00 \
         is taken"
    ]);
    assert_eq!(created.view["warnings"], want);
    assert_eq!(fixture.view("x")["warnings"], want);
}

#[test]
fn one_of_two_changes_of_a_version_holds() {
    let fixture = with_account();
    fixture.create(StoredKind::Campaign, body("x", &json!({})));
    for round in 1..=20 {
        let ends: Vec<_> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..4)
                .map(|number| {
                    let registry = fixture.registry();
                    scope.spawn(move || {
                        let budget = json!({ "budget": format!("{round}.{number}1") });
                        let edit = DefinitionEdit::Budgets(object(budget));
                        registry.edit(StoredKind::Campaign, "x", &edit, &at(Some(round)))
                    })
                })
                .collect();
            tries.into_iter().map(|it| it.join().expect("no panic")).collect()
        });
        let held: Vec<_> = ends.iter().filter_map(|end| end.as_ref().ok()).collect();
        assert_eq!(held.len(), 1, "{ends:?}");
        assert_eq!(held[0].version, round + 1);
        let stale = ChangeRefusal::Stale {
            kind: StoredKind::Campaign,
            id: "x".to_owned(),
            given: round,
            present: round + 1,
        };
        assert_eq!(ends.iter().filter(|end| **end == Err(stale.clone())).count(), 3, "{ends:?}");
        assert_eq!(fixture.view("x")["definition"], held[0].view["definition"]);
    }
}

#[test]
fn a_key_is_done_once_also_over_a_restart() {
    let fixture = with_account();
    let create = |fixture: &Fixture, id: &str, key: &str| {
        fixture.registry().create(
            StoredKind::Campaign,
            &object(body(id, &json!({}))),
            &keyed(Some(key)),
        )
    };
    let first = create(&fixture, "x", "k").expect("a campaign");
    fixture.edit("x", &DefinitionEdit::Pause(true)).expect("a change");
    assert_eq!(create(&fixture, "x", "k"), Ok(first.clone()), "as it was answered then");
    assert_eq!(create(&fixture, "y", "k"), Err(ChangeRefusal::KeyReused("k".to_owned())));
    assert!(create(&fixture, "y", "l").is_ok());
    // A refused change can be retried with its key.
    assert!(matches!(create(&fixture, "x", "m"), Err(ChangeRefusal::Exists { .. })));
    assert!(create(&fixture, "z", "m").is_ok());
    let fixture = fixture.restart(|| NOW_UNIX_MS + 24 * 3_600_000 - 1);
    assert_eq!(create(&fixture, "x", "k"), Ok(first));
    assert_eq!(create(&fixture, "w", "k"), Err(ChangeRefusal::KeyReused("k".to_owned())));
    let fixture = fixture.restart(|| NOW_UNIX_MS + 24 * 3_600_000);
    assert!(create(&fixture, "w", "k").is_ok(), "a day later it is another's");
}

#[test]
fn a_start_reads_the_audit_of_a_day_and_a_page() {
    const DAYS: u64 = 30;
    const ENTRIES: usize = 1_500;
    let fixture = Fixture::new(&[]);
    for day in 0..DAYS {
        let at_unix_ms = NOW_UNIX_MS - (DAYS - day) * keys::KEPT_MS + 1_000;
        let entry = |number: usize| {
            let keyed = KeyedRequest::new(&format!("{day}-{number}"), "asked");
            let idempotency = json!({ "key": keyed.key, "body": keyed.body });
            let body = json!({ "action": "create", "answer": number, "idempotency": idempotency });
            AuditEntry { at_unix_ms, body: body.to_string().into_bytes() }
        };
        let audit = (0..ENTRIES).map(entry).collect();
        fixture
            .stub
            .handle()
            .change(DefinitionChange { audit, ..DefinitionChange::default() })
            .expect("it is kept");
    }
    let fixture = fixture.restart(|| NOW_UNIX_MS);
    let read = fixture.stub.state().audit_read;
    let page = usize::try_from(AUDIT_PAGE).expect("few");
    assert!((ENTRIES..=ENTRIES + 2 * page).contains(&read), "{read} of {DAYS} times {ENTRIES}");
    let mut changing = fixture.registry().inner.changing();
    let mut known = |day: u64, number: usize| {
        let keyed = KeyedRequest::new(&format!("{day}-{number}"), "asked");
        changing.keys.look(&keyed, NOW_UNIX_MS)
    };
    for number in [0, ENTRIES - 1] {
        assert!(matches!(known(DAYS - 1, number), keys::KeyLookup::Answered(_)), "of the last day");
        assert_eq!(known(DAYS - 2, number), keys::KeyLookup::Fresh);
    }
}

#[test]
fn all_is_there_after_a_restart() {
    let fixture = with_account();
    let seats = json!({ "id": "seats", "currency": "EUR", "seats": ["d/s"] });
    fixture.create(StoredKind::Account, seats);
    for id in ["x", "y", "z"] {
        fixture.create(StoredKind::Campaign, body(id, &json!({ "budget": "5" })));
    }
    fixture.edit("y", &DefinitionEdit::Remove).expect("it goes");
    let views = |fixture: &Fixture| {
        let listing = Listing { most: 10, with_removed: true, ..Listing::default() };
        let (mut views, _) = fixture.registry().list(StoredKind::Campaign, &listing);
        views.extend(fixture.registry().list(StoredKind::Account, &listing).0);
        views
    };
    let orders = |fixture: &Fixture| {
        let told = fixture.stub.state();
        told.campaigns.values().map(|it| it.terms).collect::<Vec<_>>()
    };
    let (before, mut told) = (views(&fixture), orders(&fixture));
    let fixture = fixture.restart(|| NOW_UNIX_MS);
    assert_eq!(views(&fixture), before);
    // Accounts get new numbers.
    let mut again = orders(&fixture);
    told.iter_mut().chain(&mut again).for_each(|it| it.account = AccountId(0));
    assert_eq!(again, told);
    let created = fixture.create(StoredKind::Campaign, body("w", &json!({})));
    assert_eq!(created.view["slot"], 4, "numbers go on");
}

#[test]
fn a_store_that_fails_keeps_all_as_it_was() {
    let fixture = with_account();
    fixture.create(StoredKind::Campaign, body("x", &json!({})));
    fixture.stub.state().is_full = true;
    let refused = fixture.edit("x", &DefinitionEdit::Pause(true));
    assert!(matches!(refused, Err(ChangeRefusal::Unavailable(_))), "{refused:?}");
    assert_eq!(fixture.view("x")["version"], 1);
    fixture.stub.state().is_full = false;
    assert_eq!(fixture.edit("x", &DefinitionEdit::Pause(true)).expect("a change").version, 2);
}

/// What is durable but not in the ledger goes there with the next change.
#[test]
fn a_ledger_that_does_not_answer_is_told_later() {
    let fixture = with_account();
    let x = fixture.create(StoredKind::Campaign, body("x", &json!({})));
    let slot = CampaignIndex(u32::try_from(x.view["slot"].as_u64().expect("a slot")).expect("few"));
    fixture.stub.state().is_unresponsive = true;
    let refused = fixture.edit("x", &DefinitionEdit::Pause(true));
    assert!(matches!(refused, Err(ChangeRefusal::Unavailable(_))), "{refused:?}");
    assert_eq!(fixture.view("x")["version"], 2, "it is kept");
    fixture.stub.state().is_unresponsive = false;
    fixture.create(StoredKind::Campaign, body("y", &json!({})));
    assert!(fixture.stub.state().campaigns[&slot].terms.budget.is_paused);
}

#[test]
fn the_audit_has_every_change() {
    let fixture = with_account();
    let given = object(body("x", &json!({})));
    fixture.registry().create(StoredKind::Campaign, &given, &keyed(Some("k"))).expect("a campaign");
    fixture.edit("x", &DefinitionEdit::Pause(true)).expect("a change");
    fixture
        .edit("x", &DefinitionEdit::Budgets(object(json!({ "budget": "1" }))))
        .expect("a change");
    fixture.edit("x", &DefinitionEdit::Remove).expect("a change");
    let entries = fixture.registry().audit(None, 100).expect("entries");
    let shown: Vec<_> = entries
        .iter()
        .map(|(_, entry)| {
            assert_eq!(entry.at_unix_ms, NOW_UNIX_MS);
            let body: Value = serde_json::from_slice(&entry.body).expect("JSON");
            json!([
                body["action"],
                body["kind"],
                body["id"],
                body["version"],
                body["definition"]["budget"]
            ])
        })
        .collect();
    let want = [
        json!(["create", "account", "acme", 1, null]),
        json!(["create", "campaign", "x", 1, null]),
        json!(["pause", "campaign", "x", 2, null]),
        json!(["budget", "campaign", "x", 3, "1"]),
        json!(["remove", "campaign", "x", 4, "1"]),
    ];
    assert_eq!(shown, want);
    let rest = fixture.registry().audit(Some(entries[3].0), 100).expect("entries");
    assert_eq!(rest, entries[4..]);
}

/// A page of the audit ends before its entries are too large.
#[test]
fn the_audit_s_pages_are_so_large() {
    let fixture = with_account();
    for _ in 0..2 {
        let entry = |_| AuditEntry { at_unix_ms: 0, body: vec![b' '; 3 << 20] };
        let audit = (0..3).map(entry).collect();
        fixture
            .stub
            .handle()
            .change(DefinitionChange { audit, ..DefinitionChange::default() })
            .expect("it is kept");
        // A different change, so that it is not taken for a repeated one.
        let entry = AuditEntry { at_unix_ms: 0, body: vec![b' '; 9 << 20] };
        fixture
            .stub
            .handle()
            .change(DefinitionChange { audit: vec![entry], ..DefinitionChange::default() })
            .expect("it is kept");
    }
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let page = fixture.registry().audit(after, 100).expect("entries");
        let Some((last, _)) = page.last() else { break };
        (after, pages) = (Some(*last), [pages, vec![page.len()]].concat());
    }
    assert_eq!(pages, [3, 1, 1, 2, 1, 1], "3 MiB each, and 9 MiB");
}

#[test]
fn lists_are_paged() {
    let fixture = with_account();
    fixture.create(StoredKind::Account, json!({ "id": "b", "currency": "EUR" }));
    for id in ["p", "q", "r", "s"] {
        fixture.create(StoredKind::Campaign, body(id, &json!({})));
    }
    fixture.create(StoredKind::Campaign, body("a", &json!({ "account": "b" })));
    fixture.edit("q", &DefinitionEdit::Remove).expect("it goes");
    let check = |listing: Listing, want: &[&str], is_more: bool| {
        let (views, more) = fixture.registry().list(StoredKind::Campaign, &listing);
        let found: Vec<_> = views.iter().filter_map(|view| view["id"].as_str()).collect();
        assert_eq!((found, more), (want.to_vec(), is_more), "{listing:?}");
    };
    let of = |after: Option<&str>, most: usize| Listing {
        after: after.map(str::to_owned),
        most,
        ..Listing::default()
    };
    check(of(None, 10), &["a", "p", "r", "s"], false);
    check(of(None, 2), &["a", "p"], true);
    check(of(Some("p"), 2), &["r", "s"], false);
    check(of(Some("pp"), 1), &["r"], true);
    check(Listing { account: Some("acme".to_owned()), ..of(None, 2) }, &["p", "r"], true);
    check(Listing { with_removed: true, ..of(None, 3) }, &["a", "p", "q"], true);
}

/// During a publication, changes wait, and are published together.
#[test]
fn bursts_are_published_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let stub = Arc::new(StubLedger::open(&folder.path().join("store")).expect("a store"));
    let ((told, published), (goes_on, held)) = (channel(), channel());
    let options = RegistryOptions { campaigns: None, ..options(folder.path(), || NOW_UNIX_MS) };
    let publish = move |it: PublishedCatalogue<PriceRules>| {
        told.send(it).expect("it is looked at");
        held.recv().expect("it goes on");
    };
    let builder = Builder::start().expect("a thread");
    let registry = Registry::start(stub.handle(), &options, &builder, publish);
    let registry = registry.expect("a registry");
    let next = || published.recv_timeout(EVER).expect("it is published");
    assert_eq!(next().number, 1);
    registry
        .create(StoredKind::Account, &object(account_body()), &keyed(None))
        .expect("an account");
    registry
        .create(StoredKind::Campaign, &object(body("x", &json!({}))), &keyed(None))
        .expect("a campaign");
    for round in 0..50 {
        let pause = DefinitionEdit::Pause(round % 2 == 0);
        registry.edit(StoredKind::Campaign, "x", &pause, &at(None)).expect("a change");
    }
    goes_on.send(()).expect("it is held");
    let all = next();
    assert_eq!((all.number, all.campaigns[0].version), (2, 51));
    goes_on.send(()).expect("it is held");
    drop(goes_on);
    drop(registry);
    assert!(published.recv_timeout(EVER).is_err(), "nothing more");
}

/// A wrong version takes precedence over other problems.
#[test]
fn a_stale_version_is_told_before_a_bad_body() {
    let fixture = with_account();
    fixture.create(StoredKind::Campaign, body("x", &json!({})));
    let edit = DefinitionEdit::Budgets(Map::new());
    let refused = fixture.registry().edit(StoredKind::Campaign, "x", &edit, &at(Some(9)));
    let id = "x".to_owned();
    assert_eq!(
        refused,
        Err(ChangeRefusal::Stale { kind: StoredKind::Campaign, id, given: 9, present: 1 })
    );
    let refused = fixture.registry().edit(StoredKind::Campaign, "x", &edit, &at(Some(1)));
    assert!(matches!(refused, Err(ChangeRefusal::Invalid(_))), "{refused:?}");
}

/// The exchange learns that a paused account closes its campaigns.
#[test]
fn an_account_that_is_paused_closes_its_campaigns() {
    let fixture = with_account();
    fixture.create(StoredKind::Campaign, body("x", &json!({})));
    fixture.published(|published| published.campaigns.iter().any(|it| it.is_open));
    let pause = |is| {
        fixture.registry().edit(StoredKind::Account, "acme", &DefinitionEdit::Pause(is), &at(None))
    };
    pause(true).expect("a change");
    fixture.published(|published| published.campaigns.iter().all(|it| !it.is_open));
    pause(false).expect("a change");
    fixture.published(|published| published.campaigns.iter().any(|it| it.is_open));
}
