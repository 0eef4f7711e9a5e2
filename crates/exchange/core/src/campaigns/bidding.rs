//! Bids of direct campaigns in one auction: matches campaigns, applies their pacing, and writes the
//! best bids of a few accounts as a bid response. The judge would accept all bids, so that only
//! valid bids count towards pacing.

use std::fmt::Write as _;
use std::hash::Hasher as _;

use openrtb::codes::MediaType;
use openrtb::{Imp, escaped};
use pacer_core::funnel::Shortfall;
use siphasher::sip::SipHasher13;
use units::{Cpm, Currency, Ratio, Rounding, SplitMix64};

use super::bidder::{CampaignBidder, DirectAnswer, DirectBid, DirectCall};
use super::candidates::{ACCOUNTS_MAX, BidCandidate};
use super::catalogue::{Catalogue, CatalogueAd, CatalogueEntry};
use super::scratch::{AdChoice, DealScratch, FloorKey, SearchScratch};
use super::targeting::PageUrl;
use crate::asking::eligibility::BidderCall;
use crate::auction::Auction;
use crate::auction::floors::BidShape;
use crate::auction::terms::{AuctionType, ImpTerms, reaches};
use crate::campaigns::catalogue::attributes::AdAttributes;
use crate::creatives::playback::allows_duration;
use crate::creatives::rules::{blocked_ad_types, blocked_attributes};
use crate::judging::judge::BIDS_MAX;
use crate::market::size::AdSize;
use crate::market::tie::BidIds;

const _: () = assert!(openrtb::IMPS_MAX * ACCOUNTS_MAX <= BIDS_MAX, "an answer may hold all bids");

/// Cached floors per impression; others are computed again.
const FLOORS_MAX: usize = 32;

impl Catalogue {
    /// Writes the bids for `call` into `answer`, which it empties first. `bidder` prices each
    /// campaign that matches an impression. Only the few best accounts bid for it, once each.
    ///
    /// Impressions share the limit on matches equally; later ones may use what earlier ones leave.
    /// If more campaigns match, a uniform draw seeded by the auction's id picks among them.
    pub fn bid(
        &self,
        call: &DirectCall<'_>,
        bidder: &mut impl CampaignBidder,
        scratch: &mut SearchScratch,
        answer: &mut DirectAnswer,
    ) {
        answer.clear();
        let DirectCall { auction, ask, limits } = call;
        let accepts = &auction.market.dsps[ask.dsp].currencies;
        if self.entries.is_empty() || !accepts.contains(&auction.currency) {
            return;
        }
        scratch.candidates.start(limits.bids_max);
        let page = self.page(auction.request);
        let url = page.as_deref().and_then(PageUrl::parse);
        self.match_request(auction.request, url.as_ref(), scratch);
        if scratch.matched.is_empty() {
            return;
        }
        self.prepare(auction, scratch);
        if scratch.seats.is_empty() {
            return;
        }
        let mut hasher = SipHasher13::new();
        hasher.write(auction.id.as_bytes());
        let rotation_seed = hasher.finish();
        let mut matches_left = limits.matches_max;
        for (index, terms) in auction.imps.iter().enumerate() {
            if ask.imps >> index & 1 == 0 {
                continue;
            }
            self.match_imp(auction, ask, terms, scratch);
            let imps_left = (ask.imps >> index).count_ones() as usize;
            let (start, count) =
                share(scratch.at_imp.len(), matches_left.div_ceil(imps_left), || {
                    SplitMix64::mixed(rotation_seed ^ SplitMix64::mixed(!(index as u64)))
                });
            matches_left -= count;
            answer.left_out += (scratch.at_imp.len() - count) as u64;
            let at_imp = std::mem::take(&mut scratch.at_imp);
            scratch.floors.clear();
            let mut bidding = ImpBidding {
                catalogue: self,
                auction,
                dsp: ask.dsp,
                imp: ImpFacts::of(index, terms),
                url,
                rotation_seed,
            };
            at_imp.members_from(start).take(count).for_each(|campaign| {
                bidding.consider(campaign as usize, bidder, scratch);
            });
            scratch.at_imp = at_imp;
            scratch.candidates.close_imp();
        }
        self.write(auction, scratch, answer);
    }

