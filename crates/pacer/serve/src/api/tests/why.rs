//! Why campaigns do not spend, and how far they have come.

use super::*;

#[track_caller]
fn check_cause(fixture: &Fixture, reason: &str, words: &str, remedy: &str) {
    let shown = fixture.get("/v1/campaigns/filed/why");
    let of = |key: &str| shown[key].as_str().unwrap_or_default().to_owned();
    assert_eq!((of("reason"), of("words")), (reason.to_owned(), words.to_owned()), "{shown}");
    assert!(of("remedy").contains(remedy), "{shown}");
}

/// Each cause takes precedence over those below.
#[test]
#[expect(clippy::too_many_lines, reason = "causes in their order")]
fn the_first_cause_is_told() {
    let fixture = Fixture::new();
    let slot = fixture.get("/v1/campaigns/filed")["slot"].as_u64().expect("a slot");
    let slot = CampaignIndex(u32::try_from(slot).expect("few"));
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
    let price = |text: &str| Cpm::parse(text, Rounding::Down).expect("a price");
    let shortfall = Some(Shortfall { bid: price("0.4"), floor: price("1.2") });
    set(window(12_000, counts, shortfall));
    let floor = "its bids for 92 % of the 1,000 impressions that it matched in the last hour were \
                 below the floor: highest bid 0.40 USD, median floor 1.20 USD, for 1000 impressions";
    check_cause(&fixture, "below_floor", floor, "raise `bid`");
    set(window(12_000, counts, Some(Shortfall { bid: price("100"), floor: price("100.004") })));
    let told_apart = floor.replace("0.40 USD", "100.00 USD").replace("1.20 USD", "100.004 USD");
    check_cause(&fixture, "below_floor", &told_apart, "raise `bid`");
    set(window(12_000, counts, shortfall));
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
    let mut why = fixture.stub.why(slot);
    why.flight = CampaignFlight { start_ms: 0, end_ms: 2 * NOW_UNIX_MS };
    let tell = |why: &SpendDiagnosis, refusal| {
        let why = SpendDiagnosis { refusal: Some(refusal), ..why.clone() };
        fixture.stub.state().whys.insert(slot, why);
    };
    let unavailable = "the ledger has granted nothing yet, or cannot";
    tell(&why, SpendRefusal::LedgerUnavailable);
    check_cause(&fixture, "ledger_unavailable", unavailable, "/health/ready");
    tell(&why, SpendRefusal::DayExhausted);
    check_cause(&fixture, "day_exhausted", "its budget of the day is spent", "raise");
    tell(&why, SpendRefusal::Paused);
    check_cause(&fixture, "paused", "it is paused", "resume it");
    fixture.ask("PUT /v1/accounts/acme/pause", "", "");
    let account = "its account `acme` is paused";
    check_cause(&fixture, "paused", account, "vickrey account resume acme");
    why.flight = CampaignFlight { start_ms: 0, end_ms: 1_000 };
    tell(&why, SpendRefusal::Paused);
    let ended =
        "it is not in flight: that is from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:01.000Z";
    check_cause(&fixture, "out_of_flight", ended, "give a later `end`");
    fixture.admin.stop();
}

/// Each billed impression costs a cent.
fn counted(steps: &[(FunnelStep, u32)]) -> FunnelCounts {
    let mut counts = FunnelCounts::default();
    for (step, times) in steps {
        match step {
            FunnelStep::Billed => (0..*times).for_each(|_| counts.bill(Nanos::new(10_000_000))),
            step => counts.count(*step, *times),
        }
    }
    counts
}

