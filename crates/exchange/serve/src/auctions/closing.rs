//! From bids to the caller's answer: judges, clears, fetches ads of win notices, and plans notices.
//!
//! `exchange-core` makes all decisions about money.

use std::sync::Arc;
use std::time::Duration;

use exchange_core::delivery::{BestEffort, ForwardedDevice, Notice};
use exchange_core::explain::response_content;
use exchange_core::guard::{CallTrial, CallVerdict};
use exchange_core::record::CallOutcome;
use exchange_core::record::JudgedAuction;
use exchange_core::{
    Auction, AuctionSchedule, ClearedAuction, Clearing, Conclusion, DspAnswer, Fate, FetchedMarkup,
    Judge, Judgement, MarkupRequest, NotSent, NoticeKind, NoticeMode, ResponseFate, Sale,
    SaleBilledNow, Sealing, TokenId, Win, checked_markup, conclude, markup_wanted, offer_others,
    sales,
};
use openrtb::codes::NoBidReason;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::auctions::no_bid::no_bid_reason;
use crate::auctions::record::{Calls, RecordedAuction, recorded_calls};
use crate::auctions::reservations::{AuctionReservations, DirectOffer, SealedReservation};
use crate::auctions::trace::AuctionTimings;
use crate::budgets::billing::DirectBill;
use crate::fanout::Outcomes;
use crate::notices::{CallError, MarkupFetch, NoticeCommand, Sealer, ServerAnswer, unix_ms};

/// Time kept from fetching ads, to write the answer.
const WRITE_TIME: Duration = Duration::from_millis(1);

#[derive(Clone, Copy)]
pub struct AuctionClosing<'s> {
    pub recorded: RecordedAuction<'s>,
    pub auction: &'s Auction<'s>,
    pub schedule: &'s AuctionSchedule,
    pub calls: Calls<'s>,
    pub outcomes: &'s Outcomes,
    pub direct: Option<&'s DirectOffer<'s>>,
}

pub struct ClosedAuction {
    pub response: Result<String, NoBidReason>,
    pub notices: Vec<NoticeCommand>,
    /// Calls with an unreadable bid response, by position; they count as malformed.
    pub unreadable: Vec<usize>,
    pub timings: AuctionTimings,
}

