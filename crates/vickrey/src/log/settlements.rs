//! `vickrey log cat --settlements` and `--wins`: what was billed to accounts by the durable lane, one
//! per line.

use std::io::Write;

use audit::{
    BilledBeacon, Filter, LaneKind, ReadBuffer, RecordPosition, SettlementRow, UtcTime, WinRow,
};
use serde::Serialize;

use super::damage_report::DamageReport;
use super::filter_args::FilterArgs;
use super::line;
use super::source::{RecordSource, cannot_read, walk};
use crate::exit::{CommandFailure, Exit};

/// Refuses a filter by anything but time.
pub(super) fn by_time(filter: Filter) -> anyhow::Result<Filter> {
    if filter.is_about_time_alone() {
        return Ok(filter);
    }
    Err(CommandFailure::usage("settlements are chosen by `time` alone, for example 'time>=-1h'"))
}

/// The row of a settlement that the filter selects.
pub(super) fn row(
    filter: &Filter,
    place: &RecordPosition,
    kind: u8,
    payload: &[u8],
) -> Option<SettlementRow> {
    let row = BilledBeacon::of(place, kind, payload)?.row()?;
    filter.holds_at(row.time_us).then_some(row)
}

/// What to show of the durable lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Billed {
    /// Beacons that bill an account.
    Settlements,
    /// Wins that bidders reported to the pacer.
    Wins,
}

pub(super) fn cat(
    billed: Billed,
    source: &RecordSource,
    selection: &FilterArgs,
    is_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let filter = by_time(selection.filter()?)?;
    let directory = source.open()?;
    let lane = directory.lane(LaneKind::Durable).map_err(cannot_read)?;
    let mut damage = DamageReport::default();
    lane.foreign().iter().for_each(|corruption| damage.corrupt(corruption));
    let mut room = ReadBuffer::default();
    for segment in lane.within(filter.window()) {
        let mut show = |place: &RecordPosition, kind: u8, payload: &[u8]| match billed {
            Billed::Settlements => match row(&filter, place, kind, payload) {
                Some(row) => write(&row, settlement_text, is_json, out),
                None => Ok(()),
            },
            Billed::Wins => {
                match WinRow::all_of(place, kind, payload) {
                    Ok(rows) => {
                        for row in rows.iter().filter(|row| filter.holds_at(row.time_us)) {
                            write(row, win_text, is_json, out)?;
                        }
                    }
                    Err(error) => damage.unreadable(place, &error),
                }
                Ok(())
            }
        };
        let walked = walk(&lane, &segment, &mut room, &mut show)?;
        walked.damage.corruptions.iter().for_each(|corruption| damage.corrupt(corruption));
    }
    Ok(damage.exit())
}

fn write<R: Serialize>(
    row: &R,
    text: impl FnOnce(&R) -> String,
    is_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let line = if is_json { serde_json::to_string(row)? } else { text(row) };
    Ok(writeln!(out, "{line}")?)
}

fn win_text(row: &WinRow) -> String {
    let WinRow { time_us, client, token, cost_nanos, currency, .. } = row;
    let cost = line::money(*cost_nanos, 9);
    let (time, client) = (UtcTime(*time_us), line::visible(client));
    format!("{time}  {token}  {cost} {currency}  by {client}")
}

fn settlement_text(row: &SettlementRow) -> String {
    let SettlementRow { time_us, auction, bid, amount_nanos, currency, .. } = row;
    let amount = line::money(*amount_nanos, 6);
    let notified = row
        .dsp
        .as_ref()
        .map(|dsp| format!("  notifies {}", line::visible(dsp)))
        .unwrap_or_default();
    format!("{}  {auction}  bid {bid}  {amount} {currency}{notified}", UtcTime(*time_us))
}
