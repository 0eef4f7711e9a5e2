//! Tables of the store's file, and what each request does to them. Keys are big-endian so that they
//! sort by number; values are little-endian.

mod holds;

use std::ops::Bound;

use pacer_core::calendar::Period;
use pacer_core::messages::{CampaignIndex, Epoch};
use pacer_core::store::{
    AUDIT_ENTRIES_MAX, AuditEntry, AuditKey, Batch, DefinitionChange, DefinitionKey, DefinitionPut,
    EpochLifetime, EpochStart, Fold, Lease, LeaseKey, QueryResult, SpentSum, StoreDenial,
    StoreQuery, StoreRequest, StoreWriter, StoredDefinition, StoredKind, SumKey,
};
use redb::{
    AccessGuard, Database, ReadTransaction, ReadableDatabase as _, ReadableTable, Table,
    TableDefinition, WriteTransaction,
};
use units::Nanos;

use super::error::DiskFailure;
use holds::{HoldStop, HoldTables};

/// Raised whenever an older program could not read the file: one that knows only format 1 would
/// count folded leases as never spent, one that knows only format 2 would ignore holds.
pub(crate) const FORMAT: u64 = 3;

const FORMAT_NAME: &str = "format";
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// Node: its epoch, and the applied position of its log.
const NODES: TableDefinition<u32, (u32, u64)> = TableDefinition::new("nodes");
/// Node, epoch, period and slot: a node's current leases are adjacent, and so are their changes.
const LEASES: TableDefinition<&[u8; 16], &[u8; 40]> = TableDefinition::new("leases");
/// Node, slot and day: what was spent out of folded leases. The largest day number stands for all
/// days that are over.
const SUMS: TableDefinition<&[u8; 12], &[u8; 24]> = TableDefinition::new("sums");
/// Node: the epoch and the number of its last batch that folded.
const FOLDED: TableDefinition<u32, (u32, u64)> = TableDefinition::new("folded");
/// How long an epoch has lasted, and the horizon of its reservations, in milliseconds.
type LifetimeRow = (u64, u64);
/// The key is node and epoch. Older files lack the table and older programs ignore it: an epoch of
/// unknown length keeps money frozen for longer.
const LIVES: TableDefinition<(u32, u32), LifetimeRow> = TableDefinition::new("lives");
/// Kind and identifier: version and body.
const DEFINITIONS: TableDefinition<(u8, &str), (u64, &[u8])> = TableDefinition::new("definitions");
/// Node, epoch, change and entry.
type AuditRow = (u32, u32, u64, u32);
type AuditGuards<'r> = (AccessGuard<'r, AuditRow>, AccessGuard<'r, (u64, &'static [u8])>);
/// The value is time and body.
const AUDIT: TableDefinition<AuditRow, (u64, &[u8])> = TableDefinition::new("audit");

/// Most bytes of audit entries read at once, unless a single entry is larger.
const AUDIT_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(crate) enum RequestResult {
    Begun(EpochStart),
    Ended(Result<(), StoreDenial>),
}

enum WriteStop {
    Denied(StoreDenial),
    Failed(Box<redb::Error>),
}

impl From<StoreDenial> for WriteStop {
    fn from(denied: StoreDenial) -> Self {
        Self::Denied(denied)
    }
}

impl<E: Into<redb::Error>> From<RedbFault<E>> for WriteStop {
    fn from(RedbFault(error): RedbFault<E>) -> Self {
        Self::Failed(Box::new(error.into()))
    }
}

impl From<HoldStop> for WriteStop {
    fn from(stop: HoldStop) -> Self {
        match stop {
            HoldStop::Denied(denied) => Self::Denied(denied),
            HoldStop::Failed(error) => Self::Failed(Box::new(error.into())),
        }
    }
}

/// Any error of redb: its kinds are many, and mean the same here.
struct RedbFault<E>(E);

trait OrFault<T, E> {
    fn or_fault(self) -> Result<T, RedbFault<E>>;
}

