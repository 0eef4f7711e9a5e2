//! The cache for people: tables and lines.
//!
//! Knows the forms of the API's responses, and sends no requests.

use std::io::{self, Write};

use serde_json::Value;

use crate::command::table::TableColumn::{Figures, Text};
use crate::command::table::{count, list_of, table, text, visible};

pub(super) fn stat(cache: &Value, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "listening   {}", text(&cache["listen"]))?;
    writeln!(
        out,
        "resources   {}, in {} of {}",
        count(&cache["entries"]),
        bytes(&cache["bytes"]),
        bytes(&cache["bytes_max"])
    )?;
    if let Some(disk) = cache["disk"].as_object() {
        let of = |key: &str| count(&disk[key]);
        writeln!(
            out,
            "disk        {}, in {} of {}; {} read, {} in vain; {} written, {} not",
            of("entries"),
            bytes(&disk["bytes"]),
            bytes(&disk["bytes_max"]),
            of("read"),
            of("unread"),
            of("written"),
            of("unwritten")
        )?;
        if let Some(failure) = disk["failure"].as_str() {
            writeln!(out, "            nothing is written: {}", visible(failure))?;
        }
    }
    writeln!(out, "fetching    {}", bytes(&cache["fetching_bytes"]))?;
    writeln!(
        out,
        "purges      {}, of which {} are being applied; {} responses purged",
        count(&cache["purges"]),
        count(&cache["purges_pending"]),
        count(&cache["purged"])
    )?;
    if let Some(puts) = cache["puts"].as_object() {
        let of = |key: &str| count(&puts[key]);
        writeln!(
            out,
            "puts        {} stored, {} served, {} missed; {} requests refused",
            of("stored"),
            of("served"),
            of("missed"),
            of("refused")
        )?;
    }
    writeln!(out)?;
    routes(list_of(&cache["routes"]), out)
}

fn routes(routes: &[Value], out: &mut dyn Write) -> io::Result<()> {
    let head = [
        Text("route"),
        Text("origin"),
        Figures("hit ratio"),
        Figures("hits"),
        Figures("stale"),
        Figures("misses"),
        Figures("collapsed"),
        Figures("revalidated"),
        Figures("passed"),
        Figures("failed"),
        Figures("evicted"),
        Figures("fetches"),
        Figures("failed fetches"),
    ];
    let row = |route: &Value| {
        let of = |key: &str| count(&route["counts"][key]);
        [
            text(&route["id"]),
            if route["is_origin_up"] == false { "left alone" } else { "up" }.to_owned(),
            hit_ratio(&route["counts"]),
            of("hits"),
            of("stale_served"),
            of("misses"),
            of("collapsed"),
            of("revalidated"),
            of("passed"),
            of("failed"),
            of("evicted"),
            of("fetches"),
            of("fetch_failures"),
        ]
    };
    table(&head, routes.iter().map(row), out)
}

/// Of the requests that the store may answer: all but those passed on.
fn hit_ratio(counts: &Value) -> String {
    let of = |key: &str| counts[key].as_u64().unwrap_or(0);
    let hits = of("hits") + of("stale_served");
    let all = hits + of("misses") + of("collapsed") + of("revalidated");
    match hits.saturating_mul(1_000).checked_div(all) {
        Some(tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
        None => "-".to_owned(),
    }
}

pub(super) fn resource(resource: &Value, out: &mut dyn Write) -> io::Result<()> {
    let place = if resource["is_on_disk"] == true { " (also on disk)" } else { "" };
    writeln!(out, "{}{place}", visible(&text(&resource["key"])))?;
    for response in list_of(&resource["responses"]) {
        let fresh = match response["fresh_for_s"].as_u64() {
            Some(left) => format!("fresh for {left} s"),
            None => "stale".to_owned(),
        };
        writeln!(
            out,
            "\n{}, {} bytes, {} s old, {fresh}; {} bytes of memory",
            response["status"],
            count(&response["length"]),
            count(&response["age_s"]),
            count(&response["bytes"])
        )?;
        for (name, value) in response["vary"].as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| "none".to_owned(), visible);
            writeln!(out, "  for requests with {}: {value}", visible(name))?;
        }
        let names: Vec<_> = list_of(&response["surrogate_keys"]).iter().map(text).collect();
        if !names.is_empty() {
            writeln!(out, "  surrogate keys: {}", visible(&names.join(" ")))?;
        }
        for line in list_of(&response["headers"]) {
            writeln!(out, "    {}: {}", visible(&text(&line[0])), visible(&text(&line[1])))?;
        }
    }
    Ok(())
}

pub(super) fn hot(hot: &Value, out: &mut dyn Write) -> io::Result<()> {
    let keys = list_of(&hot["keys"]);
    if keys.is_empty() {
        return writeln!(out, "no requests yet");
    }
    let all = hot["requests"].as_u64().unwrap_or(0).max(1);
    let head = [Figures("share"), Figures("requests"), Figures("+/-"), Text("URL")];
    let row = |key: &Value| {
        let requests = key["requests"].as_u64().unwrap_or(0);
        let tenths = requests.saturating_mul(1_000) / all;
        let share = format!("{}.{} %", tenths / 10, tenths % 10);
        [share, count(&key["requests"]), count(&key["error"]), text(&key["key"])]
    };
    table(&head, keys.iter().map(row), out)
}

pub(super) fn purged(purge: &Value, answer: &Value, out: &mut dyn Write) -> io::Result<()> {
    let done = if purge["soft"] == true { "stale from now on" } else { "purged" };
    let what = match (&purge["url"], &purge["prefix"], &purge["surrogate_key"]) {
        (Value::String(url), ..) => url.clone(),
        (_, Value::String(prefix), _) => format!("{prefix}*"),
        (.., Value::String(name)) => format!("surrogate key {name}"),
        _ => "everything".to_owned(),
    };
    let count = match answer["responses"].as_u64() {
        Some(count) => format!(" (responses: {count})"),
        None => String::new(),
    };
    writeln!(out, "{done}: {}{count}", visible(&what))
}

fn bytes(bytes: &Value) -> String {
    let bytes = bytes.as_u64().unwrap_or(0);
    let (shift, unit) = match bytes {
        0..1_024 => return format!("{bytes} B"),
        1_024..0x10_0000 => (10, "KiB"),
        0x10_0000..0x4000_0000 => (20, "MiB"),
        _ => (30, "GiB"),
    };
    let tenths = bytes.saturating_mul(10) >> shift;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}
