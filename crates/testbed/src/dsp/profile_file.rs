//! Profiles of simulated DSPs in a TOML file: `[[dsp]]` tables, each with a `[[dsp.phase]]` per
//! step of its schedule. Owns the keys, not their effects.

mod acts;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use runtime::config::{self, ConfigProblems, Optional, Required, Section, ms, secs};

use super::bid_fault::{DspBehaviour, DspPhase, DspSchedule};
use super::notice_kind::{NoticeAnswer, NoticeOptions};
use super::profile::{BID_BYTES_MAX, BIDS_MAX, DspProfile};
use super::spread::{LatencySpread, PriceSpread};
use crate::draws::PPM;

pub use acts::{ACTS, ActDoc};

/// Most DSPs in one file.
const DSPS_MAX: usize = 10_000;

/// Reads the profiles of a file, one entry for each DSP.
///
/// # Errors
///
/// Every problem of the file at once.
pub fn load_profiles(path: &Path) -> Result<Vec<DspProfile>, ConfigProblems> {
    config::load(path, read)
}

/// As [`load_profiles`], from `text`; `name` is the file's name in messages.
///
/// # Errors
///
/// Every problem of the text at once.
pub fn parse_profiles(name: &str, text: &str) -> Result<Vec<DspProfile>, ConfigProblems> {
    config::parse(name, text, read)
}

/// Every key of a profile file, as Markdown.
pub fn profiles_reference() -> String {
    config::reference_markdown(&config::describe(read))
}

fn read(s: &mut Section<'_>) -> Vec<DspProfile> {
    let seed = s.integer("seed", 1, 0.., "Source of every choice; equal seeds choose equally.");
    let groups = s.tables("dsp", "Simulated DSPs of one kind.", |s| read_dsp(s, seed));
    let count: usize = groups.iter().map(|(count, _)| count).sum();
    if !(1..=DSPS_MAX).contains(&count) {
        let remedy = format!("comes to {count} DSPs, must be 1 to {DSPS_MAX} in all `[[dsp]]`");
        s.problem("dsp", count, remedy);
        return Vec::new();
    }
    groups.into_iter().flat_map(|(count, profile)| vec![profile; count]).collect()
}

fn read_dsp(s: &mut Section<'_>, seed: u64) -> (usize, DspProfile) {
    let count = s.integer("count", 1, 1..=DSPS_MAX, "How many of them.");
    let (price, currency) = read_price(s);
    let bids = s.ppm("bids", "30%", "Share of requests that are answered with a bid.").get();
    let profile = DspProfile {
        seed,
        seats: s.texts(
            "seats",
            &[],
            plain,
            "Names of the seats that bid; empty: `seat-` and the DSP's place among all.",
        ),
        no_bid_ppm: PPM - bids,
        price,
        currency,
        above_floor_ppm: s
            .ppm("above_floor", "90%", "Share of offers below the floor that are raised above it.")
            .get(),
        latency: s.section("latency", "Time from request to answer.", read_latency),
        late_ppm: s.ppm("late", "0%", "Share of answers that take `late_by` instead.").get(),
        late_by: s.duration("late_by", "500ms", ms(1)..=secs(60), "How long late answers take."),
        bid_bytes: s.bytes("bid_size", "1100B", 0..=BID_BYTES_MAX, "Size of one bid, padded."),
        chunked_ppm: s
            .ppm("chunked", "0%", "Share of answers with bids that are sent in two chunks.")
            .get(),
        bids_max: s.integer("bids_max", 4, 1..=BIDS_MAX, "Most bids in one answer."),
        deal_ppm: s.ppm("deals", "50%", "Share of impressions with deals bid on by deal.").get(),
        notices: s.boolean(
            "notices",
            false,
            "Bids carry `nurl`, `burl` and `lurl`, which lead back and are counted.",
        ),
        loss_notices: s.boolean("loss_notices", true, "Whether `lurl` is among these."),
        notice: s.section("notice", "How notices are answered.", read_notice),
        markup_on_win_ppm: s
            .ppm("markup_on_win", "0%", "Share of bids whose `nurl` returns the markup.")
            .get(),
        markup_latency: s.duration(
            "markup_latency",
            "0ms",
            ms(0)..=secs(60),
            "How long such a `nurl` takes.",
        ),
        markup_failure_ppm: s
            .ppm("markup_failures", "0%", "Share of such calls answered 500.")
            .get(),
        schedule: read_schedule(s),
    };
    (count, profile)
}

