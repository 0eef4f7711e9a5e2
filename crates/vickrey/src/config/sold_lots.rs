//! Connects sold lots to the exchange: a lot that is sold gets a campaign, which counts and caps what
//! it delivers, and then a sold deal in the exchange's generation.
//!
//! Every step may come twice. A step that fails, and may succeed later, is tried again.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel as queue};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use exchange_core::SoldDeal;
use exchange_serve::campaigns::Payer;
use exchange_serve::{Exchange, GenerationRecordError, SoldOffer, SoldRefusal};
use live_core::lots::LotPayment;
use live_core::ports::{SoldLot, SoldLotPort, SoldLotReply};
use pacer_serve::LotCampaigns;
use pacer_serve::registry::{ChangeRefusal, LotBudget};
use runtime::builder::{Builder, Job, JobHandle};
use runtime::process::unix_ms;
use tracing::{error, info};
use units::{Nanos, Price};

/// Interval between attempts to offer what could not be offered yet.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

type Wake = Arc<Mutex<Option<Box<dyn Fn() + Send + Sync>>>>;

/// The seller's end: lots go in, replies come out.
pub(crate) struct SoldLots {
    lots: Sender<SoldLot>,
    replies: Receiver<SoldLotReply>,
    wake: Wake,
    job: Arc<OnceLock<JobHandle>>,
}

/// The end that offers lots, before the exchange has started.
pub(crate) struct SoldLotsWorker {
    lots: Receiver<SoldLot>,
    replies: Sender<SoldLotReply>,
    wake: Wake,
    job: Arc<OnceLock<JobHandle>>,
    campaigns: LotCampaigns,
    waiting: Vec<SoldLot>,
    is_failing: bool,
}

/// Why a lot is not offered.
enum SoldLotFailure {
    /// It is tried again.
    Passing(String),
    /// It never will be.
    Final(String),
}

/// Both ends of a new port.
pub(crate) fn channel(campaigns: LotCampaigns) -> (SoldLots, SoldLotsWorker) {
    let ((to_worker, lots), (to_seller, replies)) = (queue(), queue());
    let (wake, job) = (Wake::default(), Arc::<OnceLock<JobHandle>>::default());
    let seller =
        SoldLots { lots: to_worker, replies, wake: Arc::clone(&wake), job: Arc::clone(&job) };
    let (waiting, is_failing) = (Vec::new(), false);
    (seller, SoldLotsWorker { lots, replies: to_seller, wake, job, campaigns, waiting, is_failing })
}

impl SoldLotPort for SoldLots {
    fn offer(&mut self, sold: SoldLot) {
        // Nobody takes lots once the exchange has ended: they are offered again after a start.
        let _ended = self.lots.send(sold);
        if let Some(job) = self.job.get() {
            job.run_soon();
        }
    }

    fn poll(&mut self) -> Option<SoldLotReply> {
        self.replies.try_recv().ok()
    }

    fn wake_with(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
    }
}

impl fmt::Debug for SoldLots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoldLots").finish_non_exhaustive()
    }
}

impl SoldLotsWorker {
    /// Offers lots on the builder's thread until the exchange ends.
    pub(crate) fn start(mut self, exchange: &Arc<Exchange>, builder: &Builder) -> Job {
        let (exchange, handle) = (Arc::downgrade(exchange), Arc::clone(&self.job));
        let job = builder.add("sold lots", move || self.run(&exchange));
        handle.get_or_init(|| job.handle());
        // Lots may have come already.
        job.run_soon();
        job
    }

    fn run(&mut self, exchange: &Weak<Exchange>) -> Option<Duration> {
        self.waiting.extend(self.lots.try_iter());
        let exchange = exchange.upgrade()?;
        let (mut offered, mut offers) = (Vec::new(), Vec::new());
        let mut failed = Vec::new();
        for lot in std::mem::take(&mut self.waiting) {
            match self.prepared(&lot) {
                // Its delivery has ended: there is nothing to offer.
                Ok(None) => self.reply(&lot, Ok(())),
                Ok(Some(offer)) => {
                    offers.push(offer);
                    offered.push(lot);
                }
                Err(failure) => failed.push((lot, failure)),
            }
        }
        if !offers.is_empty() {
            // All in one generation: after a start, every lot comes again.
            match exchange.offer_sold(offers) {
                Ok(taken) => {
                    for (lot, taken) in offered.into_iter().zip(taken) {
                        match taken {
                            Ok(()) => self.offered(&lot),
                            Err(refusal) => failed.push((lot, refusal.into())),
                        }
                    }
                }
                Err(GenerationRecordError::Closed) => return None,
                Err(error) => {
                    let failure = |lot| (lot, SoldLotFailure::Passing(error.to_string()));
                    failed.extend(offered.into_iter().map(failure));
                }
            }
        }
        self.fail(failed)
    }