#[test]
fn why_names_a_loss_wherever_little_is_billed() {
    use FunnelStep::{BelowFloor, Bid, Billed, Matched, Outbid, Pace as Passed, Returned, Won};
    let fixture = Fixture::new();
    let nothing = "nothing keeps it from spending";
    let check = |steps: &[(FunnelStep, u32)], recent: &[(FunnelStep, u32)], want: (&str, &str)| {
        let (counts, recent) = (counted(steps), counted(recent));
        let window = FunnelWindow { offered: 1000, counts, recent, ..FunnelWindow::default() };
        *fixture.view.windows.lock().expect("nothing panics") = Some([window, window]);
        check_cause(&fixture, want.0, want.1, "");
    };
    let matched = (Matched, 1000);
    let of = "% of the 1,000 impressions that it matched in the last hour";
    // No single loss is most of all: first a tenth is billed, then much.
    let passed = format!("45 {of} were skipped, because its strategy spreads what it may spend");
    let steps = [matched, (Passed, 450), (Bid, 550), (Outbid, 449), (Won, 101), (Billed, 101)];
    check(&steps, &[], ("pace", &passed));
    // At another pace it would win no more.
    let steps = [matched, (Passed, 800), (BelowFloor, 200)];
    let floor = "its bids for 100 % of the 200 impressions that its pace let through in the last hour were below the floor";
    check(&steps, &[], ("below_floor", floor));
    let steps = [matched, (Passed, 350), (Bid, 650), (Outbid, 349), (Won, 301), (Billed, 301)];
    check(&steps, &[], ("", nothing));
    // A floor has just risen: most impressions of the last minutes are lost.
    let outbid = "90 % of the 10 impressions that it matched in the last 10 to 20 minutes were lost to other bids";
    check(&steps, &[(Matched, 10), (Bid, 10), (Outbid, 9), (Won, 1)], ("outbid", outbid));
    // Most wins are billed; then nearly none that could be.
    let won = |billed| [matched, (Bid, 1000), (Won, 1000), (Billed, billed)];
    check(&won(250), &[], ("", nothing));
    let unbilled = "it won 1,000 impressions in the last hour, more than ten minutes ago, and 249 of its wins were billed";
    check(&won(249), &[], ("unbilled", unbilled));
    let few = [(Matched, 3), (Bid, 3), (Won, 3)];
    let pending = "it bid for 3 impressions in the last hour and won 3, and none is billed yet";
    check(&few, &few, ("pending", pending));
    // Abandoned and returned bids complete the sum.
    let abandoned =
        format!("its bids for 100 {of} were in auctions that were abandoned or are not over yet");
    check(&[matched, (Bid, 1000)], &[], ("abandoned", &abandoned));
    let shown = fixture.get("/v1/campaigns/filed/why");
    assert_eq!(shown["funnel"]["hour"]["abandoned"], 1000, "{shown}");
    let returned = format!("its bids for 99 {of} were returned beside the winner");
    check(&[matched, (Bid, 1000), (Returned, 990)], &[], ("returned", &returned));
    fixture.admin.stop();
}

#[test]
fn matches_that_were_left_out_are_not_blamed_on_criteria() {
    let fixture = Fixture::new();
    let window = FunnelWindow { offered: 19, ..FunnelWindow::default() };
    *fixture.view.windows.lock().expect("nothing panics") = Some([window, window]);
    let failed = vec![("targeting.countries", 250)];
    let found = Mismatches { impressions: 256, matched: 6, failed };
    *fixture.view.mismatches.lock().expect("nothing panics") = Some(found);
    let words = "none of the 19 impressions that were offered in the last hour matched, though 6 of 256 \
                 sampled impressions match: it was left out of auctions with too many matches";
    check_cause(&fixture, "left_out", words, "raise `exchange.direct.matches_max`, or ask again");
    // Criteria are tried below a match of one tenth.
    let tried = |offered, matched| {
        let counts = counted(&[(FunnelStep::Matched, matched)]);
        let window = FunnelWindow { offered, counts, ..FunnelWindow::default() };
        *fixture.view.windows.lock().expect("nothing panics") = Some([window, window]);
        fixture.get("/v1/campaigns/filed/why")["mismatches"].is_object()
    };
    assert!(tried(9, 0) && tried(11, 1) && !tried(10, 1));
    fixture.admin.stop();
}

