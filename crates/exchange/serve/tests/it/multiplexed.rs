//! DSPs over HTTP/2: many auctions on one connection, and what ends a call.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use exchange_core::record::CallOutcome;
use exchange_serve::ExchangeConfig;
use http2::Http2ErrorCode;
use http2::frame::{
    SETTING_INITIAL_WINDOW_SIZE, SETTING_MAX_CONCURRENT_STREAMS, write_go_away, write_headers,
    write_ping, write_reset, write_window_update,
};

use crate::fixtures::{
    Dsp, Http2Dsp, Http2Script, Running, Script, Sending, Setup, Step, StreamRequest, banner, bid,
    bids, until,
};

/// An exchange whose first DSP is spoken to in HTTP/2.
fn exchange(dsp: &Http2Dsp, others: &[&Dsp]) -> Running {
    exchange_with(dsp, others, |config| config.pool.drain_timeout = Duration::from_secs(60))
}

fn exchange_with(dsp: &Http2Dsp, others: &[&Dsp], tune: fn(&mut ExchangeConfig)) -> Running {
    let mut dsps = vec![(dsp.address, "http = \"2\"\nbreaker = false")];
    dsps.extend(others.iter().map(|dsp| (dsp.address, "")));
    Running::start(&Setup { dsps: &dsps, tune, ..Setup::default() })
}

fn bidding() -> Http2Dsp {
    Http2Dsp::answering(|request| request.ok(&bids(&bid("2"))))
}

/// The last errors of the first DSP.
fn errors(exchange: &Running) -> String {
    let errors = exchange.count_dsp(0, |dsp| dsp.errors.recent());
    errors.into_iter().map(|(_, text)| text + "\n").collect()
}

#[test]
fn auctions_follow_each_other_on_one_connection() {
    let dsp = bidding();
    let exchange = exchange(&dsp, &[]);
    for _ in 0..30 {
        assert_eq!(exchange.auction(&banner("")).price(), "2");
    }
    assert_eq!((dsp.accepted(), exchange.open(0)), (1, 1));
    let requests = dsp.requests();
    let streams: Vec<_> = requests.iter().map(|request| request.stream).collect();
    assert_eq!(streams, (1..60).step_by(2).collect::<Vec<_>>());
    // The same head each time, whether its fields are sent or named by their indexes.
    for request in &requests {
        let length = format!("content-length: {}", request.body.len());
        let want = [
            ":method: POST",
            ":scheme: http",
            &format!(":authority: {}", dsp.address),
            ":path: /bid",
            "content-type: application/json",
            "accept: application/json",
            "x-openrtb-version: 2.6",
            &length,
        ];
        assert_eq!(request.fields, want);
    }
}

