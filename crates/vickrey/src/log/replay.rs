//! `vickrey log replay`: recomputes every auction and compares it with its record.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use audit::{
    Filter, RecordDirectory, ReplayFinding, ReplayProblem, ReplayProgress as Step, ReplaySummary,
};
use clap::Args;
use serde_json::{Value, json};

use super::damage_report::{DamageReport, SegmentProgress};
use super::filter_args::FilterArgs;
use super::line;
use super::source::{RecordSource, cannot_read};
use crate::command::exit::Exit;
use crate::peers::long_run::millis;

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    source: RecordSource,
    /// Print JSON: one difference per line, then a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: FilterArgs,
}

pub(crate) fn run(args: &ReplayArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    replay(&args.source.open()?, &args.selection.filter()?, args.json, out)
}

/// Replays the selected auctions, and reports differences.
pub(crate) fn replay(
    directory: &RecordDirectory,
    filter: &Filter,
    is_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let progress = SegmentProgress::new();
    let begun = Instant::now();
    let mut failed = None;
    let replays = audit::replay_all(directory, filter, |step| {
        let written = match step {
            Step::Segments(done, of) => return progress.show(done, of),
            Step::Found(finding) if is_json => {
                progress.0.suspend(|| writeln!(out, "{}", finding_json(&finding)))
            }
            Step::Found(finding) => progress.0.suspend(|| write_finding(&finding, out)),
            Step::More(_) if is_json => Ok(()),
            Step::More(more) => writeln!(out, "… and {more} more in this segment"),
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    let (replays, took) = (replays.map_err(cannot_read)?, begun.elapsed());
    drop(progress);
    if let Some(error) = failed {
        return Err(error.into());
    }
    DamageReport::of(&replays.damage, &replays.generations);
    if is_json {
        writeln!(out, "{}", as_json(&replays, took))?;
    } else {
        write_summary(&replays, out)?;
        writeln!(out, "read {}", line::throughput(replays.bytes, took))?;
    }
    Ok(if replays.is_exact() { Exit::Done } else { Exit::Missed })
}

fn write_finding(finding: &ReplayFinding, out: &mut dyn Write) -> std::io::Result<()> {
    let ReplayFinding { place, id, wrong } = finding;
    let when = line::time(place.time_ms);
    match wrong {
        ReplayProblem::Different(difference) => {
            writeln!(out, "DIFFERENT {} ({place}, {when})", line::visible(id))?;
            for change in difference.to_string().lines() {
                writeln!(out, "  {}", line::visible(change))?;
            }
            Ok(())
        }
        ReplayProblem::Unreadable(why) => writeln!(out, "UNREADABLE {place}, {when}: {why}"),
    }
}

fn finding_json(finding: &ReplayFinding) -> Value {
    let ReplayFinding { place, id, wrong } = finding;
    let (what, why) = match wrong {
        ReplayProblem::Different(difference) => ("different", difference.to_string()),
        ReplayProblem::Unreadable(why) => ("unreadable", why.to_string()),
    };
    json!({
        "finding": what,
        "id": id,
        "node": place.node,
        "epoch": place.epoch,
        "sequence": place.sequence,
        "time_ms": place.time_ms,
        "why": why.lines().collect::<Vec<_>>(),
    })
}

fn as_json(replays: &ReplaySummary, took: Duration) -> Value {
    let without = replays.without.iter().map(|(number, without)| {
        json!({ "generation": number, "auctions": without.auctions, "first_id": without.first_id })
    });
    json!({
        "exact": replays.is_exact(),
        "auctions": replays.auctions,
        "identical": replays.same,
        "not_held": replays.not_held,
        "too_long": replays.cut,
        "different": replays.different,
        "unreadable": replays.unreadable,
        "without_generation": without.collect::<Vec<_>>(),
        "not_recorded": replays.shed,
        "bytes": replays.bytes,
        "took_ms": millis(took),
    })
}

fn write_summary(replays: &ReplaySummary, out: &mut dyn Write) -> std::io::Result<()> {
    for (number, without) in &replays.without {
        let audit::WithoutGeneration { auctions, first, first_id } = without;
        let (id, when) = (line::visible(first_id), line::time(first.time_ms));
        let auctions = line::count(*auctions, "auction", "auctions");
        writeln!(
            out,
            "NO GENERATION {number}: {auctions} not replayed, the first is {id} ({first}, {when})"
        )?;
    }
    let auctions = line::count(replays.auctions, "auction", "auctions");
    let mut parts = vec![format!("{} identical", replays.same)];
    for (many, what) in [
        (replays.not_held, "in which no bid was judged"),
        (replays.cut, "too long to replay"),
        (replays.no_generation, "without their generation"),
        (replays.different, "DIFFERENT"),
    ] {
        if many > 0 {
            parts.push(format!("{many} {what}"));
        }
    }
    writeln!(out, "{auctions}: {}", parts.join(", "))?;
    if replays.unreadable > 0 {
        writeln!(out, "{} UNREADABLE", line::count(replays.unreadable, "record", "records"))?;
    }
    if replays.shed > 0 {
        let shed = line::count(replays.shed, "auction was", "auctions were");
        writeln!(out, "{shed} not recorded")?;
    }
    Ok(())
}
