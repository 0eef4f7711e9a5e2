//! Time that passes before a shard turns to a request counts: against the request's deadline, and against
//! how long a request may wait.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::fixtures::{Server, answer, ask_for_bids, connect, dsp, table, until};

/// The answers to so many requests that arrive while the process is stopped, and stays so for 110 ms.
fn asked_while_stopped<const N: usize>(server: &Server, tmax_ms: u64) -> [u16; N] {
    let mut callers = [(); N].map(|()| connect(server.callers()));
    server.signal("-STOP");
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
    let patient = "overload = { wait_max = \"10s\", burst_wait_max = \"10s\" }\n";
    let server = Server::start_with(patient, &table("d", &dsp().to_string(), ""));
    let expired = "exchange_auctions_total{outcome=\"insufficient_time\"}";
    let asked = "exchange_dsp_calls_total{dsp=\"d\",outcome=\"no_bid\"}";
    // The kernel begins to stamp packets a moment after it is asked to.
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

/// The first few of a burst begin at once; the others would have to wait longer still.
#[test]
fn a_burst_that_waited_for_a_stopped_process_is_refused_in_part_and_readiness_says_so() {
    let server = Server::start(&table("d", &dsp().to_string(), ""));
    let ready = || server.ask("GET", "/health/ready", "");
    until("names are known", || ready().status == 200);
    assert_eq!(ready().body.trim(), "ready");
    let refused = Cell::new(0);
    until("the kernel stamps packets", || {
        let statuses = asked_while_stopped::<20>(&server, 15_000);
        assert!(statuses.iter().all(|status| [204, 503].contains(status)), "{statuses:?}");
        refused.set(statuses.into_iter().filter(|status| *status == 503).count());
        refused.get() > 0
    });
    let refused = refused.get();
    assert!(refused < 20, "those with none ahead are taken on");
    assert_eq!(server.scraped("requests_refused_total{reason=\"wait\"}"), refused as u64);
    let told = ready();
    let refused = "ready; overload: shards that refused requests within 10 s: 1";
    assert!(told.status == 200 && told.body.starts_with(refused), "{told:?}");
}
