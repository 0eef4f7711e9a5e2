//! Folds: however batches repeat, come late or fail, rows and sums count each spend once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use faults::Chance;
use units::Nanos;

use super::{
    Batch, Bench, Case, Checked, Epoch, Fold, Lease, LeaseKey, QueryResult, SpentSum, StoreDenial,
    StoreQuery, StoreWriter, Subject, SumKey, UnattributedWin, batch, key, lease, same,
};
use crate::calendar::Period;
use crate::messages::CampaignIndex;

const DAY: u32 = 20_600;

pub(super) fn cases<S: Subject>() -> [Case<S>; 8] {
    [
        ("what is folded stands in its sum alone", stands_in_its_sum),
        ("a fold that comes twice folds once", folds_once),
        ("a batch older than one that folded is refused", older_is_refused),
        ("a batch of another epoch folds as well", folds_of_any_epoch),
        ("what is not closed, or another's, is not folded", not_folded),
        ("sums outlive the process", sums_outlive),
        ("a stray counts once, with the first batch that has its record", strays_count_once),
        ("chance folds", by_chance),
    ]
}

impl<S: Subject> Bench<'_, S> {
    fn sums(&mut self, node: Option<u32>) -> Result<Vec<(SumKey, SpentSum)>, String> {
        match self.read(&StoreQuery::Sums(node))? {
            QueryResult::Sums(mut sums) => {
                sums.sort_unstable_by_key(|(key, _)| *key);
                Ok(sums)
            }
            other => Err(format!("sums are {other:?}")),
        }
    }
}

fn folding(number: u64, leases: &[(LeaseKey, Lease)], folds: &[Fold]) -> Batch {
    Batch { folds: folds.to_vec(), ..batch(number, leases) }
}

fn spent(settled: u64, late: u64, over: u64) -> SpentSum {
    let [settled, late, over] = [settled, late, over].map(Nanos::new);
    SpentSum { settled, late, over }
}

fn closed(settled: u64, late: u64, over: u64) -> Lease {
    let [late, over] = [late, over].map(Nanos::new);
    Lease { late, over, ..lease(settled + 10, 10, settled) }
}

fn sum(slot: u32, node: u32, day: Option<u32>) -> SumKey {
    SumKey { slot: CampaignIndex(slot), node, day }
}

fn hour(key: LeaseKey, hour: u32) -> LeaseKey {
    LeaseKey { period: Period(key.period.0 + 4 * hour), ..key }
}

fn stands_in_its_sum<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    same("no sums", &bench.sums(None)?, &vec![])?;
    let (one, two) = (bench.writer(1)?, bench.writer(2)?);
    let first = key(1, one);
    let all = [
        (first, closed(5, 3, 2)),
        (hour(first, 1), closed(7, 0, 1)),
        (hour(first, 24), closed(11, 0, 0)),
        (key(2, one), closed(13, 4, 0)),
        (hour(first, 25), lease(9, 2, 3)),
    ];
    same("leased", &bench.submit(one, &batch(1, &all))?, &Ok(()))?;
    let other = [(key(1, two), closed(17, 0, 0))];
    same("leased there", &bench.submit(two, &batch(1, &other))?, &Ok(()))?;
    let folds = [
        Fold::Lease(first, DAY),
        Fold::Lease(hour(first, 1), DAY),
        Fold::Lease(hour(first, 24), DAY + 1),
        Fold::Lease(key(2, one), DAY),
    ];
    same("folded", &bench.submit(one, &folding(2, &[], &folds))?, &Ok(()))?;
    let of_other = [Fold::Lease(other[0].0, DAY)];
    same("folded there", &bench.submit(two, &folding(2, &[], &of_other))?, &Ok(()))?;
    same("leases", &bench.leases(None)?, &vec![all[4]])?;
    let want = vec![
        (sum(1, 1, Some(DAY)), spent(12, 3, 3)),
        (sum(1, 1, Some(DAY + 1)), spent(11, 0, 0)),
        (sum(1, 2, Some(DAY)), spent(17, 0, 0)),
        (sum(2, 1, Some(DAY)), spent(13, 4, 0)),
    ];
    same("sums", &bench.sums(None)?, &want)?;
    same("of node 2", &bench.sums(Some(2))?, &vec![want[2]])?;
    // A day, and then its later rows.
    let ended = Fold::Day(sum(1, 1, Some(DAY)));
    same("a day", &bench.submit(one, &folding(3, &[], &[ended]))?, &Ok(()))?;
    let rest = [(hour(first, 2), closed(19, 0, 1))];
    let of_rest = [Fold::Lease(rest[0].0, DAY), ended];
    same("its rest", &bench.submit(one, &folding(4, &rest, &of_rest))?, &Ok(()))?;
    let want = [&[(sum(1, 1, None), spent(31, 3, 4))], &want[1..]].concat();
    same("sums then", &bench.sums(None)?, &want)
}

