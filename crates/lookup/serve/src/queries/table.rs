//! All queries by their ids: those that run, and those whose answers wait for their clients.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::entry::{QueryEntry, QueryId};
use crate::config::LookupLimits;

#[derive(Default)]
struct QueryEntries {
    by_id: HashMap<QueryId, KeptQuery>,
    /// Those that have ended, by when they were asked for last.
    by_use: BTreeMap<u64, QueryId>,
    /// Those whose answers are shared by all who ask the same.
    by_text: HashMap<String, SharedAnswer>,
    uses: u64,
    running: usize,
    /// Of those that have ended.
    bytes: usize,
}

struct KeptQuery {
    entry: Arc<QueryEntry>,
    /// None while it runs.
    ended: Option<EndedQuery>,
    asked: Instant,
}

struct SharedAnswer {
    id: QueryId,
    /// In milliseconds since 1970.
    expires: u64,
}

struct EndedQuery {
    bytes: usize,
    /// Its place by use.
    used: u64,
}

/// Why a query is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} queries run, the most that may: ask again in a second")]
pub(crate) struct TooManyQueries(usize);

/// Shared by the shards and the look-up thread.
pub(crate) struct QueryTable {
    limits: LookupLimits,
    entries: Mutex<QueryEntries>,
}

impl QueryTable {
    pub fn new(limits: LookupLimits) -> Self {
        Self { limits, entries: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, QueryEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a query that is about to run.
    pub fn begin(&self, entry: &Arc<QueryEntry>) -> Result<(), TooManyQueries> {
        let mut entries = self.lock();
        if self.limits.running_max <= entries.running {
            return Err(TooManyQueries(entries.running));
        }
        entries.running += 1;
        let kept = KeptQuery { entry: Arc::clone(entry), ended: None, asked: Instant::now() };
        entries.by_id.insert(entry.id, kept);
        Ok(())
    }

    /// A query has ended. Older answers make room for its own.
    pub fn end(&self, id: QueryId, bytes: usize) {
        let mut entries = self.lock();
        entries.running -= 1;
        let used = entries.next_use();
        let kept = entries.by_id.get_mut(&id).expect("it runs");
        (kept.ended, kept.asked) = (Some(EndedQuery { bytes, used }), Instant::now());
        entries.bytes += bytes;
        entries.by_use.insert(used, id);
        while self.limits.answers_bytes < entries.bytes && entries.forget_oldest() {}
    }

    /// The query of an id.
    pub fn get(&self, id: QueryId) -> Option<Arc<QueryEntry>> {
        let mut entries = self.lock();
        let used = entries.next_use();
        let kept = entries.by_id.get_mut(&id)?;
        kept.asked = Instant::now();
        let entry = Arc::clone(&kept.entry);
        if let Some(ended) = &mut kept.ended {
            let before = std::mem::replace(&mut ended.used, used);
            entries.by_use.remove(&before);
            entries.by_use.insert(used, id);
        }
        Some(entry)
    }

    /// Everybody who asks the same gets this answer until it expires, in milliseconds since 1970.
    pub fn share(&self, entry: &QueryEntry, expires: u64) {
        let mut entries = self.lock();
        // There may have been no room for it.
        if entries.by_id.contains_key(&entry.id) {
            entries.by_text.insert(entry.text.clone(), SharedAnswer { id: entry.id, expires });
        }
    }

    /// The answer that is shared by all who ask this.
    pub fn shared(&self, text: &str, now: u64) -> Option<Arc<QueryEntry>> {
        let shared = {
            let entries = self.lock();
            entries.by_text.get(text).filter(|shared| now < shared.expires)?.id
        };
        self.get(shared)
    }

    /// Forgets answers that nobody has asked for of late.
    pub fn sweep(&self, now: Instant) {
        let mut entries = self.lock();
        while entries.oldest_unasked(now) >= Some(self.limits.keep) && entries.forget_oldest() {}
    }

    /// How many run, and the bytes of the answers that are kept.
    pub fn occupancy(&self) -> (usize, usize) {
        let entries = self.lock();
        (entries.running, entries.bytes)
    }
}

impl QueryEntries {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn oldest_unasked(&self, now: Instant) -> Option<Duration> {
        let (_, id) = self.by_use.first_key_value()?;
        Some(now.duration_since(self.by_id.get(id)?.asked))
    }

    /// Returns whether there was one.
    fn forget_oldest(&mut self) -> bool {
        let Some((_, id)) = self.by_use.pop_first() else { return false };
        if let Some(KeptQuery { entry, ended, .. }) = self.by_id.remove(&id) {
            self.bytes -= ended.map_or(0, |ended| ended.bytes);
            if self.by_text.get(&entry.text).is_some_and(|shared| shared.id == id) {
                self.by_text.remove(&entry.text);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use lookup_core::query::{QueryLimits, Vocabulary, parse};

    use super::*;

    const LIMITS: LookupLimits = LookupLimits {
        timeout: Duration::from_secs(1),
        timeout_max: Duration::from_secs(1),
        calls_max: 1,
        background_calls_max: 1,
        running_max: 2,
        answers_bytes: 100,
        keep: Duration::from_secs(60),
    };

    fn begun(table: &QueryTable) -> Result<QueryId, TooManyQueries> {
        let query = parse("file run=1", &Vocabulary::open(), QueryLimits::default()).unwrap();
        let entry = QueryEntry::new(query);
        table.begin(&entry).map(|()| entry.id)
    }

    #[test]
    fn so_many_run_and_no_more() {
        let table = QueryTable::new(LIMITS);
        let first = begun(&table).unwrap();
        begun(&table).unwrap();
        assert_eq!(begun(&table), Err(TooManyQueries(2)));
        table.end(first, 10);
        assert_eq!(table.occupancy(), (1, 10));
        begun(&table).unwrap();
    }

    #[test]
    fn answers_make_room_by_use_and_end_with_time() {
        let table = QueryTable::new(LIMITS);
        let ended = |bytes| {
            let id = begun(&table).unwrap();
            table.end(id, bytes);
            id
        };
        let [one, two] = [ended(40), ended(40)];
        assert!(table.get(one).is_some());
        let three = ended(40);
        assert!(table.get(two).is_none(), "the other one was asked for since");
        assert!(table.get(one).is_some() && table.get(three).is_some());
        assert_eq!(table.occupancy(), (0, 80));
        let running = begun(&table).unwrap();
        table.sweep(Instant::now() + LIMITS.keep);
        assert!(table.get(one).is_none() && table.get(three).is_none());
        assert!(table.get(running).is_some(), "it has no answer yet");
        assert_eq!(table.occupancy(), (1, 0));
    }

    #[test]
    fn an_answer_is_shared_until_it_expires_or_is_forgotten() {
        let table = QueryTable::new(LIMITS);
        let id = begun(&table).unwrap();
        let entry = table.get(id).unwrap();
        table.end(id, 60);
        table.share(&entry, 1_000);
        assert!(table.shared(&entry.text, 999).is_some_and(|shared| shared.id == id));
        assert!(table.shared(&entry.text, 1_000).is_none());
        let other = begun(&table).unwrap();
        table.end(other, 60);
        assert!(table.shared(&entry.text, 999).is_none(), "there was no room for it");
        assert_eq!(table.lock().by_text.len(), 0);
    }
}