impl AuctionClosing<'_> {
    /// Judges, clears, and writes the answer and the record. `timings` end at the close.
    pub async fn conclude(&self, trials: Vec<CallTrial>, timings: AuctionTimings) -> ClosedAuction {
        let answers = self.answers();
        let uncounted = PendingCounts { closing: self, trials };
        let mut judging = Judge::new(self.auction, &answers);
        while judging.proceed() {
            tokio::task::yield_now().await; // Others wait for the shard.
        }
        let mut judgement = judging.finish();
        let unreadable = self.note_responses(uncounted.into_trials(), &answers, &judgement);
        let sealer = self.recorded.snapshot.sealer();
        let mut fetched = Vec::new();
        let RecordedAuction { shard, snapshot, .. } = self.recorded;
        let mut reservations = AuctionReservations::new(shard, snapshot, self.auction, self.direct);
        let mut clearing = reservations.clear(&judgement);
        if let Some(sealer) = sealer {
            let until = self.recorded.shard.instant(self.schedule.deadline) - WRITE_TIME;
            let until = until.min(Instant::now() + sealer.markup_timeout);
            let mut ads =
                MarkupFetcher { closing: self, sealer, until, without_markup: Vec::new() };
            while ads.fetch(&mut judgement, &clearing, &mut fetched).await {
                clearing = reservations.clear(&judgement);
            }
            let authorise = |win: &Win| reservations.authorise(&judgement, win);
            offer_others(self.auction, &judgement, &mut clearing, authorise);
        }
        reservations.keep_returned(&judgement, &clearing);
        let sales = sales(self.auction, &judgement, &clearing);
        self.count(&judgement, &clearing, &sales);
        let cleared = ClearedAuction {
            answers: &answers,
            judgement: &judgement,
            clearing: &clearing,
            sales: &sales,
        };
        let cleared_at = Instant::now();
        let reserved = reservations.sealed();
        let sealing = sealer.map(|sealer| Sealing {
            keys: &sealer.keys,
            base: &sealer.base,
            node: sealer.node,
            now_unix_s: unix_ms() / 1000,
            lifetimes: &sealer.lifetimes,
            fetched: &fetched,
            reserved: &reserved,
        });
        let mut conclusion = conclude(self.auction, &cleared, sealing.as_ref());
        let refused = reservations.refused().to_vec();
        let unbilled = reservations.hand_over(reserved, &conclusion.billable);
        let billed = std::mem::take(&mut conclusion.billed);
        self.settle_unbilled(self.bill(unbilled, billed, &sales), &sales);
        let (response, notices) = self.notify(conclusion);
        let response = response.ok_or_else(|| no_bid_reason(&self.outcomes.calls, self.direct));
        let timings =
            AuctionTimings { cleared: Some(cleared_at), answered: Instant::now(), ..timings };
        let calls = recorded_calls(self.calls, self.outcomes, timings.arrival);
        let calls = calls.chain(self.direct.map(DirectOffer::call));
        let no_bid = response.as_ref().err().copied();
        let judged = JudgedAuction { cleared, refusals: &refused };
        self.recorded.closed(judged, calls, no_bid, &timings);
        // The record delays the answer too.
        let timings = AuctionTimings { answered: Instant::now(), ..timings };
        ClosedAuction { response, notices, unreadable, timings }
    }

    fn answers(&self) -> Vec<DspAnswer<'_>> {
        let mut answers = Vec::with_capacity(self.calls.0.len());
        for (call, (ask, outcome)) in self.calls.0.iter().zip(&self.outcomes.calls).enumerate() {
            if *outcome == CallOutcome::Answered {
                answers.push(DspAnswer { ask: *ask, body: self.outcomes.body(call) });
            }
        }
        answers.extend(self.direct.map(DirectOffer::answer));
        answers
    }

    /// Bills the sales that are billed at once, and returns the other reservations.
    fn bill(
        &self,
        mut reserved: Vec<SealedReservation>,
        billed: Vec<SaleBilledNow>,
        sales: &[Sale],
    ) -> Vec<SealedReservation> {
        for SaleBilledNow { bid, notice } in billed {
            let sale = sales.iter().find(|sale| sale.bid == bid).expect("what is billed is sold");
            let Some(id) = TokenId::of_billing(self.auction.id, sale) else {
                continue; // Its reservation is released with the others.
            };
            let at = reserved.iter().position(|(own, _)| *own == bid);
            let reservation = at.map(|at| reserved.swap_remove(at).1);
            let notice = notice.and_then(|notice| self.notice(notice.dsp, notice.url));
            self.recorded.shard.bill(DirectBill { id, reservation, notice });
        }
        reserved
    }

    /// Ends reservations without a beacon of ours. A caller that bills passed-through ads does not
    /// report it, so they count as billed now. Other ads without a beacon are never billed.
    fn settle_unbilled(&self, reserved: Vec<SealedReservation>, sales: &[Sale]) {
        let shard = self.recorded.shard;
        let Some(budget) = shard.budget() else { return };
        let is_passed_through = self.auction.publisher_terms().notices == NoticeMode::PassThrough;
        for (bid, reservation) in reserved {
            let sale = sales.iter().find(|sale| sale.bid == bid).filter(|_| is_passed_through);
            match sale.and_then(|sale| TokenId::of_billing(self.auction.id, sale)) {
                Some(id) => {
                    let reservation = Some(reservation);
                    shard.bill(DirectBill { id, reservation, notice: None });
                }
                None => budget.release(&reservation),
            }
        }
    }

    /// Counts the calls' outcomes and reports them to the guards. Returns unreadable calls.
    fn note_responses(
        &self,
        trials: Vec<CallTrial>,
        answers: &[DspAnswer<'_>],
        judgement: &Judgement<'_>,
    ) -> Vec<usize> {
        let mut responses = judgement.responses.iter().zip(answers);
        let mut unreadable = Vec::new();
        for (call, trial) in trials.into_iter().enumerate() {
            let mut outcome = self.outcomes.calls[call];
            if outcome == CallOutcome::Answered {
                let lane = &self.recorded.snapshot.dsps[self.calls.0[call].dsp];
                let (content, answer) = responses.next().expect("each answer was judged");
                lane.metrics.responses[*content as usize].increment();
                if *content == ResponseFate::Malformed {
                    outcome = CallOutcome::Malformed;
                    unreadable.push(call);
                }
                if matches!(content, ResponseFate::Malformed | ResponseFate::TooManyBids) {
                    lane.metrics.errors.note(|| response_content(*content, answer.body));
                }
            }
            self.note_call(call, outcome, trial);
        }
        for (answer, surplus) in &judgement.surplus {
            let metrics = self.recorded.snapshot.dsp_metrics(answers[*answer].ask.dsp);
            metrics.surplus_bids.add(*surplus as u64);
        }
        unreadable
    }

    fn note_call(&self, call: usize, outcome: CallOutcome, trial: CallTrial) {
        let lane = &self.recorded.snapshot.dsps[self.calls.0[call].dsp];
        lane.metrics.outcomes[outcome as usize].increment();
        let least = self.recorded.snapshot.config().timeout_counts_after;
        let had_min_time = self.outcomes.time_given(call).is_some_and(|given| least <= given);
        lane.guard.borrow_mut().settle(trial, call_verdict(outcome, had_min_time));
    }

    /// Counts bids by fate, and sales; a test sells nothing.
    fn count(&self, judgement: &Judgement<'_>, clearing: &Clearing, sales: &[Sale]) {
        let metrics = &self.recorded.shard.metrics;
        for bid in &judgement.bids {
            let fate = match bid.verdict {
                Ok(entry) => clearing.fates[entry],
                Err(fate) => fate,
            };
            metrics.fates[fate as usize].increment();
        }
        if self.auction.request.is_test() {
            metrics.tests.increment();
            return;
        }
        if let Some(direct) = self.direct {
            direct.count(judgement, clearing);
        }
        for sale in sales.iter().filter(|sale| sale.fate == Fate::Won) {
            metrics.sold.increment();
            let seat = judgement.bids[sale.bid].seat.expect("a winner has a seat");
            let seat = self.recorded.snapshot.seat_metrics(seat);
            seat.wins.increment();
            seat.revenue_nanos.add(sale.revenue.get());
        }
    }

    fn notify(&self, conclusion: Conclusion) -> (Option<String>, Vec<NoticeCommand>) {
        let Conclusion { response, immediate, unsent, unmarked, .. } = conclusion;
        for unsent in unsent {
            let metrics = self.recorded.snapshot.dsp_metrics(unsent.dsp);
            metrics.unsent[unsent.reason as usize].increment();
        }
        for (dsp, why) in unmarked {
            self.recorded.snapshot.dsp_metrics(dsp).unmarked[why as usize].increment();
        }
        let order = |planned: exchange_core::PlannedNotice| {
            let kind = match planned.kind {
                NoticeKind::Win => BestEffort::Win,
                NoticeKind::Loss => BestEffort::Loss,
                NoticeKind::Billing => return None, // Waits for its beacon.
            };
            let notice = self.notice(planned.dsp, planned.url)?;
            Some(NoticeCommand::Submit(kind, notice))
        };
        (response, immediate.into_iter().filter_map(order).collect())
    }

    fn notice(&self, dsp: usize, url: String) -> Option<Notice> {
        let lane = &self.recorded.snapshot.dsps[dsp];
        let notice = Notice::new(Arc::clone(&lane.id), url, ForwardedDevice::default());
        let count = |_| lane.metrics.unsent[NotSent::BadUrl as usize].increment();
        notice.map_err(count).ok()
    }
}