fn folds_once<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let leases = [(key(1, writer), closed(5, 1, 0)), (key(2, writer), closed(6, 0, 0))];
    same("leased", &bench.submit(writer, &batch(1, &leases))?, &Ok(()))?;
    let folds = [Fold::Lease(leases[0].0, DAY), Fold::Day(sum(1, 1, Some(DAY)))];
    for number in [2, 2, 3, 3] {
        same("folded", &bench.submit(writer, &folding(number, &[], &folds))?, &Ok(()))?;
    }
    let want = vec![(sum(1, 1, None), spent(5, 1, 0))];
    same("sums", &bench.sums(Some(1))?, &want)?;
    let twice = folding(4, &[], &[folds[0], folds[0]]);
    let refused = bench.submit(writer, &twice)?;
    same("twice in one", &matches!(refused, Err(StoreDenial::Invalid(_))), &true)?;
    // The largest figures saturate, in any order.
    let most = Lease { late: Nanos::new(u64::MAX), ..closed(1, 0, 7) };
    let large = [(hour(leases[0].0, 1), most), (hour(leases[0].0, 2), most)];
    let folds: Vec<_> = large.iter().map(|(key, _)| Fold::Lease(*key, DAY)).collect();
    same("large", &bench.submit(writer, &folding(5, &large, &folds))?, &Ok(()))?;
    let found = bench.sums(Some(1))?;
    same("the largest", &found[1].1, &spent(2, u64::MAX, 14))
}

fn strays_count_once<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let (day, life) = (sum(1, 1, Some(DAY)), sum(1, 1, None));
    let stray = |seq, sum, late| UnattributedWin { seq, sum, spent: spent(0, late, 0) };
    let with = |number, applied_seq, strays: &[UnattributedWin]| Batch {
        number,
        applied_seq,
        strays: strays.to_vec(),
        ..Batch::default()
    };
    let all = [stray(4, day, 5), stray(6, life, 7), stray(9, day, 11)];
    for (number, applied_seq, strays) in
        [(1, 6, &all[..2]), (1, 6, &all[..2]), (3, 9, &all[..]), (2, 6, &all[..2])]
    {
        same("told", &bench.submit(writer, &with(number, applied_seq, strays))?, &Ok(()))?;
        bench.restart();
    }
    let want = vec![(life, spent(0, 7, 0)), (day, spent(0, 16, 0))];
    same("sums", &bench.sums(Some(1))?, &want)?;
    // After a start, a writer repeats wins that it does not know to be durable.
    let next = bench.writer(1)?;
    same("again", &bench.submit(next, &with(1, 9, &all))?, &Ok(()))?;
    same("sums then", &bench.sums(Some(1))?, &want)?;
    let other = stray(12, sum(1, 2, None), 1);
    for wrong in [with(2, 8, &all), with(2, 9, &[all[2], all[0]]), with(2, 12, &[other])] {
        let refused = bench.submit(next, &wrong)?;
        same("refused", &matches!(refused, Err(StoreDenial::Invalid(_))), &true)?;
    }
    same("sums at last", &bench.sums(Some(1))?, &want)
}

