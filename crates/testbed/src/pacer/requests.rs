//! The bid requests of a load: each follows from its number, so that a reply can be checked without
//! a copy of the request.

use pacer_wire::{BidRequestEntry, CandidateEntry, DecisionCode, DecisionEntry, Offer};
use units::{Cpm, Ppm, SplitMix64};

/// Prices are from this to five times this, in micros per 1000 impressions.
const PRICE_MIN: u64 = 1_000_000;
/// A price that no strategy reaches.
const UNREACHABLE: u64 = 1_000_000_000_000;
/// The highest multiplier of a value: e^5.
const MULTIPLIER_MAX: u64 = 149;

/// Makes and checks requests.
#[derive(Debug)]
pub(super) struct RequestSource {
    /// Handles of the client's campaigns.
    pub campaigns: Vec<u32>,
    pub candidates: u8,
    pub biddable: Ppm,
    pub seed: u64,
}

/// The random numbers of a request.
struct RequestDraws(SplitMix64);

impl RequestSource {
    fn draws(&self, number: u64) -> RequestDraws {
        RequestDraws(SplitMix64::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Appends the candidates of request `number` and returns its entry.
    pub fn request(&self, number: u64, candidates: &mut Vec<CandidateEntry>) -> BidRequestEntry {
        let mut draws = self.draws(number);
        let is_biddable = draws.is_below(self.biddable);
        let minimum = if is_biddable { 0 } else { UNREACHABLE };
        let minimum = Cpm::new(minimum).expect("it is a price");
        for _ in 0..self.candidates {
            let campaign = self.campaigns[draws.index(self.campaigns.len())];
            let offer = Offer::Value(draws.value());
            candidates.push(CandidateEntry::new(campaign, offer, minimum));
        }
        BidRequestEntry::new(number, self.candidates)
    }

    /// Whether a decision can be the answer to request `number`.
    pub fn check(&self, number: u64, decision: &DecisionEntry) -> Result<(), String> {
        if decision.code != DecisionCode::Authorised as u8 {
            return match DecisionCode::from_number(decision.code) {
                Some(_) => Ok(()),
                None => Err(format!("decision {} is unknown", decision.code)),
            };
        }
        let mut draws = self.draws(number);
        if !draws.is_below(self.biddable) {
            return Err(format!("request {number} is authorised below its minimum"));
        }
        if decision.candidate >= self.candidates {
            return Err(format!("request {number} has no candidate {}", decision.candidate));
        }
        let mut value = Cpm::ZERO;
        for _ in 0..=decision.candidate {
            draws.index(self.campaigns.len());
            value = draws.value();
        }
        let (price, most) = (decision.price.get(), value.micros() * MULTIPLIER_MAX);
        if price == 0 || price > most {
            return Err(format!("request {number} of value {value} may bid {price}"));
        }
        Ok(())
    }
}

impl RequestDraws {
    fn is_below(&mut self, share: Ppm) -> bool {
        self.0.bits() % u64::from(Ppm::ONE.get()) < u64::from(share.get())
    }

    fn index(&mut self, length: usize) -> usize {
        let drawn = (u128::from(self.0.bits()) * length as u128) >> 64;
        usize::try_from(drawn).expect("it is below a length")
    }

    fn value(&mut self) -> Cpm {
        Cpm::new(PRICE_MIN + self.0.bits() % (4 * PRICE_MIN)).expect("it is a price")
    }
}
