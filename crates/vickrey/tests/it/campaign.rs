//! `vickrey campaign` and `vickrey account` against a real admin listener, and its answers against
//! its document.

mod apply;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pacer_core::calendar::Period;
use pacer_core::funnel::{FunnelCounts, FunnelStep, FunnelWindow, Shortfall};
use pacer_core::ledger::{
    AccountDiagnosis, HourSpend, LimitLevel, LimitOwner, LimitSpan, Spend, SpendDiagnosis,
};
use pacer_core::messages::CampaignIndex;
use pacer_core::pacing::{BiddingStatus, CurvePoint, PacingCurve};
use pacer_core::refusal::SpendRefusal;
use pacer_core::strategy::{BidPace, CampaignFlight};
use pacer_serve::api::{ExchangeSlot, ExchangeView, Mismatches, api};
use pacer_serve::registry::testing::{PriceRules, StubLedger};
use pacer_serve::registry::{Registry, RegistryOptions};
use runtime::admin::{Admin, AdminOptions, Pages, Readiness};
use runtime::builder::Builder;
use runtime::config::parse;
use runtime::control::Control;
use runtime::listen::listen;
use runtime::metrics::Exposition;
use runtime::shutdown::Shutdown;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;
use units::{Cpm, Currency, Nanos};

use crate::program::{check, run, vickrey};

const TOKEN: &str = "0123456789abcdef";

const CAMPAIGN: &str = "id = 'summer'\naccount = 'acme'\nstart = 2026-11-01\nend = '2026-12-01'\n\
                        budget = '5'\n[bid]\nvalue = '2.50'\n";

/// An exchange with the same counts for every campaign.
struct Counted;

impl ExchangeView for Counted {
    fn funnel(&self, _: CampaignIndex, _: CampaignFlight) -> Option<[FunnelWindow; 2]> {
        let mut counts = FunnelCounts::default();
        counts.count(FunnelStep::Matched, 1_000);
        counts.count(FunnelStep::BelowFloor, 1_000);
        let price = |micros| Cpm::new(micros).unwrap();
        let shortfall = Some(Shortfall { bid: price(400_000), floor: price(1_200_000) });
        let hour = FunnelWindow { offered: 12_000, counts, shortfall, ..FunnelWindow::default() };
        Some([hour, FunnelWindow { offered: 240_000, ..hour }])
    }

    fn mismatches(&self, _: CampaignIndex) -> Option<Mismatches> {
        let failed = vec![("targeting.countries", 250), ("creative", 0)];
        Some(Mismatches { impressions: 256, matched: 6, failed })
    }
}

/// An admin listener with budgets, in this process.
struct Server {
    admin: Option<Admin>,
    /// Stopped after the listener.
    _control: Control,
    address: SocketAddr,
    stub: Arc<StubLedger>,
    registry: Arc<Registry<PriceRules>>,
    folder: TempDir,
}

impl Server {
    fn start(token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("campaigns.d");
        std::fs::create_dir(&files).unwrap();
        let text = "[[account]]\nid = 'acme'\ncurrency = 'USD'\nbudget = '100'\nseats = ['d/s']\n";
        std::fs::write(files.join("a.toml"), text).unwrap();
        let stub = Arc::new(StubLedger::open(&folder.path().join("store")).unwrap());
        let options = RegistryOptions {
            folder: folder.path().to_path_buf(),
            campaigns: Some("campaigns.d/*.toml".to_owned()),
            clock: || 1_800_000_000_000,
            late_wins_warning: None,
        };
        let told = stub.handle();
        let (control, builder) = (Control::start().unwrap(), Builder::start().unwrap());
        let registry = Registry::<PriceRules>::start(told, &options, &builder, drop);
        let registry = Arc::new(registry.unwrap());
        let text = format!("listen = '127.0.0.1:0'\n{token}");
        let options = parse("admin.toml", &text, AdminOptions::read).unwrap();
        let listener = listen(options.listen).unwrap();
        let address = listener.local_addr().unwrap();
        let exchange = ExchangeSlot::default();
        exchange.set(Arc::new(Counted));
        let pages = Pages {
            exposition: Exposition::default(),
            readiness: Readiness::default(),
            shutdown: Shutdown::new(Duration::from_secs(3600)),
            apis: vec![api(Arc::<Registry<PriceRules>>::clone(&registry), exchange)],
        };
        let admin = Some(Admin::start(&options, listener, pages, &control).unwrap());
        Self { admin, _control: control, address, stub, registry, folder }
    }

