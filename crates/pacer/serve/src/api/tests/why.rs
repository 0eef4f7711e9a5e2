//! Why campaigns do not spend, and how far they have come.

use super::*;

/// The reason, the words and the remedy of a campaign.
#[track_caller]
fn check_cause(fixture: &Fixture, reason: &str, words: &str, remedy: &str) {
    let shown = fixture.get("/v1/campaigns/filed/why");
    let of = |key: &str| shown[key].as_str().unwrap_or_default().to_owned();
    assert_eq!((of("reason"), of("words")), (reason.to_owned(), words.to_owned()), "{shown}");
    assert!(of("remedy").contains(remedy), "{shown}");
}

/// Each beats those below it.
#[test]
fn the_first_cause_is_told() {
    let fixture = Fixture::new();
    let slot = fixture.get("/v1/campaigns/filed")["slot"].as_u64().expect("a slot");
    let slot = Slot(u32::try_from(slot).expect("few"));
    let nothing = "nothing keeps it from spending";
    check_cause(&fixture, "", nothing, "");
    let mut counts = FunnelCounts::default();
    let window = |offered, counts, shortfall| FunnelWindow {
        offered,
        counts,
        shortfall,
        ..FunnelWindow::default()
    };
    let set = |window: FunnelWindow| {
        *fixture.view.windows.lock().expect("nothing panics") = Some([window, window]);
    };
    set(window(0, counts, None));
    let none = "no impression was offered to it in the last hour";
    check_cause(&fixture, "no_requests", none, "vickrey_exchange_auctions_total");
    set(window(12_000, counts, None));
    let none = "none of the 12,000 impressions that were offered in the last hour matched";
    check_cause(&fixture, "no_match", none, "compare its targeting");
    let failed = vec![("targeting.countries", 250), ("creative", 9), ("targeting.pages", 0)];
    let found = Mismatches { impressions: 256, matched: 0, failed };
    *fixture.view.mismatches.lock().expect("nothing panics") = Some(found);
    let why = format!("{none}: of 256 sampled, 250 fail `targeting.countries`, 9 fail `creative`");
    check_cause(&fixture, "no_match", &why, "widen");
    let shown = fixture.get("/v1/campaigns/filed/why");
    assert_eq!(shown["mismatches"]["failed"][0]["impressions"], 250, "{shown}");
    counts.count(FunnelStep::Matched, 1000);
    counts.count(FunnelStep::BelowFloor, 920);
    counts.count(FunnelStep::Bid, 80);
    counts.count(FunnelStep::Won, 80);
    (0..80).for_each(|_| counts.bill(Nanos::new(400_000)));
    let price = |text: &str| Cpm::parse(text, Round::Down).expect("a price");
    let shortfall = Some(Shortfall { bid: price("0.4"), floor: price("1.2") });
    set(window(12_000, counts, shortfall));
    let floor = "its bids for 92 % of the 1,000 impressions that it matched in the last hour were \
                 below the floor: highest bid 0.40 USD, median floor 1.20 USD, for 1000 impressions";
    check_cause(&fixture, "below_floor", floor, "raise `bid`");
    let shown = fixture.get("/v1/campaigns/filed/why");
    let hour = &shown["funnel"]["hour"];
    let steps = ["offered", "matched", "below_floor", "bid", "won", "billed", "outranked"];
    assert_eq!(
        steps.map(|step| &hour[step]),
        [12_000, 1000, 920, 80, 80, 80, 0].map(|it| json!(it)).each_ref()
    );
    assert_eq!((&hour["spent"], &hour["highest_bid"]), (&json!("0.032"), &json!("0.4")));

    fixture.view.is_rateless.store(true, Ordering::Relaxed);
    let rate = "its account's currency, USD, has no rate: its bids cannot be compared";
    check_cause(&fixture, "no_rate", rate, "add USD to currency.rates");
    *fixture.view.obstacle.lock().expect("nothing panics") = Some("the disk is full".to_owned());
    check_cause(&fixture, "record_unavailable", "nothing can be won: the disk is full", "disk");
    let mut why = fixture.desk.why(slot).expect("it answers");
    why.flight_unix_ms = (0, 2 * NOW_UNIX_MS);
    let tell = |why: &Why, refusal| {
        let why = Why { refusal: Some(refusal), ..why.clone() };
        fixture.desk.told().whys.insert(slot, why);
    };
    let unavailable = "the ledger has granted nothing yet, or cannot";
    tell(&why, Refusal::LedgerUnavailable);
    check_cause(&fixture, "ledger_unavailable", unavailable, "/health/ready");
    tell(&why, Refusal::DayExhausted);
    check_cause(&fixture, "day_exhausted", "its budget of the day is spent", "raise");
    tell(&why, Refusal::Paused);
    check_cause(&fixture, "paused", "it is paused", "resume it");
    fixture.ask("PUT /v1/accounts/acme/pause", "", "");
    let account = "its account `acme` is paused";
    check_cause(&fixture, "paused", account, "vickrey account resume acme");
    why.flight_unix_ms = (0, 1_000);
    tell(&why, Refusal::Paused);
    let ended =
        "it is not in flight: that is from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:01.000Z";
    check_cause(&fixture, "out_of_flight", ended, "give a later `end`");
    fixture.admin.stop();
}

