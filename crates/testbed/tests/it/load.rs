//! The load generator on a protocol that is not HTTP: frames of four requests each, echoed over TCP.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use testbed::load::{
    self, CallAnswer, CallFailure, LoadLength, LoadMode, LoadOptions, Verdict, Workload,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Requests in one frame, a byte each.
const BATCH: usize = 4;

/// Calls frames of numbered requests.
struct EchoLoad {
    address: SocketAddr,
    next: Cell<u8>,
    echoed: Cell<u64>,
}

/// The answer to a frame.
struct EchoAnswer {
    is_echo: bool,
}

impl CallAnswer for EchoAnswer {
    fn verdict(&self) -> Verdict<'_> {
        if self.is_echo { Verdict::Valid } else { Verdict::Invalid("other bytes") }
    }

    fn status(&self) -> u16 {
        0
    }

    fn bytes(&self) -> u64 {
        BATCH as u64
    }

    fn quote(&self) -> String {
        String::new()
    }
}

impl EchoLoad {
    async fn exchange(
        &self,
        connection: &mut Option<TcpStream>,
        request: [u8; BATCH],
    ) -> io::Result<EchoAnswer> {
        let stream = connection.as_mut().expect("it was opened");
        stream.write_all(&request).await?;
        let mut answer = [0; BATCH];
        stream.read_exact(&mut answer).await?;
        Ok(EchoAnswer { is_echo: answer == request })
    }
}

impl Workload for EchoLoad {
    type Connection = Option<TcpStream>;
    type Request = [u8; BATCH];
    type Answer = EchoAnswer;
    type Outcomes = u64;

    fn request(&self) -> [u8; BATCH] {
        let first = self.next.get();
        self.next.set(first.wrapping_add(1));
        [first; BATCH]
    }

    fn request_bytes(request: &[u8; BATCH]) -> u64 {
        request.len() as u64
    }

    async fn open(&self, connection: &mut Option<TcpStream>) -> Result<(), CallFailure> {
        let opened = TcpStream::connect(self.address).await;
        *connection = Some(opened.map_err(|error| CallFailure::Unconnected(error.to_string()))?);
        Ok(())
    }

    async fn call(
        &self,
        connection: &mut Option<TcpStream>,
        request: [u8; BATCH],
    ) -> Result<EchoAnswer, CallFailure> {
        if connection.is_none() {
            self.open(connection).await?;
        }
        let answer = self.exchange(connection, request).await;
        answer.map_err(|error| {
            *connection = None;
            CallFailure::Broken(error.to_string())
        })
    }

    fn count(&self, answer: &EchoAnswer) {
        self.echoed.set(self.echoed.get() + if answer.is_echo { BATCH as u64 } else { 0 });
    }

    fn outcomes(&self) -> u64 {
        self.echoed.get()
    }
}

#[test]
fn a_load_need_not_be_http_nor_one_request_a_call() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut frame = [0; BATCH];
                while stream.read_exact(&mut frame).is_ok() {
                    match frame[0] {
                        9 => return, // Closes without an answer.
                        10 => frame[0] = 11,
                        _ => (),
                    }
                    stream.write_all(&frame).expect("the peer reads");
                }
            });
        }
    });
    for mode in [LoadMode::Closed { in_flight: 3 }, LoadMode::Open { rate_per_s: 2_000 }] {
        let workload = EchoLoad { address, next: Cell::new(0), echoed: Cell::new(0) };
        let options = LoadOptions {
            mode,
            warm_up: Duration::ZERO,
            length: LoadLength::Count(100),
            timeout: Duration::from_secs(20),
            ..LoadOptions::default()
        };
        let target = address.to_string();
        let report = load::run(&options, &target, workload, Arc::default(), &mut |_| ());
        let report = report.expect("a report");
        let calls = &report.counts.calls;
        assert_eq!((calls.sent, calls.valid, calls.invalid, calls.broken), (100, 98, 1, 1));
        assert_eq!((report.counts.outcomes, calls.request_bytes), (4 * 98, 4 * 100));
        assert_eq!(report.latency_us.map(|latency| latency.p50 > 0), Some(true));
        assert!(report.problems.iter().any(|problem| problem == "other bytes"));
    }
}
