//! From bids to the caller's answer: judges, clears, fetches ads of win notices, and plans notices.
//!
//! `exchange-core` makes all decisions about money.

use std::sync::Arc;
use std::time::Duration;

use exchange_core::delivery::{BestEffort, ForwardedDevice, Notice};
use exchange_core::explain::response_content;
use exchange_core::guard::BreakerTrial;
use exchange_core::record::{CallOutcome, JudgedAuction};
use exchange_core::{
    Auction, AuctionSchedule, ClearedAuction, Clearing, Conclusion, DspAnswer, Fate, FetchedMarkup,
    Judge, Judgement, MarkupRequest, NotSent, NoticeKind, NoticeMode, PlannedNotice, ResponseFate,
    Sale, SaleBilledNow, Sealing, TokenId, checked_markup, conclude, markup_wanted, sales,
    with_cached_markup,
};
use openrtb::codes::NoBidReason;
use runtime::process::unix_ms;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::auctions::abandonment::AbandonmentGuard;
use crate::auctions::calls::{AuctionCalls, no_bid_reason};
use crate::auctions::record::AuctionRecorder;
use crate::auctions::reservations::{AuctionReservations, DirectBids, SealedReservation};
use crate::auctions::trace::AuctionTimings;
use crate::budgets::billing::DirectBill;
use crate::fanout::Outcomes;
use crate::notices::{CallError, MarkupFetch, NoticeCommand, Sealer, ServerAnswer};
use crate::shard::{ExchangeShard, ShardSnapshot};

/// Time kept from fetching ads and from a remote pacer, to write the answer.
const WRITE_TIME: Duration = Duration::from_millis(1);

#[derive(Clone, Copy)]
pub struct AuctionClosing<'s> {
    pub shard: &'s ExchangeShard,
    pub snapshot: &'s ShardSnapshot,
    pub recorder: AuctionRecorder<'s>,
    pub auction: &'s Auction<'s>,
    pub schedule: &'s AuctionSchedule,
    pub calls: AuctionCalls<'s>,
    pub outcomes: &'s Outcomes,
    pub direct: Option<&'s DirectBids<'s>>,
}

pub struct AuctionResult {
    pub response: Result<String, NoBidReason>,
    pub notices: Vec<NoticeCommand>,
    /// Calls with an unreadable bid response, by position; they count as malformed.
    pub unreadable: Vec<usize>,
    pub timings: AuctionTimings,
}

