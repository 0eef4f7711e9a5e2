//! A store's contents, in memory: the plainest form of the rules.

use std::collections::BTreeMap;

use crate::messages::Epoch;
use crate::store::{
    AUDIT_ENTRIES_MAX, AuditEntry, AuditKey, Batch, ChargeKey, DefinitionChange, DefinitionKey,
    EpochLifetime, EpochStart, Fold, HoldState, Lease, LeaseKey, QueryResult, SpentSum,
    StoreDenial, StoreQuery, StoreWriter, StoredDefinition, StoredHold, StoredHoldKey, SumKey,
};
use units::Nanos;

#[derive(Clone, Debug, Default)]
struct Node {
    epoch: u32,
    applied_seq: u64,
    /// Epoch and number of the last batch that folded.
    folded: (u32, u64),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    nodes: BTreeMap<u32, Node>,
    leases: BTreeMap<LeaseKey, Lease>,
    sums: BTreeMap<SumKey, SpentSum>,
    lives: BTreeMap<StoreWriter, EpochLifetime>,
    holds: BTreeMap<StoredHoldKey, StoredHold>,
    charges: BTreeMap<ChargeKey, Nanos>,
    definitions: BTreeMap<DefinitionKey, StoredDefinition>,
    audit: BTreeMap<AuditKey, AuditEntry>,
}

impl Contents {
    pub(super) fn begin(&mut self, number: u32, least: Epoch) -> EpochStart {
        let node = self.nodes.entry(number).or_default();
        let next = node.epoch.checked_add(1).expect("a start a second lasts a century");
        node.epoch = next.max(least.0);
        EpochStart { epoch: Epoch(node.epoch), applied_seq: node.applied_seq }
    }

    fn admit(&self, writer: StoreWriter) -> Result<(), StoreDenial> {
        let current = Epoch(self.nodes.get(&writer.node).map_or(0, |node| node.epoch));
        if writer.epoch == current && current.0 > 0 {
            return Ok(());
        }
        Err(StoreDenial::Fenced { asked: writer.epoch, current })
    }

    fn merged(&self, key: &LeaseKey, lease: Lease) -> Result<Lease, StoreDenial> {
        let current = self.nodes.get(&key.node).map_or(0, |node| node.epoch);
        if !(1..=current).contains(&key.epoch.0) {
            return Err(StoreDenial::NeverBegan(*key));
        }
        let before = self.leases.get(key).copied().unwrap_or_default();
        let merged = before.latest(lease);
        if merged.is_balanced() { Ok(merged) } else { Err(StoreDenial::Unbalanced(*key)) }
    }

    pub(super) fn submit(&mut self, writer: StoreWriter, batch: &Batch) -> Result<(), StoreDenial> {
        batch.check()?;
        self.admit(writer)?;
        let folded = self.nodes.get(&writer.node).map_or((0, 0), |node| node.folded);
        match (folded.0 == writer.epoch.0).then_some(folded.1) {
            Some(last) if batch.number < last => {
                return Err(StoreDenial::Superseded { number: batch.number, folded: last });
            }
            // It is applied: its leases may be folded since.
            Some(last) if batch.number == last => return Ok(()),
            _ => (),
        }
        let mut merged = Vec::with_capacity(batch.leases.len());
        for (key, lease) in &batch.leases {
            merged.push((*key, self.merged(key, *lease)?));
        }
        self.check_folds(writer, batch, &merged)?;
        let holds = self.merged_holds(writer, batch)?;
        self.leases.extend(merged);
        self.holds.extend(holds);
        batch.hold_folds.iter().for_each(|key| self.fold_hold(key));
        batch.folds.iter().for_each(|fold| self.fold(*fold));
        let applied = self.nodes.get(&writer.node).map_or(0, |node| node.applied_seq);
        for stray in batch.strays.iter().filter(|stray| applied < stray.seq) {
            let sum = self.sums.entry(stray.sum).or_default();
            *sum = sum.plus(stray.spent);
        }
        let node = self.nodes.entry(writer.node).or_default();
        node.applied_seq = batch.applied_seq.max(applied);
        if batch.has_folds() {
            node.folded = (writer.epoch.0, batch.number);
        }
        self.live(writer, batch);
        Ok(())
    }

    fn live(&mut self, writer: StoreWriter, batch: &Batch) {
        if batch.life != EpochLifetime::default() {
            let life = self.lives.entry(writer).or_default();
            *life = life.latest(batch.life);
        }
        let is_needed =
            |of: &StoreWriter| of.node != writer.node || batch.lifetimes_from <= of.epoch;
        self.lives.retain(|of, _| is_needed(of));
    }

    fn check_folds(
        &self,
        writer: StoreWriter,
        batch: &Batch,
        merged: &[(LeaseKey, Lease)],
    ) -> Result<(), StoreDenial> {
        if batch.strays.iter().any(|stray| stray.sum.node != writer.node) {
            return Err(StoreDenial::Invalid("a stray is another node's: it has a log of its own"));
        }
        for fold in &batch.folds {
            fold.check(writer)?;
            let Fold::Lease(key, _) = fold else { continue };
            let said = merged.iter().find(|(of, _)| of == key).map(|(_, lease)| lease);
            let lease = said.or_else(|| self.leases.get(key));
            if lease.is_some_and(|lease| !lease.is_closed()) {
                return Err(StoreDenial::Open(*key));
            }
        }
        Ok(())
    }

