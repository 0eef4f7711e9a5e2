//! The memory, as shards see it.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use quick_cache::sync::Cache;
use runtime::service::Port;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedSender, channel};

use super::entry::{MemoryEntry, MemoryKey, MemoryKeyRef, MemoryWeight};
use super::rule::MemoryRule;
use crate::maps::LoadedMaps;

/// Port at which the memory is offered.
pub const LOOKUP_MEMORIES: Port<LookupMemories> = Port::new("lookup-memories");

/// Longest value that is looked up.
const VALUE_BYTES_MAX: usize = 2048;
/// Most values of a rule that wait to be looked up.
const WAITING_MAX: usize = 4_096;
/// Bytes of a typical entry, by which room is made at first.
const ENTRY_BYTES_TYPICAL: usize = 256;

/// Memory of all rules, within a number of bytes.
#[derive(Clone)]
pub struct LookupMemories(Arc<SharedMemory>);

struct SharedMemory {
    maps: Arc<LoadedMaps>,
    entries: Cache<MemoryKey, Arc<MemoryEntry>, MemoryWeight>,
    /// To the thread that looks up.
    queues: UnboundedSender<RuleQueue>,
    open: Mutex<OpenRules>,
    /// Look-ups that were not begun because too many were waiting.
    dropped: AtomicU64,
}

#[derive(Default)]
struct OpenRules {
    by_identity: HashMap<String, Weak<OpenRule>>,
    next: u32,
}

/// A rule whose values are to be looked up, or loaded.
pub(crate) struct RuleQueue {
    pub(super) rule: Weak<OpenRule>,
    /// Values that wait to be looked up.
    pub(super) values: Receiver<MemoryRefresh>,
}

/// All values of a rule, as of one query.
#[derive(Default)]
pub(super) struct LoadedValues {
    pub texts: HashMap<Box<str>, Arc<str>>,
    /// Of memory.
    pub bytes: u64,
    /// When the oldest of them were fetched, in milliseconds since 1970.
    pub fetched: u64,
    /// From then on they are stale.
    pub expires: u64,
}

/// A rule in use.
pub(super) struct OpenRule {
    pub id: u32,
    pub rule: MemoryRule,
    /// None until all values are loaded, if they are to be.
    pub loaded: ArcSwapOption<LoadedValues>,
    /// For how long expired values are of use, in milliseconds, to who opened it last.
    stale: AtomicU64,
    /// How often all values are loaded, in milliseconds, for who opened it last.
    every: AtomicU64,
    shared: Arc<SharedMemory>,
    queue: Sender<MemoryRefresh>,
}

/// A value to be looked up.
pub(crate) struct MemoryRefresh {
    pub(super) rule: Arc<OpenRule>,
    pub(super) value: Box<str>,
    /// When it was asked for, in milliseconds since 1970.
    pub(super) asked: u64,
}

/// Memory of one rule.
pub struct LookupMemory {
    rule: Arc<OpenRule>,
    /// For how long expired values are of use, in milliseconds.
    stale: u64,
}

/// What is known about a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedValue {
    /// None if it is known that nothing is.
    pub text: Option<Arc<str>>,
    /// Time since it was fetched.
    pub age: Duration,
    /// Whether it has expired, or lacks what a provider did not say.
    pub is_stale: bool,
}

/// Why nothing is known about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotRemembered {
    /// It is being looked up.
    Unknown,
    /// It cannot be looked up: it is empty, longer than 2 KiB, or has a `*`.
    Unfit,
}

impl LookupMemories {
    pub(crate) fn new(
        maps: Arc<LoadedMaps>,
        bytes_max: usize,
        queues: UnboundedSender<RuleQueue>,
    ) -> Self {
        let items = bytes_max / ENTRY_BYTES_TYPICAL;
        let entries = Cache::with_weighter(items, bytes_max as u64, MemoryWeight);
        let (open, dropped) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(SharedMemory { maps, entries, queues, open, dropped }))
    }

    /// The memory of a rule, whose expired values are of use for `stale`. Values are shared with open
    /// rules of the same identity: equal identities must mean equal rules, but for how often they are
    /// loaded.
    ///
    /// # Errors
    /// What the maps lack.
    pub fn open(
        &self,
        identity: &str,
        rule: MemoryRule,
        stale: Duration,
    ) -> Result<LookupMemory, String> {
        rule.check(&self.0.maps.map)?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let every = rule.load.as_ref().map_or(0, |load| millis(load.every));
        let stale = millis(stale);
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rule) = open.by_identity.get(identity).and_then(Weak::upgrade) {
            rule.stale.store(stale, Relaxed);
            rule.every.store(every, Relaxed);
            return Ok(LookupMemory { rule, stale });
        }
        open.by_identity.retain(|_, rule| rule.strong_count() > 0);
        open.next += 1;
        let (queue, values) = channel(WAITING_MAX);
        let (shared, loaded) = (Arc::clone(&self.0), ArcSwapOption::empty());
        let rule = Arc::new(OpenRule {
            id: open.next,
            rule,
            loaded,
            stale: AtomicU64::new(stale),
            every: AtomicU64::new(every),
            shared,
            queue,
        });
        // Fails only if the thread has ended: then nothing is looked up.
        drop(self.0.queues.send(RuleQueue { rule: Arc::downgrade(&rule), values }));
        open.by_identity.insert(identity.to_owned(), Arc::downgrade(&rule));
        Ok(LookupMemory { rule, stale })
    }

    /// How many values there are, their bytes, and how many look-ups were not begun.
    pub(crate) fn occupancy(&self) -> (usize, u64, u64) {
        let SharedMemory { entries, dropped, open, .. } = &*self.0;
        let (mut values, mut bytes) = (entries.len(), entries.weight());
        let open = open.lock().unwrap_or_else(PoisonError::into_inner);
        for loaded in
            open.by_identity.values().filter_map(|rule| rule.upgrade()?.loaded.load_full())
        {
            values += loaded.texts.len();
            bytes += loaded.bytes;
        }
        (values, bytes, dropped.load(Relaxed))
    }
}

