//! Changes of unknown outcome, and definitions that the ledger refuses.

use pacer_core::store::{DefinitionChange, DefinitionKey, DefinitionPut, StoredDefinition};

use super::*;

fn with_account() -> Fixture {
    let fixture = Fixture::new(&[]);
    fixture.create(StoredKind::Account, account_body());
    fixture
}

fn create(
    fixture: &Fixture,
    id: &str,
    key: Option<&str>,
) -> Result<DefinitionAnswer, ChangeRefusal> {
    fixture.registry().create(StoredKind::Campaign, &object(body(id, &json!({}))), &keyed(key))
}

#[track_caller]
fn is_unavailable<T: std::fmt::Debug>(answered: Result<T, ChangeRefusal>) -> String {
    match answered {
        Err(ChangeRefusal::Unavailable(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn audited(fixture: &Fixture) -> Vec<Value> {
    let entries = fixture.registry().audit(None, 100).expect("entries");
    let shown = entries.iter().map(|(_, entry)| {
        let body: Value = serde_json::from_slice(&entry.body).expect("JSON");
        json!([body["action"], body["id"], body["version"]])
    });
    shown.collect()
}

#[test]
fn what_was_kept_unheard_is_known_before_anything_else_is_done() {
    let fixture = with_account();
    fixture.stub.state().is_late = true;
    is_unavailable(create(&fixture, "x", Some("k")));
    fixture.stub.state().is_late = false;
    let y = create(&fixture, "y", None).expect("a campaign");
    let x = fixture.view("x");
    assert_ne!(x["slot"], y.view["slot"], "each has its own number");
    let again = create(&fixture, "x", Some("k")).expect("as it would have been answered");
    assert_eq!((again.version, &again.view["slot"]), (1, &x["slot"]));
    fixture.published(|published| published.campaigns.len() == 2);
    assert_eq!(fixture.stub.state().campaigns.len(), 2, "the ledger knows both");
    let want = [json!(["create", "acme", 1]), json!(["create", "x", 1]), json!(["create", "y", 1])];
    assert_eq!(audited(&fixture), want, "each once");
    let fixture = fixture.restart(|| NOW_UNIX_MS);
    assert_eq!(
        (&fixture.view("x")["slot"], &fixture.view("y")["slot"]),
        (&x["slot"], &y.view["slot"])
    );
}

#[test]
fn nothing_is_changed_while_that_is_not_known() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT), ("f.toml", &toml("f", ""))]);
    for is_kept in [true, false] {
        let id = if is_kept { "x" } else { "y" };
        let late = |is: bool| {
            let mut told = fixture.stub.state();
            (told.is_late, told.is_lost) = (is && is_kept, is && !is_kept);
        };
        late(true);
        is_unavailable(create(&fixture, id, None));
        late(false);
        fixture.stub.state().is_lost = true;
        let why = is_unavailable(create(&fixture, "z", None));
        assert!(why.contains("is not known yet"), "{why}");
        is_unavailable(fixture.edit("f", &DefinitionEdit::Pause(is_kept)));
        is_unavailable(fixture.registry().reload());
        fixture.stub.state().is_lost = false;
        // A store that refuses now may have stored the change before.
        fixture.stub.state().is_full = true;
        is_unavailable(create(&fixture, "z", None));
        assert!(fixture.registry().show(StoredKind::Campaign, id).is_err(), "nobody knows");
        fixture.stub.state().is_full = false;
        assert_eq!(fixture.registry().reload(), Ok(FilesRead::default()));
        assert_eq!(fixture.view(id)["version"], 1, "it is done, once");
        assert!(fixture.registry().show(StoredKind::Campaign, "z").is_err(), "it was refused");
    }
    let ids: Vec<_> = audited(&fixture).iter().map(|it| it[1].clone()).collect();
    assert_eq!(ids, ["acme", "f", "x", "y"]);
}

#[test]
fn an_edit_that_nobody_heard_of_stands_in_the_way_of_none() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT), ("x.toml", &toml("x", "budget = '5'"))]);
    fixture.stub.state().is_late = true;
    is_unavailable(fixture.edit("x", &DefinitionEdit::Pause(true)));
    fixture.stub.state().is_late = false;
    let budget = DefinitionEdit::Budgets(object(json!({ "daily_budget": "1" })));
    assert_eq!(fixture.edit("x", &budget).expect("a change").version, 3);
    assert_eq!(fixture.view("x")["definition"]["paused"], true);
    fixture.stub.state().is_late = true;
    fixture.write("x.toml", &toml("x", "budget = '6'"));
    is_unavailable(fixture.registry().reload());
    fixture.stub.state().is_late = false;
    assert_eq!(fixture.registry().reload(), Ok(FilesRead::default()), "it was kept");
    assert_eq!(
        (&fixture.view("x")["version"], fixture.stub.state().campaigns.len()),
        (&json!(4), 1)
    );
}

