//! The binary as a user meets it: help, wrong flags, broken files, ports in use, signals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::program::{self, Running, get, vickrey};

fn run(args: &[&str]) -> Output {
    vickrey(args).output().unwrap()
}

#[track_caller]
fn check(args: &[&str], exit: i32, stdout: &[&str], stderr: &[&str]) {
    program::check(&mut vickrey(args), exit, stdout, stderr);
}

fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn help_teaches() {
    check(&["--help"], 0, &["vickrey demo", "serve", "config", "dsp", "hammer", "Exit codes"], &[]);
    check(&["serve", "--help"], 0, &["--config <FILE>", "--shards <N>"], &[]);
    check(&["hammer", "exchange", "--help"], 0, &["--rate", "--in-flight", "--json"], &[]);
    check(&["demo", "--help"], 0, &["--duration", "--dsps", "--rate"], &[]);
    check(&["dsp", "--help"], 0, &["--count", "--latency-ms"], &[]);
    check(&["--version"], 0, &["vickrey 0."], &[]);
}

#[test]
fn wrong_usage_exits_64() {
    check(&[], 64, &[], &["Usage"]);
    check(&["auction"], 64, &[], &["unrecognized subcommand 'auction'"]);
    check(&["serve"], 64, &[], &["--config <FILE>"]);
    check(&["demo", "pacer", "--help"], 0, &["--duration", "--rate", "--json"], &[]);
    check(&["demo", "pacer", "--rate", "9"], 64, &[], &["--rate"]);
    check(&["demo", "--duration", "5"], 64, &[], &["needs a unit, for example 10s"]);
    check(&["demo", "--duration", "0s"], 64, &[], &["must be longer than 0s"]);
    check(&["demo", "--dsps", "0"], 64, &[], &["--dsps"]);
    check(&["serve", "--config", "x", "--shards", "0"], 64, &[], &["--shards"]);
    check(&["hammer", "exchange", "--rate", "1", "--in-flight", "1"], 64, &[], &["cannot be used"]);
    check(&["hammer", "exchange", "--url", "ftp://x"], 64, &[], &["only http is supported"]);
    check(&["hammer", "exchange", "--connections", "9"], 64, &[], &["--rate"]);
    check(
        &["hammer", "exchange", "--rate", "9", "--connections", "0"],
        64,
        &[],
        &["--connections"],
    );
    check(&["dsp", "--latency-ms", "9,1,2"], 64, &[], &["MIN,MEDIAN,P99"]);
}

