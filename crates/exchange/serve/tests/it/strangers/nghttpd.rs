//! nghttpd, nghttp2's server, as a DSP: it echoes requests, which have the right id and no bids.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};

use exchange_core::ResponseFate;
use exchange_core::record::CallOutcome;
use tempfile::TempDir;

use crate::fixtures::{Running, Setup, banner, listener};

/// A running nghttpd, killed on drop.
struct Nghttpd {
    child: Child,
    port: u16,
    /// Reads its log to the end.
    log: Option<JoinHandle<String>>,
    _folder: TempDir,
}

impl Nghttpd {
    /// On a free port, with these options. None without nghttpd, which is said.
    #[expect(clippy::print_stderr, reason = "says that it has not run")]
    fn start(options: &[&str]) -> Option<Self> {
        if Command::new("nghttpd").arg("--version").output().is_err() {
            eprintln!("SKIPPED: nghttpd is not on the PATH: `make tools` gets it on Debian");
            return None;
        }
        let folder = tempfile::tempdir().expect("a directory");
        // It takes no port 0, and another process may take a free port first.
        for _ in 0..20 {
            let port = listener().local_addr().expect("an address").port();
            let mut child = Command::new("nghttpd")
                .args(["--verbose", "--no-tls", "--echo-upload", "--address=127.0.0.1"])
                .args(options)
                .arg("--htdocs")
                .arg(folder.path())
                .arg(port.to_string())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("it runs");
            let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
            let mut line = String::new();
            output.read_line(&mut line).expect("text");
            if line.contains("listen") {
                let log = Some(thread::spawn(|| rest(output)));
                return Some(Self { child, port, log, _folder: folder });
            }
            child.wait().expect("it is ours");
        }
        panic!("nghttpd cannot listen on any port");
    }

    /// An exchange that calls it alone.
    fn exchange(&self) -> Running {
        let address = ([127, 0, 0, 1], self.port).into();
        Running::start(&Setup {
            dsps: &[(address, "http = \"2\"\nbreaker = false")],
            ..Setup::default()
        })
    }

    /// Ends it. Returns the frames and fields that it has received and sent.
    fn log(mut self) -> String {
        self.child.kill().expect("it is ours");
        self.log.take().expect("it is read once").join().expect("it is text")
    }
}

impl Drop for Nghttpd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

fn rest(mut output: BufReader<ChildStdout>) -> String {
    let mut text = String::new();
    output.read_to_string(&mut text).expect("text");
    text
}

/// What each of its answers is: whole, with the right id, and no bid response.
const ECHO: &str = "the bid response cannot be read: cur: is an array, expected a string";

/// Each of `callers` runs 10 auctions with a small request, and 10 with one of this many bytes more.
fn check(options: &[&str], callers: usize, bytes: usize) {
    let Some(dsp) = Nghttpd::start(options) else { return };
    let exchange = dsp.exchange();
    // With the first answer come its windows: until then, a connection has room for few calls.
    assert_eq!(exchange.auction(&banner("")).status, 204);
    for more in ["".to_owned(), format!(r#","site":{{"ref":"{}"}}"#, "x".repeat(bytes))] {
        let request = &banner(&more);
        thread::scope(|scope| {
            for _ in 0..callers {
                let mut caller = exchange.caller();
                scope.spawn(move || {
                    for _ in 0..10 {
                        assert_eq!(caller.post(request).status, 204);
                    }
                });
            }
        });
    }
    let calls = 1 + 20 * callers;
    let told = exchange.count_dsp(0, |dsp| dsp.errors.recent());
    assert!(told.iter().all(|(_, error)| error == ECHO), "{told:?}");
    assert_eq!(exchange.responses(0, ResponseFate::Malformed), calls as u64);
    assert_eq!(exchange.outcomes(0, CallOutcome::Malformed), calls as u64);
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.opened.value()), 1, "all on one connection");
    assert_eq!(exchange.open(0), 1, "which is kept");
    let log = dsp.log();
    assert_eq!(log.matches(":path: /bid").count(), calls);
    for wrong in ["RST_STREAM", "[id=2]"] {
        assert!(!log.contains(wrong), "{wrong} in {log}");
    }
}

/// With windows of 65,535 bytes, which it opens again by halves: a call of half a window always fits.
#[test]
fn nghttpd_as_a_dsp_over_http2() {
    check(&[], 1, 30_000);
}

#[test]
fn nghttpd_as_a_dsp_of_many_auctions_at_once() {
    check(&["--window-bits=20", "--connection-window-bits=24"], 8, 50_000);
}