fn older_is_refused<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let leases = [(key(1, writer), closed(5, 1, 0))];
    let (granted, fold) = (batch(7, &leases), [Fold::Lease(leases[0].0, DAY)]);
    let more = batch(9, &[(key(3, writer), lease(4, 0, 0))]);
    same("leased", &bench.submit(writer, &granted)?, &Ok(()))?;
    same("folded", &bench.submit(writer, &folding(8, &[], &fold))?, &Ok(()))?;
    let denied = Err(StoreDenial::Superseded { number: 7, folded: 8 });
    for restarts in [false, true, false] {
        if restarts {
            bench.restart();
        }
        same("the older", &bench.submit(writer, &granted)?, &denied)?;
        same("the newer", &bench.submit(writer, &more)?, &Ok(()))?;
        same("leases", &bench.leases(None)?, &more.leases)?;
        same("sums", &bench.sums(None)?, &vec![(sum(1, 1, Some(DAY)), spent(5, 1, 0))])?;
    }
    // Another epoch has batch numbers of its own, and another node is independent.
    let next = bench.writer(1)?;
    same("the next epoch", &bench.submit(next, &batch(1, &[]))?, &Ok(()))?;
    let other = bench.writer(2)?;
    same("another node", &bench.submit(other, &batch(1, &[]))?, &Ok(()))
}

fn folds_of_any_epoch<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let old = bench.writer(1)?;
    let of_old = [(key(1, old), closed(5, 0, 2))];
    same("the old", &bench.submit(old, &batch(1, &of_old))?, &Ok(()))?;
    let new = bench.writer(1)?;
    let of_new = [(key(1, new), closed(7, 0, 0))];
    let folds = [Fold::Lease(of_old[0].0, DAY), Fold::Lease(of_new[0].0, DAY)];
    same("the new", &bench.submit(new, &folding(1, &of_new, &folds))?, &Ok(()))?;
    same("leases", &bench.leases(None)?, &vec![])?;
    same("sums", &bench.sums(None)?, &vec![(sum(1, 1, Some(DAY)), spent(12, 0, 2))])
}

fn not_folded<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let (one, two) = (bench.writer(1)?, bench.writer(2)?);
    let (mine, open) = ((key(1, one), closed(5, 0, 0)), (key(2, one), lease(9, 2, 3)));
    let others = (key(1, two), closed(5, 0, 0));
    same("leased", &bench.submit(one, &batch(1, &[mine, open]))?, &Ok(()))?;
    same("leased there", &bench.submit(two, &batch(1, &[others]))?, &Ok(()))?;
    // A batch with a forbidden fold is not applied at all.
    let rest = [(key(9, one), lease(7, 0, 0))];
    let day = |day| Fold::Day(sum(1, 1, day));
    let refused = [
        Fold::Lease(open.0, DAY),
        Fold::Lease(others.0, DAY),
        Fold::Lease(mine.0, u32::MAX),
        day(None),
        Fold::Day(sum(1, 2, Some(DAY))),
    ];
    for fold in refused {
        let all = folding(2, &rest, &[Fold::Lease(mine.0, DAY), fold]);
        let denied = bench.submit(one, &all)?;
        let is_due = match fold {
            Fold::Lease(key, _) if key == open.0 => denied == Err(StoreDenial::Open(key)),
            _ => matches!(denied, Err(StoreDenial::Invalid(_))),
        };
        same(&format!("{fold:?}"), &is_due, &true)?;
    }
    // Nor what the batch itself opens; it may fold what it closes.
    let reopened = [(mine.0, Lease { granted: Nanos::new(16), ..mine.1 })];
    let denied = bench.submit(one, &folding(2, &reopened, &[Fold::Lease(mine.0, DAY)]))?;
    same("reopened", &denied, &Err(StoreDenial::Open(mine.0)))?;
    same("leases", &bench.leases(None)?, &vec![mine, others, open])?;
    same("sums", &bench.sums(None)?, &vec![])?;
    let done = [(open.0, lease(9, 2, 7))];
    same("closed", &bench.submit(one, &folding(2, &done, &[Fold::Lease(open.0, DAY)]))?, &Ok(()))?;
    same("its sum", &bench.sums(None)?, &vec![(sum(2, 1, Some(DAY)), spent(7, 0, 0))])
}