#[test]
fn completions_and_manual_pages_have_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        check(&["completions", shell], 0, &["vickrey", "hammer", "overshoot-max"], &[]);
    }
    check(&["completions", "tcsh"], 64, &[], &["[possible values: bash"]);
    check(&["man"], 0, &[".TH vickrey 1", "vickrey\\-demo(1)"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    check(&["man", "--dir", dir], 0, &[], &[]);
    let hammer = std::fs::read_to_string(folder.path().join("vickrey-hammer-exchange.1")).unwrap();
    assert!(hammer.contains("connections"), "{hammer}");
    let new = folder.path().join("new/man1");
    check(&["man", "--dir", new.to_str().unwrap()], 0, &[], &[]);
    assert!(new.join("vickrey.1").is_file());
    let file = folder.path().join("vickrey.1");
    check(&["man", "--dir", file.to_str().unwrap()], 69, &[], &["cannot write pages to "]);
}

#[test]
fn the_default_configuration_checks_clean() {
    let default = run(&["config", "default"]);
    let (_folder, path) = file("vickrey.toml", &String::from_utf8(default.stdout).unwrap());
    let path = path.to_str().unwrap();
    let nobody_bids = "warning: there is no [[dsp]] and no [budgets]: nobody bids";
    let clean = ["no problems; exchange with 0 DSPs", nobody_bids];
    check(&["config", "check", path], 0, &clean, &[]);
}

#[test]
fn an_exchange_without_bidders_is_warned_of() {
    let budgets = "[exchange.notices]\nurl = \"http://127.0.0.1:1/n/\"\n\
                   [record]\ndirectory = \"record\"\n\
                   [budgets]\ndirectory = \"budgets\"\ncampaigns = \"campaigns.d/*.toml\"\n";
    let account = "[[account]]\nid = \"acme\"\ncurrency = \"USD\"\ntime_zone = \"UTC\"\n";
    let campaign = "[[campaign]]\nid = \"c\"\naccount = \"acme\"\nbid = { price = \"1\" }\n\
        start = \"2026-01-01T00:00:00\"\nend = \"2036-01-01T00:00:00\"\nbudget = \"5\"\n\
        creative = [{ id = \"a\", format = \"banner\", size = \"1x1\", markup = \"<b>\", \
        domains = [\"acme.example\"] }]\n";
    let table = |tables: &str, campaigns: &str, warning: Option<&str>| {
        let main = format!("[exchange]\n{tables}");
        let (_folder, path) = files(&[("vickrey.toml", &main), ("campaigns.d/a.toml", campaigns)]);
        let output = run(&["config", "check", &path]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let out = String::from_utf8(output.stdout).unwrap();
        let found = out.lines().find(|line| line.starts_with("warning: there is no [[dsp]]"));
        assert_eq!(found.is_some(), warning.is_some(), "{out}");
        assert!(found.unwrap_or_default().contains(warning.unwrap_or_default()), "{out}");
    };
    let both = account.to_owned() + campaign;
    table("", "", Some("and no [budgets]: nobody bids"));
    table(budgets, account, Some("no file defines a campaign"));
    table(budgets, &both, None);
    table(DSP, "", None);
    table(&(budgets.to_owned() + DSP), account, None);
}

#[test]
fn a_remote_pacer_needs_notices_and_no_own_budgets() {
    let pacer = format!(
        "[exchange]\n[exchange.pacer]\naddress = \"pacer:7100\"\nid = \"x\"\nsecret = \"s\"\n\
         [[exchange.pacer.seat]]\ndsp = \"a\"\nseat = \"s\"\naccount = \"a\"\ncampaign = \"c\"\n{DSP}\
         seats = [\"s\"]\n"
    );
    let billed =
        "[exchange.notices]\nurl = \"http://127.0.0.1:1/n/\"\n[record]\ndirectory = \"record\"\n";
    let budgets = "[budgets]\ndirectory = \"budgets\"\ncampaigns = \"campaigns.d/*.toml\"\n";
    let problem = |tables: &str, exit: i32, want: &[&str]| {
        let (_folder, path) = files(&[("vickrey.toml", &(pacer.clone() + tables))]);
        check(&["config", "check", &path], exit, &[], want);
    };
    problem("", 64, &["exchange.pacer: needs [record] and [exchange.notices]"]);
    problem(billed, 0, &[]);
    let both = billed.to_owned() + budgets;
    problem(
        &both,
        64,
        &["exchange.pacer: an exchange spends its own [budgets] or those of a pacer"],
    );
}

#[test]
fn one_dsp_says_that_it_listens() {
    let mut dsp = Running::start(&mut vickrey(&["dsp", "--count", "1"]));
    let mut first = String::new();
    BufReader::new(dsp.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("1 DSP listens at http://127.0.0.1:"), "{first}");
    dsp.signal("-TERM");
    assert_eq!(dsp.wait().0, Some(0));
}

/// The tables are printed before the DSPs start, so that a script need not wait for a file.
#[test]
fn tables_of_simulated_dsps_are_printed_beforehand() {
    let of_two = "[[dsp]]\nid = \"dsp-0\"\nurl = \"http://127.0.0.1:9001/bid\"\nseats = [\"seat-0\"]\n\n\
                  [[dsp]]\nid = \"dsp-1\"\nurl = \"http://127.0.0.1:9002/bid\"\nseats = [\"seat-1\"]\n";
    let print = ["dsp", "--count", "2", "--print-config", "--base-port"];
    let with = |port: &'static str| [&print[..], &[port]].concat();
    check(&with("9001"), 0, &[of_two], &[]);
    check(&with("65535"), 64, &[], &["a base port that leaves room for every server"]);
    // A port that the system has not chosen yet cannot be printed.
    check(&print[..4], 64, &[], &["--base-port"]);
}

#[test]
fn the_schema_is_json() {
    let schema: serde_json::Value =
        serde_json::from_slice(&run(&["config", "schema"]).stdout).unwrap();
    assert_eq!(schema["type"], "object");
    assert!(schema["properties"]["exchange"].is_object());
}

#[test]
fn a_broken_configuration_reports_everything_and_starts_nothing() {
    let text = concat!(
        "[exchange]\nlisten = \"127.0.0.1:0\"\ntmax_max = \"120\"\nfee = \"100%\"\ntmx = 1\n",
        "[[dsp]]\nid = \"a\"\nurl = \"ftp://x/\"\n[[dsp]]\nid = \"a\"\nurl = \"http://x/\"\n",
        "[[floor]]\nfloor = \"0.5 ZZZ\"\n"
    );
    let (_folder, path) = file("vickrey.toml", text);
    let path = path.to_str().unwrap();
    let problems = [
        "nothing was started",
        "exchange.tmax_max = \"120\": needs a unit, for example \"120ms\"",
        "exchange.fee = \"100%\": leaves the publisher nothing",
        "exchange.tmx = 1: unknown key",
        "dsp[0].url",
        "dsp[1].id",
        "floor[0].floor",
    ];
    check(&["config", "check", path], 64, &[], &problems);
    check(&["serve", "--config", path], 64, &[], &problems);
    check(&["config", "check", "/no/such/file"], 64, &[], &["cannot be read"]);
    let (_folder, path) = file("vickrey.toml", "[log]\nfilter = \"warn\"\n");
    check(&["serve", "--config", path.to_str().unwrap()], 64, &[], &["switches no service on"]);
}

/// Otherwise operators or the record would run out of descriptors in the middle of a day.
#[test]
fn a_start_without_descriptors_is_refused() {
    let check = |shards: usize, tables: &str, needs: usize| {
        let listen = "listen = \"127.0.0.1:0\"";
        let head =
            format!("[runtime]\nshards = {shards}\n[admin]\n{listen}\n[exchange]\n{listen}\n");
        let (_folder, path) = file("vickrey.toml", &(head + tables));
        let script =
            format!("ulimit -n 64 && exec {} serve --config \"$0\"", env!("CARGO_BIN_EXE_vickrey"));
        let output = Command::new("sh").args(["-c", &script]).arg(path).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{told}");
        let want = format!("this process may open 64 files, and needs {needs}: raise `ulimit -n`");
        assert!(told.contains(&want), "{tables}: {told}");
    };
    check(1, "", 256);
    // Each shard calls each DSP.
    let dsp = |id| format!("[[dsp]]\nid = \"{id}\"\nurl = \"http://127.0.0.1:9/\"\n");
    check(4, &(0..20).map(dsp).collect::<String>(), 344);
    // Notices have connections of their own, to DSPs and to other nodes.
    let node = |id| format!("[[exchange.notices.node]]\nid = {id}\nurl = \"http://a/n/\"\n");
    let notices = "[record]\nnode = 1\n[exchange.notices]\nurl = \"https://x.example/n/\"\n";
    check(2, &(notices.to_owned() + &node(1)), 272);
    check(2, &(notices.to_owned() + &node(1) + &node(2)), 400);
}

/// Creates files, `vickrey.toml` among them, and returns its path.
fn files(named: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in named {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let main = folder.path().join("vickrey.toml").to_str().unwrap().to_owned();
    (folder, main)
}

const DSP: &str = "[[dsp]]\nid = \"a\"\nurl = \"http://127.0.0.1:9/\"\n";

#[test]
fn a_check_warns_of_beacons_that_secure_pages_do_not_load() {
    let of = |scheme: &str| {
        let main = format!(
            "[exchange]\n[exchange.notices]\nurl = \"{scheme}://x.example/n/\"\n[record]\n{DSP}"
        );
        files(&[("vickrey.toml", &main)])
    };
    let warning = "warning: exchange.notices.url = \"http://x.example/n/\" is not https";
    let (_folder, path) = of("http");
    check(&["config", "check", &path], 0, &["no problems", warning], &[]);
    let (_folder, path) = of("https");
    let checked = String::from_utf8(run(&["config", "check", &path]).stdout).unwrap();
    assert!(checked.contains("no problems") && !checked.contains("warning"), "{checked}");
}

#[test]
fn notices_need_a_record() {
    let of = |rest: &str| {
        let main =
            format!("[exchange]\n[exchange.notices]\nurl = \"https://x.example/n/\"\n{rest}");
        files(&[("vickrey.toml", &main)])
    };
    let why = "line 2: exchange.notices: needs [record], where what is owed to DSPs is kept";
    let (_folder, path) = of("");
    check(&["config", "check", &path], 64, &[], &[why]);
    let (_folder, path) = of("[record]\n");
    check(&["config", "check", &path], 0, &["no problems"], &[]);
}

#[test]
fn a_record_alone_is_no_service() {
    let (_folder, path) = files(&[("vickrey.toml", "[record]\n")]);
    let why = "the configuration switches no service on: add one of [exchange], [budgets]";
    check(&["serve", "--config", &path], 64, &[], &[why]);
}

#[test]
fn included_files_belong_to_the_configuration() {
    let main = "include = [\"dsps.d/*.toml\", \"rates.toml\"]\n[exchange]\n";
    let rates = "[currency.rates]\nEUR = \"1.08\"\n";
    let (_good, path) =
        files(&[("vickrey.toml", main), ("dsps.d/a.toml", DSP), ("rates.toml", rates)]);
    let clean = "no problems; exchange with 1 DSP; 4 files and folders, watched every 1s";
    check(&["config", "check", &path], 0, &[clean], &[]);
    let twice = "[currency]\nrates = { EUR = \"1\", GBP = \"x\" }\n[[dsp]]\nid = \"b\"\n";
    let (_bad, path) = files(&[
        ("vickrey.toml", main),
        ("dsps.d/a.toml", DSP),
        ("dsps.d/b.toml", "[[dsp]\nid = \"c\""),
        ("dsps.d/c.toml", twice),
        ("rates.toml", rates),
    ]);
    let problems = [
        "dsps.d/b.toml line 1, column 7: unclosed array table",
        "dsps.d/c.toml line 2: currency.rates.GBP",
        "dsps.d/c.toml line 3: dsp[1].url: is missing",
        "rates.toml line 2: currency.rates.EUR: is given already in ",
    ];
    check(&["config", "check", &path], 64, &[], &problems);
    check(&["serve", "--config", &path], 64, &[], &problems);
}

#[test]
fn show_prints_what_is_in_force() {
    let (_folder, path) = files(&[
        ("vickrey.toml", "include = [\"dsps.d/*.toml\"]\n[exchange]\ntmax_max = \"0.12s\"\n"),
        ("dsps.d/a.toml", DSP),
    ]);
    let toml =
        ["[exchange]\n", "tmax_max = \"120ms\"\n", "[[dsp]]\nid = \"a\"\n", "watch = \"1s\""];
    check(&["config", "show", &path], 0, &toml, &[]);
    let json: serde_json::Value =
        serde_json::from_slice(&run(&["config", "show", "--json", &path]).stdout).unwrap();
    assert_eq!(json["exchange"]["tmax_max"], "120ms");
    assert_eq!(json["dsp"][0]["id"], "a");
    check(&["config", "show", "/no/such/file"], 64, &[], &["cannot be read"]);
}

#[test]
fn diff_compares_what_is_in_force() {
    let main = |more: &str| format!("include = [\"d/*.toml\"]\n[exchange]\n{more}");
    let (_old, old) = files(&[("vickrey.toml", &main("")), ("d/a.toml", DSP)]);
    // The same in one file, with an explicit default.
    let alone = format!("[exchange]\ntmax_max = \"0.25s\"\n{DSP}");
    let (_same, same) = files(&[("vickrey.toml", &alone)]);
    let output = run(&["config", "diff", &old, &same]);
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]));
    let other = DSP.replace("\"a\"", "\"b\"");
    let (_new, new) =
        files(&[("vickrey.toml", &main("tmax_max = \"300ms\"")), ("d/b.toml", &other)]);
    let lines = [
        "~ exchange.tmax_max = \"250ms\" -> \"300ms\"\n",
        "- dsp[\"a\"]\n- dsp[\"a\"].id = \"a\"\n",
        "+ dsp[\"b\"]\n+ dsp[\"b\"].id = \"b\"\n+ dsp[\"b\"].url = \"http://127.0.0.1:9/\"\n",
    ];
    check(&["config", "diff", &old, &new], 1, &lines, &[]);
    let output = run(&["config", "diff", "--json", &old, &new]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = serde_json::json!({
        "key": "exchange.tmax_max", "change": "changed", "old": "250ms", "new": "300ms"
    });
    assert_eq!(json[0], first);
    let (_bad, bad) = files(&[("vickrey.toml", "[exchange]\ntmx = 1\n")]);
    let wrong = ["exchange.tmx = 1: unknown key"];
    check(&["config", "diff", &old, &bad], 64, &[], &wrong);
    check(&["config", "diff", &bad, &old], 64, &[], &wrong);
    check(&["config", "diff", &bad, "/no/such/file"], 64, &[], &[wrong[0], "cannot be read"]);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = format!("[exchange]\nlisten = \"{address}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n");
    let (_folder, path) = file("vickrey.toml", &text);
    check(&["serve", "--config", path.to_str().unwrap()], 69, &[], &[&address]);
    let text = format!("[exchange]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"{address}\"\n");
    let (_folder, path) = file("vickrey.toml", &text);
    check(&["serve", "--config", path.to_str().unwrap()], 69, &[], &[&address]);
    let port = taken.local_addr().unwrap().port().to_string();
    let told = format!("cannot listen on {address}: port {port} is in use; stop the process");
    check(&["dsp", "--count", "1", "--base-port", &port], 69, &[], &[&told]);
}

#[test]
fn a_hammer_without_an_exchange_says_so() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}/openrtb2/auction");
    let args = ["hammer", "exchange", "--url", &url, "--count", "5", "--warm-up", "0s"];
    check(&args, 1, &["nothing was answered; is an exchange at"], &[]);
}

