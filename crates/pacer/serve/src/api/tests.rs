//! The API over a real admin listener, asked over sockets: every status, with its field and remedy.

mod why;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pacer_core::calendar::{CalendarHour, Period};
use pacer_core::funnel::{FunnelCounts, FunnelStep, FunnelWindow, Shortfall};
use pacer_core::ledger::{
    AccountDiagnosis, HourSpend, LimitLevel, LimitOwner, LimitSpan, Spend, SpendDiagnosis,
};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{BiddingStatus, CurvePoint, PacingCurve};
use pacer_core::refusal::SpendRefusal;
use pacer_core::strategy::{BidPace, CampaignFlight, StrategySettings, StrategyState, Throttle};
use runtime::admin::{Admin, AdminOptions, Pages, Readiness};
use runtime::builder::Builder;
use runtime::config::parse;
use runtime::control::Control;
use runtime::listen::listen;
use runtime::metrics::Exposition;
use runtime::shutdown::Shutdown;
use serde_json::json;
use tempfile::TempDir;
use units::{Amount, Cpm, Currency, Nanos, Rounding};

use serde_json::Value;

use super::*;
use crate::registry::RegistryOptions;
use crate::registry::testing::{PriceRules, StubLedger};

const NOW_UNIX_MS: u64 = 1_800_000_000_000;

#[derive(Default)]
struct View {
    obstacle: Mutex<Option<String>>,
    is_rateless: AtomicBool,
    windows: Mutex<Option<[FunnelWindow; 2]>>,
    mismatches: Mutex<Option<Mismatches>>,
}

impl ExchangeView for View {
    fn obstacle(&self) -> Option<String> {
        self.obstacle.lock().expect("nothing panics").clone()
    }

    fn has_rate(&self, _: Currency) -> bool {
        !self.is_rateless.load(Ordering::Relaxed)
    }

    fn funnel(&self, _: CampaignIndex, _: CampaignFlight) -> Option<[FunnelWindow; 2]> {
        *self.windows.lock().expect("nothing panics")
    }

    fn mismatches(&self, _: CampaignIndex) -> Option<Mismatches> {
        self.mismatches.lock().expect("nothing panics").clone()
    }
}

struct Fixture {
    admin: Admin,
    /// Ends after the listener.
    _control: Control,
    address: SocketAddr,
    stub: Arc<StubLedger>,
    view: Arc<View>,
    registry: Arc<Registry<PriceRules>>,
    folder: TempDir,
}

struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = folder.path().join("campaigns.d");
        std::fs::create_dir(&files).expect("a folder");
        let text = "[[account]]\nid = 'acme'\ncurrency = 'USD'\n\n[[campaign]]\nid = 'filed'\n\
                    account = 'acme'\nstart = '2026-11-01'\nend = '2026-12-01'\nbid.value = '1'\n";
        std::fs::write(files.join("a.toml"), text).expect("a file");
        let stub = Arc::new(StubLedger::open(&folder.path().join("store")).expect("a store"));
        let options = RegistryOptions {
            folder: folder.path().to_path_buf(),
            campaigns: Some("campaigns.d/*.toml".to_owned()),
            clock: || NOW_UNIX_MS,
            late_wins_warning: None,
        };
        let told = stub.handle();
        let (control, builder) = (Control::start().unwrap(), Builder::start().unwrap());
        let registry = Registry::<PriceRules>::start(told, &options, &builder, drop);
        let registry = registry.expect("a registry");
        let registry = Arc::new(registry);
        let options = parse("admin.toml", "listen = '127.0.0.1:0'", AdminOptions::read);
        let options = options.expect("options");
        let listener = listen(options.listen).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (view, exchange) = (Arc::new(View::default()), ExchangeSlot::default());
        exchange.set(Arc::<View>::clone(&view));
        let pages = Pages {
            exposition: Exposition::default(),
            readiness: Readiness::default(),
            shutdown: Shutdown::new(Duration::from_secs(3600)),
            apis: vec![api(Arc::<Registry<PriceRules>>::clone(&registry), exchange)],
        };
        let admin = Admin::start(&options, listener, pages, &control);
        let admin = admin.expect("an admin listener");
        Self { admin, _control: control, address, stub, view, registry, folder }
    }

    /// Sends `line`, as in `GET /v1/accounts`, with headers, one per line, and a body.
    fn ask(&self, line: &str, headers: &str, body: &str) -> Answer {
        let headers: String = headers.lines().map(|header| format!("{header}\r\n")).collect();
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: \
             {length}\r\n\r\n{body}"
        );
        let mut client = TcpStream::connect(self.address).expect("it listens");
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        client.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head[9..12].parse().expect("a status");
        let body = serde_json::from_str(body).expect("a body of JSON");
        Answer { status, head: head.to_ascii_lowercase(), body }
    }

    fn send(&self, line: &str, body: &Value) -> Answer {
        self.ask(line, "content-type: application/json", &body.to_string())
    }

    fn get(&self, path: &str) -> Value {
        let answer = self.ask(&format!("GET {path}"), "", "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Checks a refusal: status, code, wrong field and remedy.
    #[track_caller]
    fn check(&self, answer: &Answer, want: (u16, &str, &str, &str)) {
        let error = &answer.body["error"];
        let (status, code, field, remedy) = want;
        let found = (answer.status, &error["code"], &error["field"]);
        assert_eq!(found, (status, &json!(code), &json!(field)), "{}", answer.body);
        let message = error["message"].as_str().unwrap_or_default();
        let first = error["problems"][0]["remedy"].as_str().unwrap_or_default();
        assert!(message.contains(remedy) || first.contains(remedy), "{}", answer.body);
    }
}

fn campaign(id: &str) -> Value {
    json!({
        "id": id,
        "account": "acme",
        "start": "2026-11-01",
        "end": "2026-12-01",
        "bid": { "value": "2" },
    })
}

#[test]
fn a_campaign_lives() {
    let fixture = Fixture::new();
    let created = fixture.send("POST /v1/campaigns", &campaign("x"));
    assert_eq!(created.status, 201, "{}", created.body);
    assert!(created.head.contains("\r\nlocation: /v1/campaigns/x"), "{}", created.head);
    assert!(created.head.contains("\r\netag: \"1\""), "{}", created.head);
    let want = json!({
        "id": "x",
        "version": 1,
        "slot": 1,
        "file": null,
        "removed": false,
        "definition": campaign("x"),
        "held": [],
        "warnings": [],
    });
    assert_eq!(created.body, want);
    assert_eq!(fixture.get("/v1/campaigns/x"), want);
    let listed = fixture.get("/v1/campaigns?most=1&after=filed");
    assert_eq!(listed, json!({ "campaigns": [want], "next": null, "refused_files": [] }));
    assert_eq!(fixture.get("/v1/campaigns?most=1")["next"], "filed");
    assert_eq!(fixture.get("/v1/accounts")["accounts"][0]["id"], "acme");

    let patch = fixture.ask(
        "PATCH /v1/campaigns/x",
        "content-type: application/merge-patch+json; charset=utf-8\nif-match: \"1\"",
        "{\"hours\": [\"mon\"]}",
    );
    assert_eq!((patch.status, &patch.body["version"]), (200, &json!(2)), "{}", patch.body);
    let paused = fixture.ask("PUT /v1/campaigns/x/pause", "", "");
    assert_eq!((paused.status, &paused.body["definition"]["paused"]), (200, &json!(true)));
    let resumed = fixture.ask("DELETE /v1/campaigns/x/pause", "if-match: W/\"3\"", "");
    assert_eq!((resumed.status, &resumed.body["definition"]["paused"]), (200, &json!(false)));
    let budget = json!({ "budget": "7", "hourly_budget": null, "version": 4 });
    let budgeted = fixture.send("PUT /v1/campaigns/x/budget", &budget);
    assert_eq!((budgeted.status, &budgeted.body["definition"]["budget"]), (200, &json!("7")));
    assert!(budgeted.head.contains("\r\netag: \"5\""), "{}", budgeted.head);
    let replaced = fixture.send("PUT /v1/campaigns/x", &campaign("x"));
    assert_eq!((replaced.status, &replaced.body["definition"]), (200, &campaign("x")));
    let removed = fixture.ask("DELETE /v1/campaigns/x", "if-match: *", "");
    assert_eq!((removed.status, &removed.body["removed"]), (200, &json!(true)));
    assert_eq!(fixture.get("/v1/campaigns?after=filed")["campaigns"], json!([]));
    let with_removed = fixture.get("/v1/campaigns?after=filed&removed=true&account=acme");
    assert_eq!(with_removed["campaigns"][0]["id"], "x");

    // An account, and the changes of a file's campaign that the API allows.
    let account = fixture.send("POST /v1/accounts", &json!({ "id": "b", "currency": "EUR" }));
    assert_eq!(account.status, 201, "{}", account.body);
    assert!(account.head.contains("\r\nlocation: /v1/accounts/b"), "{}", account.head);
    let held = fixture.send("PUT /v1/campaigns/filed/budget", &json!({ "budget": "9" }));
    assert_eq!((held.status, &held.body["held"]), (200, &json!(["budget"])), "{}", held.body);

    let audit = fixture.get("/v1/audit?most=3");
    let actions: Vec<_> =
        audit["entries"].as_array().expect("entries").iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["create", "create", "create"]);
    let next = audit["next"].as_str().expect("there are more");
    let rest = fixture.get(&format!("/v1/audit?after={next}"));
    assert_eq!(rest["entries"][0]["action"], "change");
    assert_eq!(rest["entries"][0]["at"], "2027-01-15T08:00:00.000Z");
    assert_eq!((rest["entries"].as_array().map(Vec::len), &rest["next"]), (Some(8), &Value::Null));
    fixture.admin.stop();
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
fn refusals() {
    let fixture = Fixture::new();
    fixture.send("POST /v1/campaigns", &campaign("x"));
    let json = "content-type: application/json";
    let check = |line: &str, headers: &str, body: &str, want: (u16, &str, &str, &str)| {
        fixture.check(&fixture.ask(line, headers, body), want);
    };
    let get = |path: &str, want: (u16, &str, &str, &str)| {
        check(&format!("GET {path}"), "", "", want);
    };
    // 400
    let bad = |field, remedy| (400, "bad_request", field, remedy);
    check("POST /v1/campaigns", json, "{", bad("body", "send a JSON object"));
    check("POST /v1/campaigns", json, "[]", bad("body", "send one"));
    check("POST /v1/campaigns", json, "", bad("body", "send a JSON object"));
    let keyed = format!("{json}\nidempotency-key: a b");
    check("POST /v1/campaigns", &keyed, "{}", bad("idempotency-key", "without spaces"));
    let keyed = format!("{json}\nidempotency-key: {}", "k".repeat(129));
    check("POST /v1/campaigns", &keyed, "{}", bad("idempotency-key", "1 to 128 letters"));
    for tag in ["x", "\"x\"", "\"1\", \"2\"", "+1", "\"\""] {
        let header = format!("if-match: {tag}");
        check("PUT /v1/campaigns/x/pause", &header, "", bad("if-match", "such as \"3\""));
    }
    let version = "{\"budget\": \"1\", \"version\": \"1\"}";
    check("PUT /v1/campaigns/x/budget", json, version, bad("version", "whole number"));
    // A value that is not ASCII is refused, not ignored.
    check("PUT /v1/campaigns/x/pause", "if-match: \"1\u{e9}\"", "", bad("if-match", "not ASCII"));
    let keyed = format!("{json}\nidempotency-key: \u{e9}");
    check("POST /v1/campaigns", &keyed, "{}", bad("idempotency-key", "not ASCII"));
    let two = format!("{json}\nif-match: \"2\"");
    let version = "{\"budget\": \"1\", \"version\": 1}";
    check("PUT /v1/campaigns/x/budget", &two, version, bad("version", "name one of them"));
    get("/v1/campaigns?most=0", bad("most", "choose one"));
    get("/v1/campaigns?most=1001", bad("most", "from 1 to 1000"));
    get("/v1/campaigns?removed=1", bad("removed", "write one"));
    get("/v1/campaigns?state=open", bad("state", "ask by after, most, removed, account, delivery"));
    get("/v1/accounts?account=x", bad("account", "ask by after, most, removed"));
    get("/v1/audit?after=1.2.3", bad("after", "take one from `next`"));
    // 404
    let unknown = (404, "not_found", "id", "GET /v1/campaigns lists them");
    for path in ["", "/spend", "/curve", "/why"] {
        get(&format!("/v1/campaigns/y{path}"), unknown);
    }
    check("PUT /v1/campaigns/y/pause", "", "", unknown);
    check("DELETE /v1/campaigns/y", "", "", unknown);
    check("PUT /v1/campaigns/y", json, &campaign("y").to_string(), unknown);
    get("/v1/accounts/y", (404, "not_found", "id", "GET /v1/accounts lists them"));
    // 409
    let conflict = |remedy| (409, "conflict", "id", remedy);
    let body = campaign("x").to_string();
    check("POST /v1/campaigns", json, &body, conflict("PUT it to change it"));
    check("PATCH /v1/campaigns/filed", json, "{}", conflict("a.toml: change it there"));
    check("DELETE /v1/campaigns/filed", "", "", conflict("change it there"));
    check("PUT /v1/accounts/acme", json, "{}", conflict("change it there"));
    // 412
    let stale = (412, "precondition_failed", "if-match", "read it again");
    check("PUT /v1/campaigns/x/pause", "if-match: \"2\"", "", stale);
    check("PUT /v1/campaigns/x/budget", json, "{\"budget\": \"1\", \"version\": 7}", stale);
    // 413
    let large = " ".repeat(BODY_BYTES_MAX + 1);
    let answer = fixture.ask("POST /v1/campaigns", json, &large);
    assert_eq!((answer.status, &answer.body["error"]["code"]), (413, &json!("body_too_large")));
    // 415
    let media = (415, "unsupported_media_type", "content-type", "send application/json");
    check("POST /v1/campaigns", "", "{}", media);
    check("POST /v1/campaigns", "content-type: text/plain", "{}", media);
    let patch = "content-type: application/merge-patch+json";
    check("PUT /v1/campaigns/x", patch, "{}", media);
    // 422
    let invalid = |field, remedy| (422, "invalid_definition", field, remedy);
    check("POST /v1/campaigns", json, "{\"id\": \"a b\"}", invalid("account", "is missing"));
    let negative = "{\"budget\": \"-1\"}";
    check("PUT /v1/campaigns/x/budget", json, negative, invalid("budget", "is negative"));
    check("PATCH /v1/campaigns/x", json, "{\"end\": \"2026-01-01\"}", invalid("end", "later end"));
    let twice = "{\"budget\": \"1\", \"budget\": \"2\"}";
    check(
        "PUT /v1/campaigns/x/budget",
        json,
        twice,
        invalid("budget", "is given twice: remove one"),
    );
    let twice = "{\"bid\": {\"value\": \"1\", \"value\": \"1\"}}";
    for line in ["POST /v1/campaigns", "PUT /v1/campaigns/x", "PATCH /v1/campaigns/x"] {
        check(line, json, twice, invalid("bid.value", "is given twice: remove one"));
    }
    assert_eq!(fixture.get("/v1/campaigns/x")["version"], 1, "nothing was changed");
    // 503
    fixture.stub.state().is_full = true;
    let full = (503, "unavailable", "body", "free some");
    check("PUT /v1/campaigns/x/pause", "", "", full);
    get("/v1/campaigns/x/spend", (503, "unavailable", "id", "ask again"));
    get("/v1/accounts/acme/spend", (503, "unavailable", "id", "ask again"));
    fixture.admin.stop();
}

#[test]
fn keys() {
    let fixture = Fixture::new();
    let create = |id: &str| {
        let headers = "content-type: application/json\nidempotency-key: k";
        fixture.ask("POST /v1/campaigns", headers, &campaign(id).to_string())
    };
    let (first, again) = (create("x"), create("x"));
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.body, again.body);
    fixture
        .check(&create("y"), (422, "idempotency_key_reused", "idempotency-key", "take a new key"));
    fixture.admin.stop();
}

