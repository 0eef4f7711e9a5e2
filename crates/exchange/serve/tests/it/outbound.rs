//! What DSPs receive, to the byte.

use std::io::Read as _;
use std::net::TcpListener;

use exchange_core::record::CallOutcome;

use crate::fixtures::{Dsp, PATIENCE, Running, Setup, banner, bid, bids, ok, posted};

#[test]
fn a_request_as_a_dsp_sees_it() {
    let dsp = Dsp::bidding("1.00");
    let keys = "headers = { x-api-key = \"s3cret\" }\ncurrencies = [\"EUR\", \"USD\"]";
    let dsps = [(dsp.address, keys)];
    let rest = "[currency]\nrates = { EUR = \"1.08\" }\n";
    let exchange = Running::start(&Setup { dsps: &dsps, rest, ..Setup::default() });
    let unknown = r#""x":{"b" : [1.50, "\u00e9"],  "z":null}"#;
    let body = format!(
        r#"{{ "id":"caller-1", {unknown}, "tmax":5000,"imp":[{{"id":"1","banner":{{"w":300,"h":250}},"ext":{{"gpid":"/a"}}}}],"regs":{{"gpp":"DBAA"}} }}"#
    );
    assert_eq!(exchange.auction(&body).status, 200);
    let request = dsp.request(0);
    let (line, fields) = request.head.split_once("\r\n").expect("a request line");
    assert_eq!(line, "POST /bid HTTP/1.1");
    let mut fields: Vec<_> = fields.trim_end().split("\r\n").collect();
    fields.sort_unstable();
    let mut want = vec![
        format!("accept: application/json"),
        format!("content-length: {}", request.body.len()),
        format!("content-type: application/json"),
        format!("host: {}", dsp.address),
        format!("x-api-key: s3cret"),
        format!("x-openrtb-version: 2.6"),
    ];
    want.sort_unstable();
    assert_eq!(fields, want);
    // Everything else is unchanged.
    let json: serde_json::Value = serde_json::from_str(&request.body).expect("JSON");
    let tmax = json["tmax"].as_u64().expect("a tmax");
    assert!((4000..5000).contains(&tmax), "less than the caller's: {tmax}");
    assert_eq!(request.id().len(), 32, "ours, not the caller's");
    let expected = body
        .replace("caller-1", &request.id())
        .replace(r#""tmax":5000"#, &format!(r#""tmax":{tmax}"#))
        .replacen('{', r#"{"cur":["EUR","USD"],"#, 1);
    assert_eq!(request.body, expected);
}

/// A DSP that accepts gzip gets the same request compressed; others get it plain.
#[test]
fn a_request_may_be_compressed() {
    let (first, second, plain) = (Dsp::bidding("1.00"), Dsp::bidding("2.00"), Dsp::bidding("3.00"));
    for others in [0, 1, 2] {
        let keys = "gzip_requests = true";
        let dsps = [(first.address, keys), (plain.address, ""), (second.address, keys)];
        let dsps = &dsps[..=others];
        let exchange = Running::start(&Setup { dsps, ..Setup::default() });
        let body = banner(&format!(r#","ext":{{"x":"{}"}}"#, "long ".repeat(1000)));
        for _ in 0..2 {
            assert_eq!(exchange.auction(&body).status, 200);
        }
        let request = first.request(first.requests() - 1);
        let length = request.head.split("content-length: ").nth(1).expect("a length");
        let length: usize = length.trim_end().parse().expect("the last field");
        assert!(length < request.body.len() / 10, "{length} bytes of {}", request.body.len());
        assert!(request.body.contains("long long") && request.id().len() == 32);
        if others > 0 {
            let other = plain.request(plain.requests() - 1);
            assert!(!other.head.contains("content-encoding"), "{}", other.head);
            assert_eq!(other.body, request.body);
        }
        if others > 1 {
            assert_eq!(second.request(second.requests() - 1).body, request.body);
        }
    }
}

/// Its own margin replaces the exchange's; without any time left it is not called.
#[test]
fn a_dsp_has_a_network_margin_of_its_own() {
    let dsps = ["", "network_margin = \"1s\"", "network_margin = \"9s\""]
        .map(|keys| (Dsp::bidding("1.00"), keys));
    let of: Vec<_> = dsps.iter().map(|(dsp, keys)| (dsp.address, *keys)).collect();
    let exchange = "network_margin = \"0ms\"";
    let exchange = Running::start(&Setup { exchange, dsps: &of, ..Setup::default() });
    assert_eq!(exchange.auction(&banner(r#","tmax":5000"#)).status, 200);
    let told = |dsp: &Dsp| {
        let json: serde_json::Value = serde_json::from_str(&dsp.request(0).body).expect("JSON");
        json["tmax"].as_u64().expect("a tmax")
    };
    assert_eq!(told(&dsps[0].0) - told(&dsps[1].0), 1000);
    assert_eq!((dsps[2].0.requests(), exchange.outcomes(2, CallOutcome::Unsent)), (0, 1));
}

#[test]
fn ids_differ_between_auctions() {
    let dsp = Dsp::bidding("1.00");
    let exchange = Running::with(&[&dsp]);
    let mut caller = exchange.caller();
    for _ in 0..3 {
        assert_eq!(caller.post(&banner("")).status, 200);
    }
    let ids = [0, 1, 2].map(|index| dsp.request(index).id());
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
}

#[test]
fn each_dsp_sees_its_own_deals_impressions_and_user() {
    let (first, second) = (Dsp::bidding("1.00"), Dsp::bidding("2.00"));
    let dsps = [(first.address, ""), (second.address, "formats = [\"banner\"]")];
    let rest = "[[deal]]\nid = \"for-d0\"\ndsps = [\"d0\"]\n\
                [[deal]]\nid = \"for-d1\"\ndsps = [\"d1\"]\n";
    let exchange = Running::start(&Setup { dsps: &dsps, rest, ..Setup::default() });
    let body = r#"{"id":"c","imp":[
        {"id":"1","banner":{"w":300,"h":250},"pmp":{"deals":[
            {"id":"for-d0","bidfloor":1},{"id":"for-d1","bidfloor":1},{"id":"for-all"}]}},
        {"id":"2","video":{"mimes":["video/mp4"]}}],
        "user":{"id":"u","buyeruid":"whose?","ext":{"buyeruids":{"d0":"u0","d1":"u1"}}}}"#;
    assert_eq!(exchange.auction(body).status, 200);
    let seen = |dsp: &Dsp| {
        let text = dsp.request(0).body;
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let imps = json["imp"].as_array().expect("impressions");
        let ids = |of: &serde_json::Value| -> Vec<String> {
            let all = of.as_array().into_iter().flatten();
            all.map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
        };
        let deals = ids(&imps[0]["pmp"]["deals"]);
        (ids(&json["imp"]), deals, json["user"]["buyeruid"].clone(), text)
    };
    let (imps, deals, uid, text) = seen(&first);
    assert_eq!((imps.len(), uid), (2, "u0".into()));
    assert_eq!(deals, ["for-d0", "for-all"]);
    assert!(!text.contains("u1") && !text.contains("whose?") && !text.contains("for-d1"), "{text}");
    let (imps, deals, uid, text) = seen(&second);
    assert_eq!((imps.len(), uid), (1, "u1".into()));
    assert_eq!(deals, ["for-d1", "for-all"]);
    assert!(!text.contains("u0") && !text.contains("for-d0") && !text.contains("video"), "{text}");
}

/// Each by its own rules, in one round: only DSPs with the same view share pieces.
#[test]
fn dsps_see_of_a_user_what_privacy_leaves_them() {
    let dsps = [Dsp::bidding("1.00"), Dsp::bidding("2.00"), Dsp::bidding("3.00")];
    let lax = "[dsp.privacy]\nlmt = false";
    let setup = [(dsps[0].address, ""), (dsps[1].address, ""), (dsps[2].address, lax)];
    let exchange = Running::start(&Setup { dsps: &setup, ..Setup::default() });
    let body = |coppa: u8| {
        format!(
            r#"{{"id":"c","imp":[{{"id":"1","banner":{{"w":300,"h":250}},"ext":{{"prebid":{{"bidder":
                {{"d0":{{"k":"zero"}},"d2":{{"k":"two"}}}}}}}}}}],"regs":{{"coppa":{coppa}}},
                "device":{{"lmt":1,"ifa":"the-ifa","ip":"203.0.113.77"}},
                "user":{{"id":"the-user","ext":{{"buyeruids":{{"d1":"u1","d2":"u2"}}}}}}}}"#
        )
    };
    for (index, coppa) in [0, 1].into_iter().enumerate() {
        assert_eq!(exchange.auction(&body(coppa)).status, 200);
        let seen = |dsp: usize| {
            let text = dsps[dsp].request(index).body;
            let told = ["the-ifa", "the-user", ".77", "u1", "u2", "zero", "two"];
            let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            assert_eq!(json["device"]["lmt"], 1, "{text}");
            told.into_iter().filter(|secret| text.contains(secret)).collect::<Vec<_>>()
        };
        assert_eq!((seen(0), seen(1)), (vec!["zero"], vec![]));
        let open = vec!["the-ifa", "the-user", ".77", "u2", "two"];
        assert_eq!(seen(2), if coppa == 0 { open } else { vec!["two"] });
    }
}

