//! The wait before a shard reads a request counts: against the request's deadline and against the
//! longest wait.

use std::time::{Duration, Instant};

use super::fixtures::{Server, answer, ask_for_bids, connect, dsp, table};
use crate::program::until;

/// The statuses of N requests that arrive while the process is stopped for 110 ms.
fn asked_while_stopped<const N: usize>(server: &Server, tmax_ms: u64) -> [u16; N] {
    let mut callers = [(); N].map(|()| connect(server.callers()));
    server.stop();
    for caller in &mut callers {
        ask_for_bids(caller, &format!(r#","tmax":{tmax_ms}"#));
    }
    let sent = Instant::now();
    until("time has passed", || sent.elapsed() > Duration::from_millis(110));
    server.signal("-CONT");
    callers.map(|mut caller| answer(&mut caller).status)
}

#[test]
fn a_request_that_expired_while_the_process_was_stopped_asks_nobody() {
    let patient = "overload = { wait_max = \"10s\" }\n";
    let server = Server::start_with(patient, &table("d", &dsp().to_string(), ""));
    let expired = "exchange_auctions_total{outcome=\"insufficient_time\"}";
    let asked = "exchange_dsp_calls_total{dsp=\"d\",outcome=\"no_bid\"}";
    // The kernel starts to timestamp packets shortly after it is enabled.
    until("the kernel stamps packets", || {
        assert_eq!(asked_while_stopped(&server, 100), [204]);
        server.scraped(expired) == 1
    });
    let before = server.scraped(asked);
    assert_eq!(asked_while_stopped(&server, 100), [204]);
    assert_eq!((server.scraped(expired), server.scraped(asked)), (2, before));
    assert_eq!(asked_while_stopped(&server, 15_000), [204]);
    assert_eq!((server.scraped(expired), server.scraped(asked)), (2, before + 1));
}

/// The first few start at once, and a few more may wait.
#[test]
fn a_burst_is_refused_in_part_and_readiness_says_so() {
    let impatient = "overload = { wait_max = \"1ms\" }\n";
    let server = Server::start_with(impatient, &table("d", &dsp().to_string(), ""));
    let ready = || server.ask("GET", "/health/ready", "");
    until("names are known", || ready().status == 200);
    assert_eq!(ready().body.trim(), "ready");
    let statuses = asked_while_stopped::<60>(&server, 15_000);
    assert!(statuses.iter().all(|status| [204, 503].contains(status)), "{statuses:?}");
    let refused = statuses.into_iter().filter(|status| *status == 503).count();
    assert!((1..60).contains(&refused), "{refused}");
    assert_eq!(server.scraped("requests_refused_total{reason=\"wait\"}"), refused as u64);
    let told = ready();
    let refused = "degraded; overload: shards that refused requests within 10 s: 1";
    assert!(told.status == 200 && told.body.starts_with(refused), "{told:?}");
}
