//! The profile of a simulated DSP: how often it bids, how much, how fast, and how large its bids
//! are. Owns the options and their limits; does not know how an answer is written.

use std::time::Duration;

use super::bid_fault::DspSchedule;
use super::notice_kind::NoticeOptions;
use super::spread::{LatencySpread, PriceSpread};
use crate::draws::PPM;
use crate::server::LATENCY_MAX;

/// Largest size of a bid, in bytes.
pub const BID_BYTES_MAX: usize = 1024 * 1024;

/// Most bids in one answer.
pub const BIDS_MAX: usize = 64;

/// One simulated DSP. Each choice depends only on `seed`, the DSP's index in the fleet and the
/// request's id, so a run can be repeated in any interleaving of its requests. Shares are in parts
/// per million.
#[derive(Clone, Debug, PartialEq)]
pub struct DspProfile {
    /// Source of every choice. DSPs with equal seeds still choose differently from each other.
    pub seed: u64,
    /// Names of the seats that bid, one drawn per answer. Empty: `seat-<place in the fleet>`.
    pub seats: Vec<String>,
    /// Share of requests answered 204.
    pub no_bid_ppm: u32,
    /// Prices of bids, before `above_floor_ppm`.
    pub price: PriceSpread,
    /// Share of bids at or below the floor that are raised above it by up to a quarter; the rest
    /// stay below it. The floor is assumed to be in the bid's currency.
    pub above_floor_ppm: u32,
    /// Three capital letters, sent as `cur`, even if the request does not accept it.
    pub currency: String,
    /// Time from request to answer, rounded up to the millisecond.
    pub latency: LatencySpread,
    /// Share of answers that take `late_by` instead of a latency.
    pub late_ppm: u32,
    /// Delay of late answers. Not zero if there are any.
    pub late_by: Duration,
    /// Size of one bid object: its markup is padded to this. A bid that needs more is larger, never
    /// cut.
    pub bid_bytes: usize,
    /// Share of bidding answers sent chunked, the rest with a content length.
    pub chunked_ppm: u32,
    /// Most bids in one answer: one for each of the first impressions.
    pub bids_max: usize,
    /// Share of impressions with deals where the bid is on one of the deals.
    pub deal_ppm: u32,
    /// Whether bids carry `nurl`, `burl` and `lurl`, and their markup a tracker. All lead back to
    /// the DSP, which counts them.
    pub notices: bool,
    /// Whether these include `lurl`.
    pub loss_notices: bool,
    /// How the DSP answers notices.
    pub notice: NoticeOptions,
    /// Share of bids without markup: their `nurl` returns it.
    pub markup_on_win_ppm: u32,
    /// Delay of a `nurl` that returns markup.
    pub markup_latency: Duration,
    /// Share of such calls answered 500.
    pub markup_failure_ppm: u32,
    /// Its faults, and when they occur.
    pub schedule: DspSchedule,
}

impl Default for DspProfile {
    /// A DSP that answers at once, bids 1.2 KB on 30 % of requests around 1.50 USD CPM, and is
    /// never late.
    fn default() -> Self {
        Self {
            seed: 0,
            seats: Vec::new(),
            no_bid_ppm: 700_000,
            price: PriceSpread {
                median_micros: 1_500_000,
                sigma: 0.6,
                min_micros: 50_000,
                max_micros: 40_000_000,
            },
            above_floor_ppm: 900_000,
            currency: "USD".to_owned(),
            latency: LatencySpread::default(),
            late_ppm: 0,
            late_by: Duration::from_millis(500),
            bid_bytes: 1_100,
            chunked_ppm: 0,
            bids_max: 4,
            deal_ppm: 500_000,
            notices: false,
            loss_notices: true,
            notice: NoticeOptions::default(),
            markup_on_win_ppm: 0,
            markup_latency: Duration::ZERO,
            markup_failure_ppm: 0,
            schedule: DspSchedule::default(),
        }
    }
}