    /// Runs a command and checks its output.
    #[track_caller]
    fn run(&self, args: &[&str], exit: i32, stdout: &[&str], stderr: &[&str]) -> String {
        self.run_with("", (args, ""), exit, (stdout, stderr))
    }

    #[track_caller]
    fn run_with(
        &self,
        token: &str,
        (args, piped): (&[&str], &str),
        exit: i32,
        (stdout, stderr): (&[&str], &[&str]),
    ) -> String {
        // Its stdin.
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(piped.as_bytes()).unwrap();
        input.rewind().unwrap();
        let mut command = vickrey(args);
        command
            .args(["--admin", &format!("http://{}", self.address)])
            .env("VICKREY_ADMIN_TOKEN", token)
            .env("VICKREY_ACTOR", "alice")
            .stdin(input);
        check(&mut command, exit, stdout, stderr).0
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.admin.take().unwrap().stop();
    }
}

const fn cents(cents: u64) -> Nanos {
    Nanos::new(cents * 10_000_000)
}

#[test]
fn a_campaign_from_its_file_to_its_end() {
    let server = Server::start("");
    server.run(&["campaign", "list"], 0, &["no campaigns yet"], &[]);
    let file = server.file("summer.toml", CAMPAIGN);
    let created = ["campaign summer is open, at version 1"];
    server.run(&["campaign", "create", &file, "--key", "k"], 0, &created, &[]);
    server.run(&["campaign", "create", &file, "--key", "k"], 0, &created, &[]);
    let body = json!({
        "id": "winter", "account": "acme", "start": "2026-12-01", "end": "2027-01-01",
        "bid": { "price": "1" },
    });
    let create = ["campaign", "create", "-"];
    let piped = format!(" {body}");
    server.run_with("", (&create, &piped), 0, (&["campaign winter is open"], &[]));
    let listed = server.run(&["campaign", "list"], 0, &[], &[]);
    let lines: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = ["id", "account", "state", "spent", "of", "for", "expected", "by", "now", "pace"];
    assert_eq!(lines[0][..10], head);
    let row = ["summer", "acme", "open", "0.00", "USD", "-", "-", "-", "-", "the", "API"];
    assert_eq!(lines[1], row);
    assert_eq!(lines[2][..3], ["winter", "acme", "open"]);
    let of_nope = ["account `nope` has no campaigns"];
    server.run(&["campaign", "list", "--account", "nope"], 0, &of_nope, &[]);

    let paused = ["campaign summer is paused, at version 2"];
    server.run(&["campaign", "pause", "summer", "--if-version", "1"], 0, &paused, &[]);
    server.run(&["campaign", "resume", "summer"], 0, &["is open, at version 3"], &[]);
    let spend = Spend {
        currency: Currency::USD,
        life: cents(350),
        today: cents(150),
        now: cents(50),
        hours: Vec::new(),
    };
    server.stub.state().spends.insert(CampaignIndex(1), spend);
    let budget =
        ["campaign", "budget", "summer", "--budget", "3", "--daily", "2", "--hourly", "none"];
    let note =
        "note: budget: 3.00 USD is below the 3.50 USD spent in all: nothing more will be spent";
    server.run(&budget, 0, &["at version 4", note], &[]);
    server.run(
        &["campaign", "show", "summer"],
        0,
        &[
            "campaign summer, version 4, open, defined in the API",
            "  bid.value     2.50 USD",
            "  daily_budget  2.00 USD",
            "spent: 0.50 USD in this hour, 1.50 USD today, 3.50 USD in all",
        ],
        &[],
    );
    let shown = server.run(&["campaign", "show", "summer", "--json"], 0, &[], &[]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["version"], &shown["definition"]["budget"]), (&json!(4), &json!("3")));
    server.run(&["campaign", "remove", "winter"], 0, &["campaign winter is removed"], &[]);
    assert_eq!(server.run(&["campaign", "list"], 0, &[], &[]).lines().count(), 2);
    let all = server.run(&["campaign", "list", "--removed", "--account", "acme"], 0, &[], &[]);
    assert_eq!(all.lines().count(), 3);
}

