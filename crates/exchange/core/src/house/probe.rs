//! Why a campaign matches nothing: its criteria tried one at a time on requests that came.
//!
//! Owns which criteria there are. Whether a request meets one is asked of the same indexes that auctions
//! search, built over the campaign alone, so that the answer is what an auction finds.

use pacer_core::messages::Slot;
use pacer_core::refusal::Refusal;
use units::{Cpm, Multiplier};

use super::{
    Campaign, CampaignTargeting, Catalogue, Desk, HouseAnswer, Limits, Price, Room, Rules,
};
use crate::Auction;
use crate::eligibility::Ask;

/// Something that a campaign may ask of an impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criterion {
    /// A creative of a format and size that is offered, with nothing in it that the request blocks.
    Creatives,
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
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::Creatives,
        Self::Countries,
        Self::Regions,
        Self::Publishers,
        Self::Domains,
        Self::Bundles,
        Self::Pages,
        Self::DeviceTypes,
        Self::KeyValues,
        Self::Deals,
    ];

    /// The key of a campaign's table that it is about.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Creatives => "creative",
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

    /// `all` with nothing asked but this; formats and sizes stay, for they choose creatives. `None` if
    /// `all` does not ask it.
    fn alone(self, all: &CampaignTargeting) -> Option<CampaignTargeting> {
        let (formats, sizes) = (all.formats, all.sizes.clone());
        let nothing = CampaignTargeting { formats, sizes, ..CampaignTargeting::default() };
        let mut alone = nothing.clone();
        match self {
            Self::Creatives => return Some(alone),
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
            Self::Deals => alone.deals.clone_from(&all.deals),
        }
        (alone != nothing).then_some(alone)
    }
}

/// What was found of some impressions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    /// Impressions that were tried.
    pub impressions: u64,
    /// That the campaign matches.
    pub matched: u64,
    /// That fail a criterion, whatever the others say; only criteria that the campaign has. Of deals and
    /// key values only where a creative fits.
    pub failed: Vec<(Criterion, u64)>,
}

/// A campaign's criteria, to be tried.
#[derive(Debug)]
pub struct Probe {
    all: Catalogue,
    each: Vec<(Criterion, Catalogue)>,
    counts: ProbeCounts,
    room: Room,
    answer: HouseAnswer,
}

impl Probe {
    /// Of this campaign.
    pub fn new(campaign: &Campaign) -> Self {
        let targeting = &campaign.rules.targeting;
        let catalogue = |targeting| {
            let Rules { price, creatives, .. } = &*campaign.rules;
            let rules = Rules { price: *price, targeting, creatives: creatives.clone() };
            Catalogue::new(vec![Campaign { rules: rules.into(), ..campaign.clone() }])
        };
        let each = Criterion::ALL
            .into_iter()
            .filter_map(|criterion| Some((criterion, catalogue(criterion.alone(targeting)?))));
        let each: Vec<_> = each.collect();
        let failed = each.iter().map(|(criterion, _)| (*criterion, 0)).collect();
        Self {
            all: catalogue(targeting.clone()),
            each,
            counts: ProbeCounts { failed, ..ProbeCounts::default() },
            room: Room::default(),
            answer: HouseAnswer::default(),
        }
    }

    /// Tries it on an auction in which the house is asked for `ask`.
    pub fn try_on(&mut self, auction: &Auction<'_>, ask: &Ask) {
        let Self { all, each, counts, room, answer } = self;
        for imp in (0..auction.imps.len()).filter(|imp| ask.imps >> imp & 1 == 1) {
            let ask = Ask { imps: 1 << imp, ..*ask };
            let mut matches = |catalogue: &Catalogue| {
                let mut asked = Asked(false);
                let limits = Limits { matches_max: 1, bids_max: 1 };
                catalogue.bid((auction, &ask, &limits), &mut asked, room, answer);
                asked.0
            };
            counts.impressions += 1;
            counts.matched += u64::from(matches(all));
            let fits = matches(&each[0].1);
            let failing = each.iter().map(|(criterion, catalogue)| match criterion {
                Criterion::Creatives => !fits,
                Criterion::KeyValues | Criterion::Deals => fits && !matches(catalogue),
                _ => !catalogue.takes_request(auction.request, &mut Room::default()),
            });
            let failing: Vec<bool> = failing.collect();
            for ((_, count), fails) in counts.failed.iter_mut().zip(failing) {
                *count += u64::from(fails);
            }
        }
    }

    /// What was found, the criterion that most fail first.
    pub fn finish(self) -> ProbeCounts {
        let mut counts = self.counts;
        counts.failed.sort_by_key(|(criterion, count)| (std::cmp::Reverse(*count), *criterion));
        counts
    }
}

/// Whether it was asked: an impression that is matched.
struct Asked(bool);

impl Desk for Asked {
    fn decide(&mut self, _: Slot, _: Price, _: Multiplier) -> Result<Cpm, Refusal> {
        self.0 = true;
        Err(Refusal::Throttled)
    }
}
