//! Files that change, and the API's overrides.

use runtime::metrics::Exposition;

use super::super::read::FileDefinition;
use super::super::table::DefinitionEntry;
use super::*;

#[test]
fn what_files_say_is_kept_told_and_published() {
    let fixture = Fixture::new(&[
        ("b.toml", &format!("{ACCOUNT}seats = ['dsp-3/acme']\nbudget = '9'\n")),
        // Before the file of its account.
        ("a.toml", &[toml("x", "budget = '5'"), toml("y", "paused = true")].concat()),
    ]);
    let published = fixture.published(|_| true);
    assert_eq!(published.number, 1);
    let account = &published.accounts[0];
    assert_eq!((&*account.id, account.currency), ("acme", Currency::USD));
    assert_eq!(account.seats, [("dsp-3".to_owned(), "acme".to_owned())]);
    let campaigns: Vec<_> = published
        .campaigns
        .iter()
        .map(|it| (&*it.id, it.version, it.is_open, it.rules.value.as_deref()))
        .collect();
    assert_eq!(campaigns, [("x", 1, true, Some("2.50")), ("y", 1, false, Some("2.50"))]);
    let told = fixture.stub.state();
    let seat = account.slot.expect("seats have a slot");
    let order = &told.campaigns[&seat];
    assert_eq!(
        (order.terms.budget.limits, order.pacing.is_none()),
        (BudgetLimits::default(), true)
    );
    let zone = fixture.stub.handle().zones.name(told.accounts[&0].zone);
    assert_eq!(zone.as_deref(), Some("America/New_York"));
    let x = &told.campaigns[&published.campaigns[0].slot];
    assert_eq!(x.terms.budget.limits.life.expect("a limit").amount, Nanos::new(5_000_000_000));
    // Midnight in New York, in summer time and then in winter time.
    assert_eq!(x.terms.budget.start_unix_ms, 1_793_505_600_000);
    assert_eq!(x.terms.budget.end_unix_ms, 1_796_101_200_000);
    assert_eq!(told.changes, 1, "all of them in one change");
}

#[test]
fn files_are_read_anew() {
    let fixture = Fixture::new(&[
        ("a.toml", ACCOUNT),
        ("x.toml", &toml("x", "budget = '5'")),
        ("y.toml", &toml("y", "")),
    ]);
    let slot = |id: &str| fixture.view(id)["slot"].as_u64().expect("a slot");
    let (x, y) = (slot("x"), slot("y"));
    assert_eq!(fixture.registry().reload(), Ok(FilesRead::default()));

    fixture.write("x.toml", &toml("x", "budget = '6'"));
    fixture.write("z.toml", &toml("z", ""));
    std::fs::remove_file(fixture.folder.path().join("campaigns.d/y.toml")).expect("it is there");
    let read = FilesRead { created: 1, changed: 1, removed: 1 };
    assert_eq!(fixture.registry().reload(), Ok(read));
    assert_eq!(fixture.view("x")["version"], 2);
    assert_eq!((slot("x"), fixture.view("x")["definition"]["budget"].clone()), (x, json!("6")));
    assert_eq!((slot("y"), fixture.view("y")["removed"].clone()), (y, json!(true)));
    assert!(slot("z") > y, "a slot is never another's");
    let ids = |published: &PublishedCatalogue<PriceRules>| {
        published.campaigns.iter().map(|it| it.id.to_string()).collect::<Vec<_>>()
    };
    fixture.published(|published| ids(published) == ["x", "z"]);
    let told =
        fixture.stub.state().campaigns[&CampaignIndex(u32::try_from(y).expect("a slot"))].clone();
    assert!(told.terms.budget.is_paused, "what is removed spends nothing");

    // It returns in another file, with its number.
    fixture.write("x.toml", &[toml("x", "budget = '6'"), toml("y", "")].concat());
    let read = FilesRead { created: 1, ..FilesRead::default() };
    assert_eq!(fixture.registry().reload(), Ok(read));
    assert_eq!((slot("y"), fixture.view("y")["version"].clone()), (y, json!(3)));
    fixture.published(|published| ids(published) == ["x", "y", "z"]);
}