#[test]
fn accounts() {
    let server = Server::start("");
    let listed = server.run(&["account", "list"], 0, &["a.toml"], &[]);
    assert!(listed.contains("acme  USD       open   100.00 USD"), "{listed}");
    let file = server.file(
        "b.toml",
        "[[account]]\nid = 'b'\ncurrency = 'EUR'\n[[account]]\nid = 'c'\ncurrency = 'EUR'\n",
    );
    let created = ["account b is open, at version 1", "account c is open, at version 1"];
    server.run(&["account", "create", &file], 0, &created, &[]);
    server.run(&["account", "show", "b"], 0, &["account b, version 1, open", "currency  EUR"], &[]);
    let held = ["account acme is paused, at version 2"];
    server.run(&["account", "pause", "acme"], 0, &held, &[]);
    server.run(&["account", "budget", "acme", "--daily", "9"], 0, &["at version 3"], &[]);
    let show = ["daily_budget: holds over the file until that changes"];
    server.run(&["account", "show", "acme"], 0, &show, &[]);
    server.run(&["account", "resume", "acme"], 0, &["is open, at version 4"], &[]);
    let several = ["error: --key names one request"];
    server.run(&["account", "create", &file, "--key", "k"], 64, &[], &several);
}

#[test]
fn why() {
    let server = Server::start("");
    let file = server.file("summer.toml", CAMPAIGN);
    server.run(&["campaign", "create", &file], 0, &[], &[]);
    let level = |span, limit| LimitLevel {
        owner: LimitOwner::Campaign,
        span,
        limit,
        outstanding: cents(490),
        late: cents(10),
        holdback: cents(10),
    };
    let levels = [
        level(LimitSpan::Life, Some(cents(500))),
        level(LimitSpan::Day, None),
        level(LimitSpan::Hour, None),
        level(LimitSpan::Life, None),
        level(LimitSpan::Day, None),
        level(LimitSpan::Hour, None),
    ];
    let why = SpendDiagnosis {
        refusal: Some(SpendRefusal::BudgetExhausted),
        levels: Some(levels),
        hour: None,
        flight: CampaignFlight { start_ms: 0, end_ms: 1 },
        at_shards: cents(1),
        ready: Nanos::ZERO,
        frozen: Nanos::ZERO,
        held: Nanos::ZERO,
        is_store_failing: false,
    };
    server.stub.state().whys.insert(CampaignIndex(1), why);
    let said = server.run(
        &["campaign", "why", "summer"],
        0,
        &[
            "summer: its budget is spent: of the campaign's 5.00 USD, 5.00 USD are spent",
            "(budget_exhausted)",
        ],
        &[],
    );
    assert_eq!(said.lines().nth(1), Some("what to do: raise its `budget`"));
    let row: Vec<_> = said.lines().nth(3).unwrap().split_whitespace().collect();
    let money = ["5.00", "USD", "5.00", "USD", "0.10", "USD", "0.00", "USD"];
    assert_eq!(row, [&["campaign", "life"][..], &money].concat());
    assert!(!said.contains("how it bids"), "its strategy has not begun: {said}");
    for row in [
        "impressions        last hour  last day",
        "offered to it         12,000   240,000",
        "  below the floor      1,000     1,000",
        "of a sample of 256 impressions:",
        "targeting.countries      250",
    ] {
        assert!(said.contains(row), "no `{row}` in {said}");
    }
    let shown = ["impressions", "spent               0.00 USD  0.00 USD"];
    server.run(&["campaign", "show", "summer"], 0, &shown, &[]);
    let pace = BidPace::FULL;
    let bidding = BiddingStatus { strategy: "slot_dual", is_fixed_price: false, pace };
    server.stub.state().biddings.insert(CampaignIndex(1), bidding);
    let bids =
        "how it bids: slot_dual bids 1 of its value, 2.50 USD for 1000 impressions, for every";
    server.run(&["campaign", "why", "summer"], 0, &[bids], &[]);
}