fn plain(name: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    if name.is_empty() || !name.bytes().all(fits) {
        return Err("must be visible ASCII without quotes and backslashes".to_owned());
    }
    Ok(name.to_owned())
}

/// The limits have the same ratio to the median as those of the default profile.
fn read_price(s: &mut Section<'_>) -> (PriceSpread, String) {
    let price = s.price("price", "1.50 USD", "Median offer, CPM, and the currency of all bids.");
    let sigma = s.ppm("price_sigma", "60%", "Standard deviation of the logarithm of offers.");
    let median_micros = price.amount.micros();
    let spread = PriceSpread {
        median_micros,
        sigma: f64::from(sigma.get()) / f64::from(PPM),
        min_micros: median_micros / 30,
        max_micros: median_micros.saturating_mul(27),
    };
    (spread, price.currency.to_string())
}

fn read_latency(s: &mut Section<'_>) -> LatencySpread {
    let latency = LatencySpread {
        min: s.duration("min", "0ms", ms(0)..=secs(60), "No answer is faster."),
        median: s.duration("median", "0ms", ms(0)..=secs(60), "Half of them are faster."),
        p99: s.duration("p99", "0ms", ms(0)..=secs(60), "One in a hundred is slower."),
    };
    if latency.problem().is_some() {
        s.problem("p99", "0ms", "must be at least `median`, and that at least `min`");
    }
    latency
}

fn read_notice(s: &mut Section<'_>) -> NoticeOptions {
    let status = s.integer("status", 204, 200..=599, "Status of the answers.");
    let hang = s.boolean("hang", false, "Never answers instead.");
    let redirect = s.parsed(
        "redirect",
        Optional("http://127.0.0.1:9/"),
        plain,
        "Answers 302 with this location instead.",
    );
    if hang && redirect.is_some() {
        s.problem("redirect", "", "cannot go with `hang`, remove one");
    }
    let fail_first = s.integer("fail_first", 0, 0.., "The first so many calls are answered 500.");
    let answer = match redirect {
        Some(to) => NoticeAnswer::Redirect(to),
        None if hang => NoticeAnswer::Hang,
        None => NoticeAnswer::Status(status),
    };
    NoticeOptions { answer, fail_first }
}

fn read_schedule(s: &mut Section<'_>) -> DspSchedule {
    let repeat = s.boolean("repeat", false, "Begins again after the last phase.");
    let doc = "What it does for a time instead of answering, one after another; none: healthy.";
    let phases = s.tables("phase", doc, read_phase);
    let schedule = DspSchedule { phases, repeat };
    // Problems of one behaviour are reported with it.
    let sound = schedule.phases.iter().all(|phase| phase.behaviour.problem().is_none());
    if let Some(problem) = schedule.problem().filter(|_| sound) {
        s.problem("phase", "", problem);
    }
    schedule
}

fn read_phase(s: &mut Section<'_>) -> DspPhase {
    let year: Duration = secs(365 * 86_400);
    let lasts = s.duration(
        "lasts",
        Optional("10s"),
        ms(1)..=year,
        "How long; absent, for the last phase only: to the end.",
    );
    let names: Vec<_> = ACTS.iter().map(|act| (act.name, act)).collect();
    let act = s.one_of(
        "kind",
        Required("healthy"),
        &names,
        "What it does; `vickrey dsp --list-behaviours` explains them.",
    );
    let share = s.ppm("share", "100%", "Share of bid requests that it falls on.");
    let behaviour = DspBehaviour { act: acts::read(s, act), share_ppm: share.get() };
    if let Some(problem) = behaviour.problem() {
        s.problem("kind", act.name, problem);
    }
    DspPhase { lasts, behaviour }
}