impl LookupMemory {
    /// What is known about a value now, in milliseconds since 1970. What is not known, or has expired,
    /// is looked up in the background. Does not allocate for what is known.
    ///
    /// # Errors
    /// Why nothing is known.
    pub fn find(&self, value: &str, now: u64) -> Result<RememberedValue, NotRemembered> {
        // A `*` would stand for other values.
        if value.is_empty() || VALUE_BYTES_MAX < value.len() || value.contains('*') {
            return Err(NotRemembered::Unfit);
        }
        if self.rule.rule.load.is_some() {
            return self.find_loaded(value, now);
        }
        let key = MemoryKeyRef { rule: self.rule.id, value };
        let Some(entry) = self.rule.shared.entries.get(&key) else {
            self.rule.add_unknown(value, now);
            return Err(NotRemembered::Unknown);
        };
        let is_stale = entry.is_stale(now);
        if is_stale && entry.is_due(now) {
            self.rule.look_up(&entry, value, now);
        }
        if !entry.is_known() || entry.expires.saturating_add(self.stale) <= now {
            return Err(NotRemembered::Unknown);
        }
        let age = Duration::from_millis(now.saturating_sub(entry.fetched));
        Ok(RememberedValue { text: entry.text.clone(), age, is_stale })
    }

    /// Among the values that are loaded all at once.
    fn find_loaded(&self, value: &str, now: u64) -> Result<RememberedValue, NotRemembered> {
        let loaded = self.rule.loaded.load();
        let loaded = loaded.as_deref().ok_or(NotRemembered::Unknown)?;
        if loaded.expires.saturating_add(self.stale) <= now {
            return Err(NotRemembered::Unknown);
        }
        Ok(RememberedValue {
            text: loaded.texts.get(value).cloned(),
            age: Duration::from_millis(now.saturating_sub(loaded.fetched)),
            is_stale: loaded.expires <= now,
        })
    }
}

impl OpenRule {
    /// How often all values are loaded, in milliseconds.
    pub fn every(&self) -> u64 {
        self.every.load(Relaxed)
    }

    /// Most bytes of values that are loaded.
    pub fn bytes_max(&self) -> u64 {
        self.shared.entries.capacity()
    }

    fn entry(&self, value: &str) -> Option<Arc<MemoryEntry>> {
        self.shared.entries.get(&MemoryKeyRef { rule: self.id, value })
    }

    fn add_unknown(self: &Arc<Self>, value: &str, now: u64) {
        let key = MemoryKeyRef { rule: self.id, value }.to_owned();
        let mut added = None;
        let new = || {
            let entry = Arc::new(MemoryEntry::unknown());
            added = Some(Arc::clone(&entry));
            Ok::<_, ()>(entry)
        };
        // Another shard may have added it in between.
        let known = self.shared.entries.get_or_insert_with(&key, new);
        if known.is_ok()
            && let Some(added) = added
        {
            self.look_up(&added, value, now);
        }
    }

    fn look_up(self: &Arc<Self>, entry: &MemoryEntry, value: &str, now: u64) {
        let refresh = MemoryRefresh { rule: Arc::clone(self), value: value.into(), asked: now };
        if self.queue.try_send(refresh).is_err() {
            self.shared.dropped.fetch_add(1, Relaxed);
            entry.ask_after(now);
        }
    }

    /// Whether a value has expired, lacks a part, or is unknown.
    pub fn needs(&self, value: &str, now: u64) -> bool {
        self.entry(value).is_none_or(|entry| entry.is_stale(now))
    }

    /// Remembers what a look-up found. What lacks a part does not replace what is complete, while that
    /// is of use.
    pub fn remember(&self, value: &str, found: MemoryEntry, now: u64) {
        let stale = self.stale.load(Relaxed);
        let is_better = |known: &Arc<MemoryEntry>| {
            let is_of_use = now < known.expires.saturating_add(stale);
            known.is_known() && !known.lacks_part && is_of_use
        };
        if let Some(known) = self.entry(value).filter(|known| found.lacks_part && is_better(known))
        {
            known.ask_after(now);
            return;
        }
        let key = MemoryKeyRef { rule: self.id, value }.to_owned();
        self.shared.entries.insert(key, Arc::new(found));
    }

    /// A look-up has ended and found nothing: the value may be looked up again soon.
    pub fn give_up(&self, value: &str, now: u64) {
        if let Some(entry) = self.entry(value) {
            entry.ask_after(now);
        }
    }
}
