//! `vickrey log stat` and `vickrey log verify`: the content of both lanes, and whether they are
//! intact.

use std::io::Write;
use std::time::Instant;

use audit::{
    Chain, ChainAbsence, ChainHash, ChainPoint, LaneEnd, LaneSurvey, LogEnd, RecordKind,
    RecordTally, SurveyDepth,
};
use clap::Args;
use serde_json::{Value, json};

use super::damage_report::SegmentProgress;
use super::line;
use super::source::{RecordSource, cannot_read};
use crate::command::exit::Exit;
use crate::peers::long_run::millis;

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    source: RecordSource,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    source: RecordSource,
    /// Also decode every record, beyond its checksum
    #[arg(long)]
    deep: bool,
    /// A hash that an earlier `verify` printed: exit 1 unless the chain still contains it
    #[arg(long, value_name = "HASH")]
    expect: Vec<ChainHash>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn stat(args: &StatArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let surveys = audit::stat(&args.source.open()?).map_err(cannot_read)?;
    if args.json {
        let lanes: Vec<_> = surveys.iter().map(as_json).collect();
        writeln!(out, "{:#}", json!({ "lanes": lanes }))?;
    } else {
        surveys.iter().try_for_each(|survey| write_survey(survey, out))?;
    }
    Ok(exit(&surveys))
}

pub(crate) fn verify(args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let directory = args.source.open()?;
    let depth = if args.deep { SurveyDepth::Records } else { SurveyDepth::Frames };
    let progress = SegmentProgress::new();
    let begun = Instant::now();
    let surveys = audit::verify(&directory, depth, |_, done, of| progress.show(done, of));
    let (surveys, took) = (surveys.map_err(cannot_read)?, begun.elapsed());
    drop(progress);
    let bytes = surveys.iter().map(|survey| survey.bytes).sum();
    let is_sound = surveys.iter().all(LaneSurvey::is_sound);
    let lost: Vec<_> = args.expect.iter().filter(|hash| !is_held(&surveys, hash)).collect();
    if args.json {
        let lanes: Vec<_> = surveys.iter().map(as_json).collect();
        let lost: Vec<_> = lost.iter().map(ToString::to_string).collect();
        let all = json!({ "sound": is_sound, "lanes": lanes, "not_in_chain": lost, "bytes": bytes, "took_ms": millis(took) });
        writeln!(out, "{all:#}")?;
    } else {
        surveys.iter().try_for_each(|survey| write_survey(survey, out))?;
        for hash in &lost {
            writeln!(
                out,
                "NOT IN THE CHAIN {hash}: a record up to this hash was changed, or retention removed it"
            )?;
        }
        let verdict = if is_sound { "sound" } else { "DAMAGED" };
        writeln!(out, "{verdict}: {}", line::throughput(bytes, took))?;
    }
    Ok(if lost.is_empty() { exit(&surveys) } else { Exit::Missed })
}

fn is_held(surveys: &[LaneSurvey], hash: &ChainHash) -> bool {
    surveys.iter().filter_map(|survey| survey.chain.as_ref()).any(|chain| chain.holds(hash))
}

fn exit(surveys: &[LaneSurvey]) -> Exit {
    if surveys.iter().all(LaneSurvey::is_sound) { Exit::Done } else { Exit::Missed }
}

