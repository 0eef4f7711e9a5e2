//! Nodes that share a key: a beacon counts once, wherever it is called.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Value, json};

use super::{LOOPBACK, RecordDir, beacons, bid_at, dsp, only_bid};
use crate::fixtures::{Dsp, Host, PATIENCE, Reaction, Running, Setup, banner, listener, until};

/// Node 1 runs the auctions; node 2 gets the calls of its beacons.
struct Nodes {
    first: Option<Running>,
    second: Running,
    host: Host,
    _dsp: Dsp,
    _record_dirs: [RecordDir; 2],
}

fn start(
    record_dir: &RecordDir,
    listener: TcpListener,
    node: u32,
    keys: &str,
    dsp: &Dsp,
) -> Running {
    let address = listener.local_addr().expect("an address");
    let key = "key = \"".to_owned() + &"7".repeat(64) + "\"\n";
    let keys = format!("{LOOPBACK}{key}proxies_trusted = [\"127.0.0.0/8\"]\n{keys}");
    let rest = record_dir.table(address, &keys);
    let rest = rest.replacen("[record]\n", &format!("[record]\nnode = {node}\n"), 1);
    let dsps = [(dsp.address, "")];
    Running::on(listener, &Setup { dsps: &dsps, rest: &rest, ..Setup::default() })
}

impl Nodes {
    /// `keys` are further keys of both. `listed` gets both addresses and returns the one at which
    /// node 2 lists node 1, if any.
    fn with(
        keys: &str,
        change: Value,
        listed: impl Fn(SocketAddr, SocketAddr) -> Option<SocketAddr>,
    ) -> Self {
        let host = Host::start();
        let dsp = dsp(&[bid_at(&host, "a", change)]);
        let record_dirs = [RecordDir::new(), RecordDir::new()];
        let listeners = [listener(), listener()];
        let [first, second] =
            listeners.each_ref().map(|listener| listener.local_addr().expect("an address"));
        let table = |address: SocketAddr| {
            format!("[[exchange.notices.node]]\nid = 1\nurl = \"http://{address}/n/\"\n")
        };
        let of_second = keys.to_owned() + &listed(first, second).map_or_else(String::new, table);
        let [one, two] = listeners;
        let first = Some(start(&record_dirs[0], one, 1, keys, &dsp));
        let second = start(&record_dirs[1], two, 2, &of_second, &dsp);
        Self { first, second, host, _dsp: dsp, _record_dirs: record_dirs }
    }

    fn first(&self) -> &Running {
        self.first.as_ref().expect("node 1 runs")
    }

    fn beacon(&self) -> String {
        let reply = self.first().auction(&banner(""));
        beacons(self.first(), &reply.body).pop().expect("a beacon")
    }

    /// Node 2's counts of beacons.
    fn counted(&self, outcome: &str) -> String {
        self.second.scraped(&format!("exchange_beacons_total{{outcome=\"{outcome}\"}}"))
    }
}

#[test]
fn a_beacon_counts_once_wherever_it_is_called() {
    let nodes = Nodes::with("", json!({}), |first, _| Some(first));
    let beacon = nodes.beacon();
    let headers = "x-forwarded-for: 192.0.2.9\r\nuser-agent: Browser/1.0\r\n";
    let reply = nodes.second.caller().get(&format!("{beacon}?cachebuster=1"), headers);
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("image/gif")));
    let billed = nodes.host.call("/a/bill");
    assert!(billed.head.contains("x-forwarded-for: 192.0.2.9\r\n"), "{}", billed.head);
    assert!(billed.head.contains("x-device-user-agent: Browser/1.0\r\n"), "{}", billed.head);
    assert_eq!(nodes.first().caller().get(&beacon, "").status, 200);
    assert_eq!(nodes.second.caller().get(&beacon, "").status, 200);
    let counters = || nodes.first().notices().counters;
    until("both repeats are known", || counters().beacons_duplicate == 2);
    assert_eq!((counters().beacons_accepted, nodes.host.calls("/a/bill").len()), (1, 1));
    assert_eq!(nodes.counted("passed_on"), "2");
    assert_eq!(nodes.second.notices().counters.beacons_accepted, 0);
}

#[test]
fn an_ad_is_relayed_by_way_of_another_node() {
    let change = json!({ "adm": null });
    let nodes = Nodes::with("mode = \"upstream\"\n", change, |first, _| Some(first));
    nodes.host.react("/a/win", Reaction::Body("<b>${AUCTION_PRICE}</b>".to_owned()));
    let bid = only_bid(&nodes.first().auction(&banner("")));
    let url = bid["nurl"].as_str().expect("a URL");
    let [path] = &beacons(nodes.first(), url)[..] else { panic!("a beacon in {url}") };
    let relayed = nodes.second.caller().get(path, "");
    assert_eq!((relayed.status, relayed.body.as_str()), (200, "<b>1</b>"));
    assert_eq!(nodes.first().caller().get(path, "").status, 404, "it was handed on");
    assert_eq!(nodes.host.calls("/a/win").len(), 1);
}

