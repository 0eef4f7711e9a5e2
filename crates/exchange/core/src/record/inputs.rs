//! The inputs of clearing, and a replay from them alone. Knows nothing of the record's encoding.

use units::{Cpm, Currency};

use crate::answering::other_bids::{offer_losers, returns_others};
use crate::answering::sale::Sale;
use crate::answering::win_markup::is_out_of_reach as markup_is_out_of_reach;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::clearing::clear::{BidGroup, ClearingEntry, Win, clear};
use crate::clearing::pricing::{BidTerms, SalePrices};
use crate::judging::judge::Judgement;
use crate::market::rates::{Currencies, Rates};

/// The inputs of an auction's clearing.
#[derive(Clone, Debug)]
pub(super) struct ClearingInputs {
    /// The auction's currency.
    pub(super) currency: Currency,
    /// The currency of revenue.
    pub(super) base: Currency,
    /// Exchange rates.
    pub(super) rates: Rates,
    /// Added to a second price, in the auction's currency.
    pub(super) increment: Cpm,
    /// Number of impressions on sale.
    pub(super) imps: usize,
    /// All bids, in judging order.
    pub(super) bids: Vec<BidInputs>,
    /// Groups among the entries.
    pub(super) groups: Vec<BidGroup>,
    /// Refusals by accounts, in the order of requests.
    pub(super) refusals: Vec<BudgetRefusal>,
    /// Whether losing bids may be returned with the winners.
    pub(super) returns_others: bool,
}

/// One bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BidInputs {
    /// Its entry, or why it has none.
    pub(super) entry: Result<ClearingEntry, Fate>,
    /// The terms of its price. None if it is for no impression.
    pub(super) terms: Option<BidTerms>,
    /// Whether its win notice, which serves its ad, must not be called.
    pub(super) is_out_of_reach: bool,
}

/// A winner's cost that its account refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRefusal {
    /// Number of the request to the accounts, from 0.
    pub question: usize,
    /// The entry, by position.
    pub entry: usize,
    /// The clearing price, in the auction's currency.
    pub price: Cpm,
    /// The bid's fate.
    pub fate: Fate,
}

/// Refusals by accounts during clearing, in the order of requests.
///
/// Each grant leaves an account less, so it may refuse what it granted before. Hence each refusal
/// has the number of its request.
#[derive(Clone, Debug, Default)]
pub struct BudgetRefusals {
    next_question: usize,
    refused: Vec<BudgetRefusal>,
}

impl BudgetRefusals {
    /// Counts the request for `win`, and records `answer` if it is a refusal.
    ///
    /// # Errors
    /// `answer`'s own.
    pub fn note(&mut self, win: &Win, answer: Result<(), Fate>) -> Result<(), Fate> {
        let question = self.next_question;
        self.next_question += 1;
        if let Err(fate) = answer {
            let Win { entry, price, .. } = *win;
            self.refused.push(BudgetRefusal { question, entry, price, fate });
        }
        answer
    }

    /// Removes everything, before an auction clears from the start again.
    pub fn restart(&mut self) {
        self.next_question = 0;
        self.refused.clear();
    }

    /// Refusals, in the order of requests.
    pub fn refused(&self) -> &[BudgetRefusal] {
        &self.refused
    }
}

/// The results of an auction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecomputedClearing {
    /// Fates, by bid.
    pub(super) fates: Vec<Fate>,
    /// Returned bids.
    pub(super) sales: Vec<Sale>,
    /// The clearing price of each sale: gross, in the auction's currency.
    pub(super) prices: Vec<Cpm>,
}

/// Why inputs are not those of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInputs {
    /// A bid is for an impression that is not on sale.
    #[error("bid {bid} is for impression {imp} of {imps}")]
    Imp { bid: usize, imp: usize, imps: usize },
    /// A bid is in a group that does not exist.
    #[error("bid {bid} is of group {group} of {groups}")]
    Group { bid: usize, group: usize, groups: usize },
    /// A group includes an impression that is not on sale.
    #[error("group {group} wants impression {imp} of {imps}")]
    GroupImp { group: usize, imp: usize, imps: usize },
    /// A bid takes part without terms of its price.
    #[error("bid {bid} takes part without terms")]
    Terms { bid: usize },
    /// A bid takes part below its floor.
    #[error("bid {bid} takes part below its floor")]
    Floor { bid: usize },
    /// A refusal answers a request that no account gets.
    #[error("no account is asked what refusal {refusal} answers")]
    Refusal { refusal: usize },
    /// A bid's cost does not convert to its currency, or exceeds its price.
    #[error("the price of bid {bid} cannot be told in its currency")]
    Price { bid: usize },
}