#[test]
#[expect(clippy::too_many_lines, reason = "one campaign, as each page shows it")]
fn how_it_stands() {
    let fixture = Fixture::new();
    let slot = fixture.get("/v1/campaigns/filed")["slot"].as_u64().expect("a slot");
    let slot = CampaignIndex(u32::try_from(slot).expect("few"));
    let cents = |cents: u64| Nanos::new(cents * 10_000_000);
    let level = |span, limit| LimitLevel {
        owner: LimitOwner::Campaign,
        span,
        limit,
        outstanding: cents(950),
        late: cents(10),
        holdback: cents(50),
    };
    let hour = CalendarHour {
        start_unix_ms: 1_800_000_000_000,
        end_unix_ms: 1_800_003_600_000,
        period: Period(2_000_000),
        day: 20_833,
        hour_of_week: 104,
    };
    let mut why = fixture.stub.why(slot);
    assert_eq!(fixture.get("/v1/campaigns/filed/why")["refusal"], Value::Null);
    why.refusal = Some(SpendRefusal::DayExhausted);
    why.hour = Some(hour);
    why.levels = Some([
        level(LimitSpan::Life, None),
        level(LimitSpan::Day, Some(cents(1000))),
        level(LimitSpan::Hour, None),
        level(LimitSpan::Life, None),
        level(LimitSpan::Day, None),
        level(LimitSpan::Hour, None),
    ]);
    fixture.stub.state().whys.insert(slot, why.clone());
    let shown = fixture.get("/v1/campaigns/filed/why");
    assert_eq!(shown["refusal"], "day_exhausted");
    assert_eq!(
        shown["words"],
        "its budget of the day is spent: of the campaign's 10.00 USD, 9.60 USD are spent or leased, \
         and 0.50 USD are kept back for late wins"
    );
    assert_eq!(
        shown["levels"][1],
        json!({
            "owner": "campaign",
            "span": "day",
            "limit": "10",
            "held": "9.5",
            "late": "0.1",
            "holdback": "0.5",
            "exposure": "9.6",
            "headroom": "0",
            "excess": "0",
        })
    );
    assert_eq!(shown["hour"]["start"], "2027-01-15T08:00:00.000Z");
    for (refusal, words) in [
        (SpendRefusal::Unknown, "the ledger does not know it yet"),
        (SpendRefusal::OutOfFlight, "it is not in flight: that is from 1970-01-01T00:00:00.000Z"),
        (SpendRefusal::Paused, "it is paused"),
        (SpendRefusal::LedgerUnavailable, "the ledger has granted nothing yet, or cannot"),
    ] {
        let flight = CampaignFlight { start_ms: 0, end_ms: 2 * NOW_UNIX_MS };
        let why = SpendDiagnosis { refusal: Some(refusal), flight, ..why.clone() };
        fixture.stub.state().whys.insert(slot, why);
        let shown = fixture.get("/v1/campaigns/filed/why");
        assert_eq!(shown["refusal"], refusal.label());
        assert!(shown["words"].as_str().is_some_and(|it| it.starts_with(words)), "{shown}");
    }

    let hours = vec![HourSpend { period: Period(2_000_000), spent: cents(125) }];
    let (life, today, now) = (cents(900), cents(225), cents(125));
    let spend = Spend { currency: Currency::USD, life, today, now, hours };
    fixture.stub.state().spends.insert(slot, spend);
    let want = json!({
        "id": "filed",
        "currency": "USD",
        "hour": "1.25",
        "today": "2.25",
        "life": "9",
        "hours": [{ "start": "2027-01-15T08:00:00.000Z", "spent": "1.25" }],
    });
    assert_eq!(fixture.get("/v1/campaigns/filed/spend"), want);

    let none = json!({
        "id": "filed",
        "currency": "USD",
        "span": null,
        "limit": null,
        "start": null,
        "end": null,
        "strategy": null,
        "points": [],
    });
    assert_eq!(fixture.get("/v1/campaigns/filed/curve"), none);
    let point = |at_unix_ms, spent| CurvePoint { at_unix_ms, target: cents(100), spent };
    let curve = PacingCurve {
        span: LimitSpan::Day,
        limit: cents(100),
        flight: CampaignFlight { start_ms: 1_800_000_000_000, end_ms: 1_800_086_400_000 },
        strategy: "slot_dual",
        pace: BidPace::FULL,
        dual: 0.0,
        rate: 1.0,
        points: vec![point(1_800_000_600_000, Some(cents(99))), point(1_800_001_200_000, None)],
    };
    fixture.stub.state().curves.insert(slot, curve);
    let shown = fixture.get("/v1/campaigns/filed/curve");
    assert_eq!((&shown["span"], &shown["strategy"]), (&json!("day"), &json!("slot_dual")));
    assert_eq!(
        shown["points"],
        json!([
            { "at": "2027-01-15T08:10:00.000Z", "target": "1", "spent": "0.99" },
            { "at": "2027-01-15T08:20:00.000Z", "target": "1", "spent": null },
        ])
    );
    fixture.admin.stop();
}

