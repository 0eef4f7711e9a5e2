//! Impressions and terms: floors from net to gross, deals, and exchange rates.

use openrtb::codes::{MediaType, NoBidReason};
use openrtb::{BidRequest, FloorPrice};
use units::{Cpm, Currency, Ppm, Rounding};

use super::auction::{FinishedAuction, ReplayedAuction, shown};
use super::document::{
    ExplainedDeal, ExplainedEnrichment, ExplainedFloor, ExplainedImp, ExplainedNoBid,
    ExplainedRate, ExplainedRequest, ExplainedRule, ExplainedTerms,
};
use crate::auction::Auction;
use crate::auction::enriched::{AuctionEnrichment, EnrichmentOutcome};
use crate::auction::terms::{AuctionDeal, AuctionType, ImpTerms, gross, or_max};
use crate::market::enrichment::Enrichment;
use crate::market::size::AdSize;
use crate::market::{BidsReturned, FloorRule, NoticeMode};

pub(super) fn request(request: &BidRequest<'_>) -> ExplainedRequest {
    ExplainedRequest {
        id: shown(request.id.as_ref().map_or("", |id| id)),
        publisher: request.publisher_id().map(shown),
        country: request.country().map(shown),
        tmax_ms: request.tmax.as_ref().map(|tmax| **tmax),
        dropped: request.mistyped().iter().map(|path| shown(path)).collect(),
        test: request.is_test(),
    }
}

pub(super) fn enrichments(auction: &Auction<'_>) -> Vec<ExplainedEnrichment> {
    let of_rules = auction.market.enrichments.iter().zip(auction.enrichments());
    let dsps = auction.market.dsps.len();
    let enrichment = |(rule, it): (&Enrichment, &AuctionEnrichment)| {
        let why = match it.outcome {
            EnrichmentOutcome::Added => "its data is added",
            EnrichmentOutcome::Stale => {
                "its data is added though it has expired: it is being looked up again"
            }
            EnrichmentOutcome::Empty => "no provider has data about the value",
            EnrichmentOutcome::Unknown => "the data is not in memory: it is being looked up",
            EnrichmentOutcome::Unfit => "the value is too long to be looked up, or has a *",
            EnrichmentOutcome::NoValue => "the request has no such value",
            EnrichmentOutcome::Withheld => "the request's privacy signals forbid it",
            EnrichmentOutcome::NoPlace => "the request has something else in the place of the data",
        };
        let age_ms = u64::try_from(it.age.as_millis()).unwrap_or(u64::MAX);
        ExplainedEnrichment {
            name: rule.name.to_string(),
            value: rule.value.label().to_owned(),
            into: rule.place.label().to_owned(),
            outcome: it.outcome.label().to_owned(),
            why: if rule.is_required && !it.outcome.is_added() {
                format!("{why}; it is required, so that the auction is not held")
            } else if rule.is_personal() && (0..dsps).any(|dsp| auction.is_limited(dsp)) {
                format!("{why}, but not for DSPs that get the limited request")
            } else {
                why.to_owned()
            },
            age_ms: it.text.as_ref().map(|_| age_ms),
            added: it.text.as_deref().map(str::to_owned),
        }
    };
    of_rules.map(enrichment).collect()
}

pub(super) fn terms(finished: &FinishedAuction<'_>, auction: &Auction<'_>) -> ExplainedTerms {
    let terms = auction.publisher_terms();
    let notices = finished.sealed.map_or(NoticeMode::PassThrough, |_| terms.notices);
    let is_upstream = notices == NoticeMode::Upstream;
    let bids_returned = if is_upstream { terms.bids } else { BidsReturned::Winner };
    ExplainedTerms {
        currency: auction.currency.to_string(),
        auction_type: auction.auction_type.label().to_owned(),
        increment: auction.increment.to_string(),
        fee: terms.fee.to_string(),
        notices: notices.label().to_owned(),
        bids_returned: bids_returned.label().to_owned(),
        budgets: "unlimited".to_owned(),
    }
}

pub(super) fn no_bid(reason: NoBidReason) -> ExplainedNoBid {
    let why = match reason {
        NoBidReason::Unknown => "nobody bid, or no bid was good enough",
        NoBidReason::TechnicalError => "not one DSP could be reached",
        NoBidReason::InvalidRequest => "the request is refused",
        NoBidReason::BlockedPublisher => "the publisher is blocked by configuration",
        NoBidReason::InsufficientAuctionTime => "tmax leaves DSPs less than exchange.dsp_time_min",
        NoBidReason::NoEligibleDsp => "no DSP may be asked for any impression of this request",
        NoBidReason::Overloaded => "the exchange had no time for the request",
        NoBidReason::DataUnknown => "data that an [[exchange.enrich]] requires is not added",
        NoBidReason::NoCurrency => {
            "no currency in cur, or of no impression's floor, has a configured rate"
        }
    };
    ExplainedNoBid { nbr: reason.code(), reason: reason.label().to_owned(), why: why.to_owned() }
}

pub(super) fn imps(auction: &Auction<'_>) -> Vec<ExplainedImp> {
    auction.imps.iter().map(|terms| imp(auction, terms)).collect()
}

