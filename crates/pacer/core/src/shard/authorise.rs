//! Authorises one candidate of a bid request: the one with the highest price for which money can be
//! reserved. The others reserve nothing.

use units::{Cpm, Multiplier, Offer};

use super::paced::paced;
use super::token::{ReservationToken, TtlClass};
use super::{Denial, PacedShard, ShardTime, Shortage};
use crate::messages::CampaignIndex;
use crate::refusal::SpendRefusal;
use crate::strategy::DrawKey;

/// A campaign that may spend on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The campaign.
    pub slot: CampaignIndex,
    /// What it offers.
    pub offer: Offer,
    /// The least price that is worth bidding. Ignored if the offer is a cost.
    pub minimum: Cpm,
}

/// A bid request, as budgets see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpendRequest {
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
pub(super) struct PricedCandidate {
    position: usize,
    candidate: Candidate,
    price: u64,
}

impl PacedShard {
    /// Decides on a request: each candidate is a campaign that this shard may know, or the refusal
    /// that it has already.
    ///
    /// # Errors
    /// Why no candidate may spend: of their refusals the one that comes last in precedence, whose
    /// candidate came closest.
    pub fn authorise(
        &mut self,
        request: &SpendRequest,
        candidates: impl Iterator<Item = Result<Candidate, SpendRefusal>>,
        draw: &DrawKey,
        at: ShardTime,
    ) -> Result<Authorisation, SpendRefusal> {
        // Most requests have one candidate, and need no list.
        let (mut best, mut others) = (None, std::mem::take(&mut self.priced));
        let mut refused = SpendRefusal::Unknown;
        for (position, candidate) in candidates.enumerate() {
            let price = candidate.and_then(|candidate| {
                let price = self.price(request, &candidate, draw)?;
                Ok(PricedCandidate { position, candidate, price })
            });
            match price {
                Ok(candidate) if best.is_none() => best = Some(candidate),
                Ok(candidate) => others.push(candidate),
                Err(refusal) => refused = refused.max(refusal),
            }
        }
        if !others.is_empty() {
            others.extend(best);
            best = take_best(&mut others);
        }
        let mut authorised = Err(refused);
        while let Some(candidate) = best {
            match self.reserve_priced(request, &candidate, at) {
                Ok(authorisation) => {
                    authorised = Ok(authorisation);
                    break;
                }
                Err(refusal) => authorised = authorised.map_err(|earlier| earlier.max(refusal)),
            }
            best = take_best(&mut others);
        }
        others.clear();
        self.priced = others;
        authorised
    }

    /// The price of a candidate by its strategy, in the unit of its offer.
    fn price(
        &mut self,
        request: &SpendRequest,
        candidate: &Candidate,
        draw: &DrawKey,
    ) -> Result<u64, SpendRefusal> {
        let Candidate { slot, offer, minimum } = *candidate;
        let pace = if request.is_test { self.pace(slot) } else { self.count_request(slot) };
        let draw = || draw.draw(&request.id.to_le_bytes(), slot.0.into());
        let price = match offer {
            Offer::Value(value) => paced(pace, value, draw)?,
            Offer::Price(price) => paced(pace, price, draw).map(|_| price)?,
            Offer::Cost(cost) => return Ok(cost.get()),
        };
        if price < minimum { Err(SpendRefusal::BelowMinimum) } else { Ok(price.micros()) }
    }

    /// Reserves what a candidate bids. The last of a budget lowers a bid whose price is the
    /// strategy's.
    fn reserve_priced(
        &mut self,
        request: &SpendRequest,
        priced: &PricedCandidate,
        at: ShardTime,
    ) -> Result<Authorisation, SpendRefusal> {
        let Candidate { slot, offer, minimum } = priced.candidate;
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

    fn authorised(
        &mut self,
        request: &SpendRequest,
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

/// Takes the highest price, the first of equal ones.
fn take_best(priced: &mut Vec<PricedCandidate>) -> Option<PricedCandidate> {
    let key = |at: &usize| (priced[*at].price, std::cmp::Reverse(priced[*at].position));
    let best = (0..priced.len()).max_by_key(key)?;
    Some(priced.swap_remove(best))
}
