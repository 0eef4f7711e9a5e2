//! The API's document and the running server agree.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::fixtures::{Answer, Server, dsp, table};
use crate::program::{PATIENCE, until};

const ID: &str = "a/b é";
const ID_IN_PATH: &str = "a%2Fb%20%C3%A9";

/// A part of the document with references resolved.
fn resolved<'d>(document: &'d Value, part: &'d Value) -> &'d Value {
    match part.get("$ref").and_then(Value::as_str) {
        Some(pointer) => document.pointer(pointer.trim_start_matches('#')).unwrap(),
        None => part,
    }
}

/// Every operation, as method and path.
fn operations(document: &Value) -> BTreeMap<(String, String), &Value> {
    let mut operations = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations.insert((method.to_uppercase(), path.clone()), operation);
        }
    }
    operations
}

/// Whether a path needs budgets; tests/it/campaign.rs covers those.
fn is_of_budgets(path: &str) -> bool {
    ["/v1/accounts", "/v1/campaigns", "/v1/audit"].iter().any(|of| path.starts_with(of))
}

/// Whether a path needs a pacer.
fn is_of_pacer(path: &str) -> bool {
    path.starts_with("/v1/pacer")
}

/// Whether a path is of the live floor.
fn is_of_live(path: &str) -> bool {
    path.starts_with("/v1/live")
}

/// Whether a path is of the cache.
fn is_of_cache(path: &str) -> bool {
    path.starts_with("/v1/cache")
}

/// Whether a path is of look-ups.
fn is_of_lookup(path: &str) -> bool {
    path.starts_with("/v1/lookup")
}

/// Whether a path is of the record.
fn is_of_record(path: &str) -> bool {
    ["/v1/auctions", "/v1/bids"].contains(&path)
}

/// Asks for auctions and bids of the record, with or without one.
pub fn check_record(server: &Server, status: u16) {
    let asked = |path, query, want| {
        let answer = server.ask("GET", &format!("{path}{query}"), "");
        assert_eq!(answer.status, want, "{path}{query}");
        ("GET", path, answer)
    };
    let paths = ["/v1/auctions", "/v1/bids"];
    let wrong = if status == 200 { 400 } else { status };
    let answers = paths.map(|path| [asked(path, "", status), asked(path, "?most=x", wrong)]);
    let wanted = [status.to_string(), wrong.to_string()];
    check_answers(
        server,
        &answers.into_iter().flatten().collect::<Vec<_>>(),
        is_of_record,
        &wanted.each_ref().map(|it| &**it),
    );
}

/// The answer of the operation on look-ups is as documented.
pub fn check_lookup(server: &Server, want: &str) {
    let answer = server.ask("GET", "/v1/lookup", "");
    check_answers(server, &[("GET", "/v1/lookup", answer)], is_of_lookup, &[want]);
}

/// Answers of operations on the cache, by method and documented path: they are as documented, and
/// every documented success, and refusal of what is unknown, is among them.
pub fn check_cache(server: &Server, answers: &[(&str, &str, Answer)]) {
    check_answers(server, answers, is_of_cache, &["200", "404"]);
}

/// Whether a path is of lots.
fn is_of_lots(path: &str) -> bool {
    path.starts_with("/v1/lots")
}

/// Answers of operations on lots, by method and documented path: they are as documented, and every
/// documented success and refusal of a lot is among them.
pub fn check_lots(server: &Server, answers: &[(&str, &str, Answer)]) {
    check_answers(server, answers, is_of_lots, &["200", "404", "409"]);
}

fn check_answers(
    server: &Server,
    answers: &[(&str, &str, Answer)],
    is_checked: fn(&str) -> bool,
    wanted: &[&str],
) {
    let document = server.get("/v1/openapi.json");
    for ((method, path), operation) in operations(&document) {
        if !is_checked(&path) {
            continue;
        }
        let of_operation = answers.iter().filter(|(of, at, _)| (*of, *at) == (&*method, &*path));
        let documented = operation["responses"].as_object().unwrap().keys().cloned();
        let mut unseen: BTreeSet<_> =
            documented.filter(|status| wanted.contains(&&**status)).collect();
        for (_, _, answer) in of_operation {
            assert_eq!(fault(&document, operation, answer), None, "{method} {path}: {answer:?}");
            unseen.remove(&answer.status.to_string());
        }
        assert!(unseen.is_empty(), "{method} {path}: never answered {unseen:?}");
    }
}

