//! `vickrey log replay`: every auction recomputed, beside what was recorded.

use std::io::Write;
use std::ops::ControlFlow;
use std::time::Instant;

use audit::{Directory, Filter, Finding, Progress as Step, Replays, Wrong};
use clap::Args;

use crate::exit::Exit;
use crate::log::{Complaints, Progress, Source, Wanted, cannot_read, line};

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    wanted: Wanted,
}

pub(crate) fn run(args: &ReplayArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    replay(&args.source.open()?, &args.wanted.filter()?, out)
}

/// Replays what is wanted of a record, and reports what came of it.
pub(crate) fn replay(
    directory: &Directory,
    filter: &Filter,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let progress = Progress::new();
    let begun = Instant::now();
    let mut failed = None;
    let replays = audit::replay_all(directory, filter, |step| {
        let written = match step {
            Step::Segments(done, of) => return progress.show(done, of),
            Step::Found(finding) => progress.0.suspend(|| write_finding(&finding, out)),
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
    let mut complaints = Complaints::default();
    replays.damage.corruptions.iter().for_each(|corruption| complaints.corrupt(corruption));
    complaints.generations(&replays.generations);
    write_summary(&replays, out)?;
    writeln!(out, "read {}", line::throughput(replays.bytes, took))?;
    Ok(if replays.is_exact() { Exit::Done } else { Exit::Missed })
}

fn write_finding(finding: &Finding, out: &mut dyn Write) -> std::io::Result<()> {
    let Finding { place, id, wrong } = finding;
    let when = line::time(place.time_ms);
    match wrong {
        Wrong::Different(difference) => {
            writeln!(out, "DIFFERENT {} ({place}, {when})", line::visible(id))?;
            for change in difference.to_string().lines() {
                writeln!(out, "  {}", line::visible(change))?;
            }
            Ok(())
        }
        Wrong::Unreadable(why) => writeln!(out, "UNREADABLE {place}, {when}: {why}"),
        Wrong::NoGeneration(number) => {
            let id = line::visible(id);
            writeln!(out, "NO GENERATION {number} to replay {id} by ({place}, {when})")
        }
    }
}

fn write_summary(replays: &Replays, out: &mut dyn Write) -> std::io::Result<()> {
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
