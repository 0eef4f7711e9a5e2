//! Which data is added to an auction's request.

use std::fmt::Write as _;
use std::time::Duration;

use openrtb::{BidRequest, DataMembers, Editor};

use super::mask::network_of;
use crate::auction::Auction;
use crate::auction::enriched::{
    AuctionEnrichment, AuctionEnrichments, EnrichmentOutcome, KnownData,
};
use crate::market::enrichment::{Enrichment, EnrichmentPlace, RequestValue};

impl<'a> Auction<'a> {
    /// Adds what is known about the request, whose text is `body`. `find` gets an enrichment by its
    /// position, and the value; what it does not know it explains. `value` is a buffer.
    pub fn enriched(
        mut self,
        body: &str,
        value: &mut String,
        mut find: impl FnMut(usize, &str) -> Result<KnownData, EnrichmentOutcome>,
    ) -> Self {
        let rules = &self.market.enrichments;
        let mut enrichments =
            AuctionEnrichments { all: Vec::with_capacity(rules.len()), ..Default::default() };
        let mut members = None;
        for (at, rule) in rules.iter().enumerate() {
            let found = self.find_data(rule, value, |value| find(at, value));
            let found = found.and_then(|found| {
                if found.text.is_none() {
                    return Ok(found);
                }
                let members = members.get_or_insert_with(|| DataMembers::of(body));
                let find = || rule.place.in_request().find(members, body, self.request);
                let spot = enrichments.spots[rule.place as usize].get_or_insert_with(find);
                if spot.is_some() { Ok(found) } else { Err(EnrichmentOutcome::NoPlace) }
            });
            enrichments.all.push(match found {
                Ok(KnownData { text, age, is_stale }) => {
                    let outcome = match &text {
                        None => EnrichmentOutcome::Empty,
                        Some(_) if is_stale => EnrichmentOutcome::Stale,
                        Some(_) => EnrichmentOutcome::Added,
                    };
                    AuctionEnrichment { outcome, text, age }
                }
                Err(outcome) => AuctionEnrichment { outcome, text: None, age: Duration::ZERO },
            });
        }
        self.enrichments = enrichments;
        self
    }

    fn find_data(
        &self,
        rule: &Enrichment,
        value: &mut String,
        find: impl FnOnce(&str) -> Result<KnownData, EnrichmentOutcome>,
    ) -> Result<KnownData, EnrichmentOutcome> {
        // If no DSP may get it, the provider is not asked about the user either.
        if rule.is_personal() && (0..self.market.dsps.len()).all(|dsp| self.is_limited(dsp)) {
            return Err(EnrichmentOutcome::Withheld);
        }
        value.clear();
        if !write_value(self.request, rule.value, value) {
            return Err(EnrichmentOutcome::NoValue);
        }
        find(value)
    }

    /// What the enrichments do, in the market's order. Empty if there was no look-up.
    pub fn enrichments(&self) -> &[AuctionEnrichment] {
        &self.enrichments.all
    }

    /// Whether data is missing without which the auction is not held.
    pub fn lacks_data(&self) -> bool {
        let mut of_rules = self.market.enrichments.iter().zip(&self.enrichments.all);
        of_rules.any(|(rule, it)| rule.is_required && !it.outcome.is_added())
    }
}

/// Bytes of the data that is added.
pub(super) fn data_len(auction: &Auction<'_>) -> usize {
    /// Names and brackets around the data of one place, and its commas.
    const AROUND: usize = 64;
    let texts = auction.enrichments.all.iter().filter_map(|it| it.text.as_ref());
    texts.map(|text| text.len() + AROUND).sum()
}

/// Adds the data to the request for DSPs.
pub(super) fn add_data(editor: &mut Editor<'_>, auction: &Auction<'_>) {
    let AuctionEnrichments { all, spots } = &auction.enrichments;
    for place in EnrichmentPlace::ALL {
        let Some(Some(spot)) = &spots[place as usize] else { continue };
        let of_place = auction.market.enrichments.iter().zip(all);
        let of_place = of_place.filter(|(rule, _)| rule.place == place);
        let texts = of_place.filter_map(|(_, it)| it.text.as_deref());
        editor.add_data(place.in_request(), spot, texts);
    }
}

/// Appends a value of a request to `out`. Returns whether it has one.
fn write_value(request: &BidRequest<'_>, value: RequestValue, out: &mut String) -> bool {
    let text = |out: &mut String, text: Option<&str>| {
        out.push_str(text.unwrap_or_default());
        !out.is_empty()
    };
    match value {
        RequestValue::UserId => {
            text(out, request.user.as_ref().and_then(|user| user.id.as_deref()))
        }
        RequestValue::Page => text(out, request.page().as_deref()),
        RequestValue::Domain => text(out, request.domain().as_deref()),
        RequestValue::Bundle => text(out, request.bundle()),
        RequestValue::Country => text(out, request.country()),
        RequestValue::IpPrefix => request.address().is_some_and(|address| {
            write!(out, "{}", network_of(address)).expect("text can be written to memory");
            true
        }),
        RequestValue::City => {
            let (Some(country), Some(city)) = (request.country(), request.city()) else {
                return false;
            };
            out.extend([country, "/", request.region().unwrap_or_default(), "/", &city]);
            true
        }
    }
}

#[cfg(test)]
mod tests;