#[test]
fn curve() {
    let server = Server::start("");
    let file = server.file("summer.toml", CAMPAIGN);
    server.run(&["campaign", "create", &file], 0, &[], &[]);
    let none =
        ["summer has no curve yet: it has no limit to follow", "vickrey campaign why summer"];
    server.run(&["campaign", "curve", "summer"], 0, &none, &[]);
    let missing = server.folder.path().join("none.svg");
    let plot = ["campaign", "curve", "summer", "--svg", missing.to_str().unwrap()];
    server.run(&plot, 1, &[none[0], "none.svg is not written"], &[]);
    assert!(!missing.exists());
    let point = |minute: u64, target, spent| CurvePoint {
        at_unix_ms: 1_800_000_000_000 + minute * 60_000,
        target,
        spent,
    };
    let curve = PacingCurve {
        span: LimitSpan::Day,
        limit: cents(800),
        flight: CampaignFlight { start_ms: 1_800_000_000_000, end_ms: 1_800_086_400_000 },
        strategy: "slot_dual",
        pace: BidPace::FULL,
        dual: 0.0,
        rate: 1.0,
        points: vec![
            point(0, cents(0), Some(cents(0))),
            point(720, cents(250), Some(cents(200))),
            point(1440, cents(500), None),
        ],
    };
    server.stub.state().curves.insert(CampaignIndex(1), curve);
    let title = ["summer: share of the day's 8.00 USD", "· target   - plan   ● slot_dual", "100 %"];
    server.run(&["campaign", "curve", "summer"], 0, &title, &[]);
    let svg = server.folder.path().join("x.svg");
    let svg_text = svg.to_str().unwrap();
    assert_eq!(server.run(&["campaign", "curve", "summer", "--svg", svg_text], 0, &[], &[]), "");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("slot_dual"), "{svg}");
    let shown = server.run(&["campaign", "curve", "summer", "--json"], 0, &[], &[]);
    assert!(shown.contains("\"spent\": \"2\""), "{shown}");
}

#[test]
fn an_account_as_a_whole() {
    let server = Server::start("");
    let file = server.file("summer.toml", CAMPAIGN);
    server.run(&["campaign", "create", &file], 0, &[], &[]);
    let hours = vec![HourSpend { period: Period(1_999_996), spent: cents(100) }];
    let spend = Spend {
        currency: Currency::USD,
        life: cents(350),
        today: cents(150),
        now: cents(50),
        hours,
    };
    server.stub.state().account_spends.insert(0, spend);
    let spent = "acme: 0.50 USD in this hour, 1.50 USD today, 3.50 USD in all";
    let hour = "2027-01-15T07:00:00.000Z  1.00 USD\n";
    server.run(&["account", "spend", "acme"], 0, &[spent, "hour from", hour], &[]);
    let shown = server.run(&["account", "spend", "acme", "--json"], 0, &[], &[]);
    assert!(shown.contains("\"life\": \"3.5\""), "{shown}");
    server.run(&["account", "show", "acme"], 0, &["spent: 0.50 USD in this hour"], &[]);

    let open =
        ["acme: nothing keeps it from spending", "its seats: nothing", "1 campaign: nothing"];
    server.run(&["account", "why", "acme"], 0, &open, &[]);
    let level = |span, limit| LimitLevel {
        owner: LimitOwner::Account,
        span,
        limit,
        outstanding: cents(9_000),
        late: cents(1_000),
        holdback: cents(0),
    };
    let why = AccountDiagnosis {
        flight: CampaignFlight::default(),
        refusal: Some(SpendRefusal::BudgetExhausted),
        levels: Some([
            level(LimitSpan::Life, Some(cents(10_000))),
            level(LimitSpan::Day, None),
            level(LimitSpan::Hour, None),
        ]),
        hour: None,
        at_shards: cents(1),
        ready: Nanos::ZERO,
        frozen: Nanos::ZERO,
        held: Nanos::ZERO,
        is_store_failing: false,
    };
    server.stub.state().account_whys.insert(0, why);
    let words = "acme: its budget is spent: of the account's 100.00 USD, 100.00 USD are spent or \
                 leased";
    let said = server.run(
        &["account", "why", "acme"],
        0,
        &[words, "(budget_exhausted)", "on its way: 0.01 USD at shards"],
        &[],
    );
    let row: Vec<_> = said.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!(row, ["life", "100.00", "USD", "100.00", "USD", "0.00", "USD"]);
    assert!(!said.contains("limit of"), "its rows are no campaign's: {said}");
}