    fn merged_holds(
        &self,
        writer: StoreWriter,
        batch: &Batch,
    ) -> Result<BTreeMap<StoredHoldKey, StoredHold>, StoreDenial> {
        let mut merged = BTreeMap::new();
        for (key, hold) in &batch.holds {
            hold.check(key, writer)?;
            let latest = match self.holds.get(key) {
                Some(before) => before.clone().latest(hold.clone(), key)?,
                None => hold.clone(),
            };
            merged.insert(key.clone(), latest);
        }
        for key in &batch.hold_folds {
            key.check(writer)?;
            let hold = merged.get(key).or_else(|| self.holds.get(key));
            if hold.is_some_and(|hold| hold.state == HoldState::Standing) {
                return Err(StoreDenial::HoldStanding(key.clone()));
            }
        }
        Ok(merged)
    }

    fn fold_hold(&mut self, key: &StoredHoldKey) {
        let Some(hold) = self.holds.remove(key) else { return };
        if let HoldState::Charged(cost) = hold.state {
            let key = ChargeKey { node: key.node, account: hold.account };
            let sum = self.charges.entry(key).or_default();
            *sum = Nanos::new(sum.get().saturating_add(cost.get()));
        }
    }

    fn fold(&mut self, fold: Fold) {
        let spent = match fold {
            Fold::Lease(key, _) => self.leases.remove(&key).as_ref().map(SpentSum::of),
            Fold::Day(key) => self.sums.remove(&key),
        };
        if let Some(spent) = spent {
            let sum = self.sums.entry(fold.into_sum()).or_default();
            *sum = sum.plus(spent);
        }
    }

    pub(super) fn change(
        &mut self,
        writer: StoreWriter,
        change: &DefinitionChange,
    ) -> Result<(), StoreDenial> {
        change.check()?;
        self.admit(writer)?;
        let before = self.definitions.clone();
        let put = self.put(change);
        if put.is_ok() {
            self.append(writer, change);
        } else {
            self.definitions = before;
        }
        put
    }

    fn put(&mut self, change: &DefinitionChange) -> Result<(), StoreDenial> {
        for put in &change.puts {
            let present = self.definitions.get(&put.key);
            let as_parts = present.map(|present| (present.version, &present.body[..]));
            if put.writes_over(as_parts)? {
                self.definitions.insert(put.key.clone(), put.definition.clone());
            }
        }
        Ok(())
    }

    fn append(&mut self, writer: StoreWriter, change: &DefinitionChange) {
        let StoreWriter { node, epoch } = writer;
        for (index, entry) in change.audit.iter().enumerate() {
            let index = u32::try_from(index).expect("a change has few entries");
            let key = AuditKey { node, epoch, number: change.number, index };
            self.audit.entry(key).or_insert_with(|| entry.clone());
        }
    }

    pub(super) fn read(&self, query: &StoreQuery) -> QueryResult {
        match query {
            StoreQuery::Leases(node) => {
                let of_node = |key: &LeaseKey| node.is_none_or(|node| node == key.node);
                let leases = self.leases.iter().filter(|(key, _)| of_node(key));
                QueryResult::Leases(leases.map(|(key, lease)| (*key, *lease)).collect())
            }
            StoreQuery::Sums(node) => {
                let of_node = |key: &SumKey| node.is_none_or(|node| node == key.node);
                let sums = self.sums.iter().filter(|(key, _)| of_node(key));
                QueryResult::Sums(sums.map(|(key, spent)| (*key, *spent)).collect())
            }
            StoreQuery::EpochLifetimes(node) => {
                let of_node = |of: &StoreWriter| node.is_none_or(|node| node == of.node);
                let lives = self.lives.iter().filter(|(of, _)| of_node(of));
                QueryResult::EpochLifetimes(lives.map(|(of, life)| (*of, *life)).collect())
            }
            StoreQuery::Holds(node) => {
                let of_node = |key: &StoredHoldKey| node.is_none_or(|node| node == key.node);
                let holds = self.holds.iter().filter(|(key, _)| of_node(key));
                QueryResult::Holds(holds.map(|(key, hold)| (key.clone(), hold.clone())).collect())
            }
            StoreQuery::Charges(node) => {
                let of_node = |key: &ChargeKey| node.is_none_or(|node| node == key.node);
                let sums = self.charges.iter().filter(|(key, _)| of_node(key));
                QueryResult::Charges(sums.map(|(key, sum)| (key.clone(), *sum)).collect())
            }
            StoreQuery::Definitions(kind) => {
                let of_kind = self.definitions.iter().filter(|(key, _)| key.kind == *kind);
                let owned = of_kind.map(|(key, definition)| (key.clone(), definition.clone()));
                QueryResult::Definitions(owned.collect())
            }
            StoreQuery::Audit(after, most) => {
                let most = usize::try_from((*most).min(AUDIT_ENTRIES_MAX)).expect("few");
                let behind = self.audit.iter().filter(|(key, _)| Some(**key) > *after);
                QueryResult::Audit(
                    behind.take(most).map(|(key, entry)| (*key, entry.clone())).collect(),
                )
            }
            StoreQuery::AuditBefore(node, before, most) => {
                let most = usize::try_from((*most).min(AUDIT_ENTRIES_MAX)).expect("few");
                let is_before =
                    |key: &AuditKey| key.node == *node && before.is_none_or(|before| *key < before);
                let found = self.audit.iter().rev().filter(|(key, _)| is_before(key));
                QueryResult::Audit(
                    found.take(most).map(|(key, entry)| (*key, entry.clone())).collect(),
                )
            }
        }
    }
}