fn write_survey(survey: &LaneSurvey, out: &mut dyn Write) -> std::io::Result<()> {
    let tally = &survey.tally;
    let whose = survey.node.map_or_else(String::new, |node| format!(", node {node}"));
    writeln!(out, "{} ({}{whose})", survey.kind.name(), survey.place)?;
    let counted = match survey.by_index {
        0 => String::new(),
        by_index => format!(", {by_index} counted by their index"),
    };
    writeln!(out, "  segments   {}, {}{counted}", survey.segments, line::bytes(survey.bytes))?;
    write_tally(tally, out)?;
    if let Some((first_ms, last_ms)) = tally.times_ms {
        writeln!(out, "  times      {} to {}", line::time(first_ms), line::time(last_ms))?;
    }
    writeln!(out, "  epochs     {}", survey.epochs)?;
    if tally.shed > 0 {
        writeln!(out, "  missing    {} in gaps", line::count(tally.shed, "auction", "auctions"))?;
    }
    if let Some(torn) = &survey.damage.torn {
        writeln!(out, "  unfinished {torn}")?;
    }
    for corruption in &survey.damage.corruptions {
        writeln!(out, "  DAMAGED    {corruption}")?;
    }
    if let Some(chain) = &survey.chain {
        write_chain(chain, out)?;
        if let (
            Some(known),
            LaneEnd::Open(_) | LaneEnd::Gone(_) | LaneEnd::Missing | LaneEnd::Unknown,
        ) = (&survey.reach, chain.end)
        {
            let (through, time) = (known.watermark.sequence, line::time(known.time_ms));
            writeln!(
                out,
                "  known      through record {through}, by the durable lane at {time}: only later records can be missing without a report"
            )?;
        }
    }
    for unreadable in &tally.unreadable {
        let audit::UnreadableRecord { place, kind, why } = unreadable;
        writeln!(out, "  UNREADABLE {place}, {}: {why}", name(*kind))?;
    }
    let more = tally.unreadable_count - tally.unreadable.len() as u64;
    if more > 0 {
        writeln!(out, "  UNREADABLE {more} more")?;
    }
    Ok(())
}

/// Writes the hash chain and the end of a lane.
fn write_chain(chain: &Chain, out: &mut dyn Write) -> std::io::Result<()> {
    match chain.absence() {
        Some(ChainAbsence::Empty) => writeln!(out, "  chain      none: the lane is empty")?,
        Some(ChainAbsence::EarlierRelease) => {
            writeln!(out, "  chain      none: an earlier release wrote this")?;
        }
        Some(ChainAbsence::Damaged) => {
            writeln!(out, "  chain      not known: no segment has a sound header")?;
        }
        None => write_links(chain, out)?,
    }
    for segment in &chain.broken {
        writeln!(
            out,
            "  DAMAGED    {segment} was changed after it was written: the chain holds another hash"
        )?;
    }
    let sealed_at = |end: &LogEnd| format!("{}, at a clean stop", line::time(end.time_ms));
    match chain.end {
        LaneEnd::Unknown => {
            writeln!(out, "  end        not known: nothing says how far this reached")
        }
        LaneEnd::Missing => writeln!(
            out,
            "  DAMAGED    the file `end`, which says how far this reached, is missing"
        ),
        LaneEnd::LaneMissing => writeln!(
            out,
            "  DAMAGED    all of this lane is missing: auctions are never recorded before this lane has a record"
        ),
        LaneEnd::Damaged => {
            writeln!(out, "  DAMAGED    the file `end`, which says how far this reached")
        }
        LaneEnd::Sealed(end) if end.chain.is_start() && end.last > 0 => {
            writeln!(out, "  end        sealed {}, by number only: no hash", sealed_at(&end))
        }
        LaneEnd::Sealed(end) => writeln!(out, "  end        sealed {}", sealed_at(&end)),
        LaneEnd::Altered(end) => {
            let (records, hash) = (counted(end.chain, end.last), end.chain.hash);
            writeln!(
                out,
                "  DAMAGED    the end differs from what was sealed {}: {records}, hash {hash}",
                sealed_at(&end)
            )
        }
        LaneEnd::Open(_) => {
            writeln!(out, "  end        open: it is being written, or was not stopped cleanly")
        }
        LaneEnd::Gone(end) => {
            let name = end.newest.file_name();
            writeln!(out, "  DAMAGED    {name}, which had begun, is missing: {COPIED}")
        }
    }
}

const COPIED: &str = "it is lost, or this is a copy of a running record that was made without copying each file `end` before its segments";