#[test]
fn what_was_changed_is_listed() {
    let server = Server::start("");
    let file = server.file("summer.toml", CAMPAIGN);
    server.run(&["campaign", "create", &file], 0, &[], &[]);
    server.run(&["campaign", "budget", "summer", "--daily", "3"], 0, &[], &[]);
    server.run(&["account", "pause", "acme"], 0, &[], &[]);
    let listed = server.run(&["audit"], 0, &[], &[]);
    let rows: Vec<Vec<_>> = listed.lines().map(|it| it.split_whitespace().collect()).collect();
    let head = ["when", "who", "what", "of", "id", "version", "key", "before", "after"];
    assert_eq!(rows[0], head);
    let at = "2027-01-15T08:00:00.000Z";
    assert_eq!(rows[1], [at, "files", "create", "account", "acme", "1"]);
    assert_eq!(rows[2], [at, "alice", "create", "campaign", "summer", "1"]);
    let budget = ["budget", "campaign", "summer", "2", "daily_budget", "-", "3"];
    assert_eq!(rows[3], [&[at, "alice"], &budget[..]].concat());
    let paused = ["pause", "account", "acme", "2", "paused", "-", "true"];
    assert_eq!(rows[4], [&[at, "alice"], &paused[..]].concat());
    assert_eq!(rows.len(), 5);
    let of_accounts = server.run(&["account", "audit"], 0, &["pause"], &[]);
    assert!(!of_accounts.contains("summer"), "{of_accounts}");
    let of_campaigns = server.run(&["campaign", "audit", "--id", "summer"], 0, &["budget"], &[]);
    assert!(!of_campaigns.contains("acme"), "{of_campaigns}");

    // The latest, in their order.
    let latest = server.run(&["audit", "--limit", "2"], 0, &[], &[]);
    assert_eq!(latest.lines().count(), 3);
    assert!(latest.lines().nth(1).unwrap().contains("budget"), "{latest}");
    let of_one = server.run(&["audit", "--id", "summer", "--json"], 0, &[], &[]);
    let of_one: Value = serde_json::from_str(&of_one).unwrap();
    let actions: Vec<_> = of_one.as_array().unwrap().iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["create", "budget"]);
    for (since, count) in
        [("2027-01-15T08:00:00Z", 5), ("2027-01-15", 5), ("2027-01-15T09:00:00+01:00", 5)]
    {
        let listed = server.run(&["audit", "--since", since], 0, &[], &[]);
        assert_eq!(listed.lines().count(), count, "{since}");
    }
    for since in ["2027-01-15T08:00:00.001Z", "2027-01-16"] {
        assert_eq!(server.run(&["audit", "--since", since], 0, &[], &[]), "no changes\n");
    }
    server.run(&["audit", "--since", "7d", "--limit", "1"], 0, &[], &[]);
    for since in ["yesterday", "-2h", "7"] {
        let remedy = ["write a time as 2026-11-01T00:00:00Z, a day as 2026-11-01, or how long ago"];
        server.run(&["audit", &format!("--since={since}")], 64, &[], &remedy);
    }
    server.run(&["audit", "--limit", "0"], 64, &[], &["--limit"]);
}

#[test]
fn an_audit_of_many_changes_is_read_to_its_end() {
    let server = Server::start("");
    // More than one page.
    let many: String = (0..2_100)
        .map(|number| format!("[[account]]\nid = 'b{number}'\ncurrency = 'EUR'\n"))
        .collect();
    std::fs::write(server.folder.path().join("campaigns.d/b.toml"), many).unwrap();
    server.registry.reload().unwrap();
    let listed = server.run(&["audit", "--limit", "5000", "--json"], 0, &[], &[]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2_101);
    let listed = server.run(&["audit", "--json"], 0, &[], &[]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 100);
}