#[test]
fn a_bad_file_changes_nothing() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT), ("x.toml", &toml("x", "budget = '5'"))]);
    fixture.write("x.toml", &toml("x", "budget = '6'"));
    fixture.write("y.toml", &toml("y", "budget = '-6'"));
    let mut exposition = Exposition::default();
    fixture.registry().expose(&mut exposition);
    let is_exposed = |successful: u8| {
        let line = format!("vickrey_campaign_files_last_reload_successful {successful}\n");
        assert!(exposition.text().contains(&line), "{}", exposition.text());
    };
    is_exposed(1);
    let refused = fixture.registry().reload();
    let Err(ChangeRefusal::Invalid(problems)) = refused else { panic!("{refused:?}") };
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(fixture.view("x")["definition"]["budget"], "5");
    is_exposed(0);
    fixture.write("y.toml", &toml("y", "budget = '7'"));
    let read = FilesRead { created: 1, changed: 1, removed: 0 };
    assert_eq!(fixture.registry().reload(), Ok(read));
    is_exposed(1);
}

#[test]
fn what_an_account_is_stays() {
    let fixture = Fixture::new(&[
        ("a.toml", &[ACCOUNT, "[[account]]\nid = 'other'\ncurrency = 'EUR'\n"].concat()),
        ("x.toml", &toml("x", "")),
    ]);
    let check = |name: &str, text: &str, want: &str| {
        let path = fixture.folder.path().join("campaigns.d").join(name);
        let before = std::fs::read(&path).expect("a file");
        fixture.write(name, text);
        let refused = fixture.registry().reload();
        let Err(ChangeRefusal::Invalid(problems)) = refused else { panic!("{refused:?}") };
        let found: Vec<_> =
            problems.iter().map(|it| format!("{}: {}", it.key, it.remedy)).collect();
        assert_eq!(found, [want], "{text}");
        std::fs::write(&path, before).expect("a file");
        assert_eq!(fixture.registry().reload(), Ok(FilesRead::default()));
    };
    let accounts = [ACCOUNT, "[[account]]\nid = 'other'\ncurrency = 'EUR'\n"].concat();
    check(
        "a.toml",
        &accounts.replace("EUR", "USD"),
        "account[1].currency: was EUR and does not change: open another account",
    );
    check(
        "a.toml",
        &accounts.replace("America/New_York", "UTC"),
        "account[0].time_zone: was \"America/New_York\" and does not change: open another account",
    );
    check(
        "x.toml",
        &toml("x", "").replace("'acme'", "'other'"),
        "campaign[0].account: was \"acme\" and does not change: make another campaign",
    );
}

#[test]
fn the_api_holds_over_a_file_until_it_changes() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT), ("x.toml", &toml("x", "budget = '5'"))]);
    let file = fixture.folder.path().join("campaigns.d/x.toml");
    let refused = fixture.edit("x", &DefinitionEdit::Merge(object(json!({ "paused": true }))));
    assert_eq!(refused, Err(ChangeRefusal::OfFile { id: "x".to_owned(), file: file.clone() }));
    for edit in [DefinitionEdit::Replace(object(body("x", &json!({})))), DefinitionEdit::Remove] {
        assert!(matches!(fixture.edit("x", &edit), Err(ChangeRefusal::OfFile { .. })), "{edit:?}");
    }
    let budgets = object(json!({ "budget": "7", "daily_budget": "1" }));
    fixture.edit("x", &DefinitionEdit::Budgets(budgets)).expect("a budget");
    fixture.edit("x", &DefinitionEdit::Pause(true)).expect("a pause");
    let state = || {
        let view = fixture.view("x");
        let definition = &view["definition"];
        json!([
            definition["budget"],
            definition["daily_budget"],
            definition["paused"],
            view["version"]
        ])
    };
    assert_eq!(state(), json!(["7", "1", true, 3]));

    // Another key of the file leaves overrides alone; the overridden key itself ends them.
    fixture.write("x.toml", &toml("x", "budget = '5'\nhours = ['mon']"));
    assert!(fixture.registry().reload().is_ok());
    assert_eq!(state(), json!(["7", "1", true, 4]));
    fixture.write("x.toml", &toml("x", "budget = '6'\nhours = ['mon']"));
    assert!(fixture.registry().reload().is_ok());
    assert_eq!(state(), json!(["6", "1", true, 5]));

    // Overrides survive a restart.
    let fixture = fixture.restart(|| NOW_UNIX_MS);
    assert_eq!(fixture.view("x")["definition"]["daily_budget"], "1");
    assert_eq!(fixture.view("x")["held"], json!(["daily_budget", "paused"]));
    let published = fixture.published(|_| true);
    assert!(!published.campaigns[0].is_open);
    fixture.edit("x", &DefinitionEdit::Pause(false)).expect("it goes on");
    assert_eq!(fixture.view("x")["held"], json!(["daily_budget"]));
    fixture.published(|published| published.campaigns[0].is_open);
}

