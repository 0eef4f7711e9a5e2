//! What a bidder asks, and what it gets. Every amount has its unit in its type.

use pacer_wire::{
    BidRequestEntry, CandidateEntry, DecisionCode, DecisionEntry, Offer, TOKEN_BYTES,
};
use units::{Cpm, Nanos};

use crate::catalogue::CampaignId;

/// A bid request, as the pacer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendRequest {
    pub(crate) entry: BidRequestEntry,
    pub(crate) candidates: Vec<CandidateEntry>,
    pub(crate) kinds: Vec<OfferKind>,
}

/// A campaign that may bid on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The campaign.
    pub campaign: CampaignId,
    /// What it offers.
    pub offer: Offer,
    /// The least price that is worth bidding. Ignored if the offer is a cost.
    pub minimum: Cpm,
}

/// The unit of an offer, to read the decision's amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfferKind {
    Price,
    Cost,
}

/// An authorised bid: the most that may be spent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorisedBid {
    /// Position among the candidates.
    pub candidate: usize,
    /// The price, or the cost if that was offered.
    pub amount: AuthorisedAmount,
    /// The reservation. Report it as won or lost; otherwise it expires.
    pub token: [u8; TOKEN_BYTES],
    /// How long the reservation lasts from the server's decision on, in seconds.
    pub lifetime_s: u16,
    /// The catalogue with which it was decided.
    pub generation: u64,
}

/// An authorised amount in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorisedAmount {
    /// For a value or a price.
    Price(Cpm),
    /// For a cost, in total.
    Cost(Nanos),
}

impl SpendRequest {
    /// A request for one impression. Equal ids are throttled alike.
    ///
    /// # Panics
    /// Without candidates, or with more than 255.
    pub fn new(id: u64, candidates: &[Candidate]) -> Self {
        let count = u8::try_from(candidates.len()).ok().filter(|count| *count > 0);
        let count = count.expect("a request has 1 to 255 candidates");
        let kind = |candidate: &Candidate| match candidate.offer {
            Offer::Value(_) | Offer::Price(_) => OfferKind::Price,
            Offer::Cost(_) => OfferKind::Cost,
        };
        let kinds = candidates.iter().map(kind).collect();
        let entry = |it: &Candidate| CandidateEntry::new(it.campaign.0, it.offer, it.minimum);
        let candidates = candidates.iter().map(entry).collect();
        Self { entry: BidRequestEntry::new(id, count), candidates, kinds }
    }

    /// Impressions of one display, in millionths (OpenRTB `imp.qty.multiplier`).
    #[must_use]
    pub fn with_impressions(mut self, millionths: u32) -> Self {
        self.entry.impressions = millionths.into();
        self
    }

    /// Lifetime of its reservation in seconds, instead of the server's.
    #[must_use]
    pub fn with_lifetime(mut self, seconds: u16) -> Self {
        self.entry.reservation_s = seconds.into();
        self
    }

    /// Marks a test, which counts for no strategy.
    #[must_use]
    pub fn as_test(mut self) -> Self {
        self.entry.flags |= 1;
        self
    }
}

/// A request's decision. None if it contradicts the request.
pub(crate) fn decision(
    kinds: &[OfferKind],
    entry: &DecisionEntry,
    token: Option<&[u8; TOKEN_BYTES]>,
    generation: u64,
) -> Option<Result<AuthorisedBid, DecisionCode>> {
    let Some(token) = token else {
        // Later versions may know more reasons.
        let code = DecisionCode::from_number(entry.code).unwrap_or(DecisionCode::Unavailable);
        return Some(Err(code));
    };
    let candidate = usize::from(entry.candidate);
    let amount = match kinds.get(candidate)? {
        OfferKind::Price => AuthorisedAmount::Price(Cpm::new(entry.price.get())?),
        OfferKind::Cost => AuthorisedAmount::Cost(Nanos::new(entry.price.get())),
    };
    let lifetime_s = entry.reservation_s.get();
    Some(Ok(AuthorisedBid { candidate, amount, token: *token, lifetime_s, generation }))
}