/// The refusal comes before the load.
#[test]
fn a_report_that_cannot_be_written_is_refused_beforehand() {
    let url = refusing();
    let args = ["hammer", "exchange", "--url", &url, "--count", "1", "--json", "/no/such/report"];
    let told = "error: cannot write /no/such/report: No such file or directory (os error 2)\n";
    let output = run(&args);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), told);
    assert_eq!(output.stdout, b"", "nothing was measured");
}

/// A server that refuses every request, as an exchange does at a wrong path; one connection at a
/// time.
fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 64 * 1024];
            let _ = stream.read(&mut buffer);
            let body = r#"{"error":"no such path"}"#;
            let head = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length";
            let _ = write!(stream, "{head}: {}\r\n\r\n{body}", body.len());
        }
    });
    format!("http://{address}/wrong")
}

#[test]
fn a_hammer_at_a_wrong_path_fails_and_quotes_the_refusal() {
    let url = refusing();
    let args = ["hammer", "exchange", "--url", &url, "--count", "5", "--warm-up", "0s"];
    let args = [&args[..], &["--in-flight", "1", "--reference"]].concat();
    let quoted = "status 404 Not Found: {\"error\":\"no such path\"}";
    let why = "no auction was run: 5 requests were refused; is an exchange at";
    check(&args, 1, &["answers          0 (0.0/s)", "404: 5", quoted, why], &[]);
}