impl DspProfile {
    /// The problem of this profile. None if it is valid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let shares = [
            self.no_bid_ppm,
            self.above_floor_ppm,
            self.late_ppm,
            self.chunked_ppm,
            self.deal_ppm,
            self.markup_on_win_ppm,
            self.markup_failure_ppm,
        ];
        let plain = |name: &String| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
        };
        if shares.iter().any(|&share| share > PPM) {
            Some("a share must not pass 1,000,000 parts per million")
        } else if !self.seats.iter().all(plain) {
            Some("a seat's name must be visible ASCII without quotes and backslashes")
        } else if self.currency.len() != 3 || !self.currency.bytes().all(|b| b.is_ascii_uppercase())
        {
            Some("a currency must be three capital letters")
        } else if [self.latency.p99, self.late_by, self.markup_latency]
            .iter()
            .any(|&latency| latency > LATENCY_MAX)
        {
            Some("no answer may take longer than 60 s")
        } else if self.late_ppm > 0 && self.late_by.is_zero() {
            Some("late answers need a late_by above zero")
        } else if self.bid_bytes > BID_BYTES_MAX {
            Some("a bid must not pass 1 MiB")
        } else if !(1..=BIDS_MAX).contains(&self.bids_max) {
            Some("an answer holds 1 to 64 bids")
        } else {
            let spreads = self.price.problem().or(self.latency.problem());
            spreads.or(self.notice.problem()).or(self.schedule.problem())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsp::{DspAct, NoticeAnswer};
    use crate::server::DripFrom;

    #[test]
    fn limits_hold_at_their_edges() {
        let check = |want: Option<&str>, edit: &dyn Fn(&mut DspProfile)| {
            let mut profile = DspProfile::default();
            edit(&mut profile);
            let problem = profile.problem();
            assert_eq!(problem.is_some(), want.is_some(), "{profile:?}");
            if let (Some(problem), Some(want)) = (problem, want) {
                assert!(problem.contains(want), "{problem}");
            }
        };
        check(None, &|_| ());
        check(None, &|p| p.no_bid_ppm = PPM);
        check(Some("share"), &|p| p.no_bid_ppm = PPM + 1);
        check(Some("share"), &|p| p.deal_ppm = PPM + 1);
        check(Some("share"), &|p| p.markup_on_win_ppm = PPM + 1);
        check(Some("share"), &|p| p.markup_failure_ppm = PPM + 1);
        check(Some("60 s"), &|p| p.markup_latency = LATENCY_MAX + Duration::from_nanos(1));
        check(Some("a status"), &|p| p.notice.answer = NoticeAnswer::Status(199));
        check(Some("location"), &|p| p.notice.answer = NoticeAnswer::Redirect(String::new()));
        check(Some("pieces"), &|p| {
            let every = Duration::ZERO;
            p.schedule =
                DspSchedule::always(DspAct::Trickle { bytes: 1, every, from: DripFrom::Head });
        });
        check(None, &|p| p.seats = vec!["a-b_c:1".to_owned()]);
        check(Some("seat"), &|p| p.seats = vec!["a\"b".to_owned()]);
        check(Some("seat"), &|p| p.seats = vec![String::new()]);
        check(Some("currency"), &|p| p.currency = "usd".to_owned());
        check(Some("currency"), &|p| p.currency = "US".to_owned());
        check(None, &|p| p.latency = LatencySpread::constant(LATENCY_MAX));
        check(Some("60 s"), &|p| p.late_by = LATENCY_MAX + Duration::from_nanos(1));
        check(None, &|p| (p.late_ppm, p.late_by) = (0, Duration::ZERO));
        check(Some("late_by"), &|p| (p.late_ppm, p.late_by) = (1, Duration::ZERO));
        check(None, &|p| p.bid_bytes = BID_BYTES_MAX);
        check(Some("1 MiB"), &|p| p.bid_bytes = BID_BYTES_MAX + 1);
        check(None, &|p| p.bids_max = BIDS_MAX);
        check(Some("64 bids"), &|p| p.bids_max = BIDS_MAX + 1);
        check(Some("64 bids"), &|p| p.bids_max = 0);
        check(Some("sigma"), &|p| p.price.sigma = -1.0);
    }
}
