//! Random batches against a naive model: the largest committed value of each figure.

use std::collections::BTreeMap;

use faults::Chance;

use super::{
    Batch, Bench, CampaignIndex, Checked, Epoch, Lease, LeaseKey, Nanos, Period, StoreDenial,
    StoreWriter, Subject, same,
};

pub(super) const SEEDS: u64 = 12;
const STEPS: u64 = 60;
const NODES: u64 = 2;
const SLOTS: u64 = 5;

#[derive(Default)]
struct Model {
    epochs: BTreeMap<u32, u32>,
    leases: BTreeMap<LeaseKey, Lease>,
    applied: BTreeMap<u32, u64>,
    /// Figures whether committed or not: they never shrink.
    reached: BTreeMap<LeaseKey, Lease>,
    sent: Vec<(StoreWriter, Batch)>,
}

pub(super) fn run<S: Subject>(bench: &mut Bench<'_, S>, seed: u64) -> Checked {
    let (mut chance, mut model) = (Chance::new(seed), Model::default());
    for step in 1..=STEPS {
        match chance.below(12) {
            0 | 1 => {
                let node = draw(&mut chance, NODES);
                begin(bench, &mut model, node)?;
            }
            2 => bench.restart(),
            3..6 if !model.sent.is_empty() => {
                let which = chance.below(model.sent.len() as u64);
                let which = usize::try_from(which).expect("few");
                let (writer, batch) = model.sent[which].clone();
                send(bench, &mut model, writer, &batch)?;
            }
            _ => {
                let (writer, batch) = model.next(&mut chance, step);
                model.sent.push((writer, batch.clone()));
                if !chance.once_in(4) {
                    send(bench, &mut model, writer, &batch)?;
                }
            }
        }
        let want: Vec<_> = model.leases.iter().map(|(key, lease)| (*key, *lease)).collect();
        same(&format!("step {step}"), &bench.leases(None)?, &want)?;
    }
    let nodes: Vec<_> = (0..NODES).map(|node| u32::try_from(node).expect("few")).collect();
    nodes.into_iter().try_for_each(|node| begin(bench, &mut model, node))
}

fn draw(chance: &mut Chance, below: u64) -> u32 {
    u32::try_from(chance.below(below)).expect("few")
}

fn begin<S: Subject>(bench: &mut Bench<'_, S>, model: &mut Model, node: u32) -> Checked {
    let begun = bench.begin(node)?;
    let last = model.epochs.insert(node, begun.epoch.0).unwrap_or(0);
    if begun.epoch.0 <= last {
        return Err(format!("epoch {} of node {node} follows {last}", begun.epoch.0));
    }
    let applied = model.applied.get(&node).copied().unwrap_or(0);
    same("what was applied", &begun.applied_seq, &applied)
}

fn send<S: Subject>(
    bench: &mut Bench<'_, S>,
    model: &mut Model,
    writer: StoreWriter,
    batch: &Batch,
) -> Checked {
    let current = Epoch(model.epochs.get(&writer.node).copied().unwrap_or(0));
    let is_current = writer.epoch == current && current.0 > 0;
    let denied = StoreDenial::Fenced { asked: writer.epoch, current };
    let want = if is_current { Ok(()) } else { Err(denied) };
    same("a batch", &bench.submit(writer, batch)?, &want)?;
    if is_current {
        for (key, lease) in &batch.leases {
            let stands = model.leases.entry(*key).or_default();
            *stands = stands.latest(*lease);
        }
        let applied = model.applied.entry(writer.node).or_default();
        *applied = batch.applied_seq.max(*applied);
    }
    Ok(())
}

impl Model {
    fn next(&mut self, chance: &mut Chance, step: u64) -> (StoreWriter, Batch) {
        let node = draw(chance, NODES);
        let epoch = self.epochs.get(&node).copied().unwrap_or(0);
        let mut leases = BTreeMap::new();
        for _ in 0..chance.below(4) {
            let back = draw(chance, 2);
            // An engine may skip epochs.
            let of = if epoch > back { epoch - back } else { epoch };
            let period = Period(7_000_000 + 4 * draw(chance, 2));
            let key = LeaseKey {
                slot: CampaignIndex(draw(chance, SLOTS)),
                period,
                node,
                epoch: Epoch(of),
            };
            if of > 0 {
                leases.insert(key, self.grow(key, chance));
            }
        }
        let leases = leases.into_iter().collect();
        (
            StoreWriter { node, epoch: Epoch(epoch) },
            Batch { number: step, leases, applied_seq: step * 7, ..Batch::default() },
        )
    }

    fn grow(&mut self, key: LeaseKey, chance: &mut Chance) -> Lease {
        let lease = self.reached.entry(key).or_default();
        let grown = |figure: &mut Nanos, by: u64| *figure = Nanos::new(figure.get() + by);
        let granted = chance.below(1_000);
        grown(&mut lease.granted, granted);
        grown(&mut lease.returned, chance.below(granted / 2 + 1));
        grown(&mut lease.settled, chance.below(granted / 2 + 1));
        grown(&mut lease.late, chance.below(3));
        grown(&mut lease.over, chance.below(3));
        *lease
    }
}