#[test]
fn what_is_refused_says_what_to_do() {
    let server = Server::start("");
    let check = |args: &[&str], exit: i32, stderr: &[&str]| {
        server.run(args, exit, &[], stderr);
    };
    check(
        &["campaign", "show", "x"],
        66,
        &["error: no campaign has the id `x`: `vickrey campaign list` shows all"],
    );
    check(&["campaign", "pause", "a/b"], 66, &["error: no campaign has the id `a/b`"]);
    let bad = server.file("bad.toml", &CAMPAIGN.replace("'5'", "'-5'").replace("'acme'", "'acne'"));
    check(
        &["campaign", "create", &bad],
        64,
        &[
            "error: 2 problems; nothing was changed",
            "\n  account = \"acne\": is no account, did you mean \"acme\"?",
            "\n  budget = \"-5\": is negative: give 0 or more",
        ],
    );
    let broken = server.file("broken.toml", "id =");
    check(&["campaign", "create", &broken], 64, &["broken.toml: TOML parse error at line 1"]);
    let json = server.file("broken.json", "{");
    check(&["campaign", "create", &json], 64, &["broken.json: EOF while parsing"]);
    let twice = server.file("twice.json", r#"{"id": "x", "budget": "1", "budget": "2"}"#);
    check(&["campaign", "create", &twice], 64, &["twice.json: budget: is given twice, remove one"]);
    let other = server.file("other.toml", "[[account]]\nid = 'x'\n");
    check(&["campaign", "create", &other], 64, &["defines no campaign", "vickrey account create"]);
    check(&["campaign", "create", "/nowhere.toml"], 64, &["/nowhere.toml: No such file"]);
    check(&["campaign", "budget", "x"], 64, &["--budget <AMOUNT>"]);
    let keyed = |id: &str| server.file(&format!("{id}.toml"), &CAMPAIGN.replace("summer", id));
    let file = server.file("summer.toml", CAMPAIGN);
    server.run(&["campaign", "create", &file], 0, &[], &[]);
    check(
        &["account", "show", "x"],
        66,
        &["error: no account has the id `x`: `vickrey account list` shows all"],
    );
    check(
        &["campaign", "create", &file],
        73,
        &["error: campaign `summer` exists already, at version 1"],
    );
    let stale = ["campaign", "pause", "summer", "--if-version", "7"];
    check(&stale, 75, &["is at version 1, not 7: read it again"]);
    server.run(&["campaign", "create", &keyed("a"), "--key", "k"], 0, &[], &[]);
    check(
        &["campaign", "create", &keyed("b"), "--key", "k"],
        73,
        &["came before with another body"],
    );
    server.run(&["campaign", "remove", "a"], 0, &[], &[]);
    check(&["campaign", "pause", "a"], 73, &["was removed"]);
    server.stub.state().is_full = true;
    check(&["campaign", "pause", "summer"], 69, &["has no room left: free some"]);
}

#[test]
fn the_token_is_sent() {
    let server = Server::start(&format!("token = '{TOKEN}'"));
    let list: (&[&str], &str) = (&["campaign", "list"], "");
    server.run_with("", list, 64, (&[], &["asks for its token: set VICKREY_ADMIN_TOKEN"]));
    let refused = "refuses the token in VICKREY_ADMIN_TOKEN: it is not its `admin.token`";
    server.run_with("wrong", list, 64, (&[], &[refused]));
    server.run_with(TOKEN, list, 0, (&["no campaigns yet"], &[]));
}

/// A proxy that terminates TLS for an admin listener: it responds in chunks, and closes without a
/// TLS alert. Returns its address and its certificate in PEM.
fn proxy(of: SocketAddr) -> (SocketAddr, String) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut client = StreamOwned::new(session, stream);
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"\r\n\r\n") {
                match client.read(&mut buffer) {
                    Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
                    _ => break, // The certificate was refused.
                }
            }
            if request.is_empty() {
                continue;
            }
            let mut behind = TcpStream::connect(of).unwrap();
            behind.write_all(&request).unwrap();
            let mut answer = String::new();
            behind.read_to_string(&mut answer).unwrap();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let head = head.replace("content-length", "x-length");
            let size = body.len();
            let chunked = format!("{head}\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n");
            let _ = write!(client, "{chunked}{body}\r\n0\r\n\r\n");
            let _ = client.flush();
        }
    });
    (address, own.cert.pem())
}

