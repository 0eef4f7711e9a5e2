//! Files of accounts and campaigns, checked and started with: both report the same problems and
//! leave no traces, and warn of unlikely settings.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use tempfile::TempDir;

use crate::program::{PATIENCE, Running, ask, get, run, until, vickrey};

const ACCOUNT: &str =
    "[[account]]\nid = 'acme'\ncurrency = 'USD'\nseats = ['d/buyer', 'd/other', 'e/buyer']\n";

const CAMPAIGN: &str = "[[campaign]]\nid = 'summer'\naccount = 'acme'\nstart = '2026-01-01'\n\
                        end = '2126-01-01'\nbid.value = '2.5'\n[[campaign.creative]]\nid = 'c'\n\
                        format = 'banner'\nsize = '300x250'\nmarkup = '<p>'\n\
                        domains = ['a.example']\n";

/// A folder with a configuration; the tests write the campaign files.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (record, budgets) = (place.path("record"), place.path("budgets"));
        std::fs::create_dir(place.path("campaigns.d")).unwrap();
        let text = format!(
            "[runtime]\nshards = 1\nwatch = \"10ms\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [record]\ndirectory = {record:?}\n\
             [exchange]\nlisten = \"127.0.0.1:0\"\n\
             [exchange.notices]\nurl = \"http://{port}/n/\"\n\
             [budgets]\ndirectory = {budgets:?}\ncampaigns = \"campaigns.d/*.toml\"\n\
             lease_period = \"20ms\"\n\
             [[dsp]]\nid = \"d\"\nurl = \"http://127.0.0.1:9/bid\"\nseats = [\"buyer\"]\n"
        );
        std::fs::write(place.config(), text).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.path("vickrey.toml")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path("campaigns.d").join(name), text).unwrap();
    }

    fn check(&self) -> (Option<i32>, String, String) {
        run(vickrey(&["config", "check"]).arg(self.config()))
    }

    fn serve(&self) -> Command {
        let mut command = vickrey(&["serve", "--config"]);
        command.arg(self.config());
        command
    }

    fn has(&self, name: &str) -> bool {
        Path::exists(&self.path(name))
    }
}

/// A serving process and its log.
struct Life {
    child: Running,
    log: Receiver<String>,
    heard: Vec<String>,
}

impl Life {
    fn begin(place: &Place) -> Self {
        let mut child = Running::start(&mut place.serve());
        let lines = BufReader::new(child.0.stderr.take().unwrap()).lines().map_while(Result::ok);
        let (tell, log) = channel();
        std::thread::spawn(move || lines.for_each(|line| drop(tell.send(line))));
        Self { child, log, heard: Vec::new() }
    }

    /// The first line with this text, once it is logged.
    #[track_caller]
    fn logged(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(line) = self.heard.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.log.recv_timeout(left) {
                Ok(line) => self.heard.push(line),
                Err(_) => panic!("no `{text}` in\n{}", self.heard.join("\n")),
            }
        }
    }

    fn count(&self, text: &str) -> usize {
        self.heard.iter().filter(|line| line.contains(text)).count()
    }

    /// Ends it, and reads the rest of its log.
    fn end(mut self) -> Self {
        self.child.signal("-TERM");
        assert_eq!(self.child.0.wait().unwrap().code(), Some(0), "{}", self.heard.join("\n"));
        self.heard.extend(self.log.iter());
        self
    }
}

#[test]
fn broken_files_are_told_alike_by_a_check_and_a_start_and_use_nothing_up() {
    let place = Place::new();
    place.write("a.toml", ACCOUNT);
    place.write("b.toml", CAMPAIGN);
    let mut life = Life::begin(&place);
    life.logged("the ledger has begun");
    life.logged("metrics and health");
    life.end();

    place.write("b.toml", &CAMPAIGN.replace("2.5", "-2.5").replace("2126", "1926"));
    let (code, out, checked) = place.check();
    assert_eq!((code, &*out), (Some(64), ""), "{checked}");
    let head = "error: 2 problems in the files of accounts and campaigns; nothing was started\n  ";
    assert!(checked.starts_with(head), "{checked}");
    for problem in ["b.toml line 5: campaign[0].end", "b.toml line 6: campaign[0].bid.value"] {
        assert!(checked.contains(problem), "no {problem} in {checked}");
    }
    for _ in 0..2 {
        let (code, _, started) = run(&mut place.serve());
        assert_eq!(code, Some(64), "{started}");
        assert!(started.ends_with(&checked), "{started}\n{checked}");
        assert!(!started.contains("the ledger has begun"), "{started}");
    }

    place.write("b.toml", CAMPAIGN);
    let mut life = Life::begin(&place);
    life.logged("the ledger has begun");
    let line = life.logged("metrics and health at http://");
    let (_, address) = line.split_once("http://").unwrap();
    let admin = address.split('/').next().unwrap();
    until("it is ready", || get(admin, "/health/ready").starts_with("HTTP/1.1 200"));
    assert!(get(admin, "/metrics").contains("ledger_replayed 1\n"));
    life.end();
}