impl<T, E: Into<redb::Error>> OrFault<T, E> for Result<T, E> {
    fn or_fault(self) -> Result<T, RedbFault<E>> {
        self.map_err(RedbFault)
    }
}

/// A row's key: big-endian, so that keys sort by number.
fn encode_key<const BYTES: usize>(numbers: &[u32]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (at, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *at = number.to_be_bytes();
    }
    bytes
}

fn decode_key<const NUMBERS: usize>(bytes: &[u8]) -> [u32; NUMBERS] {
    std::array::from_fn(|at| u32::from_be_bytes(bytes.as_chunks().0[at]))
}

fn encode_nanos<const BYTES: usize>(figures: &[Nanos]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (at, figure) in bytes.as_chunks_mut().0.iter_mut().zip(figures) {
        *at = figure.get().to_le_bytes();
    }
    bytes
}

fn decode_nanos<const FIGURES: usize>(bytes: &[u8]) -> [Nanos; FIGURES] {
    std::array::from_fn(|at| Nanos::new(u64::from_le_bytes(bytes.as_chunks().0[at])))
}

fn key_bytes(key: &LeaseKey) -> [u8; 16] {
    encode_key(&[key.node, key.epoch.0, key.period.0, key.slot.0])
}

fn key_of(bytes: &[u8; 16]) -> LeaseKey {
    let [node, epoch, period, slot] = decode_key(bytes);
    LeaseKey { slot: CampaignIndex(slot), period: Period(period), node, epoch: Epoch(epoch) }
}

fn lease_bytes(lease: &Lease) -> [u8; 40] {
    encode_nanos(&[lease.granted, lease.returned, lease.settled, lease.late, lease.over])
}

fn lease_of(bytes: &[u8; 40]) -> Lease {
    let [granted, returned, settled, late, over] = decode_nanos(bytes);
    Lease { granted, returned, settled, late, over }
}

fn sum_bytes(key: &SumKey) -> [u8; 12] {
    encode_key(&[key.node, key.slot.0, key.day.unwrap_or(u32::MAX)])
}

fn sum_of(bytes: &[u8; 12]) -> SumKey {
    let [node, slot, day] = decode_key(bytes);
    SumKey { slot: CampaignIndex(slot), node, day: (day < u32::MAX).then_some(day) }
}

fn spent_bytes(spent: &SpentSum) -> [u8; 24] {
    encode_nanos(&[spent.settled, spent.late, spent.over])
}

fn spent_of(bytes: &[u8; 24]) -> SpentSum {
    let [settled, late, over] = decode_nanos(bytes);
    SpentSum { settled, late, over }
}

pub(crate) struct StoreTables<'t> {
    nodes: Table<'t, u32, (u32, u64)>,
    leases: Table<'t, &'static [u8; 16], &'static [u8; 40]>,
    sums: Table<'t, &'static [u8; 12], &'static [u8; 24]>,
    folded: Table<'t, u32, (u32, u64)>,
    lives: Table<'t, (u32, u32), LifetimeRow>,
    holds: HoldTables<'t>,
    definitions: Table<'t, (u8, &'static str), (u64, &'static [u8])>,
    audit: Table<'t, AuditRow, (u64, &'static [u8])>,
}