    /// The lot's offer, once its campaign is defined. None if its delivery has ended.
    fn prepared(&self, lot: &SoldLot) -> Result<Option<SoldOffer>, SoldLotFailure> {
        if lot.deal.ends_ms <= unix_ms() {
            return Ok(None);
        }
        let (deal, dsp) = deal_of(lot).map_err(|why| SoldLotFailure::Final(why.to_owned()))?;
        let cost = lot.price.micros().checked_mul(lot.impressions).map(Nanos::new);
        let cost = cost.ok_or_else(|| SoldLotFailure::Final("it costs too much".to_owned()))?;
        let slot = self.campaigns.ensure(&LotBudget {
            lot: lot.lot.as_str().to_owned(),
            account: lot.account.clone(),
            is_prepaid: lot.payment == LotPayment::AtClose,
            cost,
            currency: lot.currency,
            starts_ms: lot.deal.starts_ms,
            ends_ms: lot.deal.ends_ms,
        })?;
        Ok(Some(SoldOffer { deal, dsp, payer: Payer { slot, currency: lot.currency } }))
    }

    fn offered(&mut self, lot: &SoldLot) {
        info!(lot = lot.lot.as_str(), deal = lot.deal.id, "a sold lot's deal is offered");
        self.reply(lot, Ok(()));
    }

    /// Replies to what never can be offered, and keeps the rest for another attempt.
    fn fail(&mut self, failed: Vec<(SoldLot, SoldLotFailure)>) -> Option<Duration> {
        let was_failing = self.is_failing;
        for (lot, failure) in failed {
            let name = lot.lot.as_str();
            match failure {
                SoldLotFailure::Final(why) => self.reply(&lot, Err(why)),
                SoldLotFailure::Passing(why) => {
                    if !was_failing {
                        error!(
                            lot = name,
                            why,
                            "a sold lot's deal is not offered yet: it is tried again every second"
                        );
                    }
                    self.waiting.push(lot);
                }
            }
        }
        self.is_failing = !self.waiting.is_empty();
        self.is_failing.then_some(RETRY_INTERVAL)
    }

    fn reply(&self, lot: &SoldLot, offered: Result<(), String>) {
        // Nobody listens once the seller has ended.
        let _ended = self.replies.send(SoldLotReply { lot: lot.lot.clone(), offered });
        if let Some(wake) = &*self.wake.lock().unwrap_or_else(PoisonError::into_inner) {
            wake();
        }
    }
}

/// The lot's deal and the buyer's DSP, or why the exchange cannot offer it.
fn deal_of(lot: &SoldLot) -> Result<(SoldDeal, Box<str>), &'static str> {
    let winner = lot.winner.split_once('/');
    let (dsp, seat) = winner.ok_or("its winner is no seat of a DSP, as `dsp/seat`")?;
    let priority = u8::try_from(lot.deal.priority);
    let deal = SoldDeal {
        name: lot.lot.as_str().into(),
        id: lot.deal.id.as_str().into(),
        dsp: 0,
        seat: seat.into(),
        price: Price { amount: lot.price, currency: lot.currency },
        publisher: lot.deal.publisher.as_deref().map(Box::from),
        starts_ms: lot.deal.starts_ms,
        ends_ms: lot.deal.ends_ms,
        priority: priority.map_err(|_| "its deal's priority is above 255")?,
    };
    Ok((deal, dsp.into()))
}

impl From<ChangeRefusal> for SoldLotFailure {
    fn from(refusal: ChangeRefusal) -> Self {
        match refusal {
            ChangeRefusal::Unavailable(why) => Self::Passing(why),
            ChangeRefusal::Invalid(problems) => {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                Self::Final(problems.join("; "))
            }
            other => Self::Final(other.to_string()),
        }
    }
}

impl From<SoldRefusal> for SoldLotFailure {
    fn from(refusal: SoldRefusal) -> Self {
        match refusal {
            // The DSP may be configured, and other deals end.
            SoldRefusal::UnknownBuyer(why) => Self::Passing(why),
            SoldRefusal::TooMany => Self::Passing(refusal.to_string()),
            SoldRefusal::TooLong(_) | SoldRefusal::OtherTerms(_) | SoldRefusal::SameId { .. } => {
                Self::Final(refusal.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests;
