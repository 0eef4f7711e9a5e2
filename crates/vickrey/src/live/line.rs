//! A message of the feed as a line for people. Outside text reaches the terminal only as visible
//! characters.

use std::fmt::Write as _;

use audit::UtcTime;
use console::style;
use serde_json::Value;
use units::Cpm;

use crate::log::line::visible;

/// The line of a message. None for those that only say how far the feed has come.
pub(super) fn message(message: &Value) -> Option<String> {
    let topic = text(&message["topic"]);
    let data = &message["data"];
    let content = match (text(&message["type"]).as_str(), topic.as_str()) {
        ("message", "auctions" | "wins") => auction(data),
        ("message", "fates") => {
            format!("{}/{}  {}", text(&data["dsp"]), text(&data["seat"]), fates(data))
        }
        ("message", "deals") => format!("{}  {}", text(&data["deal"]["id"]), fates(data)),
        ("message", "campaigns") => format!("{}  {}", text(&data["campaign"]), fates(data)),
        ("message", "lots") => lot(data),
        ("message", "system") => {
            let dsps = data["dsps"].as_array().map_or(0, Vec::len);
            format!("generation {} of the configuration, {dsps} DSPs", data["number"])
        }
        ("message", _) => {
            let key = text(&data["key"]);
            let key = if key.is_empty() { key } else { format!("  [{key}]") };
            format!("{}{key}  {}", text(&data["publisher"]), visible(&data["body"].to_string()))
        }
        ("gap", _) => {
            let missing =
                format!("{} records are missing: {}", data["records"], text(&data["reason"]));
            return Some(style(format!("{topic:<9}  {missing}")).red().to_string());
        }
        ("skipped", _) => {
            let skipped = format!("{} messages were skipped", message["messages"]);
            return Some(style(format!("{topic:<9}  {skipped}")).yellow().to_string());
        }
        _ => return None,
    };
    let time = UtcTime(message["time_ms"].as_u64().unwrap_or(0).saturating_mul(1000));
    Some(format!("{}  {}  {content}", style(time).dim(), style(format!("{topic:<9}")).cyan()))
}

fn auction(data: &Value) -> String {
    let ending = text(&data["ending"]);
    let shown = match ending.as_str() {
        "filled" => style(ending).green(),
        "refused" | "abandoned" => style(ending).red(),
        _ => style(ending).yellow(),
    };
    let us = data["answered_us"].as_u64().unwrap_or(0);
    let mut line = format!(
        "{}  {:<9}  asked {:>2}  bids {:>2}  {:>4}.{} ms",
        text(&data["publisher"]),
        shown,
        data["calls_count"],
        data["bids_count"],
        us / 1000,
        us % 1000 / 100
    );
    let currency = text(&data["currency"]);
    for sale in data["sales"].as_array().into_iter().flatten() {
        let price = price(&sale["price_micros"]);
        let (dsp, seat) = (text(&sale["dsp"]), text(&sale["seat"]));
        let _ = write!(line, "  {dsp}/{seat} {}", style(format!("{price} {currency}")).bold());
    }
    line
}

fn lot(data: &Value) -> String {
    let (lot, event) = (text(&data["id"]), text(&data["event"]));
    let shown = match event.as_str() {
        "bid" | "opened" => style(event).green(),
        "cancelled" => style(event).red(),
        _ => style(event).yellow(),
    };
    let mut line = format!("{lot}  {shown}");
    if let Some(price) = data["price"].as_str() {
        let (price, leader) = (style(visible(price)).bold(), text(&data["leader"]));
        let _ = write!(line, "  {price} by {leader}, {} bids", data["bids"]);
    }
    if data["reserve_met"] == Value::Bool(false) {
        line.push_str(", reserve not met");
    }
    line
}

fn fates(data: &Value) -> String {
    let bids = data["bids"].as_array().into_iter().flatten().map(|bid| {
        let fate = text(&bid["fate"]);
        let shown = if fate == "won" { style(fate).green() } else { style(fate).yellow() };
        format!("{shown} at {} {}", price(&bid["price_micros"]), text(&bid["currency"]))
    });
    bids.collect::<Vec<_>>().join(", ")
}

fn price(micros: &Value) -> String {
    let price = micros.as_u64().and_then(Cpm::new);
    price.map_or_else(|| "-".to_owned(), |price| price.to_string())
}

fn text(value: &Value) -> String {
    visible(value.as_str().unwrap_or("-"))
}