fn cents(cents: u64) -> Nanos {
    Nanos::new(cents * 10_000_000)
}

/// Spends 40 cents of a daily dollar.
fn spend_of_a_day(fixture: &Fixture, slot: CampaignIndex) {
    let level = |span, limit| LimitLevel {
        owner: LimitOwner::Campaign,
        span,
        limit,
        outstanding: Nanos::ZERO,
        late: Nanos::ZERO,
        holdback: Nanos::ZERO,
    };
    let levels = [LimitSpan::Life, LimitSpan::Day, LimitSpan::Hour].map(|span| level(span, None));
    let account = levels.map(|level| LimitLevel { owner: LimitOwner::Account, ..level });
    let day = level(LimitSpan::Day, Some(cents(100)));
    let levels = [levels[0], day, levels[2], account[0], account[1], account[2]];
    let why = fixture.stub.why(slot);
    fixture.stub.state().whys.insert(slot, SpendDiagnosis { levels: Some(levels), ..why });
    let spend = Spend {
        currency: Currency::USD,
        life: cents(900),
        today: cents(40),
        now: cents(5),
        hours: Vec::new(),
    };
    fixture.stub.state().spends.insert(slot, spend);
}

fn curve_of_a_day(expected: Nanos) -> PacingCurve {
    let point = |target, spent| CurvePoint { at_unix_ms: NOW_UNIX_MS, target, spent };
    PacingCurve {
        span: LimitSpan::Day,
        limit: cents(100),
        flight: CampaignFlight { start_ms: 0, end_ms: NOW_UNIX_MS },
        strategy: "even",
        pace: BidPace::FULL,
        dual: 0.0,
        rate: 1.0,
        points: vec![point(expected, Some(cents(40))), point(cents(100), None)],
    }
}

#[test]
fn a_campaign_on_plan_says_so_before_it_is_told_to_bid_more() {
    let fixture = Fixture::new();
    let slot = fixture.get("/v1/campaigns/filed")["slot"].as_u64().expect("a slot");
    let slot = CampaignIndex(u32::try_from(slot).expect("few"));
    let counts =
        counted(&[(FunnelStep::Matched, 1000), (FunnelStep::Bid, 1000), (FunnelStep::Outbid, 900)]);
    let window = FunnelWindow { offered: 1000, counts, ..FunnelWindow::default() };
    *fixture.view.windows.lock().expect("nothing panics") = Some([window, window]);
    let outbid =
        "90 % of the 1,000 impressions that it matched in the last hour were lost to other bids";
    check_cause(&fixture, "outbid", outbid, "raise `bid`");
    spend_of_a_day(&fixture, slot);
    let on = "it is on plan: 0.40 USD spent of 0.44 USD planned by now";
    for (expected, reason, words) in [(44, "", on), (45, "outbid", outbid)] {
        fixture.stub.state().curves.insert(slot, curve_of_a_day(cents(expected)));
        check_cause(&fixture, reason, words, "");
    }
    fixture.admin.stop();
}

#[test]
fn a_removed_campaign_is_not_paused() {
    let fixture = Fixture::new();
    fixture.send("POST /v1/campaigns", &campaign("x"));
    fixture.ask("DELETE /v1/campaigns/x", "", "");
    let paused = SpendDiagnosis {
        refusal: Some(SpendRefusal::Paused),
        ..fixture.stub.why(CampaignIndex(1))
    };
    fixture.stub.state().whys.insert(CampaignIndex(1), paused);
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
    spend_of_a_day(&fixture, CampaignIndex(1));
    for (expected, pace) in [(44, "on"), (45, "behind"), (37, "on"), (36, "ahead")] {
        fixture.stub.state().curves.insert(CampaignIndex(1), curve_of_a_day(cents(expected)));
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
    // Campaigns are listed even if the ledger does not answer.
    fixture.stub.state().is_unresponsive = true;
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