impl<'t> StoreTables<'t> {
    pub(crate) fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            nodes: transaction.open_table(NODES)?,
            leases: transaction.open_table(LEASES)?,
            sums: transaction.open_table(SUMS)?,
            folded: transaction.open_table(FOLDED)?,
            lives: transaction.open_table(LIVES)?,
            holds: HoldTables::open(transaction)?,
            definitions: transaction.open_table(DEFINITIONS)?,
            audit: transaction.open_table(AUDIT)?,
        })
    }

    /// Executes a request entirely, or not at all.
    pub(crate) fn write(&mut self, request: &StoreRequest) -> Result<RequestResult, redb::Error> {
        let done = match request {
            StoreRequest::Begin(node, least) => {
                return Ok(RequestResult::Begun(self.begin(*node, *least)?));
            }
            StoreRequest::Submit(writer, batch) => self.submit(*writer, batch),
            StoreRequest::Change(writer, change) => self.change(*writer, change),
            StoreRequest::Read(_) => Ok(()),
        };
        match done {
            Ok(()) => Ok(RequestResult::Ended(Ok(()))),
            Err(WriteStop::Denied(denied)) => Ok(RequestResult::Ended(Err(denied))),
            Err(WriteStop::Failed(error)) => Err(*error),
        }
    }

    fn node(&self, number: u32) -> Result<(u32, u64), redb::StorageError> {
        Ok(self.nodes.get(number)?.map_or((0, 0), |found| found.value()))
    }

    fn begin(&mut self, number: u32, least: Epoch) -> Result<EpochStart, redb::Error> {
        let (last, applied_seq) = self.node(number)?;
        let next = last.checked_add(1).expect("a start a second lasts a century");
        let epoch = next.max(least.0);
        self.nodes.insert(number, (epoch, applied_seq))?;
        Ok(EpochStart { epoch: Epoch(epoch), applied_seq })
    }

    /// Applied position of the writer's log. Refuses a fenced writer.
    fn admit(&self, writer: StoreWriter) -> Result<u64, WriteStop> {
        let (current, applied_seq) = self.node(writer.node).or_fault()?;
        if current > 0 && writer.epoch.0 == current {
            return Ok(applied_seq);
        }
        Err(StoreDenial::Fenced { asked: writer.epoch, current: Epoch(current) }.into())
    }

    fn submit(&mut self, writer: StoreWriter, batch: &Batch) -> Result<(), WriteStop> {
        batch.check()?;
        let applied_seq = self.admit(writer)?;
        if self.is_applied(writer, batch.number)? {
            return Ok(());
        }
        let mut merged = Vec::with_capacity(batch.leases.len());
        // Nearly all batches concern one node.
        let mut known = (writer.node, writer.epoch.0);
        for (key, lease) in &batch.leases {
            if known.0 != key.node {
                known = (key.node, self.node(key.node).or_fault()?.0);
            }
            if !(1..=known.1).contains(&key.epoch.0) {
                return Err(StoreDenial::NeverBegan(*key).into());
            }
            let bytes = key_bytes(key);
            let before = self.leases.get(&bytes).or_fault()?.map(|found| lease_of(found.value()));
            let latest = before.unwrap_or_default().latest(*lease);
            if !latest.is_balanced() {
                return Err(StoreDenial::Unbalanced(*key).into());
            }
            if before != Some(latest) {
                merged.push((bytes, lease_bytes(&latest)));
            }
        }
        // In the order of keys, each page is visited once.
        merged.sort_unstable();
        if batch.strays.iter().any(|stray| stray.sum.node != writer.node) {
            let why = "a stray is another node's: it has a log of its own";
            return Err(StoreDenial::Invalid(why).into());
        }
        self.check_folds(writer, &batch.folds, &merged)?;
        let holds = self.holds.merged(writer, batch)?;
        // Nothing refuses the batch from here on.
        for (key, lease) in &merged {
            self.leases.insert(key, lease).or_fault()?;
        }
        for fold in &batch.folds {
            self.fold(*fold).or_fault()?;
        }
        self.holds.write(&holds, &batch.hold_folds).or_fault()?;
        for stray in batch.strays.iter().filter(|stray| applied_seq < stray.seq) {
            self.add(&stray.sum, stray.spent).or_fault()?;
        }
        if batch.has_folds() {
            self.folded.insert(writer.node, (writer.epoch.0, batch.number)).or_fault()?;
        }
        if batch.applied_seq > applied_seq {
            let row = (writer.epoch.0, batch.applied_seq);
            self.nodes.insert(writer.node, row).or_fault()?;
        }
        Ok(self.record_lifetime(writer, batch).or_fault()?)
    }

    /// Records how long the writer's epoch has lasted, and drops epochs that are no longer needed.
    fn record_lifetime(
        &mut self,
        writer: StoreWriter,
        batch: &Batch,
    ) -> Result<(), redb::StorageError> {
        let key = (writer.node, writer.epoch.0);
        let known = self.lives.get(key)?.map(|row| life_of(row.value())).unwrap_or_default();
        let life = known.latest(batch.life);
        if life != known {
            self.lives.insert(key, (life.lasted_ms, life.horizon_ms))?;
        }
        let before = (writer.node, 0)..(writer.node, batch.lifetimes_from.0);
        let mut keys = Vec::new();
        for row in self.lives.range(before)? {
            keys.push(row?.0.value());
        }
        for key in keys {
            self.lives.remove(key)?;
        }
        Ok(())
    }

    /// Whether this batch was the last to fold: its leases may be folded since. Refuses an older one.
    fn is_applied(&self, writer: StoreWriter, number: u64) -> Result<bool, WriteStop> {
        let found = self.folded.get(writer.node).or_fault()?.map(|found| found.value());
        match found.filter(|(epoch, _)| *epoch == writer.epoch.0) {
            Some((_, folded)) if number < folded => {
                Err(StoreDenial::Superseded { number, folded }.into())
            }
            last => Ok(last.is_some_and(|(_, folded)| number == folded)),
        }
    }

    /// Checks that leases to fold are closed; `merged` has the batch's own in the order of keys.
    fn check_folds(
        &self,
        writer: StoreWriter,
        folds: &[Fold],
        merged: &[([u8; 16], [u8; 40])],
    ) -> Result<(), WriteStop> {
        for fold in folds {
            fold.check(writer)?;
            let Fold::Lease(key, _) = fold else { continue };
            let bytes = key_bytes(key);
            let lease = match merged.binary_search_by_key(&bytes, |(key, _)| *key) {
                Ok(at) => Some(lease_of(&merged[at].1)),
                Err(_) => self.leases.get(&bytes).or_fault()?.map(|found| lease_of(found.value())),
            };
            if lease.is_some_and(|lease| !lease.is_closed()) {
                return Err(StoreDenial::Open(*key).into());
            }
        }
        Ok(())
    }

    fn fold(&mut self, fold: Fold) -> Result<(), redb::StorageError> {
        let gone = match fold {
            Fold::Lease(key, _) => {
                let row = self.leases.remove(&key_bytes(&key))?;
                row.map(|row| SpentSum::of(&lease_of(row.value())))
            }
            Fold::Day(key) => self.sums.remove(&sum_bytes(&key))?.map(|row| spent_of(row.value())),
        };
        match gone {
            Some(spent) => self.add(&fold.into_sum(), spent),
            None => Ok(()),
        }
    }

    fn add(&mut self, sum: &SumKey, spent: SpentSum) -> Result<(), redb::StorageError> {
        let key = sum_bytes(sum);
        let before = self.sums.get(&key)?.map(|row| spent_of(row.value()));
        self.sums.insert(&key, &spent_bytes(&before.unwrap_or_default().plus(spent)))?;
        Ok(())
    }

    fn change(&mut self, writer: StoreWriter, change: &DefinitionChange) -> Result<(), WriteStop> {
        change.check()?;
        self.admit(writer)?;
        let mut written = Vec::new();
        for put in &change.puts {
            let name = (put.key.kind as u8, put.key.id.as_str());
            let present = self.definitions.get(name).or_fault()?;
            if put.writes_over(present.as_ref().map(AccessGuard::value))? {
                written.push(put);
            }
        }
        for DefinitionPut { key, definition, .. } in written {
            let row = (definition.version, definition.body.as_slice());
            self.definitions.insert((key.kind as u8, key.id.as_str()), row).or_fault()?;
        }
        for (index, entry) in (0..).zip(&change.audit) {
            let key = (writer.node, writer.epoch.0, change.number, index);
            if self.audit.get(key).or_fault()?.is_none() {
                let row = (entry.at_unix_ms, entry.body.as_slice());
                self.audit.insert(key, row).or_fault()?;
            }
        }
        Ok(())
    }
}

