//! `vickrey log cat --settlements`, `--wins` and `--lots`: what was billed to accounts, and what
//! happened to lots, by the durable lane, one per line.

use std::io::Write;

use audit::{
    BilledBeacon, Filter, LaneKind, LotRow, ReadBuffer, RecordPosition, SettlementRow, UtcTime,
    WinRow,
};
use serde::Serialize;
use units::Cpm;

use super::damage_report::DamageReport;
use super::filter_args::FilterArgs;
use super::line;
use super::source::{RecordSource, cannot_read, walk};
use crate::command::exit::{CommandFailure, Exit};

/// Refuses a filter by anything but time.
pub(super) fn by_time(filter: Filter) -> anyhow::Result<Filter> {
    if filter.is_about_time_alone() {
        return Ok(filter);
    }
    Err(CommandFailure::usage("these rows are chosen by `time` alone, for example 'time>=-1h'"))
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
pub(super) enum DurableRows {
    /// Beacons that bill an account.
    Settlements,
    /// Wins that bidders reported to the pacer.
    Wins,
    /// Events of lots.
    Lots,
}

pub(super) fn cat(
    rows: DurableRows,
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
        let mut show = |place: &RecordPosition, kind: u8, payload: &[u8]| match rows {
            DurableRows::Settlements => match row(&filter, place, kind, payload) {
                Some(row) => write(&row, settlement_text, is_json, out),
                None => Ok(()),
            },
            DurableRows::Wins => {
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
            DurableRows::Lots => {
                match LotRow::of(place, kind, payload) {
                    Ok(Some(row)) if filter.holds_at(row.time_us) => {
                        write(&row, lot_text, is_json, out)?;
                    }
                    Ok(_) => (),
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

fn lot_text(row: &LotRow) -> String {
    let LotRow { time_us, lot, event, number, bidder, account, maximum_micros, currency, .. } = row;
    let mut text = format!("{}  {lot}  {event}", UtcTime(*time_us));
    let bid = (number, bidder, account, maximum_micros, currency);
    if let (Some(number), Some(bidder), Some(account), Some(maximum), Some(currency)) = bid {
        let (bidder, account) = (line::visible(bidder), line::visible(account));
        let maximum = Cpm::new(*maximum).unwrap_or(Cpm::ZERO);
        text += &format!(" {number}  {bidder}  at most {maximum} {currency}  from {account}");
    }
    text += &row.closes_ms.map(|ms| format!("  until {}", UtcTime(ms * 1000))).unwrap_or_default();
    let reason = row.reason.as_ref().map(|reason| format!("  {}", line::visible(reason)));
    text + &reason.unwrap_or_default()
}