/// The whole demo without a terminal: auctions run, impressions are sold, money is counted.
#[test]
fn the_demo_runs_to_its_end() {
    // An unoptimised exchange beside other tests may have to refuse some.
    let args = ["demo", "--duration", "3s", "--rate", "20", "--dsps", "10"];
    let output = run(&args);
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{out}{}", String::from_utf8_lossy(&output.stderr));
    for want in [
        "10 simulated DSPs",
        "fill rate",
        "revenue by seat (USD)",
        "why bids lost",
        "lost to higher bid",
        "of its own for an auction",
        "what the exchange waited for them",
        "past tmax by the exchange's clock",
        "campaigns (USD)",
        // From the first line on.
        "  campaigns sprint ",
        "  pacer ",
        "bidder (pacer)",
        "seen by the bidder",
        "auctions as they clear: vickrey watch --at 127.0.0.1:",
        "feed: 1 subscribed, ",
        "cache: ",
        " % from memory, ",
        "seen by the players",
    ] {
        assert!(out.contains(want), "no `{want}` in:\n{out}");
    }
    let row = |name: &str| {
        let line = out.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap()
    };
    assert!(!out.contains('\x1b'), "no terminal, no escape codes: {out:?}");
    assert_eq!(row("sent"), 60);
    assert!(row("  with bids") > 10, "{out}");
    assert_eq!(row("not valid"), 0, "{out}");
    // Each auction is a message, but the last may still be on their way.
    let told = out.lines().find(|line| line.starts_with("feed:")).unwrap();
    let messages = told.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap();
    let auctions = row("auctions  ");
    assert!((auctions.saturating_sub(20)..=auctions).contains(&messages), "{told}");
}