/// Creates the tables that the file lacks, and marks it with the present format.
pub(crate) fn create_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = begin_write(database)?;
    transaction.open_table(META)?.insert(FORMAT_NAME, FORMAT)?;
    drop(StoreTables::open(&transaction)?);
    Ok(transaction.commit()?)
}

/// Begins a durable transaction that commits in two phases: first the data, then its validity. In
/// one phase, a commit that the medium lost in part looks like one that never was, even if it was
/// acknowledged long ago.
pub(crate) fn begin_write(database: &Database) -> Result<WriteTransaction, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.set_durability(redb::Durability::Immediate)?;
    Ok(transaction)
}

pub(crate) fn format(database: &Database) -> Result<Option<u64>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(META) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        table => table?,
    };
    let format = table.get(FORMAT_NAME)?.map(|found| found.value());
    Ok(format)
}

pub(crate) fn read(database: &Database, query: &StoreQuery) -> Result<QueryResult, DiskFailure> {
    let transaction = database.begin_read().map_err(redb::Error::from)?;
    Ok(match query {
        StoreQuery::Leases(node) => QueryResult::Leases(leases(&transaction, *node)?),
        StoreQuery::Sums(node) => QueryResult::Sums(sums(&transaction, *node)?),
        StoreQuery::EpochLifetimes(node) => {
            QueryResult::EpochLifetimes(lives(&transaction, *node)?)
        }
        StoreQuery::Holds(node) => QueryResult::Holds(holds::holds(&transaction, *node)?),
        StoreQuery::Charges(node) => QueryResult::Charges(holds::charges(&transaction, *node)?),
        StoreQuery::Definitions(kind) => {
            QueryResult::Definitions(definitions(&transaction, *kind)?)
        }
        StoreQuery::Audit(after, most) => QueryResult::Audit(audit(&transaction, *after, *most)?),
        StoreQuery::AuditBefore(node, before, most) => {
            QueryResult::Audit(audit_before(&transaction, *node, *before, *most)?)
        }
    })
}