    /// Checks separately what an impression must satisfy in addition to targeting.
    pub(super) fn match_first(
        &self,
        auction: &Auction<'_>,
        ask: &BidderCall,
        imp: usize,
        scratch: &mut SearchScratch,
    ) -> ImpMatch {
        self.prepare(auction, scratch);
        let terms = &auction.imps[imp];
        self.find_deals(auction, ask, terms, scratch);
        let imp = ImpFacts::of(imp, terms);
        let bidding =
            ImpBidding { catalogue: self, auction, dsp: ask.dsp, imp, url: None, rotation_seed: 0 };
        let CatalogueEntry { seat, deals, .. } = &self.entries[0];
        let offered = scratch.deals[..scratch.deals_len].iter();
        let mut admitting = offered
            .filter(|deal| deals.binary_search(&deal.number).is_ok() && deal.admits_seat(*seat));
        let fits_creative = bidding.ad(0, None, scratch).is_some();
        ImpMatch {
            fits_creative,
            admits_seat: scratch.seats.has(*seat) && bidding.is_declared(*seat),
            // A deal's advertisers are checked only for a creative that fits.
            has_deal: admitting
                .any(|deal| !fits_creative || bidding.ad(0, Some(deal), scratch).is_some()),
        }
    }

    fn prepare(&self, auction: &Auction<'_>, scratch: &mut SearchScratch) {
        let rates = &auction.market.rates;
        let ratio = |own| rates.ratio(own, auction.currency);
        scratch.ratios.clear();
        scratch.ratios.extend(self.currencies.iter().map(|own| ratio(*own)));
        let request = auction.request;
        let wseat = request.wseat.as_deref().unwrap_or_default();
        scratch.seats.reset(self.seats.len());
        if wseat.is_empty() {
            scratch.seats.fill(self.seats.len());
        }
        for seat in wseat.iter().filter_map(|seat| self.seat_numbers.get(seat)) {
            scratch.seats.set(seat);
        }
        for seat in request.bseat.iter().flatten() {
            if let Some(seat) = self.seat_numbers.get(seat) {
                scratch.seats.unset(seat);
            }
        }
        self.ad_terms.block(request, &auction.lists, &mut scratch.blocked);
    }

