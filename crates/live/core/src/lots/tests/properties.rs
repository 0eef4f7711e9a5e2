//! Any sequence of commands against the model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::model::Model;
use super::*;

const BIDDERS: [&str; 5] = ["ann", "bob", "cat", "dan", "eve"];

fn some_bands() -> impl Strategy<Value = IncrementBands> {
    let more = prop::collection::vec((1u64..30, 1u64..12), 0..3);
    (1u64..12, more).prop_map(|(first, more)| {
        let mut from = 0;
        let mut bands = vec![IncrementBand { from: Cpm::ZERO, increment: cpm(first) }];
        for (gap, increment) in more {
            from += gap;
            bands.push(IncrementBand { from: cpm(from), increment: cpm(increment) });
        }
        IncrementBands(bands)
    })
}

fn some_rules() -> impl Strategy<Value = LotRules> {
    let spans = (1u64..20, 1u64..20, 0u64..10);
    let soft_close = spans.prop_map(|(window_ms, extension_ms, more)| SoftClose {
        window_ms,
        extension_ms,
        total_max_ms: extension_ms + more,
    });
    let english = (some_bands(), prop::option::of(soft_close)).prop_map(|(increments, soft)| {
        LotRules::English(EnglishTerms { increments, soft_close: soft })
    });
    prop_oneof![3 => english, 1 => Just(LotRules::SealedSecondPrice)]
}

fn some_terms() -> impl Strategy<Value = LotTerms> {
    let payment = prop_oneof![Just(LotPayment::AtClose), Just(LotPayment::OnDelivery)];
    let impressions = prop_oneof![3 => 1u64..1000, 1 => Just(u64::MAX / 200)];
    let bids_max = prop_oneof![3 => Just(LOT_BIDS_MAX), 1 => 1u32..20];
    let prices = (1u64..20, prop::option::of(0u64..150));
    (some_rules(), payment, impressions, bids_max, prices, prop::bool::weighted(0.1)).prop_map(
        |(rules, payment, impressions, bids_max, (start, more), is_by_invitation)| LotTerms {
            rules,
            payment,
            impressions,
            bids_max,
            start_price: cpm(start),
            reserve: more.map(|more| cpm(start + more)),
            opens_ms: 5,
            closes_ms: 50,
            invited: match is_by_invitation {
                true => BIDDERS[..4].iter().map(ToString::to_string).collect(),
                false => Vec::new(),
            },
            ..terms()
        },
    )
}

fn some_command() -> impl Strategy<Value = LotCommand> {
    let currency = prop_oneof![29 => Just("USD"), 1 => Just("EUR")];
    let bid = (prop::sample::select(&BIDDERS[..]), 0u64..90, currency, 0u32..99).prop_map(
        |(bidder, maximum, currency, key)| LotBid {
            bidder: bidder.to_owned(),
            account: format!("account of {bidder}"),
            maximum: cpm(maximum),
            currency: Currency::parse(currency).expect("a code"),
            key: key.to_string(),
        },
    );
    prop_oneof![
        200 => bid.prop_map(LotCommand::Bid),
        4 => (40u64..150).prop_map(|closes_ms| LotCommand::Extend { closes_ms }),
        1 => Just(LotCommand::Open),
        1 => Just(LotCommand::Close),
        1 => Just(cancel()),
    ]
}

#[derive(Clone, Debug)]
struct DrawnStep {
    /// How far the clock moves.
    moves_ms: i64,
    /// Whether events that are due come before the command.
    is_prompt: bool,
    /// Whether the command comes twice.
    is_repeated: bool,
    command: LotCommand,
}

fn some_steps() -> impl Strategy<Value = Vec<DrawnStep>> {
    let [prompt, repeated] = [0.9, 0.1].map(prop::bool::weighted);
    let step = (-2i64..5, prompt, repeated, some_command());
    prop::collection::vec(step, 1..100).prop_map(|steps| {
        let step = |(rise, (moves_ms, is_prompt, is_repeated, mut command))| {
            // Bids rise, so that many are accepted.
            if let LotCommand::Bid(bid) = &mut command {
                bid.maximum = cpm(bid.maximum.micros() + 5 * rise);
            }
            DrawnStep { moves_ms, is_prompt, is_repeated, command }
        };
        (0u64..).zip(steps).map(step).collect()
    })
}

/// A lot beside its model, with its log and the holds that have not ended.
struct Run {
    lot: Lot,
    model: Model,
    log: Vec<(LotEvent, LotChange)>,
    unended: BTreeMap<u32, u64>,
}

impl Run {
    fn new(terms: LotTerms) -> Self {
        let (lot, model) = (Lot::new(terms.clone()), Model::new(terms));
        Self { lot, model, log: Vec::new(), unended: BTreeMap::new() }
    }

    fn apply(&mut self, event: LotEvent) -> Result<(), TestCaseError> {
        let before = self.lot.clone();
        let change = self.lot.apply(event.clone());
        self.model.apply(&event);
        if let LotEventKind::Bid { number, bid } = &event.kind {
            let amount = bid.maximum.micros() * self.model.terms.impressions;
            prop_assert_eq!(self.unended.insert(*number, amount), None);
        }
        for ended in &change.ended_holds {
            let amount = self.unended.remove(&ended.number);
            prop_assert!(amount.is_some(), "bid {} has no hold to end", ended.number);
            if let HoldFate::Charged { cost } = ended.fate {
                let (winner, price) = self.model.sale().expect("a lot is charged if it is sold");
                prop_assert_eq!(winner.number, ended.number);
                prop_assert_eq!(cost.get(), price * self.model.terms.impressions);
                prop_assert!(Some(cost.get()) <= amount);
                prop_assert_eq!(self.model.terms.payment, LotPayment::AtClose);
            }
        }
        let (was, is) = (before.state(), self.lot.state());
        prop_assert!(was.price.map(|it| it.0) <= is.price.map(|it| it.0), "the price falls");
        prop_assert_eq!(change.news.is_empty(), was == is, "{:?}", change);
        self.log.push((event, change));
        self.check_state()
    }