/// Markup may wait for other calls: longer than one response of its host.
#[test]
fn a_slow_ad_is_relayed_by_way_of_another_node() {
    let change = json!({ "adm": null });
    let keys = "mode = \"upstream\"\ntimeout = \"500ms\"\nconnections_max = 1\n";
    let nodes = Nodes::with(keys, change, |first, _| Some(first));
    nodes.host.react("/a/win", Reaction::Hang);
    let ask = || {
        let bid = only_bid(&nodes.first().auction(&banner("")));
        let url = bid["nurl"].as_str().expect("a URL");
        let path = beacons(nodes.first(), url).pop().expect("a beacon");
        let mut caller = nodes.second.caller();
        caller.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        caller
    };
    let mut callers = [ask(), ask(), ask()];
    until("the second has waited for the first", || nodes.host.calls("/a/win").len() == 2);
    nodes.host.react("/a/win", Reaction::Body("<b>".to_owned()));
    let mut statuses = callers.each_mut().map(|caller| caller.reply().status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 502, 502], "the third is answered");
}

#[test]
fn a_beacon_of_an_unknown_node_is_refused_and_counted() {
    let nodes = Nodes::with("", json!({}), |_, _| None);
    let beacon = nodes.beacon();
    assert_eq!(nodes.second.caller().get(&beacon, "").status, 404);
    assert_eq!(
        (nodes.counted("unknown_node"), nodes.counted("passed_on")),
        ("1".into(), "0".into())
    );
    assert!(nodes.host.calls("/a/bill").is_empty());
    assert_eq!(nodes.first().caller().get(&beacon, "").status, 200, "it counts where it belongs");
}

/// The caller retries.
#[test]
fn a_beacon_of_a_node_that_is_away_is_not_lost() {
    let mut nodes = Nodes::with("", json!({}), |first, _| Some(first));
    let beacon = nodes.beacon();
    drop(nodes.first.take());
    let reply = nodes.second.caller().get(&beacon, "");
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("10")));
    assert_eq!(nodes.counted("not_passed_on"), "1");
}

/// Two nodes that forward to each other as a third.
#[test]
fn a_beacon_is_passed_on_once() {
    let nodes = Nodes::with("", json!({}), |_, second| Some(second));
    assert_eq!(nodes.second.caller().get(&nodes.beacon(), "").status, 503);
    assert_eq!(
        (nodes.counted("not_passed_on"), nodes.counted("unknown_node")),
        ("1".into(), "1".into())
    );
}

/// A server other than the node responds: its URL is wrong, and the caller retries.
#[test]
fn a_beacon_that_reaches_no_node_is_not_lost() {
    let other = Host::start();
    let nodes = Nodes::with("", json!({}), |_, _| Some(other.address));
    for (count, status) in [200, 204, 404, 502].into_iter().enumerate() {
        let beacon = nodes.beacon();
        other.react(&beacon, Reaction::Status(status));
        assert_eq!(nodes.second.caller().get(&beacon, "").status, 503, "{status}");
        assert_eq!(nodes.counted("not_passed_on"), (count + 1).to_string(), "{status}");
    }
    assert_eq!(nodes.counted("passed_on"), "0");
}

/// The head of the next request on a connection.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a request");
        head.extend(byte);
    }
    String::from_utf8(head).expect("a head in ASCII")
}

/// A browser that disconnected was shown the ad all the same.
#[test]
fn a_beacon_of_a_caller_that_leaves_is_passed_on() {
    let node = listener();
    node.set_nonblocking(false).expect("a socket option");
    let address = node.local_addr().expect("an address");
    let nodes = Nodes::with("node_connections_max = 1\n", json!({}), |_, _| Some(address));
    let call = || {
        let beacon = nodes.beacon();
        let mut caller = nodes.second.caller();
        caller.send(format!("GET {beacon} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        (caller, beacon)
    };
    let mut first = call();
    let (mut stream, _) = node.accept().expect("node 2 calls");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    assert!(head(&mut stream).contains(&first.1));
    // It waits for the connection that the first one uses.
    let (second, beacon) = call();
    // Once later requests are answered, the shard has begun with it.
    let mut third = nodes.second.caller();
    for _ in 0..3 {
        assert_eq!(third.get("/n/none", "").status, 404);
    }
    drop((second, third));
    until("both have left", || nodes.second.scraped("connections_open") == "1");
    let answer = b"HTTP/1.1 200 OK\r\nx-vickrey-node: 1\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(answer).expect("node 2 reads");
    assert_eq!(first.0.reply().status, 200);
    assert!(head(&mut stream).contains(&beacon));
    stream.write_all(answer).expect("node 2 reads");
    until("both are counted", || nodes.counted("passed_on") == "2");
}