/// Deals alternate between the DSPs, so each is a piece of its own.
#[test]
fn a_request_of_very_many_parts() {
    let (first, second) = (Dsp::bidding("1.00"), Dsp::bidding("2.00"));
    let terms = |n: usize| format!("[[deal]]\nid = \"deal-{n}\"\ndsps = [\"d{}\"]\n", n % 2);
    let rest: String = (0..120).map(terms).collect();
    let dsps = [(first.address, ""), (second.address, "")];
    let exchange = Running::start(&Setup { dsps: &dsps, rest: &rest, ..Setup::default() });
    let deals: Vec<_> = (0..120).map(|n| format!(r#"{{"id":"deal-{n}"}}"#)).collect();
    let body = format!(
        r#"{{"id":"c","imp":[{{"id":"1","banner":{{"w":300,"h":250}},"pmp":{{"deals":[{}]}}}}]}}"#,
        deals.join(",")
    );
    assert_eq!(exchange.auction(&body).status, 200);
    for (parity, dsp) in [&first, &second].into_iter().enumerate() {
        // The DSP has checked the length.
        let text = dsp.request(0).body;
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let seen = json["imp"][0]["pmp"]["deals"].as_array().expect("deals");
        let seen: Vec<_> = seen.iter().map(|deal| deal["id"].as_str().expect("an id")).collect();
        let own: Vec<_> = (0..60).map(|n| format!("deal-{}", 2 * n + parity)).collect();
        assert_eq!(seen, own);
    }
}

/// A DSP with a small window that does not read until permitted: the socket takes only a part.
#[test]
fn a_request_larger_than_the_socket_takes() {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a socket option");
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    socket.bind(&any.into()).expect("a free port");
    socket.listen(8).expect("it listens");
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().expect("an address");
    let exchange_keys = "body_max = \"16MiB\"\nbody_timeout = \"20s\"\n";
    let dsps = [(address, "")];
    let setup = Setup { exchange: exchange_keys, dsps: &dsps, ..Setup::default() };
    let exchange = Running::start(&setup);
    let filler = "x".repeat(8 * 1024 * 1024);
    let body = banner(&format!(r#","ext":{{"x":"{filler}"}}"#));
    let mut caller = exchange.caller();
    caller.send(&posted(&body));
    let (mut stream, _) = listener.accept().expect("one connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    for auction in 0..2 {
        if auction > 0 {
            caller.send(&posted(&body));
        }
        let request = read_whole(&mut stream);
        assert!(request.body.contains(&filler), "all of it came");
        let answer = ok(&bids(&bid("1.00"))).replace(crate::fixtures::ID, &request.id);
        std::io::Write::write_all(&mut stream, answer.as_bytes()).expect("it is read");
        assert_eq!(caller.reply().status, 200);
    }
    assert_eq!(exchange.outcomes(0, CallOutcome::Answered), 2);
    assert_eq!(exchange.count_dsp(0, |dsp| dsp.opened.value()), 1);
}

struct Whole {
    id: String,
    body: String,
}

fn read_whole(stream: &mut std::net::TcpStream) -> Whole {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("ASCII");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("a length").parse().expect("a number")];
    stream.read_exact(&mut body).expect("a body");
    let body = String::from_utf8(body).expect("UTF-8");
    let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    Whole { id: json["id"].as_str().expect("an id").to_owned(), body }
}