/// Calls of an auction that is being judged. Counts them on drop, in case the caller leaves.
struct PendingCounts<'c> {
    closing: &'c AuctionClosing<'c>,
    trials: Vec<CallTrial>,
}

impl PendingCounts<'_> {
    fn into_trials(mut self) -> Vec<CallTrial> {
        std::mem::take(&mut self.trials)
    }
}

impl Drop for PendingCounts<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for (call, trial) in std::mem::take(&mut self.trials).into_iter().enumerate() {
            self.closing.note_call(call, self.closing.outcomes.calls[call], trial);
        }
    }
}

/// The outcome as evidence of the DSP's health.
fn call_verdict(outcome: CallOutcome, had_min_time: bool) -> CallVerdict {
    match outcome {
        CallOutcome::Answered | CallOutcome::NoBid => CallVerdict::Good,
        CallOutcome::Late => CallVerdict::TimedOut { had_min_time },
        // Nothing was sent, or the caller left. An unresolved name is not the DSP's fault.
        CallOutcome::Saturated
        | CallOutcome::Unsent
        | CallOutcome::Abandoned
        | CallOutcome::Unresolved => CallVerdict::Neutral,
        CallOutcome::Status
        | CallOutcome::Malformed
        | CallOutcome::TooLarge
        | CallOutcome::Encoded
        | CallOutcome::Trickle
        | CallOutcome::Reset
        | CallOutcome::Unreachable => CallVerdict::Bad,
    }
}

