//! Leases and epochs, case by case.

use units::Nanos;

use super::{
    Batch, Bench, Case, Checked, CommitOutcome, Epoch, Lease, LeaseKey, LeaseStore, QueryResult,
    StoreAnswer, StoreDenial, StoreQuery, StoreWriter, Subject, WriteOutcome, batch, before, key,
    lease, may_pass, same,
};
use crate::calendar::Period;
use crate::messages::CampaignIndex;

pub(super) fn cases<S: Subject>() -> [Case<S>; 13] {
    [
        ("an empty store holds nothing", holds_nothing),
        ("what is committed is read", is_read),
        ("the latest of each figure stands", latest_stands),
        ("a batch is applied whole or not at all", whole_or_not),
        ("epochs ascend and are never given twice", epochs_ascend),
        ("an epoch is as late as is asked, and behind the last all the same", epochs_are_late),
        ("an older epoch is fenced off", is_fenced),
        ("the fence outlives the process", fence_outlives),
        ("what is committed outlives the process", outlives),
        ("the log is applied once", applied_once),
        ("an older life is settled by a newer", older_life),
        ("nodes are apart", nodes_apart),
        ("answers come in order", in_order),
    ]
}

fn holds_nothing<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    same("leases", &bench.leases(None)?, &vec![])?;
    let writer = bench.writer(1)?;
    same("of node 1", &bench.leases(Some(1))?, &vec![])?;
    same("an empty batch", &bench.submit(writer, &Batch::default())?, &Ok(()))
}

fn is_read<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    // The largest figures, and keys that differ in one part only.
    let most = Nanos::new(u64::MAX);
    let full =
        Lease { granted: most, returned: Nanos::ZERO, settled: most, late: most, over: most };
    let last = key(u32::MAX, writer);
    let mut leases = vec![(key(0, writer), lease(1, 0, 0)), (last, full)];
    let other = LeaseKey { period: Period(u32::MAX), ..last };
    leases.push((other, lease(5, 2, 3)));
    leases.push((LeaseKey { slot: CampaignIndex(256), ..other }, lease(6, 2, 3)));
    same("the batch", &bench.submit(writer, &batch(1, &leases))?, &Ok(()))?;
    leases.sort_unstable_by_key(|(key, _)| *key);
    same("of node 1", &bench.leases(Some(1))?, &leases)?;
    same("of all", &bench.leases(None)?, &leases)
}

fn latest_stands<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let lease = |granted, late| Lease { late: Nanos::new(late), ..lease(granted, 10, 20) };
    let first = batch(1, &[(key(3, writer), lease(100, 5))]);
    let second = batch(2, &[(key(3, writer), lease(200, 7)), (key(4, writer), lease(50, 0))]);
    // Repeated, outdated, and each figure by itself.
    for sent in [&second, &first, &second, &first] {
        same("the batch", &bench.submit(writer, sent)?, &Ok(()))?;
    }
    same("leases", &bench.leases(Some(1))?, &second.leases)?;
    let mixed = batch(3, &[(key(3, writer), lease(150, 9))]);
    same("the third", &bench.submit(writer, &mixed)?, &Ok(()))?;
    let want = vec![(key(3, writer), lease(200, 9)), second.leases[1]];
    same("leases then", &bench.leases(Some(1))?, &want)
}

