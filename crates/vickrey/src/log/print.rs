//! `vickrey log cat` and `vickrey log tail`: auctions, one per line.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use audit::{
    AuctionRecord, AuctionRow, Filter, FollowEvent, Gap, GenerationIndex, GenerationLookup,
    GenerationStart, LaneFollower, LaneKind, Publication, ReadBuffer, RecordDirectory, RecordKind,
    RecordPosition, TimeWindow,
};
use clap::Args;

use super::damage_report::DamageReport;
use super::durable_rows::{self, DurableRows};
use super::filter_args::FilterArgs;
use super::line;
use super::source::{RecordSource, cannot_read, walk};
use crate::command::exit::Exit;

/// Polling interval of `tail -f`.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Polls between two reads of new generations; an auction of an unknown one causes another.
const POLLS_BETWEEN_GENERATIONS: u64 = 10;

#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    source: RecordSource,
    /// Show settlements (what was billed to accounts) instead of auctions; the filter may only use
    /// `time`
    #[arg(long)]
    settlements: bool,
    /// Show wins that bidders reported to the pacer instead of auctions; the filter may only use
    /// `time`
    #[arg(long, conflicts_with = "settlements")]
    wins: bool,
    /// Show what happened to lots instead of auctions, secret maxima included; the filter may only
    /// use `time`
    #[arg(long, conflicts_with_all = ["settlements", "wins"])]
    lots: bool,
    /// Print one JSON object per auction, as in docs/log.md
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: FilterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    source: RecordSource,
    /// Also show new auctions until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Number of most recent auctions to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    lines: u32,
    /// Print one JSON object per auction, as in docs/log.md
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: FilterArgs,
}

pub(crate) fn cat(args: &CatArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let rows = match args {
        CatArgs { settlements: true, .. } => Some(DurableRows::Settlements),
        CatArgs { wins: true, .. } => Some(DurableRows::Wins),
        CatArgs { lots: true, .. } => Some(DurableRows::Lots),
        _ => None,
    };
    if let Some(rows) = rows {
        return durable_rows::cat(rows, &args.source, &args.selection, args.json, out);
    }
    let filter = args.selection.filter()?;
    let directory = args.source.open()?;
    let generations = GenerationIndex::find(&directory).map_err(cannot_read)?;
    let mut printer = Printer::new(&generations, &filter, args.json);
    printer.damage.generations(&generations.problems());
    printer.take_puts();
    let lane = directory.lane(LaneKind::Firehose).map_err(cannot_read)?;
    lane.foreign().iter().for_each(|corruption| printer.damage.corrupt(corruption));
    let mut room = ReadBuffer::default();
    for segment in lane.within(filter.window()) {
        let mut show = |place: &RecordPosition, kind: u8, payload: &[u8]| {
            let line = printer.line(place, kind, payload)?;
            Ok(printer.write(out, place.time_ms, line)?)
        };
        let walked = walk(&lane, &segment, &mut room, &mut show)?;
        walked.damage.corruptions.iter().for_each(|corrupt| printer.damage.corrupt(corrupt));
    }
    printer.finish(out)?;
    Ok(printer.damage.exit())
}

pub(crate) fn tail(args: &TailArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let filter = args.selection.filter()?;
    let stop = Arc::new(AtomicBool::new(false));
    let signals = args.follow.then(|| crate::peers::long_run::stop_on_signal(Arc::clone(&stop)));
    let _signals = signals.transpose()?;
    let directory = if args.follow { args.source.open_growing()? } else { args.source.open()? };
    let generations = GenerationIndex::find(&directory).map_err(cannot_read)?;
    let mut printer = Printer::new(&generations, &filter, args.json);
    printer.damage.generations(&generations.problems());
    let next = last(args, &directory, &mut printer, out)?;
    out.flush()?;
    if args.follow {
        let follow = LaneFollower::new(&directory, LaneKind::Firehose, next);
        follow_on(follow, &mut printer, out, &stop)?;
    }
    Ok(printer.damage.exit())
}

/// Shows the last lines, and returns the next sequence.
fn last(
    args: &TailArgs,
    directory: &RecordDirectory,
    printer: &mut Printer<'_, '_>,
    out: &mut dyn Write,
) -> anyhow::Result<u64> {
    let lane = directory.lane(LaneKind::Firehose).map_err(cannot_read)?;
    let wanted = args.lines as usize;
    let mut lines: VecDeque<(u64, String)> = VecDeque::new();
    let mut room = ReadBuffer::default();
    let (mut next, mut is_first) = (1, true);
    let within = lane.within(printer.filter.window());
    for segment in lane.segments().iter().rev() {
        // The newest segment is always read: the follower continues from its end.
        let is_wanted = within.iter().any(|within| within.identity() == segment.identity());
        if !is_first && (lines.len() >= wanted || !is_wanted) {
            continue;
        }
        let mut here = VecDeque::new();
        let missing = wanted.saturating_sub(lines.len());
        next = next.max(segment.identity().first);
        let mut show = |place: &RecordPosition, kind: u8, payload: &[u8]| {
            next = next.max(place.sequence + 1);
            let line = printer.line(place, kind, payload)?;
            here.extend(line.map(|line| (place.time_ms, line)));
            if here.len() > missing {
                here.pop_front();
            }
            Ok(())
        };
        let walked = walk(&lane, segment, &mut room, &mut show)?;
        walked.damage.corruptions.iter().for_each(|corrupt| printer.damage.corrupt(corrupt));
        here.extend(lines);
        lines = here;
        is_first = false;
    }
    let from_ms = lines.front().map_or(u64::MAX, |(time_ms, _)| *time_ms);
    printer.take_puts();
    printer.puts.retain(|put| put.place.time_ms >= from_ms);
    for (time_ms, line) in lines {
        printer.write(out, time_ms, Some(line))?;
    }
    printer.finish(out)?;
    Ok(next)
}

