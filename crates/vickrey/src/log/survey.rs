//! `vickrey log stat` and `vickrey log verify`: what both lanes hold, and whether it is sound.

use std::io::Write;
use std::time::Instant;

use audit::{Depth, Kind, Survey, Tally};
use clap::Args;

use crate::exit::Exit;
use crate::log::{Progress, Source, cannot_read, line};

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    source: Source,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    source: Source,
    /// Read every record too, and not its check alone
    #[arg(long)]
    deep: bool,
}

pub(crate) fn stat(args: &StatArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let surveys = audit::stat(&args.source.open()?).map_err(cannot_read)?;
    for survey in &surveys {
        write_survey(survey, out)?;
    }
    Ok(exit(&surveys))
}

pub(crate) fn verify(args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let directory = args.source.open()?;
    let depth = if args.deep { Depth::Records } else { Depth::Frames };
    let progress = Progress::new();
    let begun = Instant::now();
    let surveys = audit::verify(&directory, depth, |_, done, of| progress.show(done, of));
    let (surveys, took) = (surveys.map_err(cannot_read)?, begun.elapsed());
    drop(progress);
    for survey in &surveys {
        write_survey(survey, out)?;
    }
    let bytes = surveys.iter().map(|survey| survey.bytes).sum();
    let is_sound = surveys.iter().all(Survey::is_sound);
    let verdict = if is_sound { "sound" } else { "DAMAGED" };
    writeln!(out, "{verdict}: {}", line::throughput(bytes, took))?;
    Ok(exit(&surveys))
}

fn exit(surveys: &[Survey]) -> Exit {
    if surveys.iter().all(Survey::is_sound) { Exit::Done } else { Exit::Missed }
}

fn write_survey(survey: &Survey, out: &mut dyn Write) -> std::io::Result<()> {
    let Survey { kind, place, node, segments, bytes, epochs, tally, damage, by_index } = survey;
    let whose = node.map_or_else(String::new, |node| format!(", node {node}"));
    writeln!(out, "{} ({place}{whose})", kind.name())?;
    let counted = match by_index {
        0 => String::new(),
        by_index => format!(", {by_index} counted by their index"),
    };
    writeln!(out, "  segments   {segments}, {}{counted}", line::bytes(*bytes))?;
    write_tally(tally, out)?;
    if let Some((first_ms, last_ms)) = tally.times_ms {
        writeln!(out, "  times      {} to {}", line::time(first_ms), line::time(last_ms))?;
    }
    writeln!(out, "  epochs     {epochs}")?;
    if tally.shed > 0 {
        writeln!(out, "  missing    {} in gaps", line::count(tally.shed, "auction", "auctions"))?;
    }
    if let Some(torn) = &damage.torn {
        writeln!(out, "  unfinished {torn}")?;
    }
    for corruption in &damage.corruptions {
        writeln!(out, "  DAMAGED    {corruption}")?;
    }
    for unreadable in &tally.unreadable {
        let audit::Unreadable { place, kind, why } = unreadable;
        writeln!(out, "  UNREADABLE {place}, {}: {why}", name(*kind))?;
    }
    let more = tally.unreadable_count - tally.unreadable.len() as u64;
    if more > 0 {
        writeln!(out, "  UNREADABLE {more} more")?;
    }
    Ok(())
}

fn write_tally(tally: &Tally, out: &mut dyn Write) -> std::io::Result<()> {
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
    Kind::from_code(kind).map_or_else(|| format!("kind {kind}"), |kind| kind.label().to_owned())
}
