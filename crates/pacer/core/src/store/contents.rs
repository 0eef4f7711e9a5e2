//! What a store holds, in memory: the rules in the shortest words. Each planted bug breaks one.

use std::collections::BTreeMap;

use units::Nanos;

use super::{
    AUDIT_MOST, AuditEntry, AuditKey, Batch, Begun, Bug, Change, Definition, DefinitionKey, Denied,
    Fold, Found, Kind, Lease, LeaseKey, Life, Query, Spent, SumKey, Writer,
};
use crate::messages::Epoch;

#[derive(Clone, Debug, Default)]
struct Node {
    epoch: u32,
    applied_seq: u64,
    /// The epoch in which it folded last, and by which batch.
    folded: (u32, u64),
}

/// All that is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    nodes: BTreeMap<u32, Node>,
    leases: BTreeMap<LeaseKey, Lease>,
    sums: BTreeMap<SumKey, Spent>,
    lives: BTreeMap<Writer, Life>,
    definitions: BTreeMap<DefinitionKey, Definition>,
    audit: BTreeMap<AuditKey, AuditEntry>,
    bug: Option<Bug>,
}

impl Contents {
    pub(super) fn new(bug: Option<Bug>) -> Self {
        Self { bug, ..Self::default() }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn begin(&mut self, number: u32, least: Epoch) -> Begun {
        let is_reused = self.has(Bug::ReuseEpoch);
        let node = self.nodes.entry(number).or_default();
        if !(is_reused && node.epoch > 0) {
            let next = node.epoch.checked_add(1).expect("a start a second lasts a century");
            node.epoch = next.max(least.0);
        }
        Begun { epoch: Epoch(node.epoch), applied_seq: node.applied_seq }
    }

    /// The process that holds it ends, and another begins.
    pub(super) fn restart(&mut self) {
        if self.has(Bug::ForgetEpoch) {
            self.nodes.values_mut().for_each(|node| node.epoch = 0);
        }
    }

    fn admit(&self, writer: Writer) -> Result<(), Denied> {
        let current = Epoch(self.nodes.get(&writer.node).map_or(0, |node| node.epoch));
        if writer.epoch == current && current.0 > 0 || self.has(Bug::ForgetFence) {
            return Ok(());
        }
        Err(Denied::Fenced { asked: writer.epoch, current })
    }

    fn merged(&self, key: &LeaseKey, lease: Lease) -> Result<Lease, Denied> {
        let current = self.nodes.get(&key.node).map_or(0, |node| node.epoch);
        if !(1..=current).contains(&key.epoch.0) && !self.has(Bug::TakeAnyEpoch) {
            return Err(Denied::NeverBegan(*key));
        }
        let before = self.leases.get(key).copied().unwrap_or_default();
        let merged = match self.bug {
            Some(Bug::OverwriteNewer) => lease,
            Some(Bug::AddUp) => Lease {
                granted: before.granted.checked_add(lease.granted).expect("it is small"),
                ..before.latest(lease)
            },
            _ => before.latest(lease),
        };
        if merged.is_balanced() || self.has(Bug::TakeUnbalanced) {
            return Ok(merged);
        }
        Err(Denied::Unbalanced(*key))
    }

    pub(super) fn submit(&mut self, writer: Writer, batch: &Batch) -> Result<(), Denied> {
        batch.check()?;
        self.admit(writer)?;
        let folded = self.nodes.get(&writer.node).map_or((0, 0), |node| node.folded);
        let last = (folded.0 == writer.epoch.0 && !self.has(Bug::ForgetFolded)).then_some(folded.1);
        match last {
            Some(last) if batch.number < last => {
                return Err(Denied::Superseded { number: batch.number, folded: last });
            }
            // It is applied: what it leased besides may be folded since.
            Some(last) if batch.number == last => return Ok(()),
            _ => (),
        }
        let mut merged = Vec::with_capacity(batch.leases.len());
        for (key, lease) in &batch.leases {
            match self.merged(key, *lease) {
                Ok(lease) => merged.push((*key, lease)),
                Err(denied) => {
                    if self.has(Bug::ApplyHalf) {
                        self.leases.extend(merged);
                    }
                    return Err(denied);
                }
            }
        }
        self.check_folds(writer, batch, &merged)?;
        if self.has(Bug::LoseHalf) {
            merged.truncate(merged.len().div_ceil(2));
        }
        self.leases.extend(merged);
        batch.folds.iter().for_each(|fold| self.fold(*fold));
        let applied = self.nodes.get(&writer.node).map_or(0, |node| node.applied_seq);
        let applied = if self.has(Bug::StrayTwice) { 0 } else { applied };
        for stray in batch.strays.iter().filter(|stray| applied < stray.seq) {
            let sum = self.sums.entry(stray.sum).or_default();
            *sum = sum.plus(stray.spent);
        }
        let lowers = self.has(Bug::LowerAppliedSeq);
        let node = self.nodes.entry(writer.node).or_default();
        let least = if lowers { 0 } else { node.applied_seq };
        node.applied_seq = batch.applied_seq.max(least);
        if !batch.folds.is_empty() {
            node.folded = (writer.epoch.0, batch.number);
        }
        self.live(writer, batch);
        Ok(())
    }

    fn live(&mut self, writer: Writer, batch: &Batch) {
        if batch.life != Life::default() && !self.has(Bug::ForgetLives) {
            let shrinks = self.has(Bug::ShortenLives);
            let life = self.lives.entry(writer).or_default();
            *life = if shrinks { batch.life } else { life.latest(batch.life) };
        }
        let is_needed = |of: &Writer| of.node != writer.node || batch.lives_from <= of.epoch;
        self.lives.retain(|of, _| is_needed(of));
    }

    fn check_folds(
        &self,
        writer: Writer,
        batch: &Batch,
        merged: &[(LeaseKey, Lease)],
    ) -> Result<(), Denied> {
        if batch.strays.iter().any(|stray| stray.sum.node != writer.node) {
            return Err(Denied::Invalid("a stray is another node's: it has a log of its own"));
        }
        for fold in &batch.folds {
            fold.check(writer)?;
            let Fold::Lease(key, _) = fold else { continue };
            let said = merged.iter().find(|(of, _)| of == key).map(|(_, lease)| lease);
            let lease = said.or_else(|| self.leases.get(key));
            if lease.is_some_and(|lease| !lease.is_closed()) && !self.has(Bug::FoldOpen) {
                return Err(Denied::Open(*key));
            }
        }
        Ok(())
    }

    fn fold(&mut self, fold: Fold) {
        let stays = self.has(Bug::FoldTwice);
        let mut spent = match fold {
            Fold::Lease(key, _) if stays => self.leases.get(&key).map(Spent::of),
            Fold::Lease(key, _) => self.leases.remove(&key).as_ref().map(Spent::of),
            Fold::Day(key) => self.sums.remove(&key),
        };
        if self.has(Bug::FoldDropsLate) {
            spent = spent.map(|it| Spent { late: Nanos::ZERO, over: Nanos::ZERO, ..it });
        }
        if let Some(spent) = spent {
            let sum = self.sums.entry(fold.into_sum()).or_default();
            *sum = sum.plus(spent);
        }
    }

    pub(super) fn change(&mut self, writer: Writer, change: &Change) -> Result<(), Denied> {
        change.check()?;
        self.admit(writer)?;
        let before = self.definitions.clone();
        let put = self.put(change);
        if put.is_err() && !self.has(Bug::KeepHalfChange) {
            self.definitions = before;
        }
        if put.is_ok() || self.has(Bug::AuditRefused) {
            self.append(writer, change);
        }
        put
    }

    fn put(&mut self, change: &Change) -> Result<(), Denied> {
        for put in &change.puts {
            let mut key = put.key.clone();
            if self.has(Bug::MixKinds) {
                key.kind = Kind::Account;
            }
            let present = self.definitions.get(&key);
            let as_parts = present.map(|present| (present.version, &present.body[..]));
            let is_written = match (self.bug, put.writes_over(as_parts)) {
                (Some(Bug::IgnoreExpected), _) if put.expected.is_some() => true,
                (Some(Bug::OlderDefinition), Ok(false)) if put.expected.is_none() => true,
                (Some(Bug::ConflictWithItself), Ok(false)) if put.expected.is_some() => {
                    let present = present.map_or(0, |present| present.version);
                    return Err(Denied::Conflict { key, present });
                }
                (_, writes) => writes?,
            };
            if is_written {
                self.definitions.insert(key, put.definition.clone());
            }
        }
        Ok(())
    }

    fn append(&mut self, writer: Writer, change: &Change) {
        let Writer { node, epoch } = writer;
        let first = if self.has(Bug::RepeatAudit) { self.audit.len() } else { 0 };
        for (index, entry) in change.audit.iter().enumerate() {
            let index = u32::try_from(first + index).expect("a change has few entries");
            let key = AuditKey { node, epoch, number: change.number, index };
            self.audit.entry(key).or_insert_with(|| entry.clone());
        }
    }

    pub(super) fn read(&self, query: &Query) -> Found {
        match query {
            Query::Leases(node) => {
                let mixes = self.has(Bug::MixNodes);
                let is_asked = |key: &LeaseKey| node.is_none_or(|node| node == key.node || mixes);
                let leases = self.leases.iter().filter(|(key, _)| is_asked(key));
                Found::Leases(leases.map(|(key, lease)| (*key, *lease)).collect())
            }
            Query::Sums(node) => {
                let of_node = |key: &SumKey| node.is_none_or(|node| node == key.node);
                let sums = self.sums.iter().filter(|(key, _)| of_node(key));
                Found::Sums(sums.map(|(key, spent)| (*key, *spent)).collect())
            }
            Query::Lives(node) => {
                let of_node = |of: &Writer| node.is_none_or(|node| node == of.node);
                let lives = self.lives.iter().filter(|(of, _)| of_node(of));
                Found::Lives(lives.map(|(of, life)| (*of, *life)).collect())
            }
            Query::Definitions(kind) => {
                let of_kind = self.definitions.iter().filter(|(key, _)| key.kind == *kind);
                let owned = of_kind.map(|(key, definition)| (key.clone(), definition.clone()));
                Found::Definitions(owned.collect())
            }
            Query::Audit(after, most) => {
                let most = usize::try_from((*most).min(AUDIT_MOST)).expect("few");
                let behind = self.audit.iter().filter(|(key, _)| Some(**key) > *after);
                Found::Audit(behind.take(most).map(|(key, entry)| (*key, entry.clone())).collect())
            }
            Query::AuditBefore(node, before, most) => {
                let most = usize::try_from((*most).min(AUDIT_MOST)).expect("few");
                let is_before =
                    |key: &AuditKey| key.node == *node && before.is_none_or(|before| *key < before);
                let found = self.audit.iter().rev().filter(|(key, _)| is_before(key));
                Found::Audit(found.take(most).map(|(key, entry)| (*key, entry.clone())).collect())
            }
        }
    }
}