#[test]
fn what_may_not_be_meant_is_warned_of() {
    let place = Place::new();
    place.write("a.toml", ACCOUNT);
    place.write("b.toml", CAMPAIGN);
    let no_dsp = "names the seat `e/buyer`: no [[dsp]] has the id `e`";
    let no_seat = "names the seat `d/other`: [[dsp]] `d` has no such seat";
    let (code, out, err) = place.check();
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    assert!(out.contains("no problems; exchange with 1 DSP; accounts: 1, campaigns: 1; "), "{out}");
    for seat in [no_dsp, no_seat] {
        assert!(out.contains(&format!("warning: account `acme` {seat}")), "no {seat} in {out}");
    }
    assert!(out.contains("warning: exchange.notices.url"), "{out}");
    let late = "budgets.reservation_max = 30m is below exchange.notices.lifetimes (stitched 24h, \
                dooh 24h, exp_max 24h): wins billed later may exceed limits; raise it, or set \
                late_holdback on accounts";
    assert!(out.contains(&format!("warning: {late}")), "{out}");
    assert_eq!(out.matches("warning").count(), 4, "{out}");
    // A check creates nothing.
    assert!(!place.has("budgets") && !place.has("record"));

    let mut life = Life::begin(&place);
    life.logged("metrics and health");
    for seat in [no_dsp, no_seat] {
        assert!(life.logged(seat).contains("WARN"), "{seat}");
    }
    // After a change of files only new problems are reported.
    place.write("c.toml", "[[account]]\nid = 'b'\ncurrency = 'EUR'\nseats = ['f/x']\n");
    life.logged("names the seat `f/x`: no [[dsp]] has the id `f`");
    // The same after a change of the DSPs.
    let text = std::fs::read_to_string(place.config()).unwrap();
    std::fs::write(place.config(), text.replace("seats = [\"buyer\"]", "seats = [\"x\"]")).unwrap();
    life.logged("names the seat `d/buyer`: [[dsp]] `d` has no such seat");
    let life = life.end();
    for seat in [no_dsp, no_seat, late, "names the seat `f/x`", "names the seat `d/buyer`"] {
        assert_eq!(life.count(seat), 1, "{seat}: {:?}", life.heard);
    }
}

#[test]
fn an_account_that_no_file_has_may_be_the_api_s_once_there_is_a_ledger() {
    let place = Place::new();
    place.write("b.toml", CAMPAIGN);
    let (code, _, err) = place.check();
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("campaign[0].account = 'acme': is no account"), "{err}");
    place.write("b.toml", "");
    let mut life = Life::begin(&place);
    life.logged("metrics and health");
    // Even beside a running process.
    place.write("b.toml", CAMPAIGN);
    let (code, out, err) = place.check();
    assert_eq!(code, Some(0), "{err}");
    assert!(
        out.contains("warning: no file has the account `acme`: its campaigns are refused"),
        "{out}"
    );
    life.logged("are refused");
    life.end();
    // No process holds the directory.
    let (code, _, err) = run(&mut place.serve());
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("campaign[0].account = 'acme': is no account"), "{err}");
}

#[test]
fn a_currency_without_a_rate_is_warned_of() {
    let place = Place::new();
    place.write("a.toml", "[[account]]\nid = 'acme'\ncurrency = 'USD'\n");
    place.write("b.toml", "[[account]]\nid = 'berlin'\ncurrency = 'EUR'\n");
    let warning = "EUR has no rate, so the account's campaigns and seats win nothing: add EUR to currency.rates";
    let (code, out, err) = place.check();
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    assert!(out.contains(&format!("warning: account `berlin`: {warning}")), "{out}");
    assert!(!out.contains("account `acme`"), "{out}");
    let mut life = Life::begin(&place);
    assert!(life.logged(warning).contains("berlin"));
    life.logged("metrics and health");
    life.end();
    let text = std::fs::read_to_string(place.config()).unwrap();
    let rates = "[currency]\nrates = { EUR = \"1.08\" }\n";
    std::fs::write(place.config(), format!("{rates}{text}")).unwrap();
    let (_, out, _) = place.check();
    assert!(!out.contains("has no rate"), "{out}");
}

#[test]
fn refused_files_of_campaigns_are_told_everywhere() {
    let place = Place::new();
    place.write("a.toml", "[[account]]\nid = 'acme'\ncurrency = 'USD'\n");
    place.write("b.toml", CAMPAIGN);
    let mut life = Life::begin(&place);
    let line = life.logged("metrics and health at http://");
    let (_, address) = line.split_once("http://").unwrap();
    let admin = address.split('/').next().unwrap();
    let ready = || get(admin, "/health/ready");
    until("it is ready", || ready().ends_with("\r\n\r\nready\n"));
    place.write("b.toml", &CAMPAIGN.replace("2.5", "-2.5"));
    let reloaded = ask(admin, "POST /v1/reload");
    assert!(reloaded.starts_with("HTTP/1.1 422"), "{reloaded}");
    let problem = [
        "b.toml",
        "campaign[0].bid.value",
        "stays in force",
        r#""code":"invalid_campaign_files""#,
        r#""needs_restart":[]"#,
        r#""differences":[]"#,
    ];
    for told in problem {
        assert!(reloaded.contains(told), "no {told} in {reloaded}");
    }
    let told = ready();
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(
        told.contains("degraded; campaigns: 1 problem in ") && told.contains("b.toml"),
        "{told}"
    );
    assert!(get(admin, "/metrics").contains("campaign_files_problems 1\n"));
    let list = || run(&mut vickrey(&["campaign", "list", "--admin", &format!("http://{admin}")])).1;
    let listed = list();
    assert!(
        listed.contains("warning: the files of accounts and campaigns are refused"),
        "{listed}"
    );
    assert!(listed.contains("b.toml line 6: campaign[0].bid.value"), "{listed}");
    assert!(listed.contains("summer  acme"), "{listed}");
    place.write("b.toml", &CAMPAIGN.replace("2.5", "2.6"));
    let reloaded = ask(admin, "POST /v1/reload");
    assert!(reloaded.starts_with("HTTP/1.1 200"), "{reloaded}");
    assert!(reloaded.contains(r#""campaigns":{"#), "{reloaded}");
    until("it is ready", || ready().ends_with("\r\n\r\nready\n"));
    assert!(get(admin, "/metrics").contains("campaign_files_problems 0\n"));
    assert!(!list().contains("warning"));
    life.end();
}