/// Asks for what the live floor shows, with or without one.
pub fn check_live(server: &Server, status: u16) {
    let document = server.get("/v1/openapi.json");
    let of_live = operations(&document).into_iter().filter(|((_, path), _)| is_of_live(path));
    let mut asked = 0;
    for ((method, path), operation) in of_live {
        let answer = server.ask(&method, &path, "");
        assert_eq!((answer.status, fault(&document, operation, &answer)), (status, None));
        asked += 1;
    }
    assert_eq!(asked, 1);
}

/// Asks for what a pacer shows, of a client with this id and of another one, with or without a pacer.
pub fn check_pacer(server: &Server, id: &str, status: u16) {
    let document = server.get("/v1/openapi.json");
    let of_pacer = operations(&document).into_iter().filter(|((_, path), _)| is_of_pacer(path));
    let mut asked = 0;
    for ((method, path), operation) in of_pacer {
        let unknown = if path.contains("{id}") { 404 } else { status };
        for (id, status) in [(id, status), ("nobody", unknown)] {
            let answer = server.ask(&method, &path.replace("{id}", id), "");
            assert_eq!((answer.status, fault(&document, operation, &answer)), (status, None));
            asked += 1;
        }
    }
    assert_eq!(asked, 4);
}

/// The difference between a response and the document. None if they agree.
fn fault(document: &Value, operation: &Value, answer: &Answer) -> Option<String> {
    let Some(response) = operation["responses"].get(answer.status.to_string()) else {
        return Some(format!("status {} is not in the document", answer.status));
    };
    let Some(content) = resolved(document, response).get("content") else {
        let empty = answer.body.is_empty() && answer.header("content-type").is_none();
        return (!empty).then(|| "a body that is not in the document".to_owned());
    };
    let media_type = answer.header("content-type").unwrap_or_default();
    let Some(content) = content.get(media_type) else {
        return Some(format!("content-type {media_type} is not in the document"));
    };
    let body = match media_type {
        "application/json" => answer.json(),
        _ => Value::from(&*answer.body),
    };
    // The schema, with the definitions that it references.
    let mut schema = content["schema"].clone();
    schema["components"] = document["components"].clone();
    let errors =
        validator(&schema).iter_errors(&body).map(|error| format!("{error}")).collect::<Vec<_>>();
    (!errors.is_empty()).then(|| errors.join("; "))
}

fn validator(schema: &Value) -> Validator {
    let options = jsonschema::draft202012::options().should_validate_formats(true);
    options.build(schema).expect("the document's schemas are schemas")
}

