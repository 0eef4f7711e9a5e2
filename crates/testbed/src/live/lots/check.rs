//! What the accepted bids of a lot come to, by a model of its own: an English auction with proxy
//! bids, one increment and no reserve.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{INCREMENT_CENTS, START_CENTS, parse_cents};

/// A bid that the server says it accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentBid {
    /// The server's number for it.
    pub number: u64,
    /// Who sent it.
    pub bidder: usize,
    pub maximum_cents: u64,
}

/// A lot's state after a bid, as the feed tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToldBid {
    pub number: u64,
    pub price_cents: Option<u64>,
    pub leader: Option<String>,
}

/// A lot so far, by the model.
#[derive(Debug, Default)]
struct ModelLot {
    /// Bidders in the order of their first bids.
    names: Vec<usize>,
    /// Leader and maximum.
    top: Option<(usize, u64)>,
    price_cents: Option<u64>,
}

impl ModelLot {
    fn take(&mut self, bid: &SentBid) {
        if !self.names.contains(&bid.bidder) {
            self.names.push(bid.bidder);
        }
        let SentBid { bidder, maximum_cents, .. } = *bid;
        let needed = |second: u64, most: u64| Some(most.min(second + INCREMENT_CENTS));
        match self.top {
            None => {
                self.top = Some((bidder, maximum_cents));
                self.price_cents = Some(START_CENTS);
            }
            // A raise of its own changes no price.
            Some((leader, _)) if leader == bidder => self.top = Some((bidder, maximum_cents)),
            Some((_, most)) if maximum_cents > most => {
                self.top = Some((bidder, maximum_cents));
                self.price_cents = needed(most, maximum_cents);
            }
            Some((_, most)) => self.price_cents = needed(maximum_cents, most),
        }
    }

    fn leader(&self) -> Option<String> {
        let (leader, _) = self.top?;
        let at = self.names.iter().position(|name| *name == leader)?;
        Some(format!("bidder {}", at + 1))
    }
}

/// What is wrong with a lot: its accepted bids, what the feed told of them, and the page after its
/// close.
pub(super) fn problems(
    id: &str,
    accepted: &[SentBid],
    told: &[ToldBid],
    page: &Value,
) -> Vec<String> {
    let mut problems = Vec::new();
    let by_number: BTreeMap<_, _> = accepted.iter().map(|bid| (bid.number, bid)).collect();
    if by_number.len() < accepted.len() {
        problems.push(format!("{id}: a number was given twice"));
    }
    if !by_number.keys().copied().eq(1..=accepted.len() as u64) {
        problems.push(format!("{id}: the numbers of accepted bids are not consecutive"));
    }
    if !told.iter().map(|told| told.number).eq(by_number.keys().copied()) {
        let (told, accepted) = (told.len(), accepted.len());
        problems.push(format!("{id}: {accepted} bids are accepted, the feed tells of {told}"));
    }
    let mut model = ModelLot::default();
    let mut told = told.iter().peekable();
    for (number, bid) in &by_number {
        model.take(bid);
        let Some(told) = told.next_if(|told| told.number == *number) else { continue };
        let (price_cents, leader) = (model.price_cents, model.leader());
        let want = ToldBid { number: *number, price_cents, leader };
        if *told != want {
            problems.push(format!("{id}: the feed tells {told:?}, expected {want:?}"));
        }
    }
    let result = &page["lot"]["result"];
    let price_cents = result["price"].as_str().and_then(parse_cents);
    let winner = result["winner"].as_str().map(str::to_owned);
    if (price_cents, &winner) != (model.price_cents, &model.leader()) {
        let (price, leader) = (model.price_cents, model.leader());
        problems.push(format!("{id}: it ended with {result}, expected {leader:?} at {price:?}"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(number: u64, price_cents: u64, leader: &str) -> ToldBid {
        ToldBid { number, price_cents: Some(price_cents), leader: Some(leader.to_owned()) }
    }

    #[test]
    fn wrong_books_are_found() {
        let bid = |number, bidder, maximum_cents| SentBid { number, bidder, maximum_cents };
        // A tie goes to the earlier bid; a leader's raise changes no price.
        let accepted = [bid(1, 7, 104), bid(2, 3, 104), bid(3, 7, 110), bid(4, 3, 120)];
        let feed = [
            told(1, 100, "bidder 1"),
            told(2, 104, "bidder 1"),
            told(3, 104, "bidder 1"),
            told(4, 111, "bidder 2"),
        ];
        let page = json!({ "lot": { "result": { "price": "1.11", "winner": "bidder 2" } } });
        let check = |accepted: &[SentBid], feed: &[ToldBid], page: &Value, want: &[&str]| {
            let found = problems("a", accepted, feed, page);
            assert_eq!(found.len(), want.len(), "{found:?}");
            for (found, want) in found.iter().zip(want) {
                assert!(found.contains(want), "{found}");
            }
        };
        check(&accepted, &feed, &page, &[]);
        check(&accepted, &feed[..3], &page, &["4 bids are accepted, the feed tells of 3"]);
        check(&accepted, &[], &page, &["the feed tells of 0"]);
        let mut wrong = feed.clone();
        wrong[2].price_cents = Some(105);
        check(&accepted, &wrong, &page, &["number: 3, price_cents: Some(105)"]);
        let other = json!({ "lot": { "result": { "price": "1.11", "winner": "bidder 1" } } });
        check(&accepted, &feed, &other, &["it ended with"]);
        let gap = [accepted[0], bid(3, 3, 104)];
        let of_gap = [told(1, 100, "bidder 1"), told(3, 104, "bidder 1")];
        let page = json!({ "lot": { "result": { "price": "1.04", "winner": "bidder 1" } } });
        check(&gap, &of_gap, &page, &["not consecutive"]);
        let twice = [accepted[0], bid(1, 3, 104)];
        let page = json!({ "lot": { "result": { "price": "1.00", "winner": "bidder 1" } } });
        check(&twice[..1], &feed[..1], &page, &[]);
        let found = problems("a", &twice, &feed[..1], &page);
        assert!(found[0].contains("given twice"), "{found:?}");
    }
}
