//! A small service as in "Add a service" of `docs/ARCHITECTURE.md`: it echoes over HTTP and TCP.

mod client;
mod echo;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::{
    Port, Ports, RunningService, Service, ServiceError, Services, Shell, ShellConfig, ShellError,
    ShellFile, ShellOptions, Startup,
};
use crate::config::{Loaded, Section, load_tracked, parse, parse_loaded};
use crate::control::Control;
use crate::listen::listen;
use crate::logging::{self, LoggingOptions};
use crate::shutdown::Shutdown;
use echo::Echo;

const PATIENCE: Duration = Duration::from_secs(20);

/// A shell with echo listeners on free ports.
struct Rig {
    shell: Shell,
    shutdown: Shutdown,
    http: SocketAddr,
    tcp: SocketAddr,
}

fn services() -> Services {
    Services::default().with::<Echo>()
}

fn open() -> (TcpListener, SocketAddr) {
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Starts `services` with the configuration `text`.
fn start(
    services: &Services,
    text: &str,
    listeners: Vec<TcpListener>,
) -> Result<(Shell, Shutdown), ShellError> {
    let read = |s: &mut Section<'_>| ShellConfig::read(services, s);
    let loaded = parse_loaded("test.toml", text, read).expect("a sound configuration");
    start_loaded(services, loaded, None, listeners)
}

fn start_loaded(
    services: &Services,
    loaded: Loaded<ShellConfig>,
    file: Option<ShellFile<'_>>,
    listeners: Vec<TcpListener>,
) -> Result<(Shell, Shutdown), ShellError> {
    let shutdown = Shutdown::new(PATIENCE);
    let options = ShellOptions {
        effective: loaded.effective,
        file,
        folder: Path::new(""),
        listeners,
        shutdown: shutdown.clone(),
        control: Control::start().expect("a thread"),
    };
    Ok((Shell::start(services, loaded.value, options)?, shutdown))
}

impl Rig {
    /// Echoes, with more keys in its section.
    fn start(keys: &str) -> Self {
        let ((http_listener, http), (tcp_listener, tcp)) = (open(), open());
        let text = format!(
            "[runtime]\nshards = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [echo]\nhttp = \"{http}\"\ntcp = \"{tcp}\"\n{keys}\n"
        );
        let (shell, shutdown) =
            start(&services(), &text, vec![http_listener, tcp_listener]).expect("it starts");
        Self { shell, shutdown, http, tcp }
    }

    fn stop(self) {
        let started = Instant::now();
        let page = loop {
            let page = ask(self.shell.admin_address(), "GET /metrics HTTP/1.1", "");
            if page.contains("vickrey_connections_open 0") {
                break page;
            }
            assert!(started.elapsed() < PATIENCE, "a connection stays open: {page}");
        };
        assert!(page.contains("vickrey_task_panics_total 0"), "{page}");
        self.shutdown.begin();
        self.shell.join().expect("it ends well");
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    stream
}

/// Sends a request that closes its connection; returns the whole response.
fn ask(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = connect(address);
    let length = body.len();
    let request = format!(
        "{head}\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("an open connection");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_service_echoes_over_http_and_over_tcp_on_the_same_shards() {
    let rig = Rig::start("");
    let answer = ask(rig.http, "POST /echo HTTP/1.1", "as it was");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("as it was"), "{answer}");
    let mut stream = connect(rig.tcp);
    for line in ["first\n", "second\n"] {
        stream.write_all(line.as_bytes()).expect("an open connection");
        let mut echoed = vec![0; line.len()];
        stream.read_exact(&mut echoed).expect("an echo");
        assert_eq!(echoed, line.as_bytes());
    }
    drop(stream);
    let admin = rig.shell.admin_address();
    let page = ask(admin, "GET /metrics HTTP/1.1", "");
    assert!(page.contains("vickrey_echoes_total 3"), "{page}");
    assert!(
        page.contains("vickrey_connections_accepted_total 2"),
        "limits are the shell's: {page}"
    );
    let shown = ask(admin, "GET /v1/echo HTTP/1.1", "");
    assert!(shown.ends_with("{\"echoes\":3}\n") || shown.ends_with("{\"echoes\":3}"), "{shown}");
    assert!(ask(admin, "GET /health/ready HTTP/1.1", "").ends_with("ready\n"));
    rig.stop();
}

#[test]
fn a_malformed_head_is_answered_by_the_service_and_closes_the_connection() {
    let rig = Rig::start("");
    let mut stream = connect(rig.http);
    stream.write_all(b"GET /echo HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n").expect("it is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    rig.stop();
}

/// The listener's idle timeout is a fraction of a second: request limits do not apply to an
/// upgraded connection, and a drain lets the service end it.
#[test]
fn an_upgraded_connection_outlives_the_limits_of_a_request() {
    let rig = Rig::start("idle_timeout = \"50ms\"");
    let mut upgraded = connect(rig.http);
    let head = "GET /lines HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: lines\r\n\r\n";
    // Bytes of the new protocol arrive with the request.
    upgraded.write_all(format!("{head}early\n").as_bytes()).expect("it is open");
    let mut answer = Vec::new();
    while !answer.ends_with(b"early\n") {
        let mut byte = [0];
        upgraded.read_exact(&mut byte).expect("an answer and an echo");
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    // Meanwhile another idle connection closes.
    let mut idle = connect(rig.http);
    assert_eq!(idle.read(&mut [0]).expect("its end"), 0);
    upgraded.write_all(b"late\n").expect("it is open");
    let mut echoed = [0; 5];
    upgraded.read_exact(&mut echoed).expect("an echo");
    assert_eq!(&echoed, b"late\n");
    drop(upgraded);
    rig.stop();
}

#[test]
fn an_upgrade_that_is_refused_leaves_the_connection_to_http() {
    let rig = Rig::start("");
    let mut stream = connect(rig.http);
    let refused =
        "GET /lines?no HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: lines\r\n\r\n";
    stream.write_all(refused.as_bytes()).expect("it is open");
    let closing =
        "POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 426");
    stream.write_all(closing.as_bytes()).expect("it is open");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("another answer");
    assert!(rest.ends_with("ok"), "{rest}");
    rig.stop();
}

/// The service stops reading if the client does, so that its memory stays bounded.
#[test]
fn a_streamed_body_is_echoed_piece_by_piece() {
    let rig = Rig::start("");
    let mut stream = connect(rig.http);
    let head = "POST /stream HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is open");
    let mut answer = Vec::new();
    for piece in ["one", "two"] {
        let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
        stream.write_all(chunk.as_bytes()).expect("it is open");
        // Each piece is echoed before the next one is sent.
        while !answer.ends_with(format!("{piece}\r\n").as_bytes()) {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an echo");
            answer.push(byte[0]);
        }
    }
    stream.write_all(b"0\r\n\r\n").expect("it is open");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the end");
    assert_eq!(rest, "0\r\n\r\n");
    rig.stop();
}

#[test]
fn a_request_under_way_ends_in_the_drain() {
    let rig = Rig::start("");
    let mut stream = connect(rig.http);
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is open");
    let echo = rig.shell.service::<Echo>().expect("it runs");
    echo.until_begun(1);
    rig.shutdown.begin();
    let (ended, end) = mpsc::channel();
    let joining = std::thread::spawn(move || ended.send(rig.shell.join().is_ok()));
    stream.write_all(b"last").expect("it is open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    assert!(answer.ends_with("last"), "{answer}");
    assert!(end.recv_timeout(PATIENCE).expect("the drain ends"));
    joining.join().expect("no panic").expect("it is heard");
    assert!(echo.is_closed(), "what runs once in a process ends behind the shards");
}

#[test]
fn http_2_is_spoken_where_client_and_service_agree_on_it() {
    let (certificate, rig) = client::with_tls(|keys| Rig::start(&keys));
    let (status, body) = client::post_http2(rig.http, &certificate, "over two");
    assert_eq!((status, body.as_str()), (200, "over two"));
    rig.stop();
}

/// A service that does not implement `reload` applies no change, and the API says so.
#[test]
fn a_changed_key_needs_a_restart_unless_the_service_reloads() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("echo.toml");
    let ((http_listener, http), (tcp_listener, tcp)) = (open(), open());
    let write = |idle_timeout: &str| {
        let text = format!(
            "[log]\nfilter = \"off\"\n[runtime]\nshards = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [echo]\nhttp = \"{http}\"\ntcp = \"{tcp}\"\nidle_timeout = \"{idle_timeout}\"\n"
        );
        std::fs::write(&path, text).expect("a file");
    };
    write("1s");
    let read = |s: &mut Section<'_>| ShellConfig::read(&services(), s);
    let (loaded, sources) = load_tracked(&path, read);
    let loaded = loaded.expect("a sound configuration");
    let silent = parse("log.toml", "filter = \"off\"", LoggingOptions::read).expect("a filter");
    let logging = logging::start(silent).expect("no other test starts it");
    let file = ShellFile { path: &path, sources, digest: loaded.digest, read, logging };
    let listeners = vec![http_listener, tcp_listener];
    let (shell, shutdown) =
        start_loaded(&services(), loaded, Some(file), listeners).expect("it starts");
    write("2s");
    let answer = ask(shell.admin_address(), "POST /v1/reload HTTP/1.1", "");
    assert!(answer.contains("\"needs_restart\":[\"echo.idle_timeout\"]"), "{answer}");
    shutdown.begin();
    shell.join().expect("it ends well");
}

const NUMBER: Port<u32> = Port::new("number");
const TEXT: Port<&str> = Port::new("text");

/// A service without keys, the ports that it names, and what its start does with them.
macro_rules! service {
    ($service:ident, $name:literal, [$($list:ident: $port:ident),*], $start:expr) => {
        service!($service, $name, [$($list: $port),*], $start, runs_alone: true);
    };
    (
        $service:ident, $name:literal, [$($list:ident: $port:ident),*], $start:expr,
        runs_alone: $runs_alone:literal
    ) => {
        struct $service;

        impl RunningService for $service {}

        impl Service for $service {
            const NAME: &'static str = $name;
            $(const $list: &'static [&'static str] = &[$port.name()];)*
            const RUNS_ALONE: bool = $runs_alone;
            type Config = ();

            fn read(s: &mut Section<'_>) -> Option<()> {
                s.table(Self::NAME, "A table.", |_| ())
            }

            fn start((): (), startup: &mut Startup<'_>) -> Result<Arc<Self>, ServiceError> {
                let start: fn(&mut Ports) = $start;
                start(startup.ports);
                Ok(Arc::new(Self))
            }
        }
    };
}

service!(Needs, "needs", [NEEDS: NUMBER], |ports| assert_eq!(ports.take(&NUMBER), Some(7)));
service!(Uses, "uses", [USES: NUMBER], |ports| assert_eq!(ports.take(&NUMBER), None));
service!(NeedsAndUses, "both", [NEEDS: NUMBER, USES: TEXT], |ports| {
    assert_eq!((ports.take(&NUMBER), ports.take(&TEXT)), (Some(7), Some("seven")));
});
service!(Offers, "offers", [OFFERS: NUMBER], |ports| ports.offer(&NUMBER, 7));
service!(OffersText, "offers-text", [OFFERS: TEXT], |ports| ports.offer(&TEXT, "seven"));
service!(ClonesText, "clones", [USES: TEXT], |ports| assert_eq!(ports.get(&TEXT), Some("seven")));
service!(ServesOthers, "serves", [OFFERS: TEXT], |ports| ports.offer(&TEXT, "seven"), runs_alone: false);

/// Starts and ends the services of these sections.
fn run(services: &Services, sections: &str) -> Result<(), ShellError> {
    let text = format!("[admin]\nlisten = \"127.0.0.1:0\"\n{sections}");
    let (shell, shutdown) = start(services, &text, Vec::new())?;
    shutdown.begin();
    shell.join()
}

#[test]
fn services_start_after_those_whose_ports_they_use() {
    let services = Services::default().with::<Needs>().with::<Uses>().with::<NeedsAndUses>();
    let services = services.with::<Offers>().with::<OffersText>();
    let check = |sections: &str| run(&services, sections);
    check("[needs]\n[offers]\n").expect("in any order of the sections");
    check("[both]\n[offers]\n[offers-text]\n").expect("after every service whose ports it uses");
    check("[uses]\n").expect("it does without");
    let refused = check("[needs]\n").expect_err("nobody offers it").to_string();
    assert_eq!(refused, "[needs] needs number: add [offers]");
    let refused = check("").expect_err("there is nothing to run").to_string();
    assert_eq!(
        refused,
        "the configuration switches no service on: add one of [needs], [uses], [both], [offers], \
         [offers-text]"
    );
}

#[test]
fn a_port_is_cloned_by_several_services() {
    let services = Services::default().with::<ClonesText>().with::<NeedsAndUses>();
    let services = services.with::<Offers>().with::<OffersText>();
    run(&services, "[clones]\n[both]\n[offers]\n[offers-text]\n").expect("one clones, one takes");
    let (mut ports, text) = (Ports::default(), Some("seven"));
    assert_eq!(ports.get(&TEXT), None);
    ports.offer(&TEXT, "seven");
    assert_eq!((ports.get(&TEXT), ports.get(&TEXT), ports.take(&TEXT)), (text, text, text));
}

#[test]
fn a_service_that_only_serves_others_does_not_run_alone() {
    let services = Services::default().with::<ServesOthers>().with::<ClonesText>();
    run(&services, "[serves]\n[clones]\n").expect("it serves another");
    let refused = run(&services, "[serves]\n").expect_err("it serves nobody").to_string();
    assert_eq!(refused, "the configuration switches no service on: add one of [clones]");
}

#[test]
fn a_port_in_use_starts_nothing() {
    let (_held, address) = open();
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[echo]\nhttp = \"{address}\"\ntcp = \"127.0.0.1:0\"\n"
    );
    let refused = start(&services(), &text, Vec::new()).err().expect("the port is taken");
    assert!(refused.to_string().contains("is in use"), "{refused}");
    assert_eq!(Echo::started_at(address), 0);
}