/// Calls every operation with every documented response except 503.
#[test]
fn every_operation_is_answered_as_documented() {
    let server = Server::start(&table(ID, &dsp().to_string(), "qps = 100\nin_flight_max = 10"));
    assert_eq!(server.auction(), 204);
    let document = server.get("/v1/openapi.json");
    let broken = "[[dsp]]\nid = \"\"\nurl = 1\n";
    let mut problems = Vec::new();
    check_pacer(&server, "a", 404);
    check_live(&server, 404);
    check_lookup(&server, "404");
    check_record(&server, 404);
    let of_all = |((_, path), _): &((String, String), &Value)| {
        [
            is_of_budgets,
            is_of_pacer,
            is_of_live,
            is_of_lots,
            is_of_cache,
            is_of_lookup,
            is_of_record,
        ]
        .iter()
        .all(|is_of| !is_of(path))
    };
    for ((method, path), operation) in operations(&document).into_iter().filter(of_all) {
        let known = path.replace("{id}", ID_IN_PATH);
        let unknown = path.replace("{id}", "nobody");
        let mut seen = BTreeSet::new();
        let mut check = |way: &str, want: u16, answer: &Answer| {
            seen.insert(answer.status);
            let fault = fault(&document, operation, answer);
            if answer.status != want || fault.is_some() {
                problems.push(format!("{method} {path} {way}: {fault:?} in {answer:?}"));
            }
        };
        let done = if path.ends_with("/pause") { 204 } else { 200 };
        check("as an operator", done, &server.ask(&method, &known, ""));
        check("of two hosts", 400, &server.ask(&method, &known, "host: a\r\nhost: a\r\n"));
        if path.starts_with("/health/") {
            check("as anybody", 200, &server.ask_as("", &method, &path));
        } else {
            let answer = server.ask_as("", &method, &known);
            check("as anybody", 401, &answer);
            check("of another host", 421, &server.ask(&method, &known, "host: x\r\n"));
        }
        if method != "GET" {
            check("from a page", 403, &server.ask(&method, &known, "origin: http://x\r\n"));
        }
        if known != unknown {
            check("of nobody", 404, &server.ask(&method, &unknown, ""));
        }
        if path == "/v1/reload" {
            server.configure("", broken);
            check("while the file is broken", 422, &server.ask(&method, &known, ""));
            let mut answers = (0..10_000).map(|_| server.ask(&method, &known, ""));
            let limited = answers.find(|answer| answer.status == 429).unwrap();
            check("too often", 429, &limited);
        }
        let documented = operation["responses"].as_object().unwrap().keys();
        let documented: BTreeSet<u16> = documented.map(|status| status.parse().unwrap()).collect();
        let unseen: Vec<_> =
            documented.difference(&seen).filter(|status| **status != 503).collect();
        if !unseen.is_empty() {
            problems.push(format!("{method} {path}: never answered {unseen:?}"));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Without `[budgets]`, every path of budgets says how to enable them.
#[test]
fn budgets_that_are_off_are_told_from_what_is_nowhere() {
    let server = Server::start(&table(ID, &dsp().to_string(), ""));
    let document = server.get("/v1/openapi.json");
    let nowhere = server.ask("GET", "/v1/nowhere", "").json();
    assert_eq!(nowhere["error"]["code"], "not_found");
    let of_budgets = |((_, path), _): &((String, String), &Value)| is_of_budgets(path);
    for ((method, path), operation) in operations(&document).into_iter().filter(of_budgets) {
        let headers = "content-type: application/json\r\n";
        let answer = server.ask(&method, &path.replace("{id}", "summer"), headers);
        assert_eq!(fault(&document, operation, &answer), None, "{method} {path}");
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (404, &json!("not_configured")), "{path}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("budgets are off: add [budgets]"), "{message}");
    }
}

/// During the drain, which a hanging DSP prolongs.
#[test]
fn a_process_that_drains_is_not_ready() {
    let hung = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hung.local_addr().unwrap().to_string();
    let server = Server::start(&table("hung", &address, ""));
    let ready = || server.ask_as("", "GET", "/health/ready");
    until("the exchange is ready", || ready().status == 200);
    std::thread::scope(|scope| {
        scope.spawn(|| server.auction());
        // The request has arrived, so the auction is running.
        let (connection, _) = hung.accept().unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.peek(&mut [0]).unwrap();
        let document = server.get("/v1/openapi.json");
        server.signal("-TERM");
        until("it drains", || ready().status == 503);
        let answer = ready();
        let operation = &document["paths"]["/health/ready"]["get"];
        assert_eq!((fault(&document, operation, &answer), &*answer.body), (None, "draining\n"));
        let answer = server.ask("GET", "/v1/dsps", "");
        assert_eq!(answer.status, 200, "operators see the exchange until the drain is over");
        assert_eq!(fault(&document, &document["paths"]["/v1/dsps"]["get"], &answer), None);
    });
}

/// Over the wire, a path allows exactly the documented methods.
#[test]
fn no_method_is_hidden() {
    let server = Server::start(&table(ID, &dsp().to_string(), ""));
    let document = server.get("/v1/openapi.json");
    let paths = document["paths"].as_object().unwrap().iter();
    for (path, methods) in paths.filter(|(path, _)| !is_of_budgets(path)) {
        let answer = server.ask("PATCH", &path.replace("{id}", ID_IN_PATH), "");
        assert_eq!(answer.status, 405, "{path}");
        let allowed =
            answer.header("allow").unwrap().split(", ").filter(|method| *method != "HEAD");
        let allowed: BTreeSet<_> = allowed.map(str::to_lowercase).collect();
        let documented: BTreeSet<_> = methods.as_object().unwrap().keys().cloned().collect();
        assert_eq!(allowed, documented, "{path}");
    }
}

/// Proves that the test above can fail: surplus, missing and mistyped members are found.
#[test]
fn a_wrong_body_is_noticed() {
    let document = Server::start(&table(ID, &dsp().to_string(), "")).get("/v1/openapi.json");
    let operation = &document["paths"]["/v1/reload"]["post"];
    let answered = |status: u16, body: &Value| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json".replace("\r\n", "\n");
        fault(&document, operation, &Answer { status, head, body: body.to_string() })
    };
    let good = json!({
        "generation": 2, "differences": [], "needs_restart": [], "campaigns": null,
    });
    assert_eq!(answered(200, &good), None);
    assert!(answered(201, &good).is_some());
    assert!(answered(422, &good).is_some());
    for (key, value) in
        [("generation", json!("2")), ("needs_restart", Value::Null), ("more", json!(1))]
    {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(answered(200, &bad).is_some(), "{key}");
    }
}