#[test]
fn how_it_bids() {
    let fixture = Fixture::new();
    let slot = fixture.get("/v1/campaigns/filed")["slot"].as_u64().expect("a slot");
    let slot = CampaignIndex(u32::try_from(slot).expect("few"));
    assert_eq!(fixture.get("/v1/campaigns/filed/why")["pace"], Value::Null);
    let state = StrategyState::start(&StrategySettings::default());
    let throttled = StrategySettings::Throttle(Throttle { start: 0.125, ..Throttle::default() });
    let throttled = StrategyState::start(&throttled).pace(&throttled);
    // The campaign's value is 1.
    for (strategy, is_fixed_price, pace, want) in [
        (
            "slot_dual",
            false,
            state.pace(&StrategySettings::default()),
            [
                "0.1",
                "1",
                "0.1",
                "slot_dual bids 0.1 of its value, BID for 1000 impressions, for \
                         every request that fits",
            ],
        ),
        (
            "throttle",
            true,
            throttled,
            [
                "1",
                "0.125",
                "1",
                "throttle bids its price, BID for 1000 impressions, for 12.5 % of \
                          the requests that fit",
            ],
        ),
        ("even", false, BidPace::NONE, ["1", "0", "1", "even bids for no request now"]),
    ] {
        let bidding = BiddingStatus { strategy, is_fixed_price, pace };
        fixture.stub.state().biddings.insert(slot, bidding);
        let found = &fixture.get("/v1/campaigns/filed/why")["pace"];
        let [multiplier, share, bid, words] = want;
        let number = |key: &str| found[key].as_str().and_then(|it| it.parse::<f64>().ok());
        let near = |key: &str, want: &str| {
            let want = want.parse::<f64>().expect("a number");
            number(key).is_some_and(|is| (is - want).abs() < 1e-5)
        };
        assert!(near("multiplier", multiplier), "{found}");
        assert!(near("share", share) && near("bid", bid), "{found}");
        assert_eq!(found["strategy"], strategy);
        let bid =
            Cpm::parse(found["bid"].as_str().expect("a bid"), Rounding::Down).expect("a price");
        let words = words.replace("BID", &Amount::of_thousand(bid, Currency::USD).to_string());
        assert_eq!(found["words"], words);
    }
    fixture.admin.stop();
}

