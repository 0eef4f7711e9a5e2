//! Matches campaigns to a request and its impressions. Knows neither creatives nor prices.

use std::borrow::Cow;

use openrtb::BidRequest;
use openrtb::codes::MediaType;

use super::catalogue::Catalogue;
use super::scratch::{DealScratch, SearchScratch};
use super::targeting::PageUrl;
use crate::asking::eligibility::BidderCall;
use crate::auction::Auction;
use crate::auction::domains::{normal_domain, suffixes};
use crate::auction::terms::ImpTerms;
use crate::market::size::AdSize;

impl Catalogue {
    pub(super) fn match_request(
        &self,
        request: &BidRequest<'_>,
        url: Option<&PageUrl<'_>>,
        scratch: &mut SearchScratch,
    ) {
        let places = &self.places;
        let SearchScratch { matched, spare, .. } = scratch;
        matched.fill(self.entries.len());
        places.publishers.narrow(matched, spare, request.publisher_id().into_iter());
        places.bundles.narrow(matched, spare, request.bundle().into_iter());
        places.devices.narrow(matched, spare, request.device_type().iter());
        self.match_geography(request, scratch);
        self.match_domain(request, scratch);
        self.match_page(url, scratch);
        scratch.key_values.reset(self.key_values.len as usize);
        if self.key_values.len > 0 {
            request.key_values(&mut |key, value| {
                if let Some(number) = self.key_values.get(key, value) {
                    scratch.key_values.set(number);
                }
            });
        }
    }

    fn match_geography(&self, request: &BidRequest<'_>, scratch: &mut SearchScratch) {
        let places = &self.places;
        let SearchScratch { matched, spare, narrowed, text, .. } = scratch;
        let Some(country) = request.country() else {
            return places.countries.narrow(matched, spare, std::iter::empty::<&str>());
        };
        text.clear();
        text.push_str(country);
        text.make_ascii_uppercase();
        places.countries.narrow(matched, spare, std::iter::once(text.as_str()));
        let some_regions = places.narrowed.get(text.as_str());
        if some_regions.is_none() && places.regions_blocked.is_empty() {
            return;
        }
        let is_told = request.region().is_some_and(|region| {
            text.push('/');
            text.push_str(region);
            text.make_ascii_uppercase();
            true
        });
        let key = Some(text.as_str()).filter(|_| is_told);
        if let Some(postings) = some_regions {
            narrowed.reset(self.entries.len());
            postings.add_to(narrowed);
            if let Some(postings) = key.and_then(|key| places.regions.get(key)) {
                postings.take_from(narrowed);
            }
            matched.remove(narrowed);
        }
        if let Some(postings) = key.and_then(|key| places.regions_blocked.get(key)) {
            postings.take_from(matched);
        }
    }

    fn match_domain(&self, request: &BidRequest<'_>, scratch: &mut SearchScratch) {
        let domains = &self.places.domains;
        if !domains.is_used() {
            return;
        }
        let SearchScratch { matched, spare, .. } = scratch;
        let domain = request.domain();
        let domain = domain.as_deref().map(normal_domain);
        domains.narrow(matched, spare, domain.iter().flat_map(|domain| suffixes(domain)));
    }

    /// Narrows by host and directory; [`Catalogue::is_on_page`] checks the rest.
    fn match_page(&self, url: Option<&PageUrl<'_>>, scratch: &mut SearchScratch) {
        let SearchScratch { matched, spare, text, .. } = scratch;
        let keys = url.map(|url| url.keys(text));
        self.places.pages.narrow(matched, spare, keys.into_iter().flatten());
    }

    pub(super) fn matches_request(
        &self,
        request: &BidRequest<'_>,
        scratch: &mut SearchScratch,
    ) -> bool {
        let page = self.page(request);
        let url = page.as_deref().and_then(PageUrl::parse);
        self.match_request(request, url.as_ref(), scratch);
        scratch.matched.members().any(|campaign| self.is_on_page(campaign as usize, url.as_ref()))
    }

    pub(super) fn matches_key_values(
        &self,
        request: &BidRequest<'_>,
        terms: &ImpTerms<'_>,
        scratch: &mut SearchScratch,
    ) -> bool {
        self.match_request(request, None, scratch);
        scratch.at_imp.copy(&scratch.matched);
        self.match_key_values(terms, scratch);
        !scratch.at_imp.is_empty() && self.has_key_values(0, scratch)
    }

    /// Narrows `scratch.matched` by an impression's formats, sizes, deals and key values, into
    /// `scratch.at_imp`. [`Catalogue::has_key_values`] checks campaigns that want several keys.
    pub(super) fn match_imp(
        &self,
        auction: &Auction<'_>,
        ask: &BidderCall,
        terms: &ImpTerms<'_>,
        scratch: &mut SearchScratch,
    ) {
        scratch.at_imp.copy(&scratch.matched);
        self.match_shape(terms, scratch);
        if scratch.at_imp.is_empty() {
            return;
        }
        self.find_deals(auction, ask, terms, scratch);
        let SearchScratch { at_imp, spare, deals, deals_len, .. } = scratch;
        spare.reset(self.entries.len());
        if !terms.imp.is_private() {
            spare.copy(&self.deals.open);
        }
        for deal in &deals[..*deals_len] {
            if let Some(postings) = self.deals.lists.get(&deal.number) {
                postings.add_to(spare);
            }
        }
        at_imp.keep(spare);
        self.match_key_values(terms, scratch);
    }

