//! All direct campaigns of one generation, indexed for auctions. Immutable; built outside the
//! shards.

pub(super) mod attributes;
pub(super) mod index;

use std::collections::HashMap;
use std::sync::Arc;

use openrtb::codes::MediaType;
use units::Currency;

use super::campaign::{BiddingRules, DirectCampaign};
use super::creative::Creative;
use super::targeting::{CampaignTargeting, KeyValues, MatchList, PagePrefix};
use crate::auction::domains::normal_domain;
use crate::market::size::AdSize;
use crate::market::targeting::Region;
use attributes::{AdTerms, TextNumbers};
use index::{Bits, Dimension, DimensionBuilder, InvertedIndex, InvertedIndexBuilder};

/// Campaigns indexed for search. Clones share their data.
#[derive(Clone, Debug)]
pub struct Catalogue {
    campaigns: Arc<[DirectCampaign]>,
    /// By campaign.
    pub(super) entries: Arc<[CatalogueEntry]>,
    pub(super) ads: Arc<[CatalogueAd]>,
    pub(super) seats: Arc<[Box<str>]>,
    pub(super) seat_numbers: Arc<TextNumbers>,
    pub(super) currencies: Arc<[Currency]>,
    pub(super) ad_terms: Arc<AdTerms>,
    pub(super) places: Arc<PlaceIndex>,
    pub(super) shapes: Arc<FormatIndex>,
    pub(super) deals: Arc<DealIndex>,
    pub(super) key_values: Arc<KeyValueNumbers>,
    pub(super) key_value_index: Arc<KeyValueIndex>,
}

#[derive(Clone, Debug)]
pub(super) struct CatalogueEntry {
    pub(super) seat: u32,
    pub(super) currency: usize,
    pub(super) ads: std::ops::Range<usize>,
    /// By key: the request must have one number of each.
    pub(super) key_values: Box<[Box<[u32]>]>,
    pub(super) deals: Box<[u32]>,
}

#[derive(Clone, Debug)]
pub(super) struct CatalogueAd {
    pub(super) creative: u32,
    pub(super) format: MediaType,
    pub(super) size: Option<AdSize>,
    pub(super) dur: Option<u32>,
    pub(super) is_insecure: bool,
    pub(super) has_script: bool,
    pub(super) has_iframe: bool,
    pub(super) attributes: u64,
    pub(super) terms: u32,
}

#[derive(Clone, Debug)]
pub(super) struct PlaceIndex {
    pub(super) countries: Dimension<Box<str>>,
    /// By country; only some of its regions match.
    pub(super) narrowed: InvertedIndex<Box<str>>,
    /// By `country/region`.
    pub(super) regions: InvertedIndex<Box<str>>,
    pub(super) regions_blocked: InvertedIndex<Box<str>>,
    pub(super) publishers: Dimension<Box<str>>,
    pub(super) domains: Dimension<Box<str>>,
    pub(super) bundles: Dimension<Box<str>>,
    /// By lower-case host and directory.
    pub(super) pages: Dimension<Box<str>>,
    pub(super) devices: Dimension<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct FormatIndex {
    pub(super) formats: [Bits; 4],
    /// Campaigns with banners that adapt.
    pub(super) adaptive: Bits,
    pub(super) sizes: InvertedIndex<AdSize>,
}

#[derive(Clone, Debug)]
pub(super) struct DealIndex {
    pub(super) numbers: TextNumbers,
    pub(super) lists: InvertedIndex<u32>,
    pub(super) open: Bits,
}

#[derive(Clone, Debug)]
pub(super) struct KeyValueIndex {
    pub(super) lists: InvertedIndex<u32>,
    pub(super) open: Bits,
}

#[derive(Clone, Debug, Default)]
pub(super) struct KeyValueNumbers {
    numbers: HashMap<Box<str>, HashMap<Box<str>, u32>>,
    pub(super) len: u32,
}

impl KeyValueNumbers {
    fn add(&mut self, wanted: &KeyValues) -> Box<[u32]> {
        let values = self.numbers.entry(wanted.key.clone()).or_default();
        let mut number = |value: &str| {
            let number = values.entry(value.into()).or_insert_with(|| {
                self.len += 1;
                self.len - 1
            });
            *number
        };
        wanted.values.iter().map(|value| number(value)).collect()
    }