    fn check_state(&self) -> Result<(), TestCaseError> {
        let Self { lot, model, .. } = self;
        let view = lot.state();
        let times = (lot.last_ms(), view.ends_ms);
        prop_assert_eq!((view.status, times), (model.status, (model.last_ms, model.ends_ms)));
        let total_max_ms = model.soft_close().map_or(0, |soft| soft.total_max_ms);
        prop_assert!(view.ends_ms <= model.base_ms + total_max_ms);
        let mut on_hold: Vec<_> =
            lot.holds().map(|it| (it.number, it.bidder.to_owned(), it.amount.get())).collect();
        on_hold.sort();
        prop_assert_eq!(&on_hold, &model.holds());
        let on_hold: BTreeMap<_, _> = on_hold.into_iter().map(|it| (it.0, it.2)).collect();
        prop_assert_eq!(&on_hold, &self.unended);
        for name in BIDDERS {
            let last = model.bids.iter().rfind(|it| it.bid.bidder == name).map(|it| it.number);
            prop_assert_eq!(lot.bidder_view(name).map(|own| own.number), last);
        }
        let is_sealed = matches!(model.terms.rules, LotRules::SealedSecondPrice);
        if is_sealed && model.status != LotStatus::Closed {
            prop_assert_eq!((view.bids, view.price, view.reserve_met), (None, None, None));
        }
        if !is_sealed {
            let met = |reserve| model.lead().is_some_and(|(it, _)| reserve <= it.bid.maximum);
            prop_assert_eq!(view.reserve_met, model.terms.reserve.map(met));
            let lead = model.lead().map(|(leader, price)| (model.alias(&leader), cpm(price)));
            prop_assert_eq!(view.leader.zip(view.price.map(|price| price.0)), lead);
            prop_assert_eq!(lot.history().count(), model.bids.len());
        }
        Ok(())
    }

    fn run_due(&mut self, now_ms: u64) -> Result<(), TestCaseError> {
        let is_due = self.lot.due_ms().is_some_and(|due| due <= now_ms.max(self.lot.last_ms()));
        prop_assert_eq!(self.lot.due(now_ms).is_some(), is_due);
        while let Some(event) = self.lot.due(now_ms) {
            self.apply(event)?;
        }
        Ok(())
    }

    fn command(&mut self, now_ms: u64, command: LotCommand) -> Result<(), TestCaseError> {
        let want = self.model.decide(now_ms, &command);
        let said = format!("{command:?} at {now_ms}");
        let decision = self.lot.decide(now_ms, command);
        let got = decision.as_ref().map_err(|refusal| refusal.label());
        let number = |decision: &LotDecision| match decision {
            LotDecision::Event(_) => None,
            LotDecision::Repeated { number } => Some(*number),
        };
        prop_assert_eq!(got.map(number), want, "{}", said);
        match decision {
            Ok(LotDecision::Event(event)) => {
                prop_assert_eq!(event.at_ms, now_ms.max(self.lot.last_ms()));
                self.apply(event)
            }
            Ok(LotDecision::Repeated { .. }) | Err(_) => Ok(()),
        }
    }

    fn check_result(&self) -> Result<(), TestCaseError> {
        let Self { lot, model, .. } = self;
        prop_assert_eq!(&self.unended, &BTreeMap::new());
        let sale = model.sale().filter(|_| model.status == LotStatus::Closed);
        match (lot.result().expect("it is over"), sale) {
            (LotResult::Sold(sale), Some((winner, price))) => {
                prop_assert_eq!((sale.number, &sale.winner), (winner.number, &winner.bid.bidder));
                prop_assert_eq!((sale.price.micros(), sale.maximum), (price, winner.bid.maximum));
                let lowest = model.terms.reserve.unwrap_or(model.terms.start_price);
                prop_assert!(lowest <= sale.price && sale.price <= sale.maximum);
            }
            (LotResult::Unsold(reason), None) => {
                let is_below = *reason == UnsoldReason::ReserveNotMet;
                prop_assert_eq!(is_below, !model.bids.is_empty());
            }
            (LotResult::Cancelled { .. }, None) => (),
            (result, sale) => prop_assert!(false, "{:?} but {:?}", result, sale),
        }
        let views = BIDDERS.iter().filter_map(|name| lot.bidder_view(name));
        let winners = views.filter(|view| view.is_leading == Some(true)).count();
        let is_sold = matches!(lot.result(), Some(LotResult::Sold(_)));
        prop_assert!(winners <= 1 && (!is_sold || winners == 1));
        Ok(())
    }
}

proptest! {
    #[test]
    fn lots_are_as_the_model_says(terms in some_terms(), steps in some_steps()) {
        let mut run = Run::new(terms.clone());
        let mut now_ms = 0u64;
        for step in steps {
            now_ms = now_ms.saturating_add_signed(step.moves_ms);
            if step.is_prompt {
                run.run_due(now_ms)?;
            }
            run.command(now_ms, step.command.clone())?;
            if step.is_repeated {
                run.command(now_ms, step.command)?;
            }
        }
        run.run_due(1_000)?;
        run.check_result()?;
        // The log alone makes the same lot.
        let mut again = Lot::new(terms);
        for (event, change) in &run.log {
            prop_assert_eq!(&again.apply(event.clone()), change);
        }
        prop_assert_eq!(again, run.lot);
    }
}