fn follow_on(
    mut follow: LaneFollower<'_>,
    printer: &mut Printer<'_, '_>,
    out: &mut dyn Write,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    printer.is_following = true;
    for poll in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        printer.may_refresh = true;
        if poll.is_multiple_of(POLLS_BETWEEN_GENERATIONS) {
            printer.refresh_generations()?;
        }
        let mut failed = None;
        let polled = follow.poll(&mut |coming| {
            if failed.is_some() || stop.load(Ordering::Relaxed) {
                return;
            }
            match coming {
                FollowEvent::Corruption(corruption) => printer.damage.corrupt(corruption),
                FollowEvent::Record(place, kind, payload) => {
                    let line = printer.line(place, kind, payload);
                    let written = line.and_then(|line| Ok(printer.write(out, u64::MAX, line)?));
                    failed = written.err();
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        polled.map_err(cannot_read)?;
        printer.finish(out)?;
        out.flush()?;
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Writes records as lines, with the generations between them.
struct Printer<'g, 'd> {
    filter: &'g Filter,
    window: TimeWindow,
    generations: &'g GenerationIndex<'d>,
    lookup: GenerationLookup<'g, 'd>,
    is_json: bool,
    puts: VecDeque<GenerationStart>,
    /// Sequence of the last generation that was taken into `puts`.
    taken: u64,
    /// Whether an unknown generation may still be recorded.
    is_following: bool,
    /// Whether this poll has not read new generations yet.
    may_refresh: bool,
    damage: DamageReport,
}

impl<'g, 'd> Printer<'g, 'd> {
    fn new(generations: &'g GenerationIndex<'d>, filter: &'g Filter, is_json: bool) -> Self {
        Self {
            filter,
            window: filter.window(),
            generations,
            lookup: GenerationLookup::new(generations),
            is_json,
            puts: VecDeque::new(),
            taken: 0,
            is_following: false,
            may_refresh: false,
            damage: DamageReport::default(),
        }
    }

    /// Takes over generations found since the last call.
    fn take_puts(&mut self) {
        let found = self.generations.list().into_iter();
        self.puts.extend(found.filter(|put| put.place.sequence > self.taken));
        self.taken = self.puts.back().map_or(self.taken, |put| put.place.sequence);
    }

    fn refresh_generations(&mut self) -> anyhow::Result<()> {
        self.generations.refresh().map_err(cannot_read)?;
        self.lookup.forget();
        self.take_puts();
        self.may_refresh = false;
        Ok(())
    }

    /// The line of a record that the filter selects.
    fn line(
        &mut self,
        place: &RecordPosition,
        kind: u8,
        payload: &[u8],
    ) -> anyhow::Result<Option<String>> {
        if !self.window.holds(place.time_ms) {
            return Ok(None);
        }
        Ok(match RecordKind::from_code(kind) {
            Some(RecordKind::Auction) => match AuctionRecord::decode(payload) {
                Err(error) => {
                    self.damage.unreadable(place, &error);
                    None
                }
                Ok(record) => {
                    let facts = self.lookup.get(record.generation).map_err(cannot_read)?;
                    if facts.is_none() && self.is_following && self.may_refresh {
                        self.refresh_generations()?;
                    }
                    let facts = self.lookup.get(record.generation).map_err(cannot_read)?;
                    let row = self.filter.matches(&record, facts);
                    let row = row.then(|| AuctionRow::of(place, &record, facts));
                    row.map(|row| self.render(&row)).transpose()?
                }
            },
            Some(RecordKind::Gap) => match Gap::decode(payload) {
                Err(error) => {
                    self.damage.unreadable(place, &error);
                    None
                }
                Ok(gap) => self.other_line(line::gap(place, gap.records)),
            },
            Some(RecordKind::Publication) if self.filter.is_about_time_alone() => {
                match Publication::decode(payload) {
                    Err(error) => {
                        self.damage.unreadable(place, &error);
                        None
                    }
                    Ok(said) => self.other_line(line::publication(place, &said)),
                }
            }
            Some(
                RecordKind::Notice
                | RecordKind::Generation
                | RecordKind::Watermark
                | RecordKind::Settlements
                | RecordKind::Publication
                | RecordKind::Lot,
            ) => None,
            None => self.other_line(line::unknown(place, kind)),
        })
    }

    fn render(&self, row: &AuctionRow) -> anyhow::Result<String> {
        Ok(if self.is_json { serde_json::to_string(row)? } else { line::auction(row) })
    }

    /// Anything but an auction is a line of text, and goes to stderr with JSON.
    fn other_line(&self, text: String) -> Option<String> {
        if !self.is_json {
            return Some(text);
        }
        drop(writeln!(io::stderr(), "{text}"));
        None
    }

    fn write(&mut self, out: &mut dyn Write, time_ms: u64, line: Option<String>) -> io::Result<()> {
        let Some(line) = line else { return Ok(()) };
        self.write_puts(out, time_ms)?;
        writeln!(out, "{line}")
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.write_puts(out, u64::MAX)
    }

    /// Writes generations in force until then.
    fn write_puts(&mut self, out: &mut dyn Write, time_ms: u64) -> io::Result<()> {
        while let Some(put) = self.puts.pop_front_if(|put| put.place.time_ms <= time_ms) {
            if !self.is_json && self.window.holds(put.place.time_ms) {
                writeln!(out, "{}", line::generation(&put))?;
            }
        }
        Ok(())
    }
}