#[test]
fn files_and_the_api_have_names_of_their_own() {
    let fixture = Fixture::new(&[("a.toml", &[ACCOUNT, "seats = ['d/s']\n"].concat())]);
    fixture.create(StoredKind::Campaign, body("x", &json!({})));
    let other = json!({ "id": "other", "currency": "EUR", "seats": ["d/t"] });
    fixture.create(StoredKind::Account, other);
    fixture.write("x.toml", &toml("x", ""));
    fixture.write("o.toml", "[[account]]\nid = 'third'\ncurrency = 'EUR'\nseats = ['d/t']\n");
    let refused = fixture.registry().reload();
    let Err(ChangeRefusal::Invalid(problems)) = refused else { panic!("{refused:?}") };
    let found: Vec<_> = problems.iter().map(|it| format!("{}: {}", it.key, it.remedy)).collect();
    assert_eq!(
        found,
        [
            "account[0].seats: names `d/t`, as does the account in the API, `other`: remove one",
            "campaign[0].id: is defined through the API already: rename or remove this one",
        ]
    );
    // An account cannot go while a campaign of the API names it.
    for name in ["x.toml", "o.toml", "a.toml"] {
        std::fs::remove_file(fixture.folder.path().join("campaigns.d").join(name)).expect("a file");
    }
    let refused = fixture.registry().reload();
    let Err(ChangeRefusal::Invalid(problems)) = refused else { panic!("{refused:?}") };
    assert!(problems[0].remedy.starts_with("`acme` is gone, but campaign `x`"), "{problems:?}");
    fixture.edit("x", &DefinitionEdit::Remove).expect("it goes");
    let read = FilesRead { removed: 1, ..FilesRead::default() };
    assert_eq!(fixture.registry().reload(), Ok(read));
}

#[test]
fn files_are_watched() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT)]);
    let _following = fixture.follow();
    fixture.write("x.toml", &toml("x", ""));
    fixture.published(|published| published.campaigns.len() == 1);
    // A bad file is still watched, and read once it is valid.
    fixture.write("x.toml", "x");
    fixture.write("x.toml", &[toml("x", ""), toml("y", "")].concat());
    fixture.published(|published| published.campaigns.len() == 2);
}

/// A reload refuses what a start would refuse.
#[test]
fn an_account_that_goes_while_its_campaigns_stay_is_a_problem() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT), ("x.toml", &toml("x", "budget = '5'"))]);
    let before = fixture.view("x");
    let path = fixture.folder.path().join("campaigns.d/a.toml");
    std::fs::remove_file(&path).expect("a file");
    for _ in 0..2 {
        let refused = fixture.registry().reload();
        let Err(ChangeRefusal::Invalid(problems)) = refused else { panic!("{refused:?}") };
        let text = problems[0].to_string();
        assert!(text.contains("x.toml") && text.contains("is no account"), "{text}");
        assert_eq!(fixture.view("x"), before, "nothing has changed");
    }
    // A later file defines the account.
    fixture.write("z.toml", ACCOUNT);
    let read = FilesRead { changed: 1, ..FilesRead::default() };
    assert_eq!(fixture.registry().reload(), Ok(read));
    assert_eq!(fixture.view("x"), before);
}

/// Files are read again although they do not change.
#[test]
fn what_a_failing_store_did_not_take_is_read_again() {
    let fixture = Fixture::new(&[("a.toml", ACCOUNT)]);
    let _following = fixture.follow();
    fixture.stub.state().is_full = true;
    fixture.write("x.toml", &toml("x", ""));
    while fixture.stub.state().refused == 0 {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    fixture.stub.state().is_full = false;
    fixture.published(|published| published.campaigns.len() == 1);
}

/// Without its text and the exchange's rules.
#[test]
fn a_campaign_takes_four_hundred_bytes_in_the_registry() {
    let campaign = size_of::<DefinedCampaign<PriceRules>>() - size_of::<PriceRules>();
    let entry = size_of::<Arc<str>>() + size_of::<DefinitionEntry<DefinedCampaign<PriceRules>>>();
    let found = size_of::<FileDefinition<DefinedCampaign<PriceRules>>>();
    let all = campaign + entry + found;
    assert!(
        all <= 400,
        "{all} bytes: {campaign} itself, {entry} in the books, {found} of its file"
    );
}
