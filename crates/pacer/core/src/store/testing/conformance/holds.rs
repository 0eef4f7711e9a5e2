//! Holds: however batches repeat, come late or fail, each ends once and counts once.

use std::collections::BTreeMap;
use std::sync::Arc;

use faults::Chance;

use super::{
    AttemptNumber, Batch, Bench, Case, ChargeKey, Checked, HoldName, HoldState, Nanos, Period,
    QueryResult, StoreDenial, StoreQuery, StoreWriter, StoredHold, StoredHoldKey, Subject, same,
};

pub(super) fn cases<S: Subject>() -> [Case<S>; 7] {
    [
        ("a hold outlives the process", outlives),
        ("of two attempts the later one stands", later_attempt),
        ("a hold ends once", ends_once),
        ("a charge folds into its account's sum once", folds_once),
        ("a hold that stands is not folded, nor another node's", not_folded),
        ("a batch older than one that folded a hold is refused", older_is_refused),
        ("chance holds", by_chance),
    ]
}

type Rows = Vec<(StoredHoldKey, StoredHold)>;
type Sums = Vec<(ChargeKey, Nanos)>;

impl<S: Subject> Bench<'_, S> {
    fn holds(&mut self, node: Option<u32>) -> Result<Rows, String> {
        match self.read(&StoreQuery::Holds(node))? {
            QueryResult::Holds(holds) => Ok(holds),
            other => Err(format!("holds are {other:?}")),
        }
    }

    fn charges(&mut self, node: Option<u32>) -> Result<Sums, String> {
        match self.read(&StoreQuery::Charges(node))? {
            QueryResult::Charges(sums) => Ok(sums),
            other => Err(format!("charges are {other:?}")),
        }
    }
}

fn key(writer: StoreWriter, lot: &str, bid: u32) -> StoredHoldKey {
    StoredHoldKey { node: writer.node, name: HoldName { lot: Arc::from(lot), bid } }
}

fn hold(counter: u64, amount: u64, state: HoldState) -> StoredHold {
    StoredHold {
        attempt: AttemptNumber { epoch: 7, counter },
        account: Arc::from("acme"),
        amount: Nanos::new(amount),
        period: Period(7_000_000),
        day: 20_600,
        state,
    }
}

const fn charged(cost: u64) -> HoldState {
    HoldState::Charged(Nanos::new(cost))
}

fn batch(number: u64, holds: &[(StoredHoldKey, StoredHold)], folds: &[StoredHoldKey]) -> Batch {
    Batch { number, holds: holds.to_vec(), hold_folds: folds.to_vec(), ..Batch::default() }
}

fn sum_of(writer: StoreWriter, cost: u64) -> Sums {
    vec![(ChargeKey { node: writer.node, account: Arc::from("acme") }, Nanos::new(cost))]
}

fn outlives<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let (one, two) = (bench.writer(1)?, bench.writer(2)?);
    let mine = (key(one, "a", 1), hold(1, 500, HoldState::Standing));
    let next = (key(one, "a", 2), hold(u64::MAX, u64::MAX, HoldState::Released));
    let far = (key(one, "b", u32::MAX), hold(3, 9, charged(9)));
    let other = (key(two, "a", 1), hold(1, 7, HoldState::Standing));
    let all = [mine.clone(), next.clone(), far.clone()];
    same("placed", &bench.submit(one, &batch(1, &all, &[]))?, &Ok(()))?;
    same("there", &bench.submit(two, &batch(1, std::slice::from_ref(&other), &[]))?, &Ok(()))?;
    bench.restart();
    same("of node 1", &bench.holds(Some(1))?, &all.to_vec())?;
    same("of all", &bench.holds(None)?, &vec![mine, next, far, other])
}

fn later_attempt<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let name = key(writer, "a", 1);
    let released = hold(1, 5, HoldState::Released);
    let stands = hold(2, 8, HoldState::Standing);
    let rows =
        [(released.clone(), &released), (stands.clone(), &stands), (released.clone(), &stands)];
    for (number, (row, want)) in (1..).zip(rows) {
        let sent = [(name.clone(), row)];
        same("a row", &bench.submit(writer, &batch(number, &sent, &[]))?, &Ok(()))?;
        same("it stands", &bench.holds(None)?, &vec![(name.clone(), want.clone())])?;
    }
    // A charge is never replaced.
    let sold = [(name.clone(), hold(2, 8, charged(6)))];
    same("sold", &bench.submit(writer, &batch(4, &sold, &[]))?, &Ok(()))?;
    let again = [(name.clone(), hold(3, 1, HoldState::Standing))];
    let denied = Err(StoreDenial::HoldChanged(name));
    same("again", &bench.submit(writer, &batch(5, &again, &[]))?, &denied)?;
    same("the charge", &bench.holds(None)?, &sold.to_vec())
}

fn ends_once<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let name = key(writer, "a", 1);
    let row = |state| [(name.clone(), hold(1, 8, state))];
    let denied = || Err(StoreDenial::HoldChanged(name.clone()));
    let states = [
        (HoldState::Standing, Ok(()), HoldState::Standing),
        (charged(6), Ok(()), charged(6)),
        (HoldState::Standing, Ok(()), charged(6)),
        (charged(5), denied(), charged(6)),
        (HoldState::Released, denied(), charged(6)),
        (charged(6), Ok(()), charged(6)),
    ];
    for (number, (state, want, stands)) in (1..).zip(states) {
        same("a row", &bench.submit(writer, &batch(number, &row(state), &[]))?, &want)?;
        same("the row", &bench.holds(None)?, &row(stands).to_vec())?;
    }
    let mut dearer = hold(1, 9, charged(6));
    let sent = [(name.clone(), dearer.clone())];
    same("other terms", &bench.submit(writer, &batch(9, &sent, &[]))?, &denied())?;
    dearer.state = charged(10);
    let sent = [(key(writer, "a", 2), dearer)];
    let ended = bench.submit(writer, &batch(9, &sent, &[]))?;
    same("too dear", &matches!(ended, Err(StoreDenial::Invalid(_))), &true)
}