    fn write(&self, auction: &Auction<'_>, scratch: &mut SearchScratch, answer: &mut DirectAnswer) {
        let candidates = scratch.candidates.by_seat();
        if candidates.is_empty() {
            return;
        }
        let DirectAnswer { body, bids, .. } = answer;
        let (id, currency) = (auction.id, auction.currency);
        let _ = write!(body, r#"{{"id":"{id}","cur":"{currency}","seatbid":["#);
        let mut seat = None;
        for candidate in candidates {
            if seat == Some(candidate.seat) {
                body.push(',');
            } else {
                let open = if seat.is_some() { "]}," } else { "" };
                let name = escaped(&self.seats[candidate.seat as usize]);
                let _ = write!(body, r#"{open}{{"seat":"{name}","bid":["#);
                seat = Some(candidate.seat);
            }
            self.write_bid(auction, candidate, body);
            bids.push(DirectBid {
                imp: candidate.imp,
                campaign: candidate.campaign,
                slot: self.campaigns()[candidate.campaign].slot,
                price: candidate.decided,
            });
        }
        body.push_str("]}]}");
    }

    fn write_bid(&self, auction: &Auction<'_>, candidate: &BidCandidate, body: &mut String) {
        let imp = auction.imps[candidate.imp].imp.id.as_ref().map_or("", |id| id.raw());
        body.push_str(r#"{"id":""#);
        write_bid_id(candidate, body);
        let cid = escaped(&self.campaigns()[candidate.campaign].id);
        let _ = write!(body, r#"","impid":{imp},"price":{},"cid":"{cid}","#, candidate.price);
        if let Some(deal) = candidate.deal {
            let _ = write!(body, r#""dealid":"{}","#, escaped(auction.deals[deal].id));
        }
        body.push_str(&self.creative(candidate.campaign, candidate.ad).members);
        body.push('}');
    }
}

pub(super) struct ImpMatch {
    pub(super) fits_creative: bool,
    pub(super) admits_seat: bool,
    pub(super) has_deal: bool,
}

/// Picks at most `most` of `matches`, wrapping around: the position of the first, and the number.
fn share(matches: usize, most: usize, draw: impl FnOnce() -> u64) -> (usize, usize) {
    if matches <= most {
        return (0, matches);
    }
    let first = draw() % matches as u64;
    (usize::try_from(first).expect("it is below their number"), most)
}

/// Writes the positions of impression and campaign, which are unique in the answer.
fn write_bid_id(candidate: &BidCandidate, out: &mut String) {
    let _ = write!(out, "{}-{}", candidate.imp, candidate.campaign);
}

/// What a campaign bids, in its account's currency and in the auction's.
#[derive(Clone, Copy)]
struct BidDecision {
    campaign: usize,
    decided: Cpm,
    price: Cpm,
}

struct ImpBidding<'b, 'a> {
    catalogue: &'b Catalogue,
    auction: &'b Auction<'a>,
    dsp: usize,
    imp: ImpFacts<'b, 'a>,
    /// None if no campaign lists pages.
    url: Option<PageUrl<'b>>,
    rotation_seed: u64,
}

struct ImpFacts<'b, 'a> {
    index: usize,
    terms: &'b ImpTerms<'a>,
    formats: u8,
    is_secure: bool,
    blocks_script: bool,
    blocks_iframe: bool,
    /// By format; code n is bit n.
    attributes_blocked: [u64; 4],
    lists_sizes: bool,
    /// The only size on offer, used for banners without a size.
    only_size: Option<AdSize>,
}

impl<'b, 'a> ImpFacts<'b, 'a> {
    fn of(index: usize, terms: &'b ImpTerms<'a>) -> Self {
        let imp: &Imp<'_> = terms.imp;
        let blocks = |code| blocked_ad_types(imp).contains(&code);
        let attributes_blocked = |format| {
            let battr = blocked_attributes(imp, format).iter();
            battr.filter(|code| **code < u64::BITS).fold(0, |set, code| set | 1 << code)
        };
        let mut sizes = imp.banner.iter().flat_map(openrtb::Banner::sizes);
        let (first, second) = (sizes.next(), sizes.next());
        Self {
            index,
            terms,
            formats: imp.formats(),
            is_secure: imp.secure == Some(1),
            blocks_script: blocks(3),
            blocks_iframe: blocks(4),
            attributes_blocked: MediaType::ALL.map(attributes_blocked),
            lists_sizes: first.is_some(),
            only_size: first.filter(|_| second.is_none()).and_then(|only| AdSize::of(&only)),
        }
    }

    fn offers_size(&self, size: AdSize) -> bool {
        let is_interstitial = self.terms.imp.instl == Some(1);
        let mut sizes = self.terms.imp.banner.iter().flat_map(openrtb::Banner::sizes);
        sizes.any(|offered| size.is_offered(&offered, is_interstitial))
    }
}

impl ImpBidding<'_, '_> {
    fn consider(
        &mut self,
        campaign: usize,
        bidder: &mut impl CampaignBidder,
        scratch: &mut SearchScratch,
    ) {
        let entry = &self.catalogue.entries[campaign];
        let may_bid = scratch.seats.has(entry.seat) && self.is_declared(entry.seat);
        let ratio = scratch.ratios[entry.currency].filter(|_| may_bid);
        let is_wanted = self.catalogue.has_key_values(campaign, scratch)
            && self.catalogue.is_on_page(campaign, self.url.as_ref());
        let Some(ratio) = ratio.filter(|_| is_wanted) else { return };
        self.choose(campaign, scratch);
        if scratch.choices.is_empty() {
            return;
        }
        let Some(own) = self.catalogue.campaigns().get(campaign) else { return };
        let shown = self.imp.terms.multiplier;
        let Ok(decided) = bidder.decide(own.slot, own.rules.price, shown) else { return };
        // Round down, so that no bid exceeds the decided price. A bid of zero is below every floor.
        let price = match ratio == Ratio::ONE {
            true => Some(decided),
            false => ratio.convert(decided, Rounding::Down),
        };
        let Some(price) = price else { return };
        let decision = BidDecision { campaign, decided, price };
        let mut missed = None;
        let mut reaches_one = false;
        for choice in 0..scratch.choices.len() {
            match self.add_candidate(decision, scratch.choices[choice], scratch) {
                Ok(()) => reaches_one = true,
                Err(floor) => missed = Some(missed.map_or(floor, |least: Cpm| least.min(floor))),
            }
        }
        if let Some(floor) = missed.filter(|_| !reaches_one) {
            bidder.report_shortfall(own.slot, || self.shortfall(decided, floor, own.currency));
        }
    }

    /// The decided price and a floor of the auction, both in the account's currency.
    fn shortfall(&self, bid: Cpm, floor: Cpm, own: Currency) -> Shortfall {
        let (rates, currency) = (&self.auction.market.rates, self.auction.currency);
        // Without a floor, the smallest amount replaces it.
        let floor = floor.max(Cpm::new(1).expect("it is small"));
        let floor = rates.convert(floor, currency, own, Rounding::Up).unwrap_or(Cpm::MAX);
        Shortfall { bid, floor }
    }

    fn is_declared(&self, seat: u32) -> bool {
        let declared = &self.auction.market.dsps[self.dsp].seats;
        let own = &self.catalogue.seats[seat as usize];
        declared.get(seat as usize) == Some(own) || declared.position(own).is_some()
    }

    fn choose(&self, campaign: usize, scratch: &mut SearchScratch) {
        scratch.choices.clear();
        let entry = &self.catalogue.entries[campaign];
        if entry.deals.is_empty() {
            let ad = self.ad(campaign, None, scratch);
            scratch.choices.extend(ad.map(|ad| AdChoice { deal: None, ad }));
            return;
        }
        for place in 0..scratch.deals_len {
            let deal = &scratch.deals[place];
            if entry.deals.binary_search(&deal.number).is_err() || !deal.admits_seat(entry.seat) {
                continue;
            }
            let ad = self.ad(campaign, Some(deal), scratch);
            let index = deal.index;
            scratch.choices.extend(ad.map(|ad| AdChoice { deal: Some(index), ad }));
        }
    }

    /// One of the campaign's creatives that fits; auctions rotate through them.
    fn ad(
        &self,
        campaign: usize,
        deal: Option<&DealScratch>,
        scratch: &SearchScratch,
    ) -> Option<usize> {
        let ads = self.catalogue.entries[campaign].ads.clone();
        let fits = |ad: &usize| self.fits(campaign, &self.catalogue.ads[*ad], deal, scratch);
        if ads.len() == 1 {
            return Some(ads.start).filter(fits);
        }
        // Each draws, and the highest that fits is shown, so all are shown equally often.
        let first = ads.start;
        let slot = u64::from(self.catalogue.campaigns()[campaign].slot.0) << 32;
        let drawn = |ad: &usize| {
            SplitMix64::mixed(self.rotation_seed ^ SplitMix64::mixed(slot | (*ad - first) as u64))
        };
        ads.filter(fits).max_by_key(drawn)
    }

    /// Whether the judge would accept the creative here, under this deal.
    fn fits(
        &self,
        campaign: usize,
        ad: &CatalogueAd,
        deal: Option<&DealScratch>,
        scratch: &SearchScratch,
    ) -> bool {
        let imp = &self.imp;
        let admits = |attributes: &AdAttributes| {
            scratch.blocked.admits(attributes)
                && deal.is_none_or(|deal| deal.admits_domains(&attributes.domains))
        };
        imp.formats & ad.format.bit() != 0
            && (ad.format != MediaType::Banner || self.fits_size(campaign, ad))
            && allows_duration(imp.terms.imp, ad.format, ad.dur)
            && !(imp.is_secure && ad.is_insecure)
            && !(ad.format == MediaType::Banner
                && ((imp.blocks_script && ad.has_script) || (imp.blocks_iframe && ad.has_iframe)))
            && imp.attributes_blocked[ad.format as usize] & ad.attributes == 0
            && admits(self.catalogue.ad_terms.attributes(ad.terms))
    }

    /// Whether a banner's size is on offer and targeted by its campaign.
    fn fits_size(&self, campaign: usize, ad: &CatalogueAd) -> bool {
        let imp = &self.imp;
        let wanted = &self.catalogue.targeting(campaign).sizes;
        match ad.size {
            // Without sizes in the request any banner fits, but none is known to be targeted.
            Some(_) if !imp.lists_sizes => wanted.is_empty(),
            Some(size) => imp.offers_size(size),
            None => wanted.is_empty() || wanted.iter().any(|size| imp.offers_size(*size)),
        }
    }

    /// Bids the decided price if it reaches the floor, else returns the floor.
    fn add_candidate(
        &self,
        decision: BidDecision,
        choice: AdChoice,
        scratch: &mut SearchScratch,
    ) -> Result<(), Cpm> {
        let BidDecision { campaign, decided, price } = decision;
        let deal = choice.deal.map(|deal| &self.auction.deals[deal]);
        let worth = deal.map_or(price, |deal| deal.discount().taken_from(price));
        let floor = self.floor(choice, scratch);
        if worth == Cpm::ZERO || !reaches(worth, floor) {
            return Err(floor);
        }
        let is_agreed = deal.is_some_and(|deal| deal.auction_type == AuctionType::Agreed);
        let candidate = BidCandidate {
            imp: self.imp.index,
            seat: self.catalogue.entries[campaign].seat,
            campaign,
            ad: choice.ad,
            deal: choice.deal,
            class: deal.map_or(0, |deal| deal.class),
            clearing_value: if is_agreed { floor } else { worth },
            price,
            decided,
            tie: None,
        };
        let SearchScratch { candidates, text, .. } = scratch;
        candidates.add(candidate, |candidate| {
            text.clear();
            write_bid_id(candidate, text);
            let market = self.auction.market;
            let dsp = &market.dsps[self.dsp].id;
            let ids =
                BidIds { dsp, seat: &self.catalogue.seats[candidate.seat as usize], bid: text };
            market.tie_key.rank(self.auction.id, self.imp.terms.id, ids)
        });
        Ok(())
    }

    fn floor(&self, choice: AdChoice, scratch: &mut SearchScratch) -> Cpm {
        let ad = &self.catalogue.ads[choice.ad];
        let size = match ad.format {
            MediaType::Banner => ad.size.or(self.imp.only_size),
            _ => None,
        };
        let key = FloorKey { deal: choice.deal, format: ad.format, size, dur: ad.dur };
        if let Some((_, floor)) = scratch.floors.iter().find(|(known, _)| *known == key) {
            return *floor;
        }
        let shape = BidShape { format: ad.format, size, dur: ad.dur };
        let terms = self.imp.terms;
        let floor = match choice.deal {
            Some(deal) => terms.deal_floor(&self.auction.deals[deal], &shape),
            None => terms.open_floor(&shape),
        };
        if scratch.floors.len() < FLOORS_MAX {
            scratch.floors.push((key, floor));
        }
        floor
    }
}
