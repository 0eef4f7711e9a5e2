//! Tables of holds and of the sums of their charges. `pacer_core` decides how rows merge.

use std::collections::BTreeMap;
use std::sync::Arc;

use pacer_core::calendar::Period;
use pacer_core::store::{
    AttemptNumber, Batch, ChargeKey, HoldName, HoldState, StoreDenial, StoreWriter, StoredHold,
    StoredHoldKey,
};
use redb::{
    ReadTransaction, ReadableTable as _, StorageError, Table, TableDefinition, WriteTransaction,
};
use units::Nanos;

/// Node, lot and bid.
type HoldKeyRow = (u32, &'static str, u32);
/// Epoch and counter of the attempt, account, amount, period, day, the code of the state, and the
/// cost if it is charged.
type HoldRow<'r> = (u64, u64, &'r str, u64, u32, u32, u8, u64);
const HOLDS: TableDefinition<HoldKeyRow, HoldRow<'static>> = TableDefinition::new("holds");
/// Node and account: the sum of folded charges.
const CHARGES: TableDefinition<(u32, &str), u64> = TableDefinition::new("charges");

const STANDING: u8 = 0;
const RELEASED: u8 = 1;
const CHARGED: u8 = 2;

/// Why holds of a batch are not written.
pub(super) enum HoldStop {
    Denied(StoreDenial),
    Failed(StorageError),
}

impl From<StoreDenial> for HoldStop {
    fn from(denied: StoreDenial) -> Self {
        Self::Denied(denied)
    }
}

impl From<StorageError> for HoldStop {
    fn from(error: StorageError) -> Self {
        Self::Failed(error)
    }
}

pub(super) struct HoldTables<'t> {
    holds: Table<'t, HoldKeyRow, HoldRow<'static>>,
    charges: Table<'t, (u32, &'static str), u64>,
}

/// Merged rows of a batch.
pub(super) type MergedHolds = BTreeMap<StoredHoldKey, StoredHold>;

impl<'t> HoldTables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            holds: transaction.open_table(HOLDS)?,
            charges: transaction.open_table(CHARGES)?,
        })
    }

    fn row(&self, key: &StoredHoldKey) -> Result<Option<StoredHold>, StorageError> {
        let row = self.holds.get(key_row(key))?;
        Ok(row.map(|row| hold_of(row.value())))
    }

    /// Merges and checks the holds and folds of a batch, and writes nothing.
    pub(super) fn merged(
        &self,
        writer: StoreWriter,
        batch: &Batch,
    ) -> Result<MergedHolds, HoldStop> {
        let mut merged = MergedHolds::new();
        for (key, hold) in &batch.holds {
            hold.check(key, writer)?;
            let latest = match self.row(key)? {
                Some(before) => before.latest(hold.clone(), key)?,
                None => hold.clone(),
            };
            merged.insert(key.clone(), latest);
        }
        for key in &batch.hold_folds {
            key.check(writer)?;
            let state = match merged.get(key) {
                Some(hold) => Some(hold.state),
                None => self.row(key)?.map(|hold| hold.state),
            };
            if state == Some(HoldState::Standing) {
                return Err(StoreDenial::HoldStanding(key.clone()).into());
            }
        }
        Ok(merged)
    }

    /// Writes what [`Self::merged`] returned, then folds.
    pub(super) fn write(
        &mut self,
        merged: &MergedHolds,
        folds: &[StoredHoldKey],
    ) -> Result<(), StorageError> {
        for (key, hold) in merged {
            self.holds.insert(key_row(key), hold_row(hold))?;
        }
        for key in folds {
            let row = self.holds.remove(key_row(key))?.map(|row| hold_of(row.value()));
            let Some(StoredHold { account, state: HoldState::Charged(cost), .. }) = row else {
                continue;
            };
            let before = self.charges.get((key.node, &*account))?.map_or(0, |sum| sum.value());
            self.charges.insert((key.node, &*account), before.saturating_add(cost.get()))?;
        }
        Ok(())
    }
}

fn key_row(key: &StoredHoldKey) -> (u32, &str, u32) {
    (key.node, &key.name.lot, key.name.bid)
}

fn hold_row(hold: &StoredHold) -> HoldRow<'_> {
    let (state, cost) = match hold.state {
        HoldState::Standing => (STANDING, 0),
        HoldState::Released => (RELEASED, 0),
        HoldState::Charged(cost) => (CHARGED, cost.get()),
    };
    let AttemptNumber { epoch, counter } = hold.attempt;
    (epoch, counter, &hold.account, hold.amount.get(), hold.period.0, hold.day, state, cost)
}

fn hold_of(row: HoldRow<'_>) -> StoredHold {
    let (epoch, counter, account, amount, period, day, state, cost) = row;
    StoredHold {
        attempt: AttemptNumber { epoch, counter },
        account: Arc::from(account),
        amount: Nanos::new(amount),
        period: Period(period),
        day,
        state: match state {
            STANDING => HoldState::Standing,
            RELEASED => HoldState::Released,
            _ => HoldState::Charged(Nanos::new(cost)),
        },
    }
}

pub(super) fn holds(
    transaction: &ReadTransaction,
    node: Option<u32>,
) -> Result<Vec<(StoredHoldKey, StoredHold)>, redb::Error> {
    let table = transaction.open_table(HOLDS)?;
    let mut holds = Vec::new();
    for row in table.range((node.unwrap_or(0), "", 0)..)? {
        let (key, hold) = row?;
        let (of, lot, bid) = key.value();
        if node.is_some_and(|node| node != of) {
            break;
        }
        let key = StoredHoldKey { node: of, name: HoldName { lot: Arc::from(lot), bid } };
        holds.push((key, hold_of(hold.value())));
    }
    Ok(holds)
}

pub(super) fn charges(
    transaction: &ReadTransaction,
    node: Option<u32>,
) -> Result<Vec<(ChargeKey, Nanos)>, redb::Error> {
    let table = transaction.open_table(CHARGES)?;
    let mut sums = Vec::new();
    for row in table.range((node.unwrap_or(0), "")..)? {
        let (key, sum) = row?;
        let (of, account) = key.value();
        if node.is_some_and(|node| node != of) {
            break;
        }
        let key = ChargeKey { node: of, account: Arc::from(account) };
        sums.push((key, Nanos::new(sum.value())));
    }
    Ok(sums)
}