#[test]
fn an_exchange_behind_tls_is_asked() {
    let server = Server::start("");
    let (address, certificate) = proxy(server.address);
    let ca = server.file("ca.pem", &certificate);
    let port = address.port();
    let check = |args: &[&str], exit: i32, want: &str| {
        let (code, out, err) = run(&mut vickrey(args));
        let said = out + &err;
        assert_eq!(code, Some(exit), "{args:?}: {said}");
        assert!(said.contains(want), "{args:?}: no `{want}` in {said}");
    };
    let url = format!("https://localhost:{port}/");
    check(&["account", "list", "--admin", &url, "--ca", &ca], 0, "acme");
    check(&["account", "show", "x", "--admin", &url, "--ca", &ca], 66, "no account has the id `x`");
    check(&["audit", "--admin", &url, "--ca", &ca], 0, "create");
    check(&["account", "list", "--admin", &url], 69, "certificate");
    let other = format!("https://127.0.0.1:{port}");
    check(&["account", "list", "--admin", &other, "--ca", &ca], 69, "certificate");
    let plain = format!("http://{}", server.address);
    check(&["account", "list", "--admin", &plain, "--ca", &ca], 64, "--ca goes with https");
    let none = server.file("none.pem", "no certificate");
    check(&["account", "list", "--admin", &url, "--ca", &none], 64, "holds no certificate in PEM");
    check(&["account", "list", "--admin", &url, "--ca", "/nowhere.pem"], 64, "No such file");
}

#[test]
fn nobody_answers() {
    let list = |admin: &str| {
        let (code, _, said) = run(&mut vickrey(&["campaign", "list", "--admin", admin]));
        (code, said)
    };
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, said) = list(&format!("http://{free}"));
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("is the process running? --admin names another"), "{said}");
    for admin in ["127.0.0.1:9464", "ftp://a", "http://", "https://", "http://a/b"] {
        let (code, said) = list(admin);
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains("needs the form http://127.0.0.1:9464"), "{said}");
    }
}