    pub(super) fn get(&self, key: &str, value: &str) -> Option<u32> {
        self.numbers.get(key)?.get(value).copied()
    }
}

impl Default for Catalogue {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Catalogue {
    /// Indexes `campaigns`. Seats are their accounts, in order of first appearance.
    pub fn new(campaigns: Vec<DirectCampaign>) -> Self {
        let len = campaigns.len();
        let mut builder = CatalogueBuilder::default();
        for (number, campaign) in (0..).zip(&campaigns) {
            builder.add(number, campaign);
        }
        let formats = builder.formats.map(|members| Bits::of(len, &members));
        builder.ad_terms.shrink_to_fit();
        Self {
            campaigns: campaigns.into(),
            entries: builder.entries.into(),
            ads: builder.ads.into(),
            seats: builder.seats.into(),
            seat_numbers: builder.seat_numbers.into(),
            currencies: builder.currencies.into(),
            ad_terms: builder.ad_terms.into(),
            places: builder.places.build(len).into(),
            shapes: Arc::new(FormatIndex {
                formats,
                adaptive: Bits::of(len, &builder.adaptive),
                sizes: builder.sizes.build(len),
            }),
            deals: Arc::new(DealIndex {
                numbers: builder.deal_numbers,
                lists: builder.deals.build(len),
                open: Bits::of(len, &builder.open),
            }),
            key_values: builder.key_values.into(),
            key_value_index: KeyValueIndex {
                lists: builder.key_value_index.build(len),
                open: Bits::of(len, &builder.without_key_values),
            }
            .into(),
        }
    }

    /// Like [`new`](Self::new), for a later generation. Shares the indexes if they did not change.
    #[must_use]
    pub fn renewed(&self, campaigns: Vec<DirectCampaign>) -> Self {
        let mut pairs = self.campaigns.iter().zip(&campaigns);
        let is_shared = self.campaigns.len() == campaigns.len()
            && pairs.all(|(own, other)| own.is_indexed_as(other));
        match is_shared {
            true => Self { campaigns: campaigns.into(), ..self.clone() },
            false => Self::new(campaigns),
        }
    }

    /// The campaigns, in the given order.
    pub fn campaigns(&self) -> &[DirectCampaign] {
        &self.campaigns
    }

    /// Accounts with campaigns: the seats of direct campaigns in the market.
    pub fn seats(&self) -> &[Box<str>] {
        &self.seats
    }

    pub(super) fn creative(&self, campaign: usize, ad: usize) -> &Creative {
        &self.campaigns[campaign].rules.creatives[self.ads[ad].creative as usize]
    }

    pub(super) fn targeting(&self, campaign: usize) -> &CampaignTargeting {
        &self.campaigns[campaign].rules.targeting
    }
}

impl DirectCampaign {
    /// Whether both have the same index entries, without comparing shared rules.
    fn is_indexed_as(&self, other: &Self) -> bool {
        let is_same = |rules: &BiddingRules, others: &BiddingRules| {
            rules.targeting == others.targeting && rules.creatives == others.creatives
        };
        self.account == other.account
            && self.currency == other.currency
            && (Arc::ptr_eq(&self.rules, &other.rules) || is_same(&self.rules, &other.rules))
    }
}

#[derive(Debug, Default)]
struct CatalogueBuilder {
    entries: Vec<CatalogueEntry>,
    ads: Vec<CatalogueAd>,
    seats: Vec<Box<str>>,
    seat_numbers: TextNumbers,
    currencies: Vec<Currency>,
    ad_terms: AdTerms,
    places: PlaceIndexBuilder,
    formats: [Vec<u32>; 4],
    adaptive: Vec<u32>,
    sizes: InvertedIndexBuilder<AdSize>,
    deal_numbers: TextNumbers,
    deals: InvertedIndexBuilder<u32>,
    open: Vec<u32>,
    key_values: KeyValueNumbers,
    key_value_index: InvertedIndexBuilder<u32>,
    without_key_values: Vec<u32>,
}

impl CatalogueBuilder {
    fn add(&mut self, number: u32, campaign: &DirectCampaign) {
        let targeting = &campaign.rules.targeting;
        let seat = self.seat_numbers.number(&campaign.account);
        if seat as usize == self.seats.len() {
            self.seats.push(Box::from(&*campaign.account));
        }
        let known = self.currencies.iter().position(|known| *known == campaign.currency);
        let currency = known.unwrap_or_else(|| {
            self.currencies.push(campaign.currency);
            self.currencies.len() - 1
        });
        let first = self.ads.len();
        for (creative, it) in (0..).zip(&campaign.rules.creatives) {
            if targeting.allows(it) {
                self.add_ad(number, creative, it);
            }
        }
        self.places.add(number, targeting);
        let mut deals: Vec<u32> =
            targeting.deals.iter().map(|deal| self.deal_numbers.number(deal)).collect();
        deals.sort_unstable();
        deals.dedup();
        if deals.is_empty() {
            self.open.push(number);
        }
        deals.iter().for_each(|deal| self.deals.add(*deal, number));
        let key_values = targeting.key_values.iter().map(|wanted| self.key_values.add(wanted));
        let key_values: Box<[Box<[u32]>]> = key_values.collect();
        key_values.iter().flatten().for_each(|value| self.key_value_index.add(*value, number));
        if key_values.is_empty() {
            self.without_key_values.push(number);
        }
        self.entries.push(CatalogueEntry {
            seat,
            currency,
            ads: first..self.ads.len(),
            key_values,
            deals: deals.into(),
        });
    }