    fn match_key_values(&self, terms: &ImpTerms<'_>, scratch: &mut SearchScratch) {
        let SearchScratch { at_imp, spare, key_values, key_values_at_imp: values, .. } = scratch;
        if self.key_values.len == 0 || at_imp.is_empty() {
            return;
        }
        values.copy(key_values);
        terms.imp.key_values(&mut |key, value| {
            if let Some(number) = self.key_values.get(key, value) {
                values.set(number);
            }
        });
        spare.copy(&self.key_value_index.open);
        for postings in
            values.members().filter_map(|number| self.key_value_index.lists.get(&number))
        {
            postings.add_to(spare);
        }
        at_imp.keep(spare);
    }

    fn match_shape(&self, terms: &ImpTerms<'_>, scratch: &mut SearchScratch) {
        let SearchScratch { at_imp, spare, .. } = scratch;
        let imp = terms.imp;
        let shapes = &self.shapes;
        spare.reset(self.entries.len());
        for format in MediaType::ALL {
            if imp.formats() & format.bit() != 0 && format != MediaType::Banner {
                spare.add(&shapes.formats[format as usize]);
            }
        }
        if let Some(banner) = &imp.banner {
            let mut sizes = banner.sizes().peekable();
            // An interstitial's sizes are maxima; without sizes any fits.
            if sizes.peek().is_none() || imp.instl == Some(1) {
                spare.add(&shapes.formats[MediaType::Banner as usize]);
            } else {
                spare.add(&shapes.adaptive);
                for size in sizes.filter_map(|size| AdSize::of(&size)) {
                    if let Some(postings) = shapes.sizes.get(&size) {
                        postings.add_to(spare);
                    }
                }
            }
        }
        at_imp.keep(spare);
    }

    /// Collects the offered deals under which any campaign bids, and who may use them.
    pub(super) fn find_deals(
        &self,
        auction: &Auction<'_>,
        ask: &BidderCall,
        terms: &ImpTerms<'_>,
        scratch: &mut SearchScratch,
    ) {
        scratch.deals_len = 0;
        for index in terms.deals() {
            let deal = &auction.deals[index];
            let known = self.deals.numbers.get(deal.id).filter(|_| ask.deals >> index & 1 == 1);
            let Some(number) = known else { continue };
            if scratch.deals.len() == scratch.deals_len {
                scratch.deals.push(DealScratch::default());
            }
            let noted = &mut scratch.deals[scratch.deals_len];
            scratch.deals_len += 1;
            (noted.index, noted.number) = (index, number);
            let wseat = deal.deal.wseat.as_deref().unwrap_or_default();
            noted.lists_seats = !wseat.is_empty();
            noted.seats.reset(self.seats.len());
            for seat in wseat.iter().filter_map(|seat| self.seat_numbers.get(seat)) {
                noted.seats.set(seat);
            }
            let wadomain = deal.deal.wadomain.as_deref().unwrap_or_default();
            noted.lists_domains = !wadomain.is_empty();
            noted.domains.reset(self.ad_terms.domains_len());
            self.ad_terms.mark_domains(Some(wadomain), &mut noted.domains);
        }
    }

    pub(super) fn page<'r>(&self, request: &'r BidRequest<'_>) -> Option<Cow<'r, str>> {
        if self.places.pages.is_used() { request.page() } else { None }
    }

    #[inline]
    pub(super) fn is_on_page(&self, campaign: usize, url: Option<&PageUrl<'_>>) -> bool {
        if !self.places.pages.is_used() {
            return true;
        }
        let pages = &self.targeting(campaign).pages;
        pages.is_empty() || url.is_some_and(|url| pages.iter().any(|page| page.is_of(url)))
    }

    pub(super) fn has_key_values(&self, campaign: usize, scratch: &SearchScratch) -> bool {
        let told = &scratch.key_values_at_imp;
        let is_told = |values: &[u32]| values.iter().any(|value| told.has(*value));
        self.entries[campaign].key_values.iter().all(|values| is_told(values))
    }
}

impl DealScratch {
    pub(super) fn admits_seat(&self, seat: u32) -> bool {
        !self.lists_seats || self.seats.has(seat)
    }

    /// Whether an advertiser with these domains, any of which may be shown, may use the deal.
    pub(super) fn admits_domains(&self, domains: &[u32]) -> bool {
        !self.lists_domains
            || (!domains.is_empty() && domains.iter().all(|domain| self.domains.has(*domain)))
    }
}
