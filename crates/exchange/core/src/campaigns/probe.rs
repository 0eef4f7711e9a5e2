//! Why a campaign matches nothing: tries each of its criteria on actual requests, with the indexes
//! of auctions built from this campaign alone. Owns the list of criteria.

use std::sync::Arc;

use pacer_core::messages::CampaignIndex;
use pacer_core::refusal::SpendRefusal;
use strum::VariantArray;
use units::{Cpm, Multiplier};

use super::bidder::{BiddingLimits, CampaignBidder, DirectAnswer, DirectCall};
use super::campaign::{BiddingRules, CampaignPrice, DirectCampaign};
use super::catalogue::Catalogue;
use super::scratch::SearchScratch;
use super::targeting::CampaignTargeting;
use crate::asking::eligibility::BidderCall;
use crate::auction::Auction;

/// A requirement of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, VariantArray)]
pub enum Criterion {
    /// A creative fits the impression, and the request does not block it.
    Creatives,
    /// The request admits its account's seat.
    Seat,
    /// For campaigns without deals: the auction is not private.
    PrivateAuction,
    /// `countries`.
    Countries,
    /// `regions`.
    Regions,
    /// `publishers`.
    Publishers,
    /// `domains`.
    Domains,
    /// `bundles`.
    Bundles,
    /// `pages`.
    Pages,
    /// `device_types`.
    DeviceTypes,
    /// `key_values`.
    KeyValues,
    /// `deals`.
    Deals,
}

impl Criterion {
    /// All criteria.
    pub const ALL: [Self; 12] = *Self::VARIANTS.as_array().expect("that is how many there are");

    /// The criterion's key in the campaign's table, or a name if it has no key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Creatives => "creative",
            Self::Seat => "seat",
            Self::PrivateAuction => "private_auction",
            Self::Countries => "targeting.countries",
            Self::Regions => "targeting.regions",
            Self::Publishers => "targeting.publishers",
            Self::Domains => "targeting.domains",
            Self::Bundles => "targeting.bundles",
            Self::Pages => "targeting.pages",
            Self::DeviceTypes => "targeting.device_types",
            Self::KeyValues => "targeting.key_values",
            Self::Deals => "targeting.deals",
        }
    }

    /// The targeting of `all` with only this criterion. None if `all` lacks it, or it is not
    /// targeting.
    fn isolated(self, all: &CampaignTargeting) -> Option<CampaignTargeting> {
        let mut alone = CampaignTargeting::default();
        match self {
            Self::Creatives | Self::Seat | Self::PrivateAuction | Self::Deals => return None,
            Self::Countries => alone.countries.clone_from(&all.countries),
            Self::Regions => {
                alone.regions.clone_from(&all.regions);
                alone.regions_blocked.clone_from(&all.regions_blocked);
            }
            Self::Publishers => alone.publishers.clone_from(&all.publishers),
            Self::Domains => alone.domains.clone_from(&all.domains),
            Self::Bundles => alone.bundles.clone_from(&all.bundles),
            Self::Pages => alone.pages.clone_from(&all.pages),
            Self::DeviceTypes => alone.device_types = all.device_types,
            Self::KeyValues => alone.key_values.clone_from(&all.key_values),
        }
        (alone != CampaignTargeting::default()).then_some(alone)
    }

    fn is_asked(self, all: &CampaignTargeting) -> bool {
        match self {
            Self::Creatives | Self::Seat => true,
            Self::PrivateAuction => all.deals.is_empty(),
            Self::Deals => !all.deals.is_empty(),
            _ => self.isolated(all).is_some(),
        }
    }
}

/// How often a campaign and its criteria matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    /// Impressions tried.
    pub impressions: u64,
    /// Impressions that the campaign matches.
    pub matched: u64,
    /// Failed impressions per criterion, each considered separately.
    pub failed: Vec<(Criterion, u64)>,
}

/// Tries a campaign's criteria.
#[derive(Debug)]
pub struct Probe {
    all: Catalogue,
    /// Its criteria; those of the request or key values with a catalogue of only that criterion.
    each: Vec<(Criterion, Option<Catalogue>)>,
    counts: ProbeCounts,
    scratch: SearchScratch,
    answer: DirectAnswer,
}

impl Probe {
    /// Tries the criteria of `campaign`.
    pub fn new(campaign: &DirectCampaign) -> Self {
        let targeting = &campaign.rules.targeting;
        let catalogue = |targeting: Arc<CampaignTargeting>| {
            let BiddingRules { price, creatives, .. } = &*campaign.rules;
            let rules = BiddingRules { price: *price, targeting, creatives: creatives.clone() };
            Catalogue::new(vec![DirectCampaign { rules: rules.into(), ..campaign.clone() }])
        };
        let asked = Criterion::ALL.into_iter().filter(|criterion| criterion.is_asked(targeting));
        let each = asked.map(|criterion| {
            (criterion, criterion.isolated(targeting).map(|alone| catalogue(alone.into())))
        });
        let each: Vec<_> = each.collect();
        let failed = each.iter().map(|(criterion, _)| (*criterion, 0)).collect();
        Self {
            all: catalogue(Arc::clone(targeting)),
            each,
            counts: ProbeCounts { failed, ..ProbeCounts::default() },
            scratch: SearchScratch::default(),
            answer: DirectAnswer::default(),
        }
    }

    /// Tries the criteria on the impressions of `ask`.
    pub fn try_on(&mut self, auction: &Auction<'_>, ask: &BidderCall) {
        let Self { all, each, counts, scratch, answer } = self;
        for imp in (0..auction.imps.len()).filter(|imp| ask.imps >> imp & 1 == 1) {
            let ask = BidderCall { imps: 1 << imp, ..*ask };
            let mut matched = MatchProbe(false);
            let limits = BiddingLimits { matches_max: 1, bids_max: 1 };
            let call = DirectCall { auction, ask: &ask, limits: &limits };
            all.bid(&call, &mut matched, scratch, answer);
            counts.impressions += 1;
            counts.matched += u64::from(matched.0);
            let tried = all.match_first(auction, &ask, imp, scratch);
            let failing = each.iter().map(|(criterion, catalogue)| match (criterion, catalogue) {
                (Criterion::Creatives, _) => !tried.fits_creative,
                (Criterion::Seat, _) => !tried.admits_seat,
                (Criterion::PrivateAuction, _) => auction.imps[imp].imp.is_private(),
                (Criterion::Deals, _) => !tried.has_deal,
                (Criterion::KeyValues, Some(catalogue)) => {
                    !catalogue.matches_key_values(auction.request, &auction.imps[imp], scratch)
                }
                (_, Some(catalogue)) => !catalogue.matches_request(auction.request, scratch),
                (_, None) => false,
            });
            let failing: Vec<bool> = failing.collect();
            for ((_, count), fails) in counts.failed.iter_mut().zip(failing) {
                *count += u64::from(fails);
            }
        }
    }

    /// The counts, with the criterion that fails most often first.
    pub fn finish(self) -> ProbeCounts {
        let mut counts = self.counts;
        counts.failed.sort_by_key(|(criterion, count)| (std::cmp::Reverse(*count), *criterion));
        counts
    }
}

struct MatchProbe(bool);

impl CampaignBidder for MatchProbe {
    fn decide(
        &mut self,
        _: CampaignIndex,
        _: CampaignPrice,
        _: Multiplier,
    ) -> Result<Cpm, SpendRefusal> {
        self.0 = true;
        Err(SpendRefusal::Throttled)
    }
}
