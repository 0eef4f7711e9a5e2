//! The Grafana dashboard and the alerts use only what the metrics page has.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fixtures::{Server, dsp, table};
use crate::program::root;

/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];

/// Prefixes of metric names.
pub const PREFIXES: [&str; 2] = ["vickrey_", "process_"];

/// A metric in a query, with its label selectors and their values.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Selected {
    metric: String,
    labels: Vec<(String, Vec<String>)>,
}

pub fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Every metric that a query selects.
fn selected(query: &str) -> Vec<Selected> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(is_name) {
        let from = &rest[start..];
        let end = from.find(|character| !is_name(character)).unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        rest = after;
        if let Some(text) = rest.strip_prefix('"') {
            rest = text;
        }
        // A metric is followed by a selector, a range, a comparison or a bracket.
        if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let mut labels = Vec::new();
        if let Some(inner) = after.strip_prefix('{') {
            let (inner, after) = inner.split_once('}').expect("a selector ends");
            labels = inner.split(',').map(label).collect();
            rest = after;
        }
        found.push(Selected { metric: name.to_owned(), labels });
    }
    found
}

/// `name="value"`, `name!="value"` or `name=~"one|other"`.
fn label(text: &str) -> (String, Vec<String>) {
    let (name, value) = text.split_once('=').expect("a label has a value");
    let value = value.trim_start_matches('~').trim_matches('"');
    let name = name.trim_end_matches('!').trim();
    (name.to_owned(), value.split('|').map(str::to_owned).collect())
}

/// Every label by which a query groups.
fn grouped(query: &str) -> Vec<String> {
    let lists = query.split("by (").skip(1).map(|rest| rest.split(')').next().unwrap());
    lists.flat_map(|list| list.split(", ")).map(str::to_owned).collect()
}

/// Every text under these keys, at any depth.
fn texts(value: &Value, keys: &[&str], found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(text) if keys.contains(&key.as_str()) => found.push(text.clone()),
                    value => texts(value, keys, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, keys, found)),
        _ => (),
    }
}

/// The parts of a query that the page lacks.
fn problems(query: &str, page: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut known_labels = BTreeSet::from(ADDED.map(str::to_owned));
    for Selected { metric, labels } in selected(query) {
        let series: Vec<_> = page
            .lines()
            .filter_map(|line| line.strip_prefix(&*metric))
            .filter(|rest| rest.starts_with(['{', ' ']))
            .collect();
        if series.is_empty() {
            problems.push(format!("{metric} is not on the page"));
        }
        for (name, values) in labels.iter().filter(|(name, _)| !ADDED.contains(&name.as_str())) {
            for value in values {
                // Variables of the dashboard are matched by label alone.
                let of_page =
                    if value.starts_with('$') { String::new() } else { format!("{value}\"") };
                let wanted = format!("{name}=\"{of_page}");
                if !series.iter().any(|series| series.contains(&wanted)) {
                    problems.push(format!("{metric} has no {wanted}"));
                }
            }
        }
        let labels = series.iter().flat_map(|series| series.split(['{', ',']));
        let names = labels.filter_map(|label| label.split_once("=\"")).map(|(name, _)| name);
        known_labels.extend(names.map(str::to_owned));
    }
    for label in grouped(query).into_iter().filter(|label| !known_labels.contains(label)) {
        problems.push(format!("{query}: none of its metrics has the label {label}"));
    }
    problems
}

/// The page of an exchange with all services after an auction, as for a scraper.
pub fn page() -> String {
    let folder = tempfile::tempdir().unwrap();
    let services = format!(
        "[record]\ndirectory = {:?}\n\
         [budgets]\ndirectory = {:?}\n\
         [pacer]\nlisten = \"127.0.0.1:0\"\n\
         [[pacer.client]]\nid = \"dsp-1\"\nsecret = \"s\"\n\
         [exchange.notices]\nurl = \"https://exchange.example/n/\"\n\
         [live]\nlisten = \"127.0.0.1:0\"\ntrust_loopback = true\n[live.lots]\n\
         [cache]\nlisten = \"127.0.0.1:0\"\n\
         [[cache.route]]\nid = \"all\"\norigin = \"http://127.0.0.1:1\"\n\
         [tracing]\nendpoint = \"http://127.0.0.1:1/v1/traces\"\n\
         [lookup]\nlisten = \"127.0.0.1:0\"\nmaps = {:?}\n\
         [lookup.disk]\ndirectory = {:?}\n",
        folder.path().join("record"),
        folder.path().join("budgets"),
        root().join("deploy/maps/*.toml"),
        folder.path().join("lookup"),
    );
    let server = Server::start(&(services + &table("d", &dsp().to_string(), "")));
    assert_eq!(server.auction(), 204);
    let page = server.ask("GET", "/metrics", "");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    page.body
}

/// The page of an exchange whose pacer is another process.
pub fn page_with_remote_pacer() -> String {
    let folder = tempfile::tempdir().unwrap();
    let services = format!(
        "[exchange.notices]\nurl = \"https://exchange.example/n/\"\n\
         [exchange.pacer]\naddress = \"127.0.0.1:1\"\nid = \"exchange-1\"\nsecret = \"s\"\n\
         [[exchange.pacer.seat]]\ndsp = \"d\"\nseat = \"s\"\naccount = \"a\"\ncampaign = \"c\"\n\
         [record]\ndirectory = {:?}\n",
        folder.path().join("record")
    );
    let dsp = table("d", &dsp().to_string(), "seats = [\"s\"]");
    let server = Server::start(&(services + &dsp));
    server.ask("GET", "/metrics", "").body
}

#[test]
fn what_is_drawn_and_alerted_on_is_on_the_page() {
    let page = page();
    let dashboard = std::fs::read_to_string(root().join("deploy/grafana/exchange.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let mut queries = Vec::new();
    texts(&dashboard, &["expr"], &mut queries);
    assert!(queries.len() > 50, "{} queries", queries.len());
    let alerts = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let expressions = alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let alerts: Vec<_> = expressions.map(str::to_owned).collect();
    assert!(alerts.len() > 5, "{alerts:?}");
    let problems: Vec<_> =
        queries.iter().chain(&alerts).flat_map(|query| problems(query, &page)).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn a_wrong_query_is_noticed() {
    let page = "a 1\nvickrey_x_total{kind=\"one\"} 1\nvickrey_y 2\n";
    let check = |query: &str, want: usize| {
        let found = problems(query, page);
        assert_eq!(found.len(), want, "{query}: {found:?}");
    };
    check("sum(rate(vickrey_x_total{instance=~\"$instance\",kind=\"one\"}[5m]))", 0);
    check("sum by (kind) (rate(vickrey_x_total{kind=~\"$kind\"}[5m])) > vickrey_y", 0);
    check("vickrey_x > 0", 1);
    check("vickrey_x_total{kind=\"two\"}", 1);
    check("vickrey_x_total{kind=~\"one|two\"}", 1);
    check("vickrey_x_total{sort=~\"$sort\"}", 1);
    check("sum by (sort) (vickrey_x_total)", 1);
}
