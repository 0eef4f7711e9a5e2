//! Authorises one candidate of a bid request: the one with the highest price for which money can be
//! reserved. The others reserve nothing.
//!
//! The requests of a batch are priced first, then reserved: pricing reads only paces. In between,
//! [`PacedShard::warm`] reads what all reservations will need, so that the processor waits for
//! memory once, and not at every step of every request.

use std::hint::black_box;

use units::{Cpm, Multiplier, Offer};

use super::paced::paced;
use super::token::{ReservationToken, TtlClass};
use super::{Denial, PacedShard, ShardTime, Shortage};
use crate::messages::CampaignIndex;
use crate::refusal::SpendRefusal;
use crate::strategy::DrawKey;

/// A campaign that may spend on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendCandidate {
    /// The campaign.
    pub slot: CampaignIndex,
    /// What it offers.
    pub offer: Offer,
    /// The least price that is worth bidding. Ignored if the offer is a cost.
    pub minimum: Cpm,
}

/// A bid request, as budgets see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorisationRequest {
    /// Seeds the draws of strategies that skip requests.
    pub id: u64,
    /// Impressions of one display.
    pub impressions: Multiplier,
    /// Lifetime of the reservation.
    pub ttl: TtlClass,
    /// Whether it counts in no statistics.
    pub is_test: bool,
}

/// A reservation for the chosen candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authorisation {
    /// Position among the candidates.
    pub candidate: usize,
    /// The price, or the cost if that was offered, in the unit of the offer.
    pub amount: u64,
    /// The reservation.
    pub token: ReservationToken,
}

/// A candidate that may bid at this price.
#[derive(Clone, Copy, Debug)]
struct PricedCandidate {
    position: usize,
    candidate: SpendCandidate,
    price: u64,
}

/// A request with the prices of its candidates.
#[derive(Clone, Copy, Debug)]
struct PricedRequest {
    impressions: Multiplier,
    ttl: TtlClass,
    is_test: bool,
    /// None if none may bid.
    best: Option<PricedCandidate>,
    /// Its other candidates among all others.
    others: (usize, usize),
    /// The refusal of the candidate that came closest. None if no candidate made an offer.
    refused: Option<SpendRefusal>,
}

/// Requests in order, priced and not yet reserved.
#[derive(Debug, Default)]
pub struct PricedBatch {
    requests: Vec<PricedRequest>,
    /// All candidates but the best of each request.
    others: Vec<PricedCandidate>,
}

impl PricedBatch {
    /// Removes all requests, and keeps the room.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.others.clear();
    }
}

impl PacedShard {
    /// Prices the candidates of a request: each is a campaign that exists, even if this shard has
    /// not heard of it yet, or the refusal that it has already; None if it makes no offer.
    #[inline]
    pub fn price(
        &mut self,
        batch: &mut PricedBatch,
        request: &AuthorisationRequest,
        candidates: impl Iterator<Item = Result<SpendCandidate, Option<SpendRefusal>>>,
        draw: &DrawKey,
    ) {
        let (mut best, mut refused) = (None::<PricedCandidate>, None);
        let begin = batch.others.len();
        for (position, candidate) in candidates.enumerate() {
            let price =
                candidate.and_then(|candidate| match self.price_one(request, &candidate, draw) {
                    Ok(price) => Ok(PricedCandidate { position, candidate, price }),
                    Err(refusal) => {
                        self.withheld(request.is_test, &candidate, refusal);
                        Err(Some(refusal))
                    }
                });
            match price {
                Err(refusal) => refused = refused.max(refusal),
                Ok(candidate) => match best {
                    // Of equal prices the first is the best.
                    Some(better) if candidate.price <= better.price => batch.others.push(candidate),
                    _ => batch.others.extend(best.replace(candidate)),
                },
            }
        }
        let AuthorisationRequest { impressions, ttl, is_test, .. } = *request;
        let others = (begin, batch.others.len());
        batch.requests.push(PricedRequest { impressions, ttl, is_test, best, others, refused });
    }

    /// Reads the paces of campaigns that are about to be priced.
    #[inline]
    pub fn warm_paces(&self, slots: impl Iterator<Item = CampaignIndex>) {
        black_box(slots.fold(0, |read, slot| read ^ self.warm_pace(slot)));
    }

    /// Reads what the reservations of a batch will need, in steps that depend on each other, and in
    /// each for all requests at once.
    pub fn warm(&self, batch: &PricedBatch) {
        let best =
            || batch.requests.iter().filter_map(|request| request.best.zip(Some(request.ttl)));
        let mut read = 0;
        for (best, _) in best() {
            read ^= self.ledger.warm_book(best.candidate.slot);
        }
        for (best, ttl) in best() {
            read ^= self.ledger.warm_sum(best.candidate.slot, ttl);
        }
        black_box(read);
    }