fn folds_once<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let sold = (key(writer, "a", 1), hold(1, 8, charged(6)));
    let lost = (key(writer, "a", 2), hold(2, 9, HoldState::Released));
    let names = [sold.0.clone(), lost.0.clone()];
    let all = [sold.clone(), lost];
    same("ended", &bench.submit(writer, &batch(1, &all, &[]))?, &Ok(()))?;
    for number in [2, 2, 3] {
        same("a fold", &bench.submit(writer, &batch(number, &[], &names))?, &Ok(()))?;
        bench.restart();
        same("no rows", &bench.holds(None)?, &vec![])?;
        same("the sum", &bench.charges(None)?, &sum_of(writer, 6))?;
    }
    // What one batch ends and folds, of a later epoch.
    let next = bench.writer(1)?;
    let more = (key(next, "b", 1), hold(5, 4, charged(4)));
    let name = more.0.clone();
    same("at once", &bench.submit(next, &batch(1, &[more], &[name]))?, &Ok(()))?;
    same("both", &bench.charges(Some(1))?, &sum_of(writer, 10))?;
    same("elsewhere", &bench.charges(Some(2))?, &vec![])
}

fn not_folded<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let (one, two) = (bench.writer(1)?, bench.writer(2)?);
    let stands = (key(one, "a", 1), hold(1, 8, HoldState::Standing));
    let rows = vec![stands.clone()];
    same("placed", &bench.submit(one, &batch(1, &rows, &[]))?, &Ok(()))?;
    let name = stands.0.clone();
    let rest = [(key(one, "b", 1), hold(2, 8, HoldState::Standing))];
    let denied = bench.submit(one, &batch(2, &rest, std::slice::from_ref(&name)))?;
    same("it stands", &denied, &Err(StoreDenial::HoldStanding(name.clone())))?;
    for sent in [batch(1, &[], std::slice::from_ref(&name)), batch(1, &rows, &[])] {
        let ended = bench.submit(two, &sent)?;
        same("another's", &matches!(ended, Err(StoreDenial::Invalid(_))), &true)?;
    }
    let twice = batch(2, &[], &[key(one, "c", 1), key(one, "c", 1)]);
    let ended = bench.submit(one, &twice)?;
    same("twice", &matches!(ended, Err(StoreDenial::Invalid(_))), &true)?;
    same("the rows", &bench.holds(None)?, &rows)
}

fn older_is_refused<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let name = key(writer, "a", 1);
    let sold = batch(1, &[(name.clone(), hold(1, 8, charged(8)))], &[]);
    same("sold", &bench.submit(writer, &sold)?, &Ok(()))?;
    let fold = batch(2, &[], std::slice::from_ref(&name));
    same("folded", &bench.submit(writer, &fold)?, &Ok(()))?;
    let denied = Err(StoreDenial::Superseded { number: 1, folded: 2 });
    same("older", &bench.submit(writer, &sold)?, &denied)?;
    same("no rows", &bench.holds(None)?, &vec![])?;
    same("the sum", &bench.charges(None)?, &sum_of(writer, 8))
}

/// Random rows with folds: each charge counts once, in its row or in its sum.
fn by_chance<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let mut chance = Chance::new(11);
    let mut writer = bench.writer(1)?;
    let mut truth: BTreeMap<StoredHoldKey, StoredHold> = BTreeMap::new();
    let mut number = 0;
    for counter in 1..120 {
        if chance.once_in(12) {
            bench.restart();
            writer = bench.writer(1)?;
            number = 0;
        }
        number += 1;
        let amount = 1 + chance.below(50);
        let name = key(writer, "a", u32::try_from(counter).expect("few"));
        truth.insert(name.clone(), hold(counter, amount, HoldState::Standing));
        let mut changed = vec![(name.clone(), truth[&name].clone())];
        let stand = |it: &&mut StoredHold| it.state == HoldState::Standing;
        if let Some(hold) = truth.values_mut().find(stand).filter(|_| chance.once_in(2)) {
            let cost = Nanos::new(chance.below(hold.amount.get() + 1));
            let is_sold = chance.once_in(2);
            hold.state = if is_sold { HoldState::Charged(cost) } else { HoldState::Released };
            let bid = u32::try_from(hold.attempt.counter).expect("few");
            changed.retain(|(_, row)| row.attempt != hold.attempt);
            changed.push((key(writer, "a", bid), hold.clone()));
        }
        let is_due = |key: &StoredHoldKey, hold: &StoredHold| {
            hold.state != HoldState::Standing && changed.iter().all(|(changed, _)| changed != key)
        };
        let due = truth.iter().filter(|(key, hold)| is_due(key, hold));
        let folds: Vec<_> = due.filter(|_| chance.once_in(9)).map(|(key, _)| key.clone()).collect();
        let said = batch(number, &changed, &folds);
        same("a batch", &bench.submit(writer, &said)?, &Ok(()))?;
        same("repeated", &bench.submit(writer, &said)?, &Ok(()))?;
        let exposure = |rows: &mut dyn Iterator<Item = Nanos>| rows.map(Nanos::get).sum::<u64>();
        let stored = exposure(&mut bench.holds(None)?.iter().map(|(_, hold)| hold.exposure()))
            + exposure(&mut bench.charges(None)?.iter().map(|(_, sum)| *sum));
        let want = exposure(&mut truth.values().map(StoredHold::exposure));
        same("what is held or spent", &stored, &want)?;
    }
    Ok(())
}
