//! Why a campaign or an account does not spend, for people: the cause with its remedy, every limit, how it
//! bids, and its funnel.

use std::io::{self, Write};

use serde_json::Value;

use crate::command::table::TableColumn::{Figures, Text};
use crate::command::table::{amount, count, list_of, table, text, without_controls};

/// Steps of a funnel: the key, its name, and whether it is shown where it is 0.
const STEPS: [(&str, &str, bool); 16] = [
    ("offered", "offered to it", true),
    ("matched", "matched", true),
    ("hours", "  outside of its hours", false),
    ("budget", "  a limit used up", false),
    ("pace", "  skipped to keep its pace", false),
    ("ledger", "  nothing granted to the shard", false),
    ("below_floor", "  below the floor", false),
    ("outranked", "  outranked by other campaigns", false),
    ("bid", "bid for", true),
    ("outbid", "  lost to other bids", false),
    ("rejected", "  failed a check", false),
    ("refused", "  refused by its account", false),
    ("returned", "  returned beside the winner", false),
    ("abandoned", "  abandoned, or not over yet", false),
    ("won", "won", true),
    ("billed", "billed", true),
];

pub(super) fn why(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    headline(answer, out)?;
    let currency = &answer["currency"];
    let levels = list_of(&answer["levels"]);
    if !levels.is_empty() {
        let head = [
            Text("limit of"),
            Text("for"),
            Figures("limit"),
            Figures("spent or leased"),
            Figures("kept back"),
            Figures("left"),
        ];
        let row = |level: &Value| {
            let of = |key: &str| amount(&level[key], currency);
            let (owner, span) = (text(&level["owner"]), text(&level["span"]));
            [owner, span, of("limit"), of("exposure"), of("holdback"), of("headroom")]
        };
        table(&head, levels.iter().map(row), out)?;
    }
    if let Some(words) = answer["pace"]["words"].as_str() {
        writeln!(out, "how it bids: {}", without_controls(words))?;
    }
    funnel(answer, out)?;
    on_its_way(answer, out)
}

/// Outcomes of impressions over the last hour and day.
pub(super) fn funnel(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let (hour, day) = (&answer["funnel"]["hour"], &answer["funnel"]["day"]);
    if !hour.is_object() {
        return Ok(());
    }
    let name = |window: &Value, name: &'static str, young: &'static str| {
        if window["since_start"] == true { Figures(young) } else { Figures(name) }
    };
    let head = [
        Text("impressions"),
        name(hour, "last hour", "since the start"),
        name(day, "last day", "since the start"),
    ];
    let told = STEPS.iter().filter(|(key, _, always)| *always || day[*key].as_u64() != Some(0));
    let row = |(key, name, _): &(&str, &str, bool)| {
        [(*name).to_owned(), count(&hour[*key]), count(&day[*key])]
    };
    let spent = |window: &Value| amount(&window["spent"], &answer["currency"]);
    let spent = ["spent".to_owned(), spent(hour), spent(day)];
    table(&head, told.map(row).chain([spent]), out)?;
    if day["cut"] == true {
        writeln!(
            out,
            "hours of the last day were dropped: there was no room for those of all campaigns"
        )?;
    }
    criteria(&answer["mismatches"], out)
}

/// Criteria that a sample of impressions failed.
fn criteria(found: &Value, out: &mut dyn Write) -> io::Result<()> {
    let failed = list_of(&found["failed"]);
    if failed.is_empty() || found["impressions"] == 0 {
        return Ok(());
    }
    writeln!(out, "of a sample of {} impressions:", count(&found["impressions"]))?;
    let row = |of: &Value| [text(&of["key"]), count(&of["impressions"])];
    table(&[Text("criterion"), Figures("fail it")], failed.iter().map(row), out)
}

pub(super) fn why_account(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    headline(answer, out)?;
    let currency = &answer["currency"];
    let levels = list_of(&answer["levels"]);
    if !levels.is_empty() {
        let head =
            [Text("limit for"), Figures("limit"), Figures("spent or leased"), Figures("left")];
        let row = |level: &Value| {
            let of = |key: &str| amount(&level[key], currency);
            [text(&level["span"]), of("limit"), of("exposure"), of("headroom")]
        };
        table(&head, levels.iter().map(row), out)?;
    }
    if answer["seats"].is_object() {
        writeln!(out, "its seats: {}", reason(&answer["seats"]))?;
    }
    for campaigns in list_of(&answer["campaigns"]) {
        let count = text(&campaigns["count"]);
        let noun = if count == "1" { "campaign" } else { "campaigns" };
        writeln!(out, "{count} {noun}: {}", reason(campaigns))?;
    }
    on_its_way(answer, out)
}

/// The cause and the remedy.
fn headline(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", text(&answer["id"]), reason(answer))?;
    if let Some(remedy) = answer["remedy"].as_str() {
        writeln!(out, "what to do: {}", without_controls(remedy))?;
    }
    Ok(())
}

/// A reason in words, with its label.
fn reason(of: &Value) -> String {
    let label = of["reason"].as_str().or_else(|| of["refusal"].as_str());
    let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
    without_controls(&format!("{}{label}", text(&of["words"])))
}

fn on_its_way(answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let of = |key: &str| amount(&answer[key], &answer["currency"]);
    let (shards, ready, frozen) = (of("at_shards"), of("ready"), of("frozen"));
    writeln!(
        out,
        "on its way: {shards} at shards, {ready} leased, {frozen} frozen since the last start"
    )
}