    /// Reserves for the request at a position of the batch, once.
    ///
    /// # Errors
    /// Why no candidate may spend: of their refusals the one that comes last in precedence, whose
    /// candidate came closest. None if no candidate made an offer.
    ///
    /// # Panics
    /// If the batch has no such request.
    #[inline]
    pub fn reserve(
        &mut self,
        batch: &mut PricedBatch,
        position: usize,
        at: ShardTime,
    ) -> Result<Authorisation, Option<SpendRefusal>> {
        let request = &batch.requests[position];
        let Some(best) = &request.best else { return Err(request.refused) };
        match self.reserve_priced(request, best, at) {
            Ok(authorisation) => Ok(authorisation),
            Err(refusal) => {
                self.withheld(request.is_test, &best.candidate, refusal);
                let others = &mut batch.others[request.others.0..request.others.1];
                self.reserve_other(request, others, at, request.refused.max(Some(refusal)))
            }
        }
    }

    /// Tries the others by descending price.
    #[cold]
    fn reserve_other(
        &mut self,
        request: &PricedRequest,
        others: &mut [PricedCandidate],
        at: ShardTime,
        mut refused: Option<SpendRefusal>,
    ) -> Result<Authorisation, Option<SpendRefusal>> {
        others.sort_unstable_by_key(|other| (std::cmp::Reverse(other.price), other.position));
        for other in others {
            match self.reserve_priced(request, other, at) {
                Ok(authorisation) => return Ok(authorisation),
                Err(refusal) => {
                    self.withheld(request.is_test, &other.candidate, refusal);
                    refused = refused.max(Some(refusal));
                }
            }
        }
        Err(refused)
    }

    /// Counts a refusal. A minimum that is above the offer itself is a floor, not the pace.
    #[inline]
    fn withheld(&mut self, is_test: bool, candidate: &SpendCandidate, refusal: SpendRefusal) {
        if is_test {
            return;
        }
        let SpendCandidate { slot, offer, minimum } = *candidate;
        match offer {
            Offer::Value(price) | Offer::Price(price)
                if refusal == SpendRefusal::BelowMinimum && price < minimum =>
            {
                self.fall_short(slot);
            }
            _ => self.withhold(slot, refusal),
        }
    }

    /// The price of a candidate by its strategy, in the unit of its offer.
    #[inline]
    fn price_one(
        &mut self,
        request: &AuthorisationRequest,
        candidate: &SpendCandidate,
        draw: &DrawKey,
    ) -> Result<u64, SpendRefusal> {
        let SpendCandidate { slot, offer, minimum } = *candidate;
        let pace = if request.is_test { self.pace(slot) } else { self.count_request(slot) };
        let draw = || draw.draw(&request.id.to_le_bytes(), slot.0.into());
        let price = match offer {
            Offer::Value(value) => paced(pace, value, draw)?,
            Offer::Price(price) => paced(pace, price, draw).map(|_| price)?,
            Offer::Cost(cost) => return Ok(cost.get()),
        };
        if price < minimum { Err(SpendRefusal::BelowMinimum) } else { Ok(price.micros()) }
    }

    /// Reserves what a candidate bids. A campaign whose first grant has not arrived is not unknown:
    /// nothing is granted to it yet.
    #[inline]
    fn reserve_priced(
        &mut self,
        request: &PricedRequest,
        priced: &PricedCandidate,
        at: ShardTime,
    ) -> Result<Authorisation, SpendRefusal> {
        self.reserve_known(request, priced, at).map_err(|refusal| match refusal {
            SpendRefusal::Unknown => SpendRefusal::LedgerUnavailable,
            refusal => refusal,
        })
    }

    /// The last of a budget lowers a bid whose price is the strategy's.
    #[inline]
    fn reserve_known(
        &mut self,
        request: &PricedRequest,
        priced: &PricedCandidate,
        at: ShardTime,
    ) -> Result<Authorisation, SpendRefusal> {
        let SpendCandidate { slot, offer, minimum } = priced.candidate;
        let cost = |micros: u64| {
            let price = Cpm::new(micros).expect("a paced price is a price");
            price.cost(request.impressions).ok_or(SpendRefusal::Unknown)
        };
        let amount = match offer {
            Offer::Cost(cost) => cost,
            Offer::Value(_) | Offer::Price(_) => cost(priced.price)?,
        };
        let denial = match self.ledger.reserve(slot, amount, request.ttl, at) {
            Ok(token) => return Ok(self.authorised(request, priced, priced.price, token)),
            Err(denial) => denial,
        };
        let Offer::Value(_) = offer else { return Err(denial.refusal()) };
        let Err(Shortage { refusal, left }) = self.ledger.may_reserve(slot, amount, at) else {
            return Err(denial.refusal());
        };
        let lowered = Cpm::affordable(left, request.impressions);
        if lowered < minimum.max(LEAST_BID) || lowered.micros() >= priced.price {
            return Err(refusal);
        }
        let token = self.ledger.reserve(slot, cost(lowered.micros())?, request.ttl, at);
        let token = token.map_err(Denial::refusal)?;
        Ok(self.authorised(request, priced, lowered.micros(), token))
    }

    #[inline]
    fn authorised(
        &mut self,
        request: &PricedRequest,
        priced: &PricedCandidate,
        amount: u64,
        token: ReservationToken,
    ) -> Authorisation {
        if !request.is_test {
            self.count_bid(priced.candidate.slot);
        }
        Authorisation { candidate: priced.position, amount, token }
    }
}

const LEAST_BID: Cpm = Cpm::new(1).expect("one micro is a price");