/// The first and the last possible key of a node, or of all nodes.
fn keys_of<const BYTES: usize>(node: Option<u32>) -> [[u8; BYTES]; 2] {
    [(node.unwrap_or(0), 0), (node.unwrap_or(u32::MAX), u8::MAX)].map(|(node, rest)| {
        let mut key = [rest; BYTES];
        key[..4].copy_from_slice(&node.to_be_bytes());
        key
    })
}

fn leases(
    transaction: &ReadTransaction,
    node: Option<u32>,
) -> Result<Vec<(LeaseKey, Lease)>, redb::Error> {
    let table = transaction.open_table(LEASES)?;
    let [first, last] = keys_of(node);
    let mut leases = Vec::new();
    for row in table.range::<&[u8; 16]>(&first..=&last)? {
        let (key, lease) = row?;
        leases.push((key_of(key.value()), lease_of(lease.value())));
    }
    Ok(leases)
}

fn sums(
    transaction: &ReadTransaction,
    node: Option<u32>,
) -> Result<Vec<(SumKey, SpentSum)>, redb::Error> {
    let table = transaction.open_table(SUMS)?;
    let [first, last] = keys_of(node);
    let mut sums = Vec::new();
    for row in table.range::<&[u8; 12]>(&first..=&last)? {
        let (key, spent) = row?;
        sums.push((sum_of(key.value()), spent_of(spent.value())));
    }
    Ok(sums)
}

fn life_of(row: LifetimeRow) -> EpochLifetime {
    EpochLifetime { lasted_ms: row.0, horizon_ms: row.1 }
}