fn imp(auction: &Auction<'_>, terms: &ImpTerms<'_>) -> ExplainedImp {
    let deals = terms.deals().map(|position| &auction.deals[position]);
    let floor = terms.imp.bidfloor.filter(|_| terms.has_rate).map(|floor| {
        let converted = or_max(terms.rate.convert(floor.amount, Rounding::Up));
        let (net, currency) = (floor.amount, terms.floor_currency);
        // The auction's own floor counts.
        explained_floor(net, currency, converted, terms.fee, terms.floor)
    });
    let rule = |(rule, gross): &(&FloorRule, Cpm)| {
        let (net, currency) = (rule.floor.amount, rule.floor.currency);
        let rates = &auction.market.rates;
        let converted = or_max(rates.convert(net, currency, auction.currency, Rounding::Up));
        ExplainedRule {
            on: rule_scope(rule),
            floor: explained_floor(net, currency, converted, terms.fee, *gross),
        }
    };
    ExplainedImp {
        id: shown(terms.id),
        formats: formats(terms),
        not_sold: (!terms.has_rate).then(|| no_rate(terms.floor_currency)),
        private: terms.imp.is_private(),
        multiplier: terms.multiplier.to_string(),
        floor,
        floors_by_duration: terms.has_timed_floor(),
        rules: terms.rules.iter().map(rule).collect(),
        deals: deals.map(deal).collect(),
    }
}

fn no_rate(currency: Currency) -> String {
    format!("no exchange rate is configured for {currency}, the currency of its floor")
}

fn explained_floor(
    net: Cpm,
    currency: Currency,
    converted: Cpm,
    fee: Ppm,
    gross: Cpm,
) -> ExplainedFloor {
    ExplainedFloor {
        net: net.to_string(),
        currency: currency.to_string(),
        converted: converted.to_string(),
        fee: fee.to_string(),
        gross: gross.to_string(),
    }
}

fn formats(terms: &ImpTerms<'_>) -> Vec<String> {
    let sizes = terms.imp.banner.iter().flat_map(openrtb::Banner::sizes);
    let sizes = sizes.filter_map(|size| AdSize::of(&size)).map(|size| size.to_string());
    let sizes: Vec<_> = sizes.take(super::auction::LISTED_MAX).collect();
    let name = |format| match (format, sizes.as_slice()) {
        (MediaType::Banner, sizes @ [_, ..]) => format!("banner {}", sizes.join(" ")),
        (format, _) => format.label().to_owned(),
    };
    MediaType::members(terms.imp.formats()).map(name).collect()
}

/// The bids to which a rule applies; publisher and country match already.
fn rule_scope(rule: &FloorRule) -> String {
    let format = rule.format.map(|format| format.label().to_owned());
    let size = rule.size.map(|size| size.to_string());
    format.into_iter().chain(size).collect::<Vec<_>>().join(" ")
}

fn deal(deal: &AuctionDeal<'_>) -> ExplainedDeal {
    let currency = deal.deal.bidfloorcur.as_deref().and_then(Currency::parse);
    let currency = currency.unwrap_or(Currency::USD);
    let floor = |floor: FloorPrice<'_>| {
        let converted = or_max(deal.rate.convert(floor.amount, Rounding::Up));
        let gross = or_max(gross(floor.amount, deal.rate, deal.fee));
        explained_floor(floor.amount, currency, converted, deal.fee, gross)
    };
    let is_agreed = deal.auction_type == AuctionType::Agreed;
    ExplainedDeal {
        id: shown(deal.id),
        auction_type: deal.auction_type.label().to_owned(),
        class: deal.class,
        fee: deal.fee.to_string(),
        discount: deal.discount().to_string(),
        not_sold: (!deal.has_rate).then(|| no_rate(currency)),
        floor: deal.deal.bidfloor.filter(|_| !is_agreed && deal.has_rate).map(floor),
        agreed: (is_agreed && deal.has_rate).then(|| deal.agreed_price().to_string()),
    }
}

impl ReplayedAuction<'_> {
    pub(super) fn rates(&self) -> Vec<ExplainedRate> {
        let auction = self.auction;
        let rules = auction.imps.iter().flat_map(|imp| &imp.rules);
        let deals = auction.deals.iter().map(|deal| deal.deal.bidfloorcur.as_deref());
        let used = [auction.market.increment.currency]
            .into_iter()
            .chain(auction.imps.iter().map(|imp| imp.floor_currency))
            .chain(rules.map(|(rule, _)| rule.floor.currency))
            .chain(deals.map(|code| code.and_then(Currency::parse).unwrap_or(Currency::USD)))
            .chain(self.judgement.bids.iter().map(|bid| bid.currency))
            .chain([auction.market.currency]);
        let mut seen = vec![auction.currency];
        let mut rates = Vec::new();
        for from in used {
            if seen.contains(&from) {
                continue;
            }
            seen.push(from);
            let unit = Cpm::parse("1", Rounding::Down).expect("1 is a price");
            let one = auction.market.rates.convert(unit, from, auction.currency, Rounding::Down);
            rates.extend(one.map(|one| ExplainedRate {
                from: from.to_string(),
                to: auction.currency.to_string(),
                one: one.to_string(),
            }));
        }
        rates
    }
}