    fn add_ad(&mut self, campaign: u32, position: u32, creative: &Creative) {
        let of_format = &mut self.formats[creative.format as usize];
        if of_format.last() != Some(&campaign) {
            of_format.push(campaign);
        }
        match creative.size {
            Some(size) => self.sizes.add(size, campaign),
            None if creative.format == MediaType::Banner => self.adaptive.push(campaign),
            None => (),
        }
        self.ads.push(CatalogueAd {
            creative: position,
            format: creative.format,
            size: creative.size,
            dur: creative.duration_s,
            is_insecure: creative.is_insecure,
            has_script: creative.has_script,
            has_iframe: creative.has_iframe,
            attributes: creative.attributes,
            terms: self.ad_terms.add(creative),
        });
    }
}

fn in_capitals(text: &str) -> Box<str> {
    text.to_ascii_uppercase().into()
}

#[derive(Debug, Default)]
struct PlaceIndexBuilder {
    countries: DimensionBuilder<Box<str>>,
    narrowed: InvertedIndexBuilder<Box<str>>,
    regions: InvertedIndexBuilder<Box<str>>,
    regions_blocked: InvertedIndexBuilder<Box<str>>,
    publishers: DimensionBuilder<Box<str>>,
    domains: DimensionBuilder<Box<str>>,
    bundles: DimensionBuilder<Box<str>>,
    pages: DimensionBuilder<Box<str>>,
    devices: DimensionBuilder<u32>,
}

impl PlaceIndexBuilder {
    fn add(&mut self, campaign: u32, targeting: &CampaignTargeting) {
        let add = |dimension: &mut DimensionBuilder<Box<str>>,
                   listed: &MatchList,
                   form: fn(&str) -> Box<str>| {
            let allowed = listed.allowed.iter().map(|text| form(text));
            dimension.add(campaign, allowed, listed.blocked.iter().map(|text| form(text)));
        };
        add(&mut self.countries, &targeting.countries, in_capitals);
        add(&mut self.publishers, &targeting.publishers, |text| text.into());
        add(&mut self.domains, &targeting.domains, |text| normal_domain(text).into());
        add(&mut self.bundles, &targeting.bundles, |text| text.into());
        self.pages.add(campaign, targeting.pages.iter().map(PagePrefix::key), std::iter::empty());
        let types = (0..u16::BITS).filter(|bit| targeting.device_types >> bit & 1 == 1);
        self.devices.add(campaign, types, std::iter::empty());
        let key = |region: &Region| in_capitals(&format!("{}/{}", region.country, region.region));
        for region in &targeting.regions {
            self.narrowed.add(in_capitals(&region.country), campaign);
            self.regions.add(key(region), campaign);
        }
        for region in &targeting.regions_blocked {
            self.regions_blocked.add(key(region), campaign);
        }
    }

    fn build(self, len: usize) -> PlaceIndex {
        PlaceIndex {
            countries: self.countries.build(len),
            narrowed: self.narrowed.build(len),
            regions: self.regions.build(len),
            regions_blocked: self.regions_blocked.build(len),
            publishers: self.publishers.build(len),
            domains: self.domains.build(len),
            bundles: self.bundles.build(len),
            pages: self.pages.build(len),
            devices: self.devices.build(len),
        }
    }
}