fn lives(
    transaction: &ReadTransaction,
    node: Option<u32>,
) -> Result<Vec<(StoreWriter, EpochLifetime)>, redb::Error> {
    let table = match transaction.open_table(LIVES) {
        // The file is older than this table.
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let (first, last) = (node.unwrap_or(0), node.unwrap_or(u32::MAX));
    let mut lives = Vec::new();
    for row in table.range((first, 0)..=(last, u32::MAX))? {
        let (key, life) = row?;
        let (node, epoch) = key.value();
        lives.push((StoreWriter { node, epoch: Epoch(epoch) }, life_of(life.value())));
    }
    Ok(lives)
}

fn definitions(
    transaction: &ReadTransaction,
    kind: StoredKind,
) -> Result<Vec<(DefinitionKey, StoredDefinition)>, redb::Error> {
    let table = transaction.open_table(DEFINITIONS)?;
    let mut definitions = Vec::new();
    for row in table.range((kind as u8, "")..(kind as u8 + 1, ""))? {
        let (key, definition) = row?;
        let ((_, id), (version, body)) = (key.value(), definition.value());
        let key = DefinitionKey { kind, id: id.to_owned() };
        definitions.push((key, StoredDefinition { version, body: body.to_vec() }));
    }
    Ok(definitions)
}

fn audit(
    transaction: &ReadTransaction,
    after: Option<AuditKey>,
    most: u32,
) -> Result<Vec<(AuditKey, AuditEntry)>, redb::Error> {
    let table = transaction.open_table(AUDIT)?;
    let after = after.map_or(Bound::Unbounded, |key| Bound::Excluded(audit_row(&key)));
    page(table.range::<AuditRow>((after, Bound::Unbounded))?, most)
}

fn audit_before(
    transaction: &ReadTransaction,
    node: u32,
    before: Option<AuditKey>,
    most: u32,
) -> Result<Vec<(AuditKey, AuditEntry)>, redb::Error> {
    let table = transaction.open_table(AUDIT)?;
    let last = Bound::Included((node, u32::MAX, u64::MAX, u32::MAX));
    let before = before.map_or(last, |key| Bound::Excluded(audit_row(&key)));
    page(table.range::<AuditRow>((Bound::Included((node, 0, 0, 0)), before))?.rev(), most)
}

const fn audit_row(key: &AuditKey) -> AuditRow {
    (key.node, key.epoch.0, key.number, key.index)
}

/// The first `most` rows, or as many as a page has room for.
fn page<'r>(
    rows: impl Iterator<Item = Result<AuditGuards<'r>, redb::StorageError>>,
    most: u32,
) -> Result<Vec<(AuditKey, AuditEntry)>, redb::Error> {
    let most = usize::try_from(most.min(AUDIT_ENTRIES_MAX)).expect("few");
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for row in rows.take(most) {
        let (key, entry) = row?;
        let ((node, epoch, number, index), (at_unix_ms, body)) = (key.value(), entry.value());
        bytes += body.len();
        if bytes > AUDIT_BYTES_MAX && !entries.is_empty() {
            break;
        }
        let key = AuditKey { node, epoch: Epoch(epoch), number, index };
        entries.push((key, AuditEntry { at_unix_ms, body: body.to_vec() }));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_these_bytes() {
        let key = LeaseKey {
            slot: CampaignIndex(0x0D0E_0F10),
            period: Period(0x090A_0B0C),
            node: 0x0102_0304,
            epoch: Epoch(0x0506_0708),
        };
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        assert_eq!((key_bytes(&key), key_of(&bytes)), (bytes, key));

        let lease = Lease {
            granted: Nanos::new(0x0807_0605_0403_0201),
            returned: Nanos::new(2),
            settled: Nanos::new(3),
            late: Nanos::new(4),
            over: Nanos::new(5),
        };
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        (bytes[8], bytes[16], bytes[24], bytes[32]) = (2, 3, 4, 5);
        assert_eq!((lease_bytes(&lease), lease_of(&bytes)), (bytes, lease));

        let key =
            SumKey { slot: CampaignIndex(0x0506_0708), node: 0x0102_0304, day: Some(0x090A_0B0C) };
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        assert_eq!((sum_bytes(&key), sum_of(&bytes)), (bytes, key));
        let all = SumKey { day: None, ..key };
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 255, 255, 255, 255];
        assert_eq!((sum_bytes(&all), sum_of(&bytes)), (bytes, all));

        let spent = SpentSum {
            settled: Nanos::new(0x0807_0605_0403_0201),
            late: Nanos::new(2),
            over: Nanos::new(3),
        };
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        (bytes[8], bytes[16]) = (2, 3);
        assert_eq!((spent_bytes(&spent), spent_of(&bytes)), (bytes, spent));
    }
}