/// Fetches ads that win notices return, until `until`.
struct MarkupFetcher<'c> {
    closing: &'c AuctionClosing<'c>,
    sealer: &'c Sealer,
    until: Instant,
    /// Winners that keep their win without the notice's ad.
    without_markup: Vec<usize>,
}

impl MarkupFetcher<'_> {
    /// Fetches missing ads; returns whether the auction must clear again.
    async fn fetch(
        &mut self,
        judgement: &mut Judgement<'_>,
        clearing: &Clearing,
        fetched: &mut Vec<FetchedMarkup>,
    ) -> bool {
        let mut wanted = markup_wanted(self.closing.auction, judgement, clearing, fetched);
        wanted.retain(|wanted| !self.without_markup.contains(&wanted.entry));
        // Start all calls before awaiting the first.
        let calls: Vec<_> = wanted.iter().map(|wanted| self.call(wanted)).collect();
        let mut barred = false;
        for (wanted, call) in wanted.into_iter().zip(calls) {
            let markup = match call {
                Some(body) => self.markup(body).await,
                None => None,
            };
            let checked = markup.ok_or(Fate::NoMarkup).and_then(|markup| {
                checked_markup(self.closing.auction, judgement, &wanted, markup)
            });
            let MarkupRequest { entry, price, is_preloaded, .. } = wanted;
            match checked {
                Ok(markup) => fetched.push(FetchedMarkup { entry, price, markup }),
                Err(Fate::NoMarkup) if is_preloaded => self.without_markup.push(entry),
                Err(fate) => {
                    judgement.bar(entry, fate);
                    barred = true;
                }
            }
        }
        barred
    }

    fn call(
        &self,
        wanted: &MarkupRequest,
    ) -> Option<oneshot::Receiver<Result<ServerAnswer, CallError>>> {
        if self.until <= Instant::now() {
            return None; // There is no time for an answer, so no DSP gets a win notice in vain.
        }
        let lane = &self.closing.recorded.snapshot.dsps[wanted.dsp];
        let url = match &wanted.url {
            Ok(url) => url.clone(),
            Err(why) => {
                lane.metrics.unsent[*why as usize].increment();
                return None;
            }
        };
        let notice = self.closing.notice(wanted.dsp, url)?;
        let (done, body) = oneshot::channel();
        let fetch =
            MarkupFetch { notice, body_max: self.sealer.markup_bytes_max, once: None, done };
        self.closing.recorded.shard.fetch(fetch).then_some(body)
    }

    /// The notice's answer; empty without an ad.
    async fn markup(
        &self,
        body: oneshot::Receiver<Result<ServerAnswer, CallError>>,
    ) -> Option<String> {
        let answered = timeout_at(self.until, body).await.ok()?.ok()?.ok()?;
        match answered.status {
            200 => String::from_utf8(answered.body).ok(),
            204 => Some(String::new()),
            _ => None,
        }
    }
}
