//! The winner and price of each impression, with the arithmetic.

use units::{Cpm, Multiplier};

use super::auction::{RANKED_MAX, ReplayedAuction, shown};
use super::document::{ExplainedClearing, ExplainedOffer, ExplainedRank, ExplainedWin};
use super::fates::pricing;
use crate::answering::sale::Sale;
use crate::auction::fate::Fate;
use crate::auction::terms::AuctionType;
use crate::clearing::clear::{Win, leader, priced, ranking};

impl ReplayedAuction<'_> {
    /// Clearing by impression, and the number of ranked bids left out.
    pub(super) fn clearing(&self) -> (Vec<ExplainedClearing>, usize) {
        let entries = &self.judgement.entries;
        let mut omitted = 0;
        // As in pricing: losers were in.
        let fates = self.clearing.fates.iter();
        let fates: Vec<_> =
            fates.map(|fate| if fate.competed() { Fate::Won } else { *fate }).collect();
        let ranked = ranking(entries, self.auction.imps_len());
        let cleared = ranked.iter().enumerate().map(|(imp, bids)| {
            let leads = leader(entries, bids, &fates);
            let win =
                leads.map(|(index, rival)| priced(entries, index, rival, self.auction.increment));
            assert!(win == self.clearing.wins[imp], "what is explained is what was cleared");
            omitted += bids.len().saturating_sub(RANKED_MAX);
            let beside =
                self.sales.iter().filter(|sale| sale.imp == imp && sale.fate == Fate::Offered);
            ExplainedClearing {
                imp: shown(self.auction.imps[imp].id),
                ranking: bids.iter().take(RANKED_MAX).map(|entry| self.ranked(*entry)).collect(),
                won: win.map(|win| self.won(&win, leads.and_then(|(_, rival)| rival))),
                offered: beside.map(|sale| self.offered(sale)).collect(),
            }
        });
        let cleared = cleared.collect();
        (cleared, omitted)
    }

    fn ranked(&self, index: usize) -> ExplainedRank {
        let entry = &self.judgement.entries[index];
        let fate = self.clearing.fates[index];
        ExplainedRank {
            bid: self.judgement.bid_of(index) + 1,
            class: entry.class,
            price: entry.price.to_string(),
            floor: entry.floor.to_string(),
            tie: format!("{:016x}", entry.tie),
            out: (!fate.competed()).then(|| fate.label().to_owned()),
        }
    }

    fn offered(&self, sale: &Sale) -> ExplainedOffer {
        let judged = &self.judgement.bids[sale.bid];
        let entry = judged.entry.expect("what is offered has an entry");
        ExplainedOffer {
            bid: sale.bid + 1,
            price: self.judgement.entries[entry].price.to_string(),
            net: sale.net.to_string(),
        }
    }

    fn won(&self, win: &Win, rival: Option<usize>) -> ExplainedWin {
        let index = self.judgement.bid_of(win.entry);
        let entry = &self.judgement.entries[win.entry];
        let judged = &self.judgement.bids[index];
        let sale = self.sales.iter().find(|sale| sale.bid == index).expect("a win is a sale");
        let usual = self.auction.imps[entry.imp].fee;
        let fee = judged.deal.map_or(usual, |deal| self.auction.deals[deal].fee);
        assert!(fee.taken_from(win.price) == sale.net, "the fee that is told is the one taken");
        let currency = self.auction.currency;
        let mut steps = vec![self.price_made(win, rival)];
        if let Some(deal) = judged.deal.map(|deal| &self.auction.deals[deal]) {
            let discount = deal.discount();
            let price = judged.bid.as_ref().and_then(|bid| bid.price().ok());
            if let (true, Some(price)) = (discount.get() > 0, price) {
                let (own, discounted) = (judged.currency, judged.discounted_price);
                let step =
                    format!("the bid: {price} {own} − discount {discount} = {discounted} {own}");
                steps.insert(0, step);
            }
        }
        let (gross, net) = (win.price, sale.net);
        steps.push(format!("the caller is told {gross} − fee {fee} = {net} {currency} net"));
        let paid = match (judged.currency == currency, sale.paid == judged.discounted_price) {
            (true, _) => String::new(),
            (false, true) => ", its own bid".to_owned(),
            (false, false) => format!(", {gross} {currency} converted back and rounded up"),
        };
        steps.push(format!("the DSP pays {} {}{paid}", sale.paid, judged.currency));
        steps.push(self.owed(sale, entry.imp));
        ExplainedWin {
            bid: index + 1,
            pricing: entry.auction_type.label().to_owned(),
            next: rival.map(|rival| self.judgement.bid_of(rival) + 1),
            price: gross.to_string(),
            fee: fee.to_string(),
            net: net.to_string(),
            paid: sale.paid.to_string(),
            paid_currency: judged.currency.to_string(),
            min_to_win: sale.min_to_win.map(|price| price.to_string()),
            revenue: sale.revenue.to_string(),
            steps,
        }
    }

    fn price_made(&self, win: &Win, rival: Option<usize>) -> String {
        let entry = &self.judgement.entries[win.entry];
        let (price, floor, bid) = (win.price, entry.floor, entry.price);
        let currency = self.auction.currency;
        let made = pricing(entry.auction_type);
        if entry.auction_type != AuctionType::SecondPrice {
            return format!("{made}: {price} {currency} gross");
        }
        let increment = self.auction.increment;
        let next = rival.map(|rival| self.judgement.entries[rival].price);
        let second = next.map(|next| next.saturating_add(increment));
        let wanted = floor.max(second.unwrap_or(Cpm::ZERO));
        assert!(wanted.min(bid) == price, "the parts that are told make the price");
        let wanted = match next {
            Some(next) => {
                format!("max(floor {floor}, next {next} + increment {increment}) = {wanted}")
            }
            None => format!("floor {floor}, for no other seat of its class bids"),
        };
        format!("{made}: {wanted}, at most the bid {bid} → {price} {currency} gross")
    }

    fn owed(&self, sale: &Sale, imp: usize) -> String {
        let multiplier = self.auction.imps[imp].multiplier;
        let (owed, currency) = (sale.revenue, self.auction.market.currency);
        if multiplier == Multiplier::ONE {
            return format!("one impression costs it {owed} {currency}");
        }
        format!("{multiplier} impressions of one display cost it {owed} {currency}")
    }
}