impl AuctionClosing<'_> {
    /// Judges, clears, and writes the answer and the record.
    pub async fn finish(&self, guard: &mut AbandonmentGuard<'_>) -> AuctionResult {
        let Self { shard, snapshot, auction, .. } = *self;
        let answers = self.answers();
        let mut judging = Judge::new(auction, &answers);
        while judging.proceed() {
            tokio::task::yield_now().await; // Others wait for the shard.
        }
        let mut judgement = judging.finish();
        let unreadable = self.report_calls(&mut guard.trials, &answers, &judgement);
        let sealer = snapshot.generation.sealer.as_ref();
        let mut fetched = Vec::new();
        let mut reservations = AuctionReservations::new(shard, snapshot, auction, self.direct);
        let deadline = shard.instant(self.schedule.deadline) - WRITE_TIME;
        let mut clearing = reservations.clear(&judgement, deadline).await;
        if let Some(sealer) = sealer {
            let until = deadline.min(Instant::now() + sealer.notices.markup_timeout);
            let mut ads =
                MarkupFetcher { closing: self, sealer, until, without_markup: Vec::new() };
            while ads.fetch(&mut judgement, &clearing, &mut fetched).await {
                clearing = reservations.clear(&judgement, deadline).await;
            }
            reservations.offer_others(&judgement, &mut clearing, deadline).await;
        }
        reservations.release_all_but_returned(&judgement, &clearing);
        let sales = sales(auction, &judgement, &clearing);
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
            base: &sealer.notices.base,
            node: sealer.node,
            now_unix_s: unix_ms() / 1000,
            lifetimes: &sealer.notices.lifetimes,
            fetched: &fetched,
            reserved: &reserved,
        });
        let mut conclusion = conclude(auction, &cleared, sealing.as_ref());
        let refusals = reservations.refusals().to_vec();
        let without_beacon = reservations.hand_over(reserved, &conclusion.billable);
        self.bill(std::mem::take(&mut conclusion.billed), without_beacon, &sales);
        let response = conclusion.response.take();
        let response = response.map(|response| self.store_markup(response, &cleared, &fetched));
        let response = response.ok_or_else(|| no_bid_reason(&self.outcomes.calls, self.direct));
        let notices = self.notice_commands(conclusion);
        let mut timings =
            AuctionTimings { cleared: Some(cleared_at), answered: Instant::now(), ..guard.timings };
        let calls = self.calls.recorded(Some(self.outcomes), timings.arrival);
        let calls = calls.chain(self.direct.map(DirectBids::call));
        let no_bid = response.as_ref().err().copied();
        let judged = JudgedAuction { cleared, refusals: &refusals };
        self.recorder.record(&timings, no_bid, Some(judged), calls);
        // The record delays the answer too.
        timings.answered = Instant::now();
        AuctionResult { response, notices, unreadable, timings }
    }

    /// Stores the winners' markup, if that is configured.
    fn store_markup(
        &self,
        response: String,
        cleared: &ClearedAuction<'_, '_>,
        fetched: &[FetchedMarkup],
    ) -> String {
        let config = self.snapshot.config().cache.as_ref();
        let Some((config, store)) = config.zip(self.shard.parts.markup_store.as_ref()) else {
            return response;
        };
        let metrics = &self.shard.metrics;
        with_cached_markup(&response, cleared, fetched, &config.url, |kind, text| {
            let stored = store.0.store(kind, text, config.lifetime(kind)?);
            match &stored {
                Some(_) => metrics.markup_stored.increment(),
                None => metrics.markup_unstored.increment(),
            }
            stored
        })
    }

    fn answers(&self) -> Vec<DspAnswer<'_>> {
        let mut answers = Vec::with_capacity(self.calls.calls.len());
        for (call, (ask, outcome)) in self.calls.calls.iter().zip(&self.outcomes.calls).enumerate()
        {
            if *outcome == CallOutcome::Answered {
                answers.push(DspAnswer { ask: *ask, body: self.outcomes.body(call) });
            }
        }
        answers.extend(self.direct.map(DirectBids::answer));
        answers
    }

    /// Bills the sales that are billed at once, and ends the other reservations without a beacon of
    /// ours. A caller that bills passed-through ads does not report it, so they count as billed now.
    /// Other ads without a beacon are never billed.
    fn bill(
        &self,
        billed: Vec<SaleBilledNow>,
        mut reserved: Vec<SealedReservation>,
        sales: &[Sale],
    ) {
        let sale_of = |bid| sales.iter().find(|sale| sale.bid == bid);
        for SaleBilledNow { bid, notice } in billed {
            let sale = sale_of(bid).expect("what is billed is sold");
            let Some(id) = TokenId::of_billing(self.auction.id, sale) else {
                continue; // Its reservation is released with the others.
            };
            let at = reserved.iter().position(|(own, _)| *own == bid);
            let reservation = at.map(|at| reserved.swap_remove(at).1);
            let notice = notice.and_then(|notice| self.notice(notice.dsp, notice.url));
            self.shard.bill(DirectBill { id, reservation, notice });
        }
        let is_passed_through = self.auction.publisher_terms().notices == NoticeMode::PassThrough;
        for (bid, reservation) in reserved {
            let sale = sale_of(bid).filter(|_| is_passed_through);
            match sale.and_then(|sale| TokenId::of_billing(self.auction.id, sale)) {
                Some(id) => {
                    let reservation = Some(reservation);
                    self.shard.bill(DirectBill { id, reservation, notice: None });
                }
                None => self.shard.release(&reservation),
            }
        }
    }

    /// Counts the calls' outcomes and reports them to the breakers. Returns unreadable calls.
    fn report_calls(
        &self,
        trials: &mut Vec<BreakerTrial>,
        answers: &[DspAnswer<'_>],
        judgement: &Judgement<'_>,
    ) -> Vec<usize> {
        let mut responses = judgement.responses.iter().zip(answers);
        let mut unreadable = Vec::new();
        for (call, trial) in trials.drain(..).enumerate() {
            let mut outcome = self.outcomes.calls[call];
            if outcome == CallOutcome::Answered {
                let metrics = &self.calls.dsp(call).metrics;
                let (content, answer) = responses.next().expect("each answer was judged");
                metrics.responses[*content as usize].increment();
                if *content == ResponseFate::Malformed {
                    outcome = CallOutcome::Malformed;
                    unreadable.push(call);
                }
                if matches!(content, ResponseFate::Malformed | ResponseFate::TooManyBids) {
                    metrics.errors.note(|| response_content(*content, answer.body));
                }
            }
            self.calls.report(call, outcome, self.outcomes.time_given(call), trial);
        }
        for (answer, surplus) in &judgement.surplus {
            let metrics = self.snapshot.dsp_metrics(answers[*answer].ask.dsp);
            metrics.surplus_bids.add(*surplus as u64);
        }
        unreadable
    }

    /// Counts bids by fate, and sales; a test sells nothing.
    fn count(&self, judgement: &Judgement<'_>, clearing: &Clearing, sales: &[Sale]) {
        let metrics = &self.shard.metrics;
        for bid in &judgement.bids {
            let fate = clearing.fate(bid.entry);
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
            let seat = self.snapshot.seat_metrics(seat);
            seat.wins.increment();
            seat.revenue_nanos.add(sale.revenue.get());
        }
    }

    /// Counts notices that are not sent, and returns those to send once the response is written.
    fn notice_commands(&self, conclusion: Conclusion) -> Vec<NoticeCommand> {
        let Conclusion { immediate, unsent, without_beacon, .. } = conclusion;
        for unsent in unsent {
            let metrics = self.snapshot.dsp_metrics(unsent.dsp);
            metrics.unsent[unsent.reason as usize].increment();
        }
        for (dsp, why) in without_beacon {
            self.snapshot.dsp_metrics(dsp).unmarked[why as usize].increment();
        }
        let command = |planned: PlannedNotice| {
            let kind = match planned.kind {
                NoticeKind::Win => BestEffort::Win,
                NoticeKind::Loss => BestEffort::Loss,
                NoticeKind::Billing => return None, // Waits for its beacon.
            };
            Some(NoticeCommand::Submit(kind, self.notice(planned.dsp, planned.url)?, None))
        };
        immediate.into_iter().filter_map(command).collect()
    }

    fn notice(&self, dsp: usize, url: String) -> Option<Notice> {
        let dsp = &self.snapshot.dsps[dsp];
        let notice = Notice::new(Arc::clone(&dsp.id), url, ForwardedDevice::default());
        let count = |_| dsp.metrics.unsent[NotSent::BadUrl as usize].increment();
        notice.map_err(count).ok()
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
        let dsp = &self.closing.snapshot.dsps[wanted.dsp];
        let url = match &wanted.url {
            Ok(url) => url.clone(),
            Err(why) => {
                dsp.metrics.unsent[*why as usize].increment();
                return None;
            }
        };
        let notice = self.closing.notice(wanted.dsp, url)?;
        let (done, body) = oneshot::channel();
        let fetch = MarkupFetch {
            notice,
            body_max: self.sealer.notices.markup_bytes_max,
            once: None,
            done,
        };
        self.closing.shard.fetch(fetch).then_some(body)
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