/// The printed configuration can be run, and contains nothing of the finished demo.
#[test]
fn the_demo_prints_a_configuration_that_can_be_run() {
    let output = run(&["demo", "--dsps", "2", "--print-config"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for want in [
        "listen = \"127.0.0.1:8080\"",
        "[budgets]\ndirectory = \"budgets\"",
        "[record]\ndirectory = \"record\"",
        "url = \"http://127.0.0.1:9002/bid\"",
        "[cache]\nlisten = \"127.0.0.1:7300\"",
    ] {
        assert!(text.contains(want), "no `{want}` in:\n{text}");
    }
    let (folder, path) = file("vickrey.toml", &text);
    std::fs::create_dir(folder.path().join("campaigns.d")).unwrap();
    check(&["config", "check", path.to_str().unwrap()], 0, &["exchange with 2 DSPs"], &[]);
}

#[test]
fn ctrl_c_ends_the_demo_with_its_report() {
    let mut demo = Running::start(&mut vickrey(&["demo", "--duration", "60s", "--rate", "20"]));
    let mut lines = BufReader::new(demo.0.stdout.take().unwrap()).lines();
    // It runs once it has printed its address.
    let line =
        lines.find(|line| line.as_ref().unwrap().starts_with("metrics at")).unwrap().unwrap();
    assert!(line.contains("Ctrl-C"));
    // It reports from time to time, so traffic flows.
    assert!(lines.any(|line| line.unwrap().contains("auctions/s")));
    demo.signal("-INT");
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    let rest = rest.join("\n");
    assert!(rest.contains("revenue by seat") && rest.contains("stopped early"), "{rest}");
    assert_eq!(demo.wait().0, Some(0));
}

/// The words after `before` on the first line of stderr that has it.
fn logged(lines: &mut impl Iterator<Item = std::io::Result<String>>, before: &str) -> String {
    let line = lines.map(Result::unwrap).find(|line| line.contains(before)).unwrap();
    let (_, after) = line.split_once(before).unwrap();
    after.split([' ', ',', '/']).next().unwrap().to_owned()
}

/// Serve, DSPs and hammer as three processes, as in README; health and metrics; SIGTERM.
#[test]
fn serve_dsp_and_hammer_work_together() {
    work_together(&[]);
}

/// The configuration for the exchange names the authority to trust.
#[test]
fn they_work_together_over_tls() {
    work_together(&["--tls", "--write-ca", "ca.pem"]);
}

fn work_together(more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("dsps.toml");
    let mut dsps = Running::start(
        vickrey(&["dsp", "--count", "5", "--bid-percent", "100", "--write-config"])
            .current_dir(&folder)
            .arg(&tables)
            .args(more),
    );
    let mut first = String::new();
    BufReader::new(dsps.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("5 DSPs listen"), "{first}");
    // Even a busy machine must not refuse requests here.
    let text = "[runtime.overload]\nwait_max = \"10s\"\n\
                [exchange]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
        .to_owned()
        + &std::fs::read_to_string(&tables).unwrap();
    let path = folder.path().join("vickrey.toml");
    std::fs::write(&path, text).unwrap();
    let mut serve = Running::start(vickrey(&["serve", "--shards", "2", "--config"]).arg(&path));
    let mut log = BufReader::new(serve.0.stderr.take().unwrap()).lines();
    let address = logged(&mut log, "taking bid requests at http://");
    let admin = logged(&mut log, "metrics and health at http://");
    assert!(get(&admin, "/health/ready").starts_with("HTTP/1.1 200"));
    let url = format!("http://{address}/openrtb2/auction");
    let report = folder.path().join("report.json");
    let args = ["hammer", "exchange", "--url", &url, "--reference", "--count", "200"];
    let args = [&args[..], &["--errors-max", "0", "--json"]].concat();
    program::check(vickrey(&args).arg(&report), 0, &[], &[]);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    // Every request is answered. Whether the DSPs meet the deadline depends on the machine.
    let counted = |name: &str| report["counts"][name].as_u64().unwrap();
    assert_eq!(counted("ok_bid") + counted("no_bid"), 200, "{report}");
    assert!(counted("ok_bid") > 100, "{report}");
    let metrics = get(&admin, "/metrics");
    assert!(metrics.contains("vickrey_exchange_auctions_total{outcome=\"filled\"}"), "{metrics}");
    assert!(
        metrics.contains("vickrey_exchange_dsp_calls_total{dsp=\"dsp-4\",outcome=\"answered\"}")
    );
    serve.signal("-TERM");
    assert_eq!(serve.wait().0, Some(0));
    dsps.signal("-TERM");
    assert_eq!(dsps.wait().0, Some(0));
}

/// Commands that print a result can print it as JSON, and nothing else.
#[test]
fn results_come_as_json() {
    let json = |args: &[&str], exit: i32| {
        let output = run(args);
        let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(exit), "{args:?}: {err}");
        serde_json::from_slice::<serde_json::Value>(out)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", String::from_utf8_lossy(out)))
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vickrey.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[exchange]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let sound = json(&["config", "check", "--json", path], 0);
    assert_eq!((&sound["ok"], &sound["dsps"]), (&true.into(), &0.into()), "{sound}");
    assert!(sound["warnings"][0].as_str().unwrap().contains("nobody bids"), "{sound}");
    std::fs::write(&file, "[exchange]\nlisten = 1\ntmx = 2\n").unwrap();
    let wrong = json(&["config", "check", "--json", path], 64);
    assert_eq!((&wrong["ok"], wrong["problems"].as_array().unwrap().len()), (&false.into(), 2));
    assert_eq!(wrong["problems"][0]["key"], "exchange.listen");
    let behaviours = json(&["dsp", "--list-behaviours", "--json"], 0);
    assert!(behaviours["behaviours"].as_array().unwrap().len() > 3, "{behaviours}");
    let demo = json(&["demo", "--json", "--duration", "1s", "--dsps", "5", "--rate", "50"], 0);
    assert!(demo["summary"]["auctions"].as_u64().unwrap() > 0, "{demo}");
    assert_eq!(demo["replay"]["exact"], true);
    assert_eq!(demo["players"]["counts"]["bad_answers"], 0);
    assert!(demo["players"]["counts"]["hits"].as_u64().unwrap() > 0, "{demo}");
    let pacer = json(&["demo", "pacer", "--json", "--duration", "2s", "--rate", "5000"], 0);
    assert_eq!(pacer["ledger_nanos"], pacer["load"]["billed_nanos"]);
    assert!(pacer["ledger_nanos"].as_u64().unwrap() > 0, "{pacer}");
}

#[test]
fn the_pacer_s_demo_runs_to_its_end() {
    let output = run(&["demo", "pacer", "--duration", "5s", "--rate", "5000"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{out}{}", String::from_utf8_lossy(&output.stderr));
    for want in [
        "pacer at 127.0.0.1:",
        " decisions/s ",
        " authorised ",
        "batch latency ",
        "campaigns (USD)",
        "  sprint (asap) ",
        "ledger and bidder agree to the nano: ",
    ] {
        assert!(out.contains(want), "no `{want}` in:\n{out}");
    }
    assert!(!out.contains('\x1b'), "no terminal, no escape codes: {out:?}");
}