#[test]
fn a_removed_campaign_is_not_paused() {
    let fixture = Fixture::new();
    fixture.send("POST /v1/campaigns", &campaign("x"));
    fixture.ask("DELETE /v1/campaigns/x", "", "");
    let paused = Why { refusal: Some(Refusal::Paused), ..fixture.desk.why(Slot(1)).expect("why") };
    fixture.desk.told().whys.insert(Slot(1), paused);
    let shown = fixture.get("/v1/campaigns/x/why");
    assert_eq!((&shown["reason"], &shown["words"]), (&json!("removed"), &json!("it is removed")));
    fixture.admin.stop();
}

#[test]
fn campaigns_are_listed_with_what_they_have_spent_of_which_limit() {
    let fixture = Fixture::new();
    let mut body = campaign("x");
    body["daily_budget"] = "1".into();
    fixture.send("POST /v1/campaigns", &body);
    let cents = |cents: u64| Nanos::new(cents * 10_000_000);
    let level = |span, limit| Level {
        owner: Owner::Campaign,
        span,
        limit,
        held: Nanos::ZERO,
        late: Nanos::ZERO,
        holdback: Nanos::ZERO,
    };
    let levels = [Span::Life, Span::Day, Span::Hour].map(|span| level(span, None));
    let account = levels.map(|level| Level { owner: Owner::Account, ..level });
    let day = level(Span::Day, Some(cents(100)));
    let levels = [levels[0], day, levels[2], account[0], account[1], account[2]];
    let why = fixture.desk.why(Slot(1)).expect("why");
    fixture.desk.told().whys.insert(Slot(1), Why { levels: Some(levels), ..why });
    let spend = Spend {
        currency: Currency::USD,
        life: cents(900),
        today: cents(40),
        now: cents(5),
        hours: Vec::new(),
    };
    fixture.desk.told().spends.insert(Slot(1), spend);
    let point = |target, spent| CurvePoint { at_unix_ms: NOW_UNIX_MS, target, spent };
    let curve = |expected| Curve {
        span: Span::Day,
        limit: cents(100),
        flight: Flight { start_ms: 0, end_ms: NOW_UNIX_MS },
        strategy: "even",
        pace: Pace::FULL,
        dual: 0.0,
        rate: 1.0,
        points: vec![point(expected, Some(cents(40))), point(cents(100), None)],
    };
    for (expected, pace) in [(44, "on"), (45, "behind"), (37, "on"), (36, "ahead")] {
        fixture.desk.told().curves.insert(Slot(1), curve(cents(expected)));
        let listed = fixture.get("/v1/campaigns?delivery=true&after=filed");
        let want = json!({
            "refusal": null,
            "currency": "USD",
            "span": "day",
            "limit": "1",
            "spent": "0.4",
            "expected": cents(expected).to_string(),
            "pace": pace,
        });
        assert_eq!(listed["campaigns"][0]["delivery"], want);
    }
    // They are listed all the same.
    fixture.desk.told().is_deaf = true;
    let listed = fixture.get("/v1/campaigns?delivery=true");
    assert_eq!(listed["campaigns"].as_array().map(Vec::len), Some(2));
    assert_eq!(listed["campaigns"][1]["delivery"], Value::Null);
    fixture.admin.stop();
}

#[test]
fn an_account_that_can_win_nothing_says_so() {
    let fixture = Fixture::new();
    let check = |reason: Value, words: &str| {
        let shown = fixture.get("/v1/accounts/acme/why");
        assert_eq!((&shown["reason"], &shown["words"]), (&reason, &json!(words)), "{shown}");
    };
    check(Value::Null, "nothing keeps it from spending");
    fixture.view.is_rateless.store(true, Ordering::Relaxed);
    let rate = "its currency, USD, has no rate: its bids cannot be compared";
    check(json!("no_rate"), rate);
    *fixture.view.obstacle.lock().expect("nothing panics") = Some("the disk is full".to_owned());
    check(json!("record_unavailable"), "nothing can be won: the disk is full");
    fixture.admin.stop();
}

#[test]
fn a_campaign_whose_file_is_refused_says_so_unless_it_spends() {
    let fixture = Fixture::new();
    let path = fixture.folder.path().join("campaigns.d/a.toml");
    let text = std::fs::read_to_string(&path).expect("a file");
    std::fs::write(&path, text.replace("bid.value = '1'", "bid.valu = '1'")).expect("a file");
    fixture.registry.reload().expect_err("it is refused");
    let shown = fixture.get("/v1/campaigns/filed/why");
    assert_eq!(shown["reason"], "definition_refused", "{shown}");
    let words = shown["words"].as_str().expect("words");
    assert!(words.contains("a.toml is refused as it is now"), "{words}");
    let mut counts = FunnelCounts::default();
    counts.bill(Nanos::new(1));
    let window = FunnelWindow { offered: 1, counts, ..FunnelWindow::default() };
    *fixture.view.windows.lock().expect("nothing panics") = Some([window, window]);
    let shown = fixture.get("/v1/campaigns/filed/why");
    assert_ne!(shown["reason"], "definition_refused", "{shown}");
    std::fs::write(&path, text).expect("a file");
    fixture.registry.reload().expect("it is mended");
    *fixture.view.windows.lock().expect("nothing panics") = None;
    assert_eq!(fixture.get("/v1/campaigns/filed/why")["reason"], Value::Null);
    fixture.admin.stop();
}
