//! Notices from the auction to the DSP: recipients, content, time and trigger.

mod beacons;
mod delivery;
mod final_auction;
mod forbidden;
mod markup;
mod nodes;
mod settled;
mod upstream;
mod versions;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixtures::{Dsp, Host, ID, Running, Script, Setup, listener, ok};

/// Every macro, in the standard's order of names, and one in Base64.
pub const MACROS: &str = "${AUCTION_ID}|${AUCTION_BID_ID}|${AUCTION_IMP_ID}|${AUCTION_SEAT_ID}|\
    ${AUCTION_AD_ID}|${AUCTION_PRICE}|${AUCTION_PRICE:B64}|${AUCTION_CURRENCY}|${AUCTION_MBR}|\
    ${AUCTION_LOSS}|${AUCTION_MIN_TO_WIN}|${AUCTION_MULTIPLIER}|${AUCTION_DISCOUNT_PCT}";

/// Allows the tests' hosts.
pub const LOOPBACK: &str = "networks_allowed = [\"127.0.0.0/8\"]\n";

/// Files that outlive an exchange: the log and the key.
pub struct RecordDir(TempDir);

impl RecordDir {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub fn place(&self) -> &Path {
        self.0.path()
    }

    /// Enables our notices at `address`; `keys` are further keys of `[exchange.notices]`.
    pub fn table(&self, address: SocketAddr, keys: &str) -> String {
        let directory = self.0.path().display();
        format!(
            "[record]\ndirectory = \"{directory}\"\n\
             [exchange.notices]\nurl = \"http://{address}/n/\"\n{keys}\n"
        )
    }

    /// An exchange with `dsps`; `rest` are further tables.
    pub fn start(&self, keys: &str, dsps: &[(SocketAddr, &str)], rest: &str) -> Running {
        let listener = listener();
        let address = listener.local_addr().expect("an address");
        let rest = format!("{}{rest}", self.table(address, keys));
        Running::on(listener, &Setup { dsps, rest: &rest, ..Setup::default() })
    }

    /// The same with loopback hosts, and DSPs without further keys.
    pub fn start_with(&self, keys: &str, dsps: &[&Dsp]) -> Running {
        let dsps: Vec<_> = dsps.iter().map(|dsp| (dsp.address, "")).collect();
        self.start(&format!("{LOOPBACK}{keys}"), &dsps, "")
    }
}

/// A bid on impression 1 with markup and with notices at `host` below `/id/`, patched by `change`,
/// in which null removes a member.
#[expect(clippy::needless_pass_by_value, reason = "reads well with json!")]
pub fn bid_at(host: &Host, id: &str, change: Value) -> Value {
    let url = |place: &str| format!("http://{}/{id}/{place}?{MACROS}", host.address);
    let mut bid = json!({
        "id": id, "impid": "1", "price": 1.0, "crid": "c1", "w": 300, "h": 250,
        "adm": format!("<p>{MACROS}</p>"),
        "nurl": url("win"), "burl": url("bill"), "lurl": url("loss"),
    });
    let members = bid.as_object_mut().expect("an object");
    for (key, value) in change.as_object().expect("an object") {
        if value.is_null() {
            members.remove(key);
        } else {
            members.insert(key.clone(), value.clone());
        }
    }
    bid
}

/// A DSP that responds to every request with these bids.
pub fn dsp(bids: &[Value]) -> Dsp {
    let body = json!({ "id": ID, "bidid": "r-7", "seatbid": [{ "bid": bids }] });
    Dsp::start([Script::answering(ok(&body.to_string()))])
}

/// Paths of our beacons in `text`, in order.
pub fn beacons(exchange: &Running, text: &str) -> Vec<String> {
    let base = format!("http://{}/n/", exchange.address);
    let path = |rest: &str| {
        let is_of_token = |byte: char| byte.is_ascii_alphanumeric() || matches!(byte, '-' | '_');
        let end = rest.find(|byte| !is_of_token(byte)).unwrap_or(rest.len());
        format!("/n/{}", &rest[..end])
    };
    text.split(base.as_str()).skip(1).map(path).collect()
}

/// The only bid of a response.
#[track_caller]
pub fn only_bid(reply: &crate::fixtures::Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    let json = reply.json();
    let bids = json["seatbid"].as_array().expect("seats").iter();
    let bids: Vec<_> = bids.flat_map(|seat| seat["bid"].as_array().expect("bids")).collect();
    assert_eq!(bids.len(), 1, "{json}");
    bids[0].clone()
}

/// The query of a call.
#[track_caller]
pub fn query(call: &crate::fixtures::Call) -> &str {
    call.target.split_once('?').expect("a query").1
}