#[test]
fn an_account_as_a_whole() {
    let fixture = Fixture::new();
    fixture.send("POST /v1/campaigns", &campaign("x"));
    let cents = |cents: u64| Nanos::new(cents * 10_000_000);
    let (life, today, now) = (cents(900), cents(225), cents(125));
    let spend = Spend { currency: Currency::USD, life, today, now, hours: Vec::new() };
    fixture.stub.state().account_spends.insert(0, spend);
    let want = json!({
        "id": "acme", "currency": "USD", "hour": "1.25", "today": "2.25", "life": "9", "hours": [],
    });
    assert_eq!(fixture.get("/v1/accounts/acme/spend"), want);

    let open = fixture.get("/v1/accounts/acme/why");
    assert_eq!((&open["refusal"], &open["seats"]), (&Value::Null, &Value::Null));
    let count = |refusal: Value, words: &str, count: u64| json!({ "refusal": refusal, "words": words, "count": count });
    let nothing = "nothing keeps it from spending";
    assert_eq!(open["campaigns"], json!([count(Value::Null, nothing, 2)]));
    let level = |span, limit| LimitLevel {
        owner: LimitOwner::Account,
        span,
        limit,
        outstanding: cents(950),
        late: cents(50),
        holdback: Nanos::ZERO,
    };
    let why = AccountDiagnosis {
        flight: CampaignFlight::default(),
        refusal: Some(SpendRefusal::DayExhausted),
        levels: Some([
            level(LimitSpan::Life, None),
            level(LimitSpan::Day, Some(cents(1000))),
            level(LimitSpan::Hour, None),
        ]),
        hour: None,
        at_shards: cents(5),
        ready: Nanos::ZERO,
        frozen: Nanos::ZERO,
        held: Nanos::ZERO,
        is_store_failing: false,
    };
    fixture.stub.state().account_whys.insert(0, why);
    let slot = CampaignIndex(1);
    let paused = SpendDiagnosis { refusal: Some(SpendRefusal::Paused), ..fixture.stub.why(slot) };
    fixture.stub.state().whys.insert(slot, paused);
    let shown = fixture.get("/v1/accounts/acme/why");
    assert_eq!((&shown["refusal"], &shown["at_shards"]), (&json!("day_exhausted"), &json!("0.05")));
    assert_eq!(
        shown["words"],
        "its budget of the day is spent: of the account's 10.00 USD, 10.00 USD are spent or leased"
    );
    let levels = shown["levels"].as_array().expect("levels");
    let spans: Vec<_> = levels.iter().map(|it| (&it["owner"], &it["span"], &it["limit"])).collect();
    let (account, none) = (json!("account"), Value::Null);
    let [life, day, hour] = ["life", "day", "hour"].map(|span| json!(span));
    let limit = json!("10");
    assert_eq!(
        spans,
        [(&account, &life, &none), (&account, &day, &limit), (&account, &hour, &none)]
    );
    let want = [count(Value::Null, nothing, 1), count(json!("paused"), "it is paused", 1)];
    assert_eq!(shown["campaigns"], json!(want));
    fixture.admin.stop();
}