fn sums_outlive<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let mut want = SpentSum::default();
    for round in 0..4 {
        let writer = bench.writer(1)?;
        let leases = [(key(1, writer), closed(5 + round, round, 1))];
        let mut folds = vec![Fold::Lease(leases[0].0, DAY)];
        folds.extend((round % 2 == 1).then_some(Fold::Day(sum(1, 1, Some(DAY)))));
        same("a fold", &bench.submit(writer, &folding(1, &leases, &folds))?, &Ok(()))?;
        bench.restart();
        want = want.plus(spent(5 + round, round, 1));
        let sums = bench.sums(None)?;
        let total = sums.iter().fold(SpentSum::default(), |total, (_, spent)| total.plus(*spent));
        same("the sum", &total, &want)?;
        same("leases", &bench.leases(None)?, &vec![])?;
    }
    Ok(())
}

/// Random batches with folds: every lease counts once, in its row or in its sum.
fn by_chance<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let mut chance = Chance::new(5);
    let mut writer = bench.writer(1)?;
    let (mut number, mut folded) = (0, 0);
    let mut truth: BTreeMap<LeaseKey, Lease> = BTreeMap::new();
    let mut sent: Vec<Batch> = Vec::new();
    for _ in 0..120 {
        if chance.once_in(15) {
            if chance.once_in(2) {
                bench.restart();
            }
            writer = bench.writer(1)?;
            (number, folded) = (0, 0);
            sent.clear();
        }
        if chance.once_in(3) && !sent.is_empty() {
            let which = usize::try_from(chance.below(sent.len() as u64)).expect("few");
            let again = sent[which].clone();
            let is_older = again.number < folded;
            let want = Err(StoreDenial::Superseded { number: again.number, folded });
            let ended = bench.submit(writer, &again)?;
            same("again", &ended, if is_older { &want } else { &Ok(()) })?;
        } else {
            number += 1;
            let next = next_batch(&mut truth, writer, number, &mut chance);
            folded = if next.folds.is_empty() { folded } else { number };
            same("a batch", &bench.submit(writer, &next)?, &Ok(()))?;
            sent.push(next);
        }
        let mut totals: BTreeMap<CampaignIndex, SpentSum> = BTreeMap::new();
        for (key, lease) in bench.leases(None)? {
            let total = totals.entry(key.slot).or_default();
            *total = total.plus(SpentSum::of(&lease));
        }
        for (key, spent) in bench.sums(None)? {
            let total = totals.entry(key.slot).or_default();
            *total = total.plus(spent);
        }
        let mut want: BTreeMap<CampaignIndex, SpentSum> = BTreeMap::new();
        for (key, lease) in &truth {
            let total = want.entry(key.slot).or_default();
            *total = total.plus(SpentSum::of(lease));
        }
        same("what was spent", &totals, &want)?;
    }
    Ok(())
}

fn next_batch(
    truth: &mut BTreeMap<LeaseKey, Lease>,
    writer: StoreWriter,
    number: u64,
    chance: &mut Chance,
) -> Batch {
    let mut leases = Vec::new();
    for _ in 0..chance.below(3) {
        let slot = u32::try_from(chance.below(3)).expect("few");
        let at = u32::try_from(chance.below(6) + number * 6).expect("few");
        let key = hour(key(slot, writer), at);
        let lease = closed(chance.below(50), chance.below(3), chance.below(2));
        if let Entry::Vacant(vacant) = truth.entry(key) {
            leases.push((key, *vacant.insert(lease)));
        }
    }
    let mut folds: Vec<Fold> = Vec::new();
    if chance.once_in(2) {
        let may = truth.keys().filter(|key| key.epoch <= Epoch(writer.epoch.0));
        folds.extend(may.filter(|_| chance.once_in(4)).map(|key| Fold::Lease(*key, day_of(key))));
        folds.extend((0..3).map(|slot| Fold::Day(sum(slot, 1, Some(DAY)))));
    }
    Batch { number, leases, folds, ..Batch::default() }
}

fn day_of(key: &LeaseKey) -> u32 {
    DAY + key.period.0 % 96 / 48
}