/// Writes the records of the chain, and a hash to keep.
fn write_links(chain: &Chain, out: &mut dyn Write) -> std::io::Result<()> {
    let Some(found) = chain.found else { return writeln!(out, "  chain      ends in damage") };
    let begins = chain.begins.filter(|begins| *begins > 1);
    let here = begins.map(|begins| format!("; only those from {begins} on are here"));
    let torn = if chain.is_torn { "; ends in an unfinished write" } else { "" };
    let hash = match chain.complete {
        Some((point, last)) if last == chain.last => format!(", hash {}", point.hash),
        Some((point, last)) => format!("; hash through record {last}, to keep: {}", point.hash),
        None => "; no segment is complete, so there is no hash to keep yet".to_owned(),
    };
    let (records, here) = (counted(found, chain.last), here.unwrap_or_default());
    writeln!(out, "  chain      {records}{here}{torn}{hash}")
}

fn counted(point: ChainPoint, last: u64) -> String {
    format!("{} through {last}", line::count(point.records, "record", "records"))
}

fn as_json(survey: &LaneSurvey) -> Value {
    let LaneSurvey { tally, damage, reach, .. } = survey;
    let kinds = tally.kinds.iter().map(|(kind, records)| (name(*kind), json!(records)));
    let unreadable = tally.unreadable.iter().map(|it| {
        json!({ "sequence": it.place.sequence, "epoch": it.place.epoch, "kind": name(it.kind), "why": it.why })
    });
    json!({
        "lane": survey.kind.name(),
        "directory": survey.place,
        "node": survey.node,
        "sound": survey.is_sound(),
        "segments": survey.segments,
        "segments_by_index": survey.by_index,
        "bytes": survey.bytes,
        "records": tally.records,
        "kinds": kinds.collect::<serde_json::Map<_, _>>(),
        "first_ms": tally.times_ms.map(|(first, _)| first),
        "last_ms": tally.times_ms.map(|(_, last)| last),
        "epochs": survey.epochs,
        "not_recorded": tally.shed,
        "unfinished": damage.torn.as_ref().map(ToString::to_string),
        "damage": damage.corruptions.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
        "unreadable_count": tally.unreadable_count,
        "chain": survey.chain.as_ref().map(chain_json),
        "known_through": reach.map(|known| known.watermark.sequence),
        "known_at_ms": reach.map(|known| known.time_ms),
    })
}

fn chain_json(chain: &Chain) -> Value {
    let (end, sealed) = match chain.end {
        LaneEnd::Unknown => ("unknown", None),
        LaneEnd::Missing => ("missing", None),
        LaneEnd::LaneMissing => ("lane_missing", None),
        LaneEnd::Damaged => ("damaged", None),
        LaneEnd::Sealed(end) => ("sealed", Some(end)),
        LaneEnd::Altered(end) => ("altered", Some(end)),
        LaneEnd::Open(_) => ("open", None),
        LaneEnd::Gone(_) => ("segment_missing", None),
    };
    json!({
        "begins": chain.begins,
        "records": chain.found.map(|found| found.records),
        "last": chain.last,
        "hash": chain.complete.map(|(point, _)| point.hash.to_string()),
        "hash_last": chain.complete.map(|(_, last)| last),
        "ends_unfinished": chain.is_torn,
        "broken": chain.broken,
        "end": end,
        "sealed_records": sealed.map(|end| end.chain.records),
        "sealed_last": sealed.map(|end| end.last),
        "sealed_hash": sealed.map(|end| end.chain.hash.to_string()),
        "sealed_ms": sealed.map(|end| end.time_ms),
    })
}

fn write_tally(tally: &RecordTally, out: &mut dyn Write) -> std::io::Result<()> {
    let kinds = tally.kinds.iter().map(|(kind, records)| format!("{} {records}", name(*kind)));
    let kinds: Vec<_> = kinds.collect();
    match kinds.as_slice() {
        [] => writeln!(out, "  records    0"),
        kinds => writeln!(out, "  records    {}: {}", tally.records, kinds.join(", ")),
    }?;
    let Some(average) = tally.payload_bytes.checked_div(tally.payloads) else { return Ok(()) };
    writeln!(out, "  average    {}", line::bytes(average))
}

fn name(kind: u8) -> String {
    RecordKind::from_code(kind)
        .map_or_else(|| format!("kind {kind}"), |kind| kind.label().to_owned())
}