/// Twenty auctions wait for answers at once, and the last one asked is answered first.
#[test]
fn answers_reach_their_own_auctions_in_any_order() {
    const AUCTIONS: usize = 20;
    let mut waiting: Vec<StreamRequest> = Vec::new();
    let dsp = Http2Dsp::answering(move |request| {
        waiting.push(request.clone());
        if waiting.len() < AUCTIONS {
            return Vec::new();
        }
        let price = |request: &StreamRequest| {
            let json: serde_json::Value = serde_json::from_str(&request.body).expect("JSON");
            json["site"]["id"].as_str().expect("an id").to_owned()
        };
        let answer = |request: StreamRequest| request.ok(&bids(&bid(&price(&request))));
        waiting.drain(..).rev().flat_map(answer).collect()
    });
    let exchange = exchange(&dsp, &[]);
    thread::scope(|scope| {
        for auction in 1..=AUCTIONS {
            let mut caller = exchange.caller();
            scope.spawn(move || {
                let more = format!(r#","site":{{"id":"{auction}"}},"tmax":10000"#);
                assert_eq!(caller.post(&banner(&more)).price(), auction.to_string());
            });
        }
    });
    assert_eq!(dsp.accepted(), 1);
}

#[test]
fn a_call_that_the_dsp_did_not_process_is_repeated_once() {
    let mut asked = HashMap::<String, usize>::new();
    let dsp = Http2Dsp::answering(move |request| {
        let times = asked.entry(request.id()).or_default();
        *times += 1;
        if *times == 1 || request.body.contains("\"always\"") {
            let mut out = Vec::new();
            write_reset(&mut out, request.stream, Http2ErrorCode::REFUSED_STREAM);
            return out;
        }
        request.ok(&bids(&bid("2")))
    });
    let exchange = exchange(&dsp, &[]);
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.retries.value()), 1);
    assert_eq!(exchange.auction(&banner(r#","ext":{"refuse":"always"}"#)).status, 204);
    assert_eq!(exchange.outcomes(0, CallOutcome::Reset), 1);
    assert_eq!(dsp.requests().len(), 4);
    assert!(errors(&exchange).contains("did not process"), "{}", errors(&exchange));
}

#[test]
fn go_away_moves_calls_to_another_connection() {
    let mut first: Option<StreamRequest> = None;
    let dsp = Http2Dsp::answering(move |request| {
        if request.connection > 0 {
            return request.ok(&bids(&bid("2")));
        }
        let Some(first) = &first else {
            first = Some(request.clone());
            return Vec::new();
        };
        // The second call is not processed, the first one is answered.
        let mut out = Vec::new();
        write_go_away(&mut out, first.stream, Http2ErrorCode::NO_ERROR);
        out.extend(first.ok(&bids(&bid("1"))));
        out
    });
    let exchange = exchange(&dsp, &[]);
    let request = banner(r#","tmax":10000"#);
    thread::scope(|scope| {
        let one = scope.spawn(|| exchange.auction(&request).price());
        dsp.until_requests(1);
        assert_eq!(exchange.auction(&request).price(), "2");
        assert_eq!(one.join().expect("it is answered"), "1");
    });
    assert_eq!(exchange.auction(&request).price(), "2");
    exchange.until_open(0, 1);
    assert_eq!(dsp.accepted(), 2);
    assert_eq!(exchange.outcomes(0, CallOutcome::Answered), 3);
}

/// The DSP may have seen them: a repeated call could be a second bid.
#[test]
fn a_lost_connection_fails_its_calls_without_repeating_them() {
    const AUCTIONS: usize = 40;
    let mut waiting = 0;
    let on_request = move |request: &StreamRequest| {
        waiting += 1;
        match waiting {
            AUCTIONS => Sending { closes: true, ..Sending::default() },
            more if more > AUCTIONS => request.ok(&bids(&bid("2"))).into(),
            _ => Sending::default(),
        }
    };
    let dsp = Http2Dsp::start(Http2Script { settings: Vec::new(), window: 0, on_request });
    let exchange = exchange(&dsp, &[]);
    let request = banner(r#","tmax":10000"#);
    thread::scope(|scope| {
        for _ in 0..AUCTIONS {
            scope.spawn(|| assert_eq!(exchange.auction(&request).status, 204));
        }
    });
    assert_eq!(exchange.outcomes(0, CallOutcome::Reset), AUCTIONS as u64);
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.retries.value()), 0);
    assert_eq!(exchange.auction(&request).price(), "2");
    assert_eq!((dsp.accepted(), dsp.requests().len()), (2, AUCTIONS + 1));
}

#[test]
fn a_late_stream_is_reset_and_its_connection_goes_on() {
    let mut first = true;
    let dsp = Http2Dsp::answering(move |request| {
        if std::mem::take(&mut first) { Vec::new() } else { request.ok(&bids(&bid("2"))) }
    });
    let exchange = exchange(&dsp, &[]);
    assert_eq!(exchange.auction(&banner(r#","tmax":60"#)).status, 204);
    assert_eq!(exchange.outcomes(0, CallOutcome::Late), 1);
    assert_eq!(dsp.until_resets(1), [(1, Http2ErrorCode::CANCEL)]);
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.streams_reset.value()), 1);
    // What comes for it all the same is ignored.
    dsp.send(0, &dsp.requests()[0].ok(&bids(&bid("9"))));
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    assert_eq!(dsp.accepted(), 1);
}

/// Beyond what servers take for an attack, streams are left alone.
#[test]
fn many_late_streams_are_drained() {
    const LATE: usize = 160;
    let dsp = Http2Dsp::answering(|_| Vec::new());
    let exchange = exchange(&dsp, &[]);
    // Its settings come, so that all others are on one connection.
    assert_eq!(exchange.auction(&banner(r#","tmax":200"#)).status, 204);
    thread::scope(|scope| {
        for _ in 0..LATE {
            scope.spawn(|| assert_eq!(exchange.auction(&banner(r#","tmax":2000"#)).status, 204));
        }
    });
    assert_eq!(exchange.outcomes(0, CallOutcome::Late), LATE as u64 + 1);
    // A hundred at once; twenty a second more.
    let resets = dsp.until_resets(100).len();
    assert!(resets < 140, "{resets}");
    // Answers that come now are read and dropped.
    let requests = dsp.requests();
    let last = requests.last().expect("there are some");
    dsp.send(last.connection, &last.ok(&bids(&bid("9"))));
    until("it is drained, or was reset", || {
        exchange.drained(0) > 0
            || dsp.until_resets(0).iter().any(|(stream, _)| *stream == last.stream)
    });
}

#[test]
fn a_window_without_room_refuses_calls_to_this_dsp_only() {
    let settings = vec![(SETTING_INITIAL_WINDOW_SIZE, 0)];
    let on_request = |request: &StreamRequest| request.ok(&bids(&bid("2"))).into();
    let dsp = Http2Dsp::start(Http2Script { settings, window: 0, on_request });
    let other = Dsp::bidding("1");
    let exchange = exchange(&dsp, &[&other]);
    // Requests that leave before the SETTINGS come are answered.
    until("its settings have come", || {
        exchange.auction(&banner(""));
        exchange.outcomes(0, CallOutcome::Saturated) > 0
    });
    for _ in 0..5 {
        assert_eq!(exchange.auction(&banner("")).price(), "1");
    }
    assert!(errors(&exchange).contains("window is too small"), "{}", errors(&exchange));
}

/// One that no window will ever hold must not open one connection after the other.
#[test]
fn a_request_beyond_the_window_opens_no_more_connections() {
    let dsp = bidding();
    let exchange = exchange(&dsp, &[]);
    let large = banner(&format!(r#","site":{{"ref":"{}"}}"#, "x".repeat(70_000)));
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    for _ in 0..5 {
        assert_eq!(exchange.auction(&large).status, 204);
    }
    assert_eq!(exchange.outcomes(0, CallOutcome::Saturated), 5);
    assert_eq!(exchange.auction(&banner("")).price(), "2");
    assert_eq!(dsp.accepted(), 1);
}

/// nghttpd gives a window of 65,535 bytes back once half of it is used, so that a connection without
/// calls may have too little left.
#[test]
fn a_window_that_is_used_up_costs_its_connection() {
    let dsp = bidding();
    let exchange = exchange(&dsp, &[]);
    let large = banner(&format!(r#","site":{{"ref":"{}"}}"#, "x".repeat(50_000)));
    for connections in 1..=3 {
        assert_eq!(exchange.auction(&large).price(), "2");
        assert_eq!(dsp.accepted(), connections);
    }
    assert_eq!(exchange.outcomes(0, CallOutcome::Saturated), 0);
    exchange.until_open(0, 1);
}

#[test]
fn calls_beyond_the_stream_limit_take_another_connection() {
    let settings = vec![(SETTING_MAX_CONCURRENT_STREAMS, 1)];
    let mut waiting: Vec<StreamRequest> = Vec::new();
    let on_request = move |request: &StreamRequest| {
        waiting.push(request.clone());
        Sending::default()
    };
    let dsp = Http2Dsp::start(Http2Script { settings, window: 0, on_request });
    let exchange = exchange(&dsp, &[]);
    // The first call learns of the limit.
    let answer = |index: usize| {
        let request = dsp.until_requests(index + 1)[index].clone();
        dsp.send(request.connection, &request.ok(&bids(&bid("2"))));
        request.connection
    };
    let request = banner(r#","tmax":10000"#);
    thread::scope(|scope| {
        let first = scope.spawn(|| exchange.auction(&request).price());
        answer(0);
        assert_eq!(first.join().expect("it is answered"), "2");
        let both = [(); 2].map(|()| scope.spawn(|| exchange.auction(&request).price()));
        dsp.until_requests(3); // Neither waits for the other.
        assert_ne!(answer(1), answer(2));
        for auction in both {
            assert_eq!(auction.join().expect("it is answered"), "2");
        }
    });
    assert_eq!(dsp.accepted(), 2);
}

/// Its socket is full, then its windows: neither may delay another DSP's call or auction.
#[test]
fn a_dsp_that_stops_reading_is_asked_no_more_on_that_connection() {
    let on_request = |request: &StreamRequest| match request.connection {
        0 => Sending { stalls: true, ..Sending::default() },
        _ => request.ok(&bids(&bid("2"))).into(),
    };
    let settings = vec![(SETTING_INITIAL_WINDOW_SIZE, 1 << 30)];
    let dsp = Http2Dsp::start(Http2Script { settings, window: 1 << 30, on_request });
    let other = Dsp::bidding("1");
    let exchange = exchange(&dsp, &[&other]);
    let large = banner(&format!(r#","tmax":250,"site":{{"ref":"{}"}}"#, "x".repeat(200_000)));
    assert_eq!(exchange.auction(&banner(r#","tmax":250"#)).price(), "1");
    until("another connection is asked", || exchange.auction(&large).price() == "2");
}

type Violation = fn(&StreamRequest) -> Vec<u8>;

/// Each ends the connection that it comes on; the next call opens another.
#[test]
fn what_violates_the_protocol_ends_its_connection() {
    let violations: [(&str, Violation); 4] = [
        ("floods", |_| {
            let mut out = Vec::new();
            (0..4_000).for_each(|_| write_ping(&mut out, [0; 8], false));
            out
        }),
        ("overflows", |_| {
            let mut out = Vec::new();
            write_window_update(&mut out, 0, http2::frame::WINDOW_MAX);
            out
        }),
        ("never opened", |request| {
            let mut out = Vec::new();
            write_headers(&mut out, request.stream + 2, &[0x88], true);
            out
        }),
        ("cannot be decoded", |request| {
            let mut out = Vec::new();
            write_headers(&mut out, request.stream, &[0xff], true);
            out
        }),
    ];
    for (want, violate) in violations {
        let mut first = true;
        let dsp = Http2Dsp::answering(move |request| {
            if std::mem::take(&mut first) { violate(request) } else { request.ok(&bids(&bid("2"))) }
        });
        let other = Dsp::bidding("1");
        let exchange = exchange(&dsp, &[&other]);
        assert_eq!(exchange.auction(&banner("")).price(), "1", "{want}");
        assert_eq!(exchange.outcomes(0, CallOutcome::Malformed), 1, "{want}");
        assert!(errors(&exchange).contains(want), "{want}: {}", errors(&exchange));
        assert_eq!(exchange.auction(&banner("")).price(), "2", "{want}");
        assert_eq!(dsp.accepted(), 2, "{want}");
        assert_ne!(dsp.until_go_away(), Http2ErrorCode::NO_ERROR, "{want}");
    }
}

#[test]
fn a_dsp_that_speaks_only_http1_is_named() {
    // As servers answer the preface, which is no HTTP/1.1 request.
    let refusal = Step::Write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n".to_vec());
    let dsp = Dsp::start([Script::once([refusal])]);
    let dsps = [(dsp.address, "http = \"2\"")];
    let exchange = Running::start(&Setup { dsps: &dsps, ..Setup::default() });
    assert_eq!(exchange.auction(&banner("")).status, 204);
    assert_eq!(exchange.outcomes(0, CallOutcome::Malformed), 1);
    assert!(errors(&exchange).contains("speaks HTTP/1.1"), "{}", errors(&exchange));
}

/// A reload that changes the DSP: running calls are answered on the old connection.
#[test]
fn a_replaced_dsp_answers_its_running_calls() {
    let mut waiting: Vec<StreamRequest> = Vec::new();
    let dsp = Http2Dsp::answering(move |request| {
        if request.connection > 0 {
            return request.ok(&bids(&bid("2")));
        }
        waiting.push(request.clone());
        Vec::new()
    });
    let exchange = exchange(&dsp, &[]);
    let request = banner(r#","tmax":10000"#);
    thread::scope(|scope| {
        let auction = scope.spawn(|| exchange.auction(&request).price());
        let asked = dsp.until_requests(1)[0].clone();
        let dsps = [(dsp.address, "http = \"2\"\nheaders = { x-new = \"1\" }")];
        exchange.reload(&Setup { dsps: &dsps, ..Setup::default() });
        until("the new DSP is asked", || exchange.auction(&request).price() == "2");
        dsp.send(0, &asked.ok(&bids(&bid("1"))));
        assert_eq!(auction.join().expect("it is answered"), "1");
    });
    exchange.until_open(0, 1);
}
