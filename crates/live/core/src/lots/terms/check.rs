//! What can be wrong with a lot's terms.

use thiserror::Error;
use units::Cpm;

use super::{
    EnglishTerms, LOT_BIDS_MAX, LOT_INVITED_MAX, LOT_TITLE_BYTES_MAX, LotRules, LotTerms, SoftClose,
};

/// A problem of a lot's terms: `reserve is 1, below the start price: give at least 2`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} {problem}: {remedy}")]
pub struct LotProblem {
    /// The field, dotted if it is nested.
    pub field: &'static str,
    /// What is wrong with it, a lower-case fragment.
    pub problem: String,
    /// What to do, a lower-case fragment.
    pub remedy: String,
}

#[derive(Default)]
struct LotProblems(Vec<LotProblem>);

impl LotProblems {
    fn note(&mut self, field: &'static str, problem: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(LotProblem { field, problem: problem.into(), remedy: remedy.into() });
    }
}

impl LotTerms {
    /// Every problem of the terms. Only terms without problems make a lot.
    pub fn check(&self) -> Vec<LotProblem> {
        let mut problems = LotProblems::default();
        self.check_texts(&mut problems);
        self.check_amounts(&mut problems);
        self.check_times(&mut problems);
        if let LotRules::English(english) = &self.rules {
            english.check(&mut problems);
        }
        problems.0
    }

    fn check_texts(&self, problems: &mut LotProblems) {
        if self.title.len() > LOT_TITLE_BYTES_MAX {
            let problem = format!("has {} bytes", self.title.len());
            problems.note("title", problem, format!("shorten it to {LOT_TITLE_BYTES_MAX} bytes"));
        }
        if self.invited.len() > LOT_INVITED_MAX {
            let problem = format!("names {} bidders", self.invited.len());
            problems.note("invited", problem, format!("name at most {LOT_INVITED_MAX}"));
        }
    }

    fn check_amounts(&self, problems: &mut LotProblems) {
        if self.impressions == 0 {
            problems.note("impressions", "is 0", "sell at least 1");
        }
        if !(1..=LOT_BIDS_MAX).contains(&self.bids_max) {
            let problem = format!("is {}", self.bids_max);
            problems.note("bids_max", problem, format!("choose 1 to {LOT_BIDS_MAX}"));
        }
        if self.start_price == Cpm::ZERO {
            problems.note("start_price", "is 0", "give a price above 0");
        }
        let prices = [("start_price", Some(self.start_price)), ("reserve", self.reserve)];
        for (field, price) in prices {
            if let Some(price) = price.filter(|price| *price > self.price_max()) {
                let problem = format!("is {price}, whose cost does not fit");
                let remedy =
                    format!("give at most {}, or sell fewer impressions", self.price_max());
                problems.note(field, problem, remedy);
            }
        }
        if let Some(reserve) = self.reserve.filter(|reserve| *reserve < self.start_price) {
            let problem = format!("is {reserve}, below the start price");
            problems.note("reserve", problem, format!("give at least {}", self.start_price));
        }
    }

    fn check_times(&self, problems: &mut LotProblems) {
        if self.closes_ms <= self.opens_ms {
            let problem = format!("is {}, not after opens_ms", self.closes_ms);
            problems.note("closes_ms", problem, format!("give more than {}", self.opens_ms));
        }
        let (starts_ms, ends_ms) = (self.deal.starts_ms, self.deal.ends_ms);
        if ends_ms <= starts_ms {
            let problem = format!("is {ends_ms}, not after deal.starts_ms");
            problems.note("deal.ends_ms", problem, format!("give more than {starts_ms}"));
        }
    }
}

impl EnglishTerms {
    fn check(&self, problems: &mut LotProblems) {
        if let Some((problem, remedy)) = self.increments.problem() {
            problems.note("rules.increments", problem, remedy);
        }
        let Some(SoftClose { window_ms, extension_ms, total_max_ms }) = self.soft_close else {
            return;
        };
        let spans = [
            ("rules.soft_close.window_ms", window_ms),
            ("rules.soft_close.extension_ms", extension_ms),
            ("rules.soft_close.total_max_ms", total_max_ms),
        ];
        for (field, span_ms) in spans {
            if span_ms == 0 {
                problems.note(field, "is 0", "give at least 1");
            }
        }
        if total_max_ms < extension_ms {
            let problem = format!("is {total_max_ms}, less than one extension");
            let remedy = format!("give at least {extension_ms}");
            problems.note("rules.soft_close.total_max_ms", problem, remedy);
        }
    }
}