#[test]
fn a_body_s_problems_are_told_beside_names_that_stand_twice() {
    let fixture = Fixture::new();
    let body = r#"{"id": "x", "account": "acne", "end": "2026-12-01", "budget": "1",
                   "budget": "-1", "bid": {"value": "1"}}"#;
    let json = "content-type: application/json";
    for line in ["POST /v1/campaigns", "PUT /v1/campaigns/filed"] {
        let answer = fixture.ask(line, json, body);
        assert_eq!(answer.status, 422, "{}", answer.body);
        let problems = answer.body["error"]["problems"].as_array().expect("problems");
        let fields: Vec<_> =
            problems.iter().map(|it| it["field"].as_str().expect("text")).collect();
        assert_eq!(fields, ["budget", "start", "account", "budget"], "{}", answer.body);
    }
    fixture.admin.stop();
}

#[test]
fn a_dry_run_judges_and_changes_nothing() {
    let fixture = Fixture::new();
    let created = fixture.send("POST /v1/campaigns?dry_run=true", &campaign("x"));
    assert_eq!((created.status, &created.body["version"]), (200, &json!(1)), "{}", created.body);
    fixture.check(
        &fixture.ask("GET /v1/campaigns/x", "", ""),
        (404, "not_found", "id", "GET /v1/campaigns lists them"),
    );
    fixture.send("POST /v1/campaigns", &campaign("x"));
    let patch = json!({ "daily_budget": "5" });
    let patched = fixture.send("PATCH /v1/campaigns/x?dry_run=true", &patch);
    assert_eq!(patched.body["definition"]["daily_budget"], "5", "{}", patched.body);
    let wrong = fixture.send("PATCH /v1/campaigns/x?dry_run=true", &json!({ "budget": "-1" }));
    fixture.check(&wrong, (422, "invalid_definition", "budget", "is negative"));
    assert_eq!(fixture.get("/v1/campaigns/x")["version"], 1);
    let entries = fixture.get("/v1/audit?most=1000")["entries"].clone();
    assert_eq!(entries.as_array().map(Vec::len), Some(3), "an account and two campaigns");
    fixture.admin.stop();
}

#[test]
fn the_audit_tells_who_changed_what() {
    let fixture = Fixture::new();
    fixture.send("POST /v1/campaigns", &campaign("x"));
    let by = "content-type: application/json\nvickrey-actor: alice@ops";
    let body = json!({ "daily_budget": "5", "bid": { "value": "3" } }).to_string();
    fixture.ask("PATCH /v1/campaigns/x", by, &body);
    fixture.ask("DELETE /v1/campaigns/x", "", "");
    let answer = fixture.ask("PUT /v1/campaigns/x/pause", "vickrey-actor: a\tb", "");
    fixture.check(&answer, (400, "bad_request", "vickrey-actor", "1 to 64 printable ASCII"));
    let entries = fixture.get("/v1/audit?most=1000")["entries"].clone();
    let of = |key: &str| {
        let entries = entries.as_array().expect("entries");
        entries.iter().map(|it| it[key].clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("actor"), ["files", "files", "api", "alice@ops", "api"]);
    let changed = json!([
        { "key": "bid.value", "before": "2", "after": "3" },
        { "key": "daily_budget", "before": null, "after": "5" },
    ]);
    assert_eq!(of("changes"), [json!([]), json!([]), json!([]), changed, json!([])]);
    fixture.admin.stop();
}
