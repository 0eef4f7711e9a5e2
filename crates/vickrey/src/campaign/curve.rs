//! A campaign's curve: its spend and its target, in the terminal or as an SVG.
//!
//! `whatif` draws it.

use std::io::Write;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;
use whatif::curve::{Drawing, SpendCurve};
use whatif::{chart, plot};

use crate::command::exit::Exit;
use crate::command::output_file;
use crate::command::table::{amount, list_of};

/// Size of the plot area, in characters.
const SIZE: (usize, usize) = (72, 16);

pub(super) fn draw(answer: &Value, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match drawing(answer) {
        Some(drawing) => write!(out, "{}", chart::draw(&drawing, SIZE.0, SIZE.1))?,
        // Having no points yet is a valid answer.
        None => writeln!(out, "{}", nothing(answer))?,
    }
    Ok(Exit::Done)
}

pub(super) fn plot(answer: &Value, file: &Path, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let Some(drawing) = drawing(answer) else {
        writeln!(out, "{}; {} is not written", nothing(answer), file.display())?;
        return Ok(Exit::Missed);
    };
    output_file::write_text(file, &plot::svg(&drawing))?;
    Ok(Exit::Done)
}

fn nothing(answer: &Value) -> String {
    let id = answer["id"].as_str().unwrap_or_default();
    match answer["strategy"].as_str() {
        None => format!(
            "{id} has no curve yet: it has no limit to follow, or its first slot is not over; `vickrey \
             campaign why {id}` says how it stands"
        ),
        Some(strategy) => format!(
            "{id} has no curve yet: {strategy} has just begun, or has nothing left to spend; `vickrey \
             campaign why {id}` says how it stands"
        ),
    }
}

/// The curve, scaled by the limit or by a larger amount. None if there are no points.
fn drawing(answer: &Value) -> Option<Drawing> {
    let id = answer["id"].as_str().unwrap_or_default();
    let points = list_of(&answer["points"]);
    let money = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
    let amounts = points.iter().flat_map(|point| [&point["target"], &point["spent"]]);
    let amounts = amounts.chain(std::iter::once(&answer["limit"]));
    let most = amounts.filter_map(|value| Some((money(value)?, value)));
    let (whole, shown) = most.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let (start, end) = (millis(&answer["start"]), millis(&answer["end"]));
    let (Some(start_ms), Some(end_ms), true) = (start, end, whole > 0.0) else { return None };
    let line = |key: &str, name: String| {
        let share = |point: &Value| Some((millis(&point["at"])?, money(&point[key])? / whole));
        SpendCurve { name, points: points.iter().filter_map(share).collect() }
    };
    let strategy = answer["strategy"].as_str().unwrap_or("spent").to_owned();
    let of = match answer["span"].as_str() {
        Some("day") => "of the day's",
        Some("hour") => "of the hour's",
        _ => "of all",
    };
    let spent = line("spent", strategy);
    let title = format!("{id}: share {of} {}", amount(shown, &answer["currency"]));
    Some(Drawing {
        title,
        start_ms,
        end_ms,
        target: Some(line("target", "target".to_owned())),
        now_ms: Some(spent.points.last().map_or(start_ms, |(at_ms, _)| *at_ms)),
        lines: vec![spent],
    })
}

fn millis(at: &Value) -> Option<u64> {
    let at: Timestamp = at.as_str()?.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok()
}
