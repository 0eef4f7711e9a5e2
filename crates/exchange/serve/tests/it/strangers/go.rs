//! Go's net/http as a DSP over HTTP/2: many auctions at once, and a server that is replaced under
//! load.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use exchange_core::record::CallOutcome;

use crate::fixtures::{PATIENCE, Running, Setup, banner, until};

/// Callers that ask at the same time, each on a connection of its own.
const CALLERS: usize = 8;
/// Auctions of each of them.
const ROUNDS: usize = 10;

/// The program, built once. None without Go, which is said.
#[expect(clippy::print_stderr, reason = "says that it has not run")]
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        if Command::new("go").arg("version").output().is_err() {
            eprintln!("SKIPPED: go is not on the PATH");
            return None;
        }
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-dsp");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/strangers/go-dsp");
        let mut command = Command::new("go");
        // Otherwise an older Go downloads a newer one.
        command.env("GOTOOLCHAIN", "local").arg("build").arg("-o").arg(&path).arg(".");
        let output = command.current_dir(source).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(path)
    });
    built.as_deref()
}

/// A running `go-dsp`, killed on drop.
struct GoDsp {
    child: Child,
    input: ChildStdin,
    /// What it prints.
    lines: Receiver<String>,
    url: String,
    /// Further keys of its table.
    keys: String,
}

impl GoDsp {
    /// In clear text, with HTTP/2 by prior knowledge.
    fn start() -> Option<Self> {
        Some(Self::run(Command::new(program()?), "http", "http = \"2\"".to_owned()))
    }

    /// Under TLS, with HTTP/2 by ALPN. Its certificate and key are in `folder`.
    fn start_tls(folder: &Path) -> Option<Self> {
        let mut command = Command::new(program()?);
        let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
        let own = own.expect("a certificate");
        let certificate = own.cert.pem();
        let texts = [("certificate", &certificate), ("key", &own.signing_key.serialize_pem())];
        for (name, text) in texts {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("it is written");
            command.arg(format!("-{name}")).arg(path);
        }
        let keys = format!("ca = '''{certificate}'''\nhttp = \"auto\"");
        Some(Self::run(command, "https", keys))
    }

    fn run(mut command: Command, scheme: &str, keys: String) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it runs");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (print, lines) = channel();
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| print.send(line))
        });
        let mut dsp = Self { child, input, lines, url: String::new(), keys };
        dsp.url = format!("{scheme}://{}/bid", dsp.line());
        dsp
    }

    /// Its next line.
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("it prints a line")
    }

    /// Sends it a line.
    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
    }

    /// An exchange that calls it alone.
    fn exchange(&self) -> Running {
        let Self { url, keys, .. } = self;
        let rest = format!("[[dsp]]\nid = \"d0\"\nurl = \"{url}\"\n{keys}\n");
        Running::start(&Setup { rest: &rest, ..Setup::default() })
    }
}

impl Drop for GoDsp {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// Each caller runs [`ROUNDS`] auctions.
fn load(exchange: &Running, request: &str) {
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            let mut caller = exchange.caller();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    assert_eq!(caller.post(request).price(), "1");
                }
            });
        }
    });
}

/// A call over HTTP/1.1 would be refused, and a second connection counted.
fn check(dsp: &GoDsp) {
    let exchange = dsp.exchange();
    // With the first answer come its windows: until then, a connection has room for few calls.
    assert_eq!(exchange.auction(&banner("")).price(), "1");
    load(&exchange, &banner(""));
    load(&exchange, &banner(&format!(r#","site":{{"ref":"{}"}}"#, "x".repeat(50_000))));
    let calls = 1 + 2 * CALLERS * ROUNDS;
    assert_eq!(exchange.outcomes(0, CallOutcome::Answered), calls as u64);
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.opened.value()), 1, "all on one connection");
    assert_eq!(exchange.open(0), 1, "which is kept");
}

#[test]
fn go_as_a_dsp_over_http2() {
    let Some(dsp) = GoDsp::start() else { return };
    check(&dsp);
}

#[test]
fn go_as_a_dsp_over_http2_under_tls() {
    let folder = tempfile::tempdir().expect("a directory");
    let Some(dsp) = GoDsp::start_tls(folder.path()) else { return };
    check(&dsp);
}

/// Runs auctions until the second server bids. Returns their count.
fn auctions_until_replaced(exchange: &Running) -> usize {
    let mut caller = exchange.caller();
    let mut asked = 1;
    while caller.post(&banner("")).price() == "1" {
        asked += 1;
    }
    asked
}

/// `Shutdown` sends GOAWAY while calls wait for answers and others arrive. The server answers the
/// former, and drops those that came after the last stream of its GOAWAY.
#[test]
fn a_go_server_that_is_replaced_loses_no_call() {
    let Some(mut dsp) = GoDsp::start() else { return };
    let exchange = dsp.exchange();
    let request = &banner("");
    assert_eq!(exchange.auction(request).price(), "1");
    dsp.tell(&format!("hold {CALLERS}"));
    assert_eq!(dsp.line(), "holding");
    let asked = thread::scope(|scope| {
        let ask = |_| scope.spawn(|| exchange.auction(request).price());
        let held: Vec<_> = (0..CALLERS).map(ask).collect();
        assert_eq!(dsp.line(), "held");
        let ask = |_| scope.spawn(|| auctions_until_replaced(&exchange));
        let callers: Vec<_> = (0..CALLERS).map(ask).collect();
        let answered = || exchange.outcomes(0, CallOutcome::Answered);
        until("the load is under way", || answered() > 2 * CALLERS as u64);
        dsp.tell("replace");
        let asked = callers.into_iter().map(|caller| caller.join().expect("all are answered"));
        let asked = asked.sum::<usize>();
        dsp.tell("release");
        for auction in held {
            assert_eq!(auction.join().expect("it is answered"), "1", "by the server that has it");
        }
        asked
    });
    assert_eq!(dsp.line(), "replaced");
    assert_eq!(exchange.outcomes(0, CallOutcome::Answered), (1 + CALLERS + asked) as u64);
    // A call is repeated at most once, and only those in flight at the GOAWAY are.
    let repeated = exchange.count_dsp(0, |dsp| dsp.retries.value());
    assert!(repeated <= CALLERS as u64, "{repeated}");
    exchange.until_open(0, 1);
    assert_eq!(exchange.auction(request).price(), "2");
}
