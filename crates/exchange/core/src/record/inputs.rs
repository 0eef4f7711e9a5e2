//! The inputs of clearing, and a replay from them alone.
//!
//! No request, no answer and no configuration is needed for that. How facts are written down is not
//! known here.

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

/// The inputs from which an auction was cleared.
#[derive(Clone, Debug)]
pub struct ClearingInputs {
    /// The auction's currency.
    pub currency: Currency,
    /// That in which revenue is counted.
    pub base: Currency,
    /// What currencies were worth.
    pub rates: Rates,
    /// What a second price adds, in the auction's currency.
    pub increment: Cpm,
    /// How many impressions were on sale.
    pub imps: usize,
    /// All bids of all answers, in the order of their judgement.
    pub bids: Vec<BidInputs>,
    /// Groups among the entries.
    pub groups: Vec<BidGroup>,
    /// What accounts refused, in the order of asking.
    pub refusals: Vec<BudgetRefusal>,
    /// Whether losers could be returned beside the winners.
    pub returns_others: bool,
}

/// One bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidInputs {
    /// What took part, or why it did not.
    pub verdict: Result<ClearingEntry, Fate>,
    /// What it is priced by; `None` when it is for no impression.
    pub terms: Option<BidTerms>,
    /// Whether its ad is served on a win notice that must not be called.
    pub is_out_of_reach: bool,
}

/// A winner whose account refused its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetRefusal {
    /// Which question it was, of all that accounts were asked: from 0.
    pub question: usize,
    /// By position among the entries.
    pub entry: usize,
    /// What it would have had to pay, in the auction's currency.
    pub price: Cpm,
    /// What became of it.
    pub fate: Fate,
}

/// Refusals by accounts during clearing, in the order of requests.
///
/// An account may refuse what it granted before, because each grant leaves it less. So each refusal
/// has the number of its request.
#[derive(Clone, Debug, Default)]
pub struct BudgetRefusals {
    asked: usize,
    refused: Vec<BudgetRefusal>,
}

impl BudgetRefusals {
    /// Notes that `win` was asked about, and the answer, which it returns.
    ///
    /// # Errors
    ///
    /// The answer's own.
    pub fn note(&mut self, win: &Win, answer: Result<(), Fate>) -> Result<(), Fate> {
        let question = self.asked;
        self.asked += 1;
        if let Err(fate) = answer {
            let Win { entry, price, .. } = *win;
            self.refused.push(BudgetRefusal { question, entry, price, fate });
        }
        answer
    }

    /// Forgets all, for an auction that clears from the start once more.
    pub fn restart(&mut self) {
        self.asked = 0;
        self.refused.clear();
    }

    /// What was refused, in the order of asking.
    pub fn refused(&self) -> &[BudgetRefusal] {
        &self.refused
    }
}

/// The results of an auction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecomputedClearing {
    /// By bid.
    pub fates: Vec<Fate>,
    /// Bids that were returned.
    pub sales: Vec<Sale>,
    /// The clearing price of each sale: gross, in the auction's currency.
    pub prices: Vec<Cpm>,
}

/// Why inputs are not those of an auction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInputs {
    /// For an impression that is not on sale.
    #[error("bid {bid} is for impression {imp} of {imps}")]
    Imp {
        /// The bid, by position.
        bid: usize,
        /// The impression.
        imp: usize,
        /// How many there are.
        imps: usize,
    },
    /// In a group that is not there.
    #[error("bid {bid} is of group {group} of {groups}")]
    Group {
        /// The bid, by position.
        bid: usize,
        /// The group.
        group: usize,
        /// How many there are.
        groups: usize,
    },
    /// A group that wants an impression that is not on sale.
    #[error("group {group} wants impression {imp} of {imps}")]
    GroupImp {
        /// The group, by position.
        group: usize,
        /// The impression.
        imp: usize,
        /// How many there are.
        imps: usize,
    },
    /// It takes part, and nothing says what it pays.
    #[error("bid {bid} takes part without terms")]
    Terms {
        /// The bid, by position.
        bid: usize,
    },
    /// It takes part below its floor.
    #[error("bid {bid} takes part below its floor")]
    Floor {
        /// The bid, by position.
        bid: usize,
    },
    /// No account is asked what this refusal answers.
    #[error("no account is asked what refusal {refusal} answers")]
    Refusal {
        /// The refusal, by position.
        refusal: usize,
    },
    /// What it pays cannot be told in its own currency, or is more than its offer.
    #[error("the price of bid {bid} cannot be told in its currency")]
    Price {
        /// The bid, by position.
        bid: usize,
    },
}

impl ClearingInputs {
    /// Of an auction whose answers were judged; `refusals` are those of its clearing, and of what
    /// was offered beside its winners.
    pub fn of(
        auction: &Auction<'_>,
        judgement: &Judgement<'_>,
        refusals: Vec<BudgetRefusal>,
    ) -> Self {
        let bids = judgement.bids.iter().enumerate().map(|(index, judged)| BidInputs {
            verdict: judged.verdict.map(|entry| judgement.entries[entry]),
            terms: judged.terms(auction),
            is_out_of_reach: is_out_of_reach(auction, judgement, index),
        });
        let Currencies { rates, auction: currency, base } = auction.currencies();
        Self {
            currency,
            base,
            rates: rates.clone(),
            increment: auction.increment,
            imps: auction.imps_len(),
            bids: bids.collect(),
            groups: judgement.groups.clone(),
            refusals,
            returns_others: returns_others(auction),
        }
    }