fn whole_or_not<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let first = batch(1, &[(key(2, writer), lease(100, 0, 0))]);
    same("the first", &bench.submit(writer, &first)?, &Ok(()))?;
    let unbegun = key(9, StoreWriter { epoch: Epoch(writer.epoch.0 + 1), ..writer });
    let zeroth = key(9, StoreWriter { epoch: Epoch(0), ..writer });
    let nobody = key(9, StoreWriter { node: 77, ..writer });
    let over = key(2, writer);
    // the last of a batch             why
    let refusals = [
        ((unbegun, lease(1, 0, 0)), StoreDenial::NeverBegan(unbegun)),
        ((zeroth, lease(1, 0, 0)), StoreDenial::NeverBegan(zeroth)),
        ((nobody, lease(1, 0, 0)), StoreDenial::NeverBegan(nobody)),
        ((over, lease(0, 51, 50)), StoreDenial::Unbalanced(over)),
        ((over, lease(200, u64::MAX, 1)), StoreDenial::Unbalanced(over)),
    ];
    for (last, denied) in refusals {
        let leases = [(key(0, writer), lease(7, 0, 0)), (key(1, writer), lease(7, 0, 0)), last];
        same("refused", &bench.submit(writer, &batch(2, &leases))?, &Err(denied))?;
    }
    let twice = [(key(5, writer), lease(7, 0, 0)), (key(5, writer), lease(8, 0, 0))];
    let refused = bench.submit(writer, &batch(2, &twice))?;
    if !matches!(refused, Err(StoreDenial::Invalid(_))) {
        return Err(format!("a lease twice: {refused:?}"));
    }
    same("leases", &bench.leases(None)?, &first.leases)?;
    let all: Vec<_> = (0..10).map(|slot| (key(slot, writer), lease(200, 0, 0))).collect();
    same("all", &bench.submit(writer, &batch(2, &all))?, &Ok(()))?;
    same("all leases", &bench.leases(None)?, &all)?;
    same("what was applied", &bench.begin(1)?.applied_seq, &20)
}

fn epochs_ascend<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let mut last = Epoch(0);
    for _ in 0..4 {
        let begun = bench.begin(1)?.epoch;
        if begun <= last {
            return Err(format!("epoch {} follows {}", begun.0, last.0));
        }
        last = begun;
    }
    Ok(())
}

fn epochs_are_late<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let last = bench.begin(1)?.epoch;
    for (least, want) in [(last.0 + 100, last.0 + 100), (last.0, last.0 + 101), (0, last.0 + 102)] {
        bench.restart();
        let begun = bench.begin_at(1, Epoch(least))?.epoch;
        // An epoch that began without an answer counts.
        if begun.0 < want || begun.0 > want + 50 {
            return Err(format!(
                "epoch {} where at least {least} was asked, behind {want}",
                begun.0
            ));
        }
    }
    Ok(())
}

fn is_fenced<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let nobody = StoreWriter { node: 1, epoch: Epoch(0) };
    let denied =
        |asked: StoreWriter, current| Err(StoreDenial::Fenced { asked: asked.epoch, current });
    let refused = bench.submit(nobody, &batch(1, &[]))?;
    same("before any epoch", &refused, &denied(nobody, Epoch(0)))?;
    let old = bench.writer(1)?;
    let other = bench.writer(2)?;
    let granted = batch(1, &[(key(1, old), lease(10, 0, 0))]);
    same("the old epoch", &bench.submit(old, &granted)?, &Ok(()))?;
    let new = bench.writer(1)?;
    let more = batch(2, &[(key(1, old), lease(20, 0, 0))]);
    same("the old one then", &bench.submit(old, &more)?, &denied(old, new.epoch))?;
    // A batch that it had committed before has no effect either.
    same("the old one again", &bench.submit(old, &granted)?, &denied(old, new.epoch))?;
    let early = StoreWriter { epoch: Epoch(new.epoch.0 + 1), ..new };
    same("one to come", &bench.submit(early, &more)?, &denied(early, new.epoch))?;
    same("another node", &bench.submit(other, &batch(1, &[]))?, &Ok(()))?;
    same("leases", &bench.leases(None)?, &granted.leases)?;
    same("what was applied", &bench.begin(1)?.applied_seq, &granted.applied_seq)
}

fn fence_outlives<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let old = bench.writer(1)?;
    same("a batch", &bench.submit(old, &batch(1, &[(key(1, old), lease(9, 0, 0))]))?, &Ok(()))?;
    bench.restart();
    let new = bench.writer(1)?;
    if new.epoch <= old.epoch {
        return Err(format!("epoch {} follows {}", new.epoch.0, old.epoch.0));
    }
    bench.restart();
    let denied = Err(StoreDenial::Fenced { asked: old.epoch, current: new.epoch });
    same("the old epoch", &bench.submit(old, &batch(2, &[]))?, &denied)?;
    // A new process begins anew, but the previous one may still continue.
    same("the new one", &bench.submit(new, &batch(1, &[]))?, &Ok(()))
}

