//! What is no command, no frame, no token: an answer that says so, and nothing changes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use tungstenite::Message;

use super::fixtures::{Client, Floor, TABLES};
use crate::operations::document::check_live;
use crate::program::{PATIENCE, check, until, vickrey};

/// The head of an upgrade.
const UPGRADE: &str = "GET /feed HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n\
                       connection: Upgrade\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Writes bytes after the upgrade; returns the close code and reason that come back.
fn closed_by(floor: &Floor, bytes: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(floor.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(UPGRADE.as_bytes()).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // The server closes after the close frame; it waits for ours, which the end of the stream is.
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.read_to_end(&mut answer).unwrap();
    let head_end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let mut frames = &answer[head_end..];
    loop {
        let (first, length) = (frames[0], usize::from(frames[1]));
        assert!(length < 126, "no long frame comes before the close");
        let (payload, rest) = frames[2..].split_at(length);
        if first == 0x88 {
            let code = u16::from_be_bytes([payload[0], payload[1]]);
            return (code, String::from_utf8(payload[2..].to_vec()).unwrap());
        }
        frames = rest;
    }
}

/// A masked frame with a key of zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    let mut bytes = vec![first];
    match length {
        0..126 => bytes.push(0x80 | u8::try_from(length).unwrap()),
        _ => {
            bytes.push(0x80 | 126);
            bytes.extend(length.to_be_bytes());
        }
    }
    bytes.extend([0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn frames_that_break_the_protocol_close_with_their_code() {
    let floor = Floor::start();
    let mut bystander = floor.client();
    bystander.subscribe("news", &json!({}));
    for (what, bytes, code) in [
        ("unmasked", vec![0x81, 1, b'x'], 1002),
        ("compressed", frame(0xC1, b"x"), 1002),
        ("unknown opcode", frame(0x83, b"x"), 1002),
        ("binary", frame(0x82, b"x"), 1003),
        ("not UTF-8", frame(0x81, &[0xff]), 1007),
        ("too long", frame(0x81, &[b'x'; 20_000]), 1009),
        ("continuation", frame(0x80, b"x"), 1002),
        ("long ping", frame(0x89, &[0; 126]), 1002),
        ("close code 1005", frame(0x88, &[0x03, 0xED]), 1002),
        ("fragments without end", frame(0x00, b"").repeat(2_000), 1002),
        ("many fragments", [frame(0x01, b""), frame(0x00, b"").repeat(100_000)].concat(), 1008),
        ("a close", frame(0x88, &[0x03, 0xE8]), 1000),
    ] {
        assert_eq!(closed_by(&floor, &bytes).0, code, "{what}");
    }
    until("all are gone", || floor.count("sockets") == 1);
    floor.publish("news", &json!(1));
    assert_eq!(bystander.next_of("message")["data"]["body"], 1);
}

#[test]
fn wrong_commands_are_answered_and_the_connection_goes_on() {
    let floor = Floor::start();
    let mut client = floor.client();
    client.subscribe("news", &json!({}));
    for (text, code, field) in [
        ("hello", "malformed", None),
        ("{}", "bad_field", None),
        (r#"{"op":"dance"}"#, "unknown_op", Some("op")),
        (r#"{"op":"subscribe","topic":"nobody"}"#, "unknown_topic", Some("topic")),
        (r#"{"op":"subscribe","topic":"news"}"#, "subscription", Some("topic")),
        (r#"{"op":"unsubscribe","topic":"prices"}"#, "subscription", Some("topic")),
        (r#"{"op":"subscribe","topic":"prices","filter":"seat=a"}"#, "bad_filter", Some("filter")),
        (r#"{"op":"subscribe","topic":"wins","filter":"seat>a"}"#, "bad_filter", Some("filter")),
        (r#"{"op":"subscribe","topic":"wins","filter":"time>=-1h"}"#, "bad_filter", Some("filter")),
        (r#"{"op":"publish","topic":"wins","body":1}"#, "unknown_topic", Some("topic")),
        (r#"{"op":"auth","token":"x"}"#, "bad_token", Some("token")),
    ] {
        client.send(Message::text(text));
        let error = client.next_of("error");
        assert_eq!(error["code"], code, "{text}: {error}");
        assert_eq!(error["field"].as_str(), field, "{text}: {error}");
        assert!(error["message"].as_str().unwrap().len() > 10, "{error}");
    }
    let long = json!({ "op": "publish", "topic": "news", "key": "k".repeat(257), "body": 1 });
    client.say(&long);
    assert_eq!(client.next_of("error")["code"], "too_large");
    floor.publish("news", &json!(1));
    assert_eq!(client.next_of("message")["data"]["body"], 1);
}

#[test]
fn a_flood_of_commands_is_refused_and_then_closed() {
    let floor = Floor::with(&TABLES.replace("commands_per_s = 100000", "commands_per_s = 1"));
    let mut client = floor.client();
    for _ in 0..200 {
        if client.try_send(Message::text(r#"{"op":"publish","topic":"news","body":1}"#)).is_err() {
            break;
        }
    }
    let (mut published, mut refused) = (0, 0);
    let closed = loop {
        match client.heard() {
            Ok(message) if message["type"] == "published" => published += 1,
            Ok(message) if message["code"] == "rate_limited" => refused += 1,
            Ok(message) => panic!("{message}"),
            Err(closed) => break closed,
        }
    };
    assert_eq!((published, refused, closed.code), (10, 99, Some(1008)), "{closed:?}");
}

#[test]
fn requests_are_refused_with_a_status_and_a_reason() {
    let floor = Floor::start();
    let long = "x".repeat(20_000);
    for (line, headers, body, status, reason) in [
        ("GET /", "", "", 404, "nothing is served here"),
        ("POST /feed", "", "", 405, "use GET"),
        ("GET /publish", "", "", 405, "use POST"),
        ("GET /feed", "", "", 400, "`Upgrade` does not name `websocket`"),
        (
            "GET /feed",
            "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 8\r\n",
            "",
            426,
            "`Sec-WebSocket-Version` is not 13",
        ),
        ("GET /events", "", "", 400, "`topic` is missing"),
        ("GET /events?topic=nobody", "", "", 404, "no such topic"),
        ("GET /events?topic=news&policy=x", "", "", 400, "is `strict` or `conflate`"),
        ("GET /events?topic=news&after=x", "", "", 400, "a position is"),
        ("GET /events?topic=%ff", "", "", 400, "is not UTF-8"),
        ("GET /events?topic=wins&filter=x", "", "", 400, "no field `x`"),
        ("POST /publish", "", "1", 400, "`topic` is missing"),
        ("POST /publish?topic=news", "", "", 400, "not JSON"),
        ("POST /publish?topic=news", "", "{} {}", 400, "not JSON"),
        ("POST /publish?topic=wins", "", "1", 404, "nobody may publish there"),
        ("POST /publish?topic=news", "", &long, 413, "larger than 16384 bytes"),
        ("POST /publish?topic=news", "origin: http://evil.example\r\n", "1", 403, "this origin"),
        ("GET /events?topic=news", "x-forwarded-for: 1.2.3.4\r\n", "", 401, "needs a token"),
        ("GET /events?topic=news&access_token=x", "", "", 401, "no JSON Web Token"),
    ] {
        let answer = floor.ask(line, headers, body);
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        assert!(answer.body.contains(reason), "{line}: {answer:?}");
        assert_eq!(answer.json()["type"], "error");
    }
    check_live(&floor.server, 200);
}

#[test]
fn without_a_token_a_stranger_can_do_nothing_and_is_disconnected() {
    let secret = "secret = \"a secret of at least thirty-two bytes\"";
    let tables = TABLES.replace("trust_loopback = true", "");
    let floor = Floor::with(&format!("{tables}[[live.key]]\nid = \"key-1\"\n{secret}\n"));
    let token = |args: &[&str]| floor.token(args);
    let mut stranger = floor.client();
    for command in [
        json!({ "op": "subscribe", "topic": "news" }),
        json!({ "op": "publish", "topic": "news", "body": 1 }),
    ] {
        stranger.say(&command);
        assert_eq!(stranger.next_of("error")["code"], "bad_token");
    }
    let closed = stranger.ended();
    assert_eq!((closed.code, &*closed.reason), (Some(4_001), "no token within 5 seconds"));

    let mut reader = floor.client();
    let may_read = token(&["--subject", "reader", "--topic", "news", "--expires", "1h"]);
    reader.say(&json!({ "op": "auth", "token": may_read, "id": 1 }));
    let accepted = reader.next_of("authenticated");
    assert_eq!((&accepted["subject"], &accepted["id"]), (&json!("reader"), &json!(1)));
    reader.subscribe("news", &json!({}));
    reader.say(&json!({ "op": "publish", "topic": "news", "body": 1 }));
    assert_eq!(reader.next_of("error")["code"], "forbidden");
    let may_write = token(&["--subject", "writer", "--publish", "news", "--expires", "1h"]);
    Client::connect(&floor.address(), &may_write).publish("news", &json!(1));
    let said = reader.next_of("message");
    assert_eq!(said["data"]["publisher"], "writer");

    // A token that expires ends what it allowed. It leaves a busy machine time to connect.
    let short = token(&["--subject", "guest", "--topic", "news", "--expires", "4s"]);
    let mut guest = Client::connect(&floor.address(), &short);
    let closed = guest.ended();
    assert_eq!((closed.code, &*closed.reason), (Some(4_001), "the token has expired"));
}

#[test]
fn a_wrong_configuration_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vickrey.toml");
    for (tables, wants) in [
        ("[record]\n[live]\nlisten = \"127.0.0.1:0\"", &["nobody may connect"][..]),
        (
            "[record]\n[live]\nlisten = \"0.0.0.0:0\"\ntrust_loopback = true",
            &["needs a `listen` on a loopback address"],
        ),
        (
            "[record]\n[live]\nlisten = \"127.0.0.1:0\"\ntopics = [\"wins\", \"a b\"]\n\
             origins = [\"example.com\"]\n[[live.key]]\nid = \"a\"\nsecret = \"short\"",
            &["exists in every feed", "1 to 64 letters", "needs the form", "fewer than 32 bytes"],
        ),
    ] {
        std::fs::write(&file, tables).unwrap();
        let mut command = vickrey(&["config", "check"]);
        check(command.arg(&file), 64, &[], wants);
    }
}