/// Another change has taken the place of one that was not stored: that one is forgotten.
#[test]
fn what_cannot_be_kept_any_more_is_forgotten() {
    let fixture = with_account();
    fixture.stub.state().is_lost = true;
    is_unavailable(create(&fixture, "x", None));
    fixture.stub.state().is_lost = false;
    let key = DefinitionKey { kind: StoredKind::Campaign, id: "x".to_owned() };
    let definition = StoredDefinition { version: 5, body: b"another's".to_vec() };
    let put = DefinitionPut { key, expected: Some(0), definition };
    fixture
        .stub
        .handle()
        .change(DefinitionChange { puts: vec![put], ..DefinitionChange::default() })
        .expect("it is kept");
    assert_eq!(create(&fixture, "y", None).expect("a campaign").version, 1);
    assert!(fixture.registry().show(StoredKind::Campaign, "x").is_err());
    // The caller named no version that could be stale.
    let why = is_unavailable(create(&fixture, "x", None));
    assert!(why.contains("campaign `x` at version 5"), "{why}");
    assert_eq!(create(&fixture, "z", None).expect("a campaign").version, 1);
}

#[test]
fn a_number_that_two_have_starts_nothing() {
    let fixture = with_account();
    create(&fixture, "x", None).expect("a campaign");
    let mut kept = fixture.stub.handle().definitions(StoredKind::Campaign).expect("one");
    let (key, definition) = kept.pop().expect("one");
    let key = DefinitionKey { id: "y".to_owned(), ..key };
    let put = DefinitionPut { key, expected: Some(0), definition };
    fixture
        .stub
        .handle()
        .change(DefinitionChange { puts: vec![put], ..DefinitionChange::default() })
        .expect("it is kept");
    let Fixture { registry, stub, published, folder } = fixture;
    drop((registry, stub, published));
    let refused = started(folder.path(), || NOW_UNIX_MS).err().expect("it does not start");
    let text = refused.to_string();
    assert!(
        text.starts_with("campaign `x` and campaign `y` are kept under one number, 0:"),
        "{text}"
    );
}

#[test]
fn a_key_is_known_once_its_change_is_kept() {
    let fixture = with_account();
    fixture.stub.state().is_unresponsive = true;
    is_unavailable(create(&fixture, "x", Some("k")));
    fixture.stub.state().is_unresponsive = false;
    assert_eq!(create(&fixture, "x", Some("k")).expect("it was done").view, fixture.view("x"));
    assert_eq!(create(&fixture, "y", Some("k")), Err(ChangeRefusal::KeyReused("k".to_owned())));
}

#[test]
fn one_definition_that_the_ledger_refuses_holds_up_no_other() {
    let fixture = with_account();
    for id in ["x", "y"] {
        create(&fixture, id, None).expect("a campaign");
    }
    fixture.stub.state().rejected = Some(CampaignIndex(0));
    let why = is_unavailable(fixture.edit("x", &DefinitionEdit::Pause(true)));
    assert!(why.starts_with("it is kept, but the ledger does not take"), "{why}");
    assert_eq!(fixture.edit("y", &DefinitionEdit::Pause(true)).expect("a change").version, 2);
    assert!(fixture.stub.state().campaigns[&CampaignIndex(1)].terms.budget.is_paused);
    // A start continues too: the ledger spends nothing of what it does not know.
    let Fixture { registry, stub, published, folder } = fixture;
    drop((registry, stub, published));
    let stub = Arc::new(StubLedger::open(&folder.path().join("store")).expect("a store"));
    stub.state().rejected = Some(CampaignIndex(0));
    let options = options(folder.path(), || NOW_UNIX_MS);
    let builder = Builder::start().unwrap();
    let registry = Registry::<PriceRules>::start(stub.handle(), &options, &builder, drop);
    assert!(registry.is_ok());
    assert_eq!(stub.state().campaigns.keys().collect::<Vec<_>>(), [&CampaignIndex(1)]);
}

/// Seats have the end of time as a text.
#[test]
fn seats_never_end() {
    let fixture = Fixture::new(&[]);
    let seats = json!({ "id": "s", "currency": "EUR", "seats": ["d/s"] });
    fixture.create(StoredKind::Account, seats);
    let end_unix_ms = fixture.stub.state().campaigns[&CampaignIndex(0)].terms.budget.end_unix_ms;
    let end = std::time::UNIX_EPOCH + Duration::from_millis(end_unix_ms);
    assert_eq!(runtime::admin::rfc3339(end), "9999-12-31T23:59:59.999Z");
}