fn outlives<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let mut want = Vec::new();
    for number in 1..=5 {
        let slot = u32::try_from(number).expect("few");
        want.push((key(slot, writer), lease(number * 100, number, number)));
        same("a batch", &bench.submit(writer, &batch(number, &want))?, &Ok(()))?;
        bench.restart();
        same("leases", &bench.leases(None)?, &want)?;
    }
    Ok(())
}

fn applied_once<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let mut writer = bench.writer(1)?;
    same("at first", &bench.begin(2)?.applied_seq, &0)?;
    for (applied_seq, want) in [(40, 40), (30, 40), (40, 40), (u64::MAX, u64::MAX)] {
        let batch = Batch { number: 1, applied_seq, ..Batch::default() };
        same("a batch", &bench.submit(writer, &batch)?, &Ok(()))?;
        let begun = bench.begin(1)?;
        same("what was applied", &begun.applied_seq, &want)?;
        writer.epoch = begun.epoch;
    }
    same("of another node", &bench.begin(2)?.applied_seq, &0)
}

fn older_life<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let old = bench.writer(1)?;
    let granted = batch(1, &[(key(1, old), lease(100, 0, 30))]);
    same("granted", &bench.submit(old, &granted)?, &Ok(()))?;
    let new = StoreWriter { node: 1, epoch: bench.begin(1)?.epoch };
    let settled = [(key(1, old), lease(100, 20, 80)), (key(1, new), lease(5, 0, 0))];
    same("settled", &bench.submit(new, &batch(1, &settled))?, &Ok(()))?;
    same("leases", &bench.leases(Some(1))?, &settled.to_vec())
}

fn nodes_apart<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let (one, two) = (bench.writer(1)?, bench.writer(2)?);
    let again = bench.writer(2)?;
    let of_one = [(key(1, one), lease(10, 0, 0))];
    let of_two = [(key(1, before(again)), lease(20, 0, 0)), (key(1, again), lease(30, 0, 0))];
    same("of one", &bench.submit(one, &batch(1, &of_one))?, &Ok(()))?;
    let refused = bench.submit(two, &batch(1, &of_two))?;
    let begun = again.epoch != two.epoch;
    same("fenced", &(refused.is_err() && begun), &true)?;
    same("of two", &bench.submit(again, &batch(1, &of_two))?, &Ok(()))?;
    same("read one", &bench.leases(Some(1))?, &of_one.to_vec())?;
    same("read two", &bench.leases(Some(2))?, &of_two.to_vec())?;
    same("read three", &bench.leases(Some(3))?, &vec![])?;
    let all = [&of_one[..], &of_two].concat();
    same("read all", &bench.leases(None)?, &all)
}

/// Many at once: each is answered, in order, with any outcome.
fn in_order<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let many = 50;
    for number in 1..=many {
        let leases = [(key(1, writer), lease(number, 0, 0))];
        bench.store().submit(writer, batch(number, &leases));
        if number % 10 == 0 {
            bench.store().read(StoreQuery::Leases(Some(1)));
        }
    }
    let (mut committed, mut known) = (0, true);
    for number in 1..=many {
        let StoreAnswer::Ended(WriteOutcome { number: of, ended, .. }) = bench.answer()? else {
            return Err(format!("batch {number} is answered by a read"));
        };
        same("the answer", &of, &number)?;
        match ended {
            CommitOutcome::Committed => committed = number,
            CommitOutcome::Refused => (),
            CommitOutcome::Unknown => known = false,
        }
        if number % 10 == 0 {
            match bench.answer()? {
                StoreAnswer::Read(Ok(QueryResult::Leases(leases))) => {
                    let granted = leases.first().map_or(0, |(_, lease)| lease.granted.get());
                    // It may see more, if others came between, but never less.
                    if granted < committed || (known && granted > many) {
                        return Err(format!("a read behind {committed} sees {granted}"));
                    }
                }
                StoreAnswer::Read(Err(denied)) => may_pass(&denied)?,
                other => return Err(format!("a read is answered by {other:?}")),
            }
        }
    }
    same("nothing more", &bench.store().poll().is_none(), &true)
}
