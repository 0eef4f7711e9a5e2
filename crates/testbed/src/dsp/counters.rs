//! The counters of each DSP. One thread writes a DSP's counters, any thread reads them.

use std::time::Duration;

use super::notice_kind::DspNotice;
use crate::server::{ConnectionCounters, SingleWriterCounter};

/// The live counters of one DSP; see [`DspStats`] for what they mean.
#[derive(Debug, Default)]
pub(crate) struct DspCounters {
    pub(crate) requests: SingleWriterCounter,
    pub(crate) bid_answers: SingleWriterCounter,
    pub(crate) bids: SingleWriterCounter,
    pub(crate) no_bids: SingleWriterCounter,
    pub(crate) late: SingleWriterCounter,
    pub(crate) misbehaved: SingleWriterCounter,
    pub(crate) notices: NoticeCountersByKind,
    pub(crate) connections: ConnectionCounters,
}

/// The live counters of each kind of notice.
#[derive(Debug, Default)]
pub(crate) struct NoticeCountersByKind {
    win: NoticeCounters,
    bill: NoticeCounters,
    loss: NoticeCounters,
    view: NoticeCounters,
}

/// The live counters of one kind of notice; see [`NoticeStats`].
#[derive(Debug, Default)]
pub(crate) struct NoticeCounters {
    pub(crate) counted: SingleWriterCounter,
    pub(crate) failed: SingleWriterCounter,
    pub(crate) malformed: SingleWriterCounter,
    pub(crate) duplicates: SingleWriterCounter,
    pub(crate) overpriced: SingleWriterCounter,
    pub(crate) price_micros: SingleWriterCounter,
}

impl NoticeCountersByKind {
    pub(crate) const fn of(&self, notice: DspNotice) -> &NoticeCounters {
        match notice {
            DspNotice::Win => &self.win,
            DspNotice::Bill => &self.bill,
            DspNotice::Loss => &self.loss,
            DspNotice::View => &self.view,
        }
    }
}

/// The counts of one DSP since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DspStats {
    /// Complete bid requests, including malformed ones.
    pub requests: u64,
    /// Requests answered with readable bids.
    pub bid_answers: u64,
    /// Bids in those answers.
    pub bids: u64,
    /// Requests answered 204.
    pub no_bids: u64,
    /// Answers delayed by `late_by`; also counted above.
    pub late: u64,
    /// Requests that were not HTTP, not allowed, too large, or not OpenRTB.
    pub malformed: u64,
    /// Requests with a faulty answer. Those with readable bids are also counted above.
    pub misbehaved: u64,
    /// Calls of `nurl`.
    pub win: NoticeStats,
    /// Calls of `burl`.
    pub bill: NoticeStats,
    /// Calls of `lurl`.
    pub loss: NoticeStats,
    /// Calls of the tracker in the markup.
    pub view: NoticeStats,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections closed at once because the fleet was full.
    pub connections_refused: u64,
}

/// The counts of one kind of notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct NoticeStats {
    /// All calls: the sum of the next four.
    pub calls: u64,
    /// First deliveries of well-formed notices.
    pub counted: u64,
    /// Calls answered with a failure, a redirect or never: not delivered, so not examined.
    pub failed: u64,
    /// Delivered without the parameters that the bid's URL asks for.
    pub malformed: u64,
    /// Delivered and well-formed, but repeated for an auction and impression.
    pub duplicates: u64,
    /// Counted notices that charge more than was offered.
    pub overpriced: u64,
    /// Sum of the counted notices' prices, in micros CPM of the DSP's currency.
    pub price_micros: u64,
}

impl NoticeStats {
    fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            counted: self.counted + other.counted,
            failed: self.failed + other.failed,
            malformed: self.malformed + other.malformed,
            duplicates: self.duplicates + other.duplicates,
            overpriced: self.overpriced + other.overpriced,
            price_micros: self.price_micros + other.price_micros,
        }
    }
}

impl NoticeCounters {
    fn read(&self) -> NoticeStats {
        // Written last, so read first: all that it includes is visible then.
        let counted = self.counted.read();
        let (failed, malformed) = (self.failed.read(), self.malformed.read());
        let duplicates = self.duplicates.read();
        NoticeStats {
            calls: counted + failed + malformed + duplicates,
            counted,
            failed,
            malformed,
            duplicates,
            overpriced: self.overpriced.read(),
            price_micros: self.price_micros.read(),
        }
    }
}

impl DspCounters {
    pub(crate) fn read(&self) -> DspStats {
        DspStats {
            requests: self.requests.read(),
            bid_answers: self.bid_answers.read(),
            bids: self.bids.read(),
            no_bids: self.no_bids.read(),
            late: self.late.read(),
            malformed: self.connections.malformed.read(),
            misbehaved: self.misbehaved.read(),
            win: self.notices.win.read(),
            bill: self.notices.bill.read(),
            loss: self.notices.loss.read(),
            view: self.notices.view.read(),
            connections_open: self.connections.open.read(),
            connections_refused: self.connections.refused.read(),
        }
    }
}

/// The counts of a fleet since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FleetStats {
    /// One entry per DSP, in the order of the profiles.
    pub dsps: Vec<DspStats>,
    /// CPU time of each thread. If it approaches wall time, the fleet is the bottleneck. Zero if
    /// the kernel does not report it (`/proc/self/task/*/schedstat`).
    pub cpu: Vec<Duration>,
}

impl FleetStats {
    /// The sum over all DSPs.
    pub fn total(&self) -> DspStats {
        self.dsps.iter().fold(DspStats::default(), |sum, dsp| DspStats {
            requests: sum.requests + dsp.requests,
            bid_answers: sum.bid_answers + dsp.bid_answers,
            bids: sum.bids + dsp.bids,
            no_bids: sum.no_bids + dsp.no_bids,
            late: sum.late + dsp.late,
            malformed: sum.malformed + dsp.malformed,
            misbehaved: sum.misbehaved + dsp.misbehaved,
            win: sum.win.plus(dsp.win),
            bill: sum.bill.plus(dsp.bill),
            loss: sum.loss.plus(dsp.loss),
            view: sum.view.plus(dsp.view),
            connections_open: sum.connections_open + dsp.connections_open,
            connections_refused: sum.connections_refused + dsp.connections_refused,
        })
    }
}
