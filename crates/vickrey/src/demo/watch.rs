//! Progress of the demo: a page on a terminal, otherwise a line from time to time.

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cache_serve::Cache;
use console::style;
use exchange_serve::{Exchange, ExchangeConfig};
use live_serve::Live;
use testbed::load::LoadProgress;
use testbed::pacer::PacerLoadProgress;
use testbed::provider::ProviderFarm;

use super::args::DemoArgs;
use super::screen::{Screen, ScreenSize};
use super::summary::{CallerLatency, DemoSummary, Totals};
use super::{bidder, campaigns, creatives, enrichment, feed};
use crate::config::budgets::CampaignBudgets;

/// Interval between pages on a terminal, and between lines otherwise.
const DRAW_EVERY: Duration = Duration::from_millis(500);
const PRINT_EVERY: Duration = Duration::from_secs(2);

/// The load, shared with its thread.
pub(super) struct DemoLoad {
    pub(super) progress: Mutex<Option<LoadProgress>>,
    pub(super) bidder: Mutex<Option<PacerLoadProgress>>,
    pub(super) is_done: AtomicBool,
    pub(super) stop: Arc<AtomicBool>,
}

pub(super) struct WatchedDemo<'w> {
    pub(super) args: &'w DemoArgs,
    pub(super) exchange: &'w Exchange,
    pub(super) budgets: Option<&'w CampaignBudgets>,
    pub(super) live: &'w Live,
    pub(super) cache: &'w Cache,
    pub(super) providers: &'w ProviderFarm,
    pub(super) url: &'w str,
}

struct DemoMoment {
    elapsed: Duration,
    totals: Totals,
    auctions_per_s: f64,
    progress: Option<LoadProgress>,
    bidder: Option<PacerLoadProgress>,
}

impl DemoMoment {
    fn summary<'s>(&'s self, config: &'s ExchangeConfig) -> DemoSummary<'s> {
        let late = self.progress.map_or(0, |progress| progress.after_tmax);
        let latency = self.progress.and_then(|progress| progress.latency_us);
        let (auctions_per_s, callers) = (self.auctions_per_s, CallerLatency { latency, late });
        DemoSummary { config, totals: &self.totals, auctions_per_s, callers }
    }
}

/// Shows progress until the load is done or stopped.
pub(super) fn watch(
    watched: &WatchedDemo<'_>,
    load: &DemoLoad,
    out: &mut dyn io::Write,
) -> anyhow::Result<()> {
    let mut screen = if watched.args.json { None } else { Screen::open()? };
    let every = if screen.is_some() { DRAW_EVERY } else { PRINT_EVERY };
    let started = Instant::now();
    let (mut last, mut last_at) = (Totals::of(watched.exchange), started);
    // A terminal has its first page at once.
    let mut is_due = screen.is_some();
    while !load.is_done.load(Ordering::Relaxed) && !load.stop.load(Ordering::Relaxed) {
        if !is_due {
            std::thread::park_timeout(Duration::from_millis(50));
            is_due = last_at.elapsed() >= every;
            continue;
        }
        is_due = false;
        let totals = Totals::of(watched.exchange);
        let auctions_per_s = totals.since(&last).auctions_per_s(last_at.elapsed().as_secs_f64());
        (last, last_at) = (totals.clone(), Instant::now());
        let progress = *load.progress.lock().expect("nothing panics while it holds the progress");
        let bidder = *load.bidder.lock().expect("nothing panics while it holds the progress");
        let elapsed = started.elapsed();
        let moment = DemoMoment { elapsed, totals, auctions_per_s, progress, bidder };
        match &mut screen {
            Some(screen) => {
                let size = screen.size();
                screen.draw(&page(watched, &moment, size), size)?;
            }
            None => writeln!(out, "{}", line(watched, &moment))?,
        }
    }
    Ok(())
}

fn line(watched: &WatchedDemo<'_>, moment: &DemoMoment) -> String {
    let generation = watched.exchange.generation();
    let summary = moment.summary(&generation.config);
    let campaigns = watched.budgets.map(campaigns::brief).unwrap_or_default();
    let decisions = moment.bidder.map_or(0, |bidder| bidder.requests);
    let fed = watched.live.figures().delivered;
    let summary = summary.line(moment.elapsed);
    let served = watched.cache.figures().requests;
    format!(
        "{summary}{campaigns}  pacer {decisions} decisions  feed {fed} messages  cache {served} creatives"
    )
}

/// A page that fits a screen of this size.
fn page(watched: &WatchedDemo<'_>, moment: &DemoMoment, size: ScreenSize) -> String {
    let WatchedDemo { args, exchange, budgets, live, cache, providers, url } = *watched;
    let left = args.duration.saturating_sub(moment.elapsed).as_secs();
    let in_flight = moment.progress.map_or(0, |progress| progress.in_flight);
    let title = format!(
        "{} DSPs, {} requests/s, {left} s left, {in_flight} in flight",
        args.dsps, args.rate
    );
    let mut page = format!("{} {title}; Ctrl-C ends it\n{url}\n\n", style("vickrey demo").bold());
    let generation = exchange.generation();
    let summary = moment.summary(&generation.config);
    page.push_str(&summary.head());
    if let Some(budgets) = budgets {
        page.push('\n');
        for line in campaigns::lines(budgets, args) {
            writeln!(page, "{line}").expect("a String takes any text");
        }
    }
    if let Some(bidder) = &moment.bidder {
        writeln!(page, "pacer: {}", bidder::brief(bidder, None)).expect("a String takes any text");
    }
    let enriched = enrichment::brief(&generation, providers);
    for line in [feed::brief(live), creatives::brief(cache), enriched] {
        writeln!(page, "{line}").expect("a String takes any text");
    }
    page.push('\n');
    let rows = size.rows.saturating_sub(page.lines().count() + 1);
    page.push_str(&summary.tables(rows, size.columns));
    page
}