impl ClearingInputs {
    /// Clears again.
    pub(super) fn recompute(&self) -> Result<RecomputedClearing, InvalidInputs> {
        self.check()?;
        // The bid of each entry.
        let (mut bids, mut entries) =
            (Vec::with_capacity(self.bids.len()), Vec::with_capacity(self.bids.len()));
        for (bid, inputs) in self.bids.iter().enumerate() {
            if let Ok(entry) = inputs.entry {
                bids.push(bid);
                entries.push(entry);
            }
        }
        let mut accounts =
            RecordedAccounts { refusals: &self.refusals, next_question: 0, refused: 0 };
        let mut clearing =
            clear(&entries, &self.groups, self.imps, self.increment, |win| accounts.authorise(win));
        if self.returns_others {
            let is_out_of_reach = |entry: usize| self.bids[bids[entry]].is_out_of_reach;
            offer_losers(&entries, &mut clearing, is_out_of_reach, |win| accounts.authorise(win));
        }
        if accounts.refused < self.refusals.len() {
            return Err(InvalidInputs::Refusal { refusal: accounts.refused });
        }
        let currencies = Currencies { rates: &self.rates, auction: self.currency, base: self.base };
        let sale = |win: &&Win| {
            let (bid, fate) = (bids[win.entry], clearing.fates[win.entry]);
            let terms = self.bids[bid].terms.ok_or(InvalidInputs::Terms { bid })?;
            let prices = terms.prices(currencies, &entries, &clearing, win);
            let prices = prices.filter(|prices| prices.paid <= terms.discounted_price);
            let SalePrices { net, paid, min_to_win, revenue } =
                prices.ok_or(InvalidInputs::Price { bid })?;
            Ok(Sale { bid, imp: entries[win.entry].imp, fate, net, paid, min_to_win, revenue })
        };
        let returned = clearing.returned(&entries);
        let sales: Result<_, _> = returned.iter().map(sale).collect();
        let mut cleared = clearing.fates.iter().copied();
        let fate = |bid: &BidInputs| match bid.entry {
            Ok(_) => cleared.next().expect("each entry has a fate"),
            Err(fate) => fate,
        };
        Ok(RecomputedClearing {
            fates: self.bids.iter().map(fate).collect(),
            sales: sales?,
            prices: returned.iter().map(|win| win.price).collect(),
        })
    }

    fn check(&self) -> Result<(), InvalidInputs> {
        let (imps, groups) = (self.imps, self.groups.len());
        for (group, wanted) in self.groups.iter().enumerate() {
            if let Some(&imp) = wanted.imps.iter().find(|imp| imps <= **imp) {
                return Err(InvalidInputs::GroupImp { group, imp, imps });
            }
        }
        for (bid, inputs) in self.bids.iter().enumerate() {
            let Ok(entry) = inputs.entry else { continue };
            if imps <= entry.imp {
                return Err(InvalidInputs::Imp { bid, imp: entry.imp, imps });
            }
            if let Some(group) = entry.group.filter(|group| groups <= *group) {
                return Err(InvalidInputs::Group { bid, group, groups });
            }
            if inputs.terms.is_none() {
                return Err(InvalidInputs::Terms { bid });
            }
            if entry.price < entry.floor {
                return Err(InvalidInputs::Floor { bid });
            }
        }
        Ok(())
    }
}

/// Whether the bid's win notice, which serves its ad, must not be called.
pub(super) fn is_out_of_reach(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    bid: usize,
) -> bool {
    judgement.bids[bid].entry.is_ok()
        && returns_others(auction)
        && markup_is_out_of_reach(auction, judgement, bid)
}

struct RecordedAccounts<'f> {
    refusals: &'f [BudgetRefusal],
    next_question: usize,
    refused: usize,
}

impl RecordedAccounts<'_> {
    fn authorise(&mut self, win: &Win) -> Result<(), Fate> {
        let question = self.next_question;
        self.next_question += 1;
        let is_it = |refused: &&BudgetRefusal| {
            (refused.question, refused.entry, refused.price) == (question, win.entry, win.price)
        };
        match self.refusals.get(self.refused).filter(is_it) {
            Some(refused) => {
                self.refused += 1;
                Err(refused.fate)
            }
            None => Ok(()),
        }
    }
}