/// Every operation of budgets with every documented response that can be provoked: 200 or 201, and
/// the refusals. The responses match the document.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of calls on one server")]
fn answers_are_as_documented() {
    let server = Server::start("");
    let (_, document) = exchange(server.address, "GET /v1/openapi.json", "", "");
    let paths = document["paths"].as_object().unwrap();
    const TWO_HOSTS: &str = "host: b\r\n";
    let json = "content-type: application/json\r\n";
    let account = json!({ "id": "b", "currency": "EUR" });
    let campaign = json!({
        "id": "x", "account": "acme", "start": "2026-12-01", "end": "2027-01-01",
        "bid": { "value": "1" },
    });
    let spend = Spend {
        currency: Currency::USD,
        life: cents(1),
        today: cents(1),
        now: cents(1),
        hours: Vec::new(),
    };
    server.stub.state().spends.extend([0, 1].map(|slot| (CampaignIndex(slot), spend.clone())));
    server.stub.state().account_spends.extend([0, 1].map(|number| (number, spend.clone())));
    let bidding = BiddingStatus { strategy: "even", is_fixed_price: false, pace: BidPace::NONE };
    server.stub.state().biddings.insert(CampaignIndex(1), bidding);
    let own = |kind: &str| if kind == "accounts" { &account } else { &campaign };
    let mut problems = Vec::new();
    let mut seen: BTreeMap<(String, String), BTreeSet<u16>> = BTreeMap::new();
    let mut check =
        |method: &str, (path, id): (&str, &str), head: &str, body: &Value, want: u16| {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let (status, answer) = exchange(
                server.address,
                &format!("{method} {}", path.replace("{id}", id)),
                head,
                &body,
            );
            seen.entry((method.to_lowercase(), path.to_owned())).or_default().insert(status);
            let operation = &document["paths"][path][method.to_lowercase()];
            let fault = fault(&document, operation, status, &answer);
            if status != want || fault.is_some() {
                problems
                    .push(format!("{method} {path} {id} {body}: {status}, {fault:?}: {answer}"));
            }
        };
    let none = &Value::Null;
    for kind in ["accounts", "campaigns"] {
        let path = |rest: &str| {
            let path = format!("/v1/{kind}{rest}");
            &**paths.keys().find(|known| **known == path).unwrap()
        };
        let (all, one, id) = (path(""), path("/{id}"), own(kind)["id"].as_str().unwrap());
        check("POST", (all, id), json, own(kind), 201);
        check("POST", (all, id), json, own(kind), 409);
        check("POST", (all, id), json, &json!({}), 422);
        check("POST", (all, id), json, &json!([]), 400);
        check("POST", (all, id), "", &json!({}), 415);
        check("GET", (all, id), "", none, 200);
        check("GET", (one, id), "", none, 200);
        check("GET", (one, id), TWO_HOSTS, none, 400);
        let limits = json!({ "daily_budget": "1" });
        for (method, rest, body) in [
            ("PUT", "/{id}", own(kind)),
            ("PATCH", "/{id}", &limits),
            ("PUT", "/{id}/budget", &limits),
        ] {
            let of = path(rest);
            check(method, (of, id), json, body, 200);
            check(method, (of, id), "", body, 415);
            check(method, (of, id), json, &json!(1), 400);
            check(method, (of, id), json, &json!({ "budget": "-1" }), 422);
            check(method, (of, "nobody"), json, body, 404);
            let stale = format!("{json}if-match: \"99\"\r\n");
            check(method, (of, id), &stale, body, 412);
            check(method, (of, id), &format!("{json}origin: http://a\r\n"), body, 403);
            check(method, (of, id), json, &" ".repeat(1 << 20).into(), 413);
        }
        for method in ["PUT", "DELETE"] {
            let of = path("/{id}/pause");
            check(method, (of, id), "", none, 200);
            check(method, (of, id), "if-match: a\r\n", none, 400);
            check(method, (of, "nobody"), "", none, 404);
            check(method, (of, id), "if-match: \"99\"\r\n", none, 412);
        }
        let asked =
            if kind == "accounts" { &["spend", "why"][..] } else { &["spend", "why", "curve"] };
        for what in asked {
            let of = path(&format!("/{{id}}/{what}"));
            check("GET", (of, id), "", none, 200);
            check("GET", (of, "nobody"), "", none, 404);
            check("GET", (of, id), TWO_HOSTS, none, 400);
        }
    }
    check("DELETE", ("/v1/campaigns/{id}", "x"), "", none, 200);
    check("DELETE", ("/v1/campaigns/{id}/pause", "x"), "", none, 409);
    check("GET", ("/v1/audit", ""), "", none, 200);
    let list = "GET /v1/campaigns?delivery=true&removed=true";
    let (status, removed) = exchange(server.address, list, "", "");
    assert_eq!(removed["campaigns"][0]["delivery"], Value::Null, "{removed}");
    let operation = &document["paths"]["/v1/campaigns"]["get"];
    problems.extend(fault(&document, operation, status, &removed));
    let of_budgets = ["/v1/accounts", "/v1/campaigns", "/v1/audit"];
    let is_of_budgets = |path: &str| of_budgets.iter().any(|of| path.starts_with(of));
    for (path, methods) in paths.iter().filter(|(path, _)| is_of_budgets(path)) {
        for method in methods.as_object().unwrap().keys() {
            let seen = seen.get(&(method.clone(), path.clone()));
            let is_answered = seen.is_some_and(|seen| seen.iter().any(|status| *status < 300));
            assert!(is_answered, "{method} {path} is never answered");
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

fn exchange(address: SocketAddr, line: &str, head: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}content-length: {length}\r\n\r\n{body}"
    );
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// The difference between a response and the document. None if they agree.
fn fault(document: &Value, operation: &Value, status: u16, answer: &Value) -> Option<String> {
    let response = operation["responses"].get(status.to_string());
    let Some(response) = response else { return Some("is not in the document".to_owned()) };
    let response = match response.get("$ref").and_then(Value::as_str) {
        Some(pointer) => document.pointer(pointer.trim_start_matches('#')).unwrap(),
        None => response,
    };
    let mut schema = response["content"]["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    let options = jsonschema::draft202012::options().should_validate_formats(true);
    let validator = options.build(&schema).expect("the document's schemas are schemas");
    let errors: Vec<_> = validator.iter_errors(answer).map(|error| format!("{error}")).collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}