    /// Holds the auction once more.
    ///
    /// # Errors
    ///
    /// When it cannot have been one.
    pub fn recompute(&self) -> Result<RecomputedClearing, InvalidInputs> {
        self.check()?;
        // Of each that took part, which bid it is.
        let (mut bids, mut entries) =
            (Vec::with_capacity(self.bids.len()), Vec::with_capacity(self.bids.len()));
        for (bid, facts) in self.bids.iter().enumerate() {
            if let Ok(entry) = facts.verdict {
                bids.push(bid);
                entries.push(entry);
            }
        }
        let mut accounts = RecordedAccounts { refusals: &self.refusals, asked: 0, answered: 0 };
        let mut clearing =
            clear(&entries, &self.groups, self.imps, self.increment, |win| accounts.authorise(win));
        if self.returns_others {
            let is_out_of_reach = |entry: usize| self.bids[bids[entry]].is_out_of_reach;
            offer_losers(&entries, &mut clearing, is_out_of_reach, |win| accounts.authorise(win));
        }
        if accounts.answered < self.refusals.len() {
            return Err(InvalidInputs::Refusal { refusal: accounts.answered });
        }
        let currencies = Currencies { rates: &self.rates, auction: self.currency, base: self.base };
        let sale = |win: &&Win| {
            let (bid, entry, fate) =
                (bids[win.entry], &entries[win.entry], clearing.fates[win.entry]);
            let winner = clearing.wins[entry.imp].as_ref().map(|win| (&entries[win.entry], win));
            let terms = self.bids[bid].terms.ok_or(InvalidInputs::Terms { bid })?;
            let prices = terms.prices(currencies, (entry, win, fate), winner);
            let prices = prices.filter(|prices| prices.paid <= terms.offer);
            let SalePrices { net, paid, min_to_win, revenue } =
                prices.ok_or(InvalidInputs::Price { bid })?;
            Ok(Sale { bid, imp: entry.imp, fate, net, paid, min_to_win, revenue })
        };
        let returned = clearing.returned(&entries);
        let sales: Result<_, _> = returned.iter().map(sale).collect();
        let mut cleared = clearing.fates.iter().copied();
        let fate = |bid: &BidInputs| match bid.verdict {
            Ok(_) => cleared.next().expect("each entry has a fate"),
            Err(fate) => fate,
        };
        Ok(RecomputedClearing {
            fates: self.bids.iter().map(fate).collect(),
            sales: sales?,
            prices: returned.iter().map(|win| win.price).collect(),
        })
    }

    /// That what clearing takes for granted is so.
    fn check(&self) -> Result<(), InvalidInputs> {
        let (imps, groups) = (self.imps, self.groups.len());
        for (group, wanted) in self.groups.iter().enumerate() {
            if let Some(&imp) = wanted.imps.iter().find(|imp| imps <= **imp) {
                return Err(InvalidInputs::GroupImp { group, imp, imps });
            }
        }
        for (bid, facts) in self.bids.iter().enumerate() {
            let Ok(entry) = facts.verdict else { continue };
            if imps <= entry.imp {
                return Err(InvalidInputs::Imp { bid, imp: entry.imp, imps });
            }
            if let Some(group) = entry.group.filter(|group| groups <= *group) {
                return Err(InvalidInputs::Group { bid, group, groups });
            }
            if facts.terms.is_none() {
                return Err(InvalidInputs::Terms { bid });
            }
            if entry.price < entry.floor {
                return Err(InvalidInputs::Floor { bid });
            }
        }
        Ok(())
    }
}

/// Whether the bid's ad is served on a win notice that must not be called, told of those that may
/// come to be returned beside a winner.
pub(super) fn is_out_of_reach(
    auction: &Auction<'_>,
    judgement: &Judgement<'_>,
    bid: usize,
) -> bool {
    judgement.bids[bid].verdict.is_ok()
        && returns_others(auction)
        && markup_is_out_of_reach(auction, judgement, bid)
}

/// Answers requests as the recorded accounts did.
struct RecordedAccounts<'f> {
    refusals: &'f [BudgetRefusal],
    asked: usize,
    /// How many of the refusals have been given.
    answered: usize,
}

impl RecordedAccounts<'_> {
    fn authorise(&mut self, win: &Win) -> Result<(), Fate> {
        let question = self.asked;
        self.asked += 1;
        let is_it = |refused: &&BudgetRefusal| {
            (refused.question, refused.entry, refused.price) == (question, win.entry, win.price)
        };
        match self.refusals.get(self.answered).filter(is_it) {
            Some(refused) => {
                self.answered += 1;
                Err(refused.fate)
            }
            None => Ok(()),
        }
    }
}
