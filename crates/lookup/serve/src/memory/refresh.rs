//! Look-ups of single values, on the look-up thread.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lookup_core::plan::plan;
use lookup_core::query::{QueryLimits, parse};
use lookup_core::records::{MergedRecord, MergedRecords, RecordValue, primary_fields, value_at};
use lookup_core::schedule::{CallClass, LookupUser};
use runtime::process::unix_ms;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::entry::{AGAIN_AFTER_MS, MemoryEntry};
use super::rule::{FieldValues, MemoryLoad, MemoryRule};
use super::values::{LoadedValues, MemoryRefresh, OpenRule, RuleQueue};
use crate::calls::ProviderCalls;
use crate::config::LookupLimits;
use crate::counters::LookupCounts;
use crate::maps::LoadedMaps;
use crate::queries::entry::QueryEntry;
use crate::queries::execution::{QueryRun, fetch};

/// Most look-ups of a rule that run at a time.
const RUNNING_MAX: usize = 256;
/// Time of a query that loads all values.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// What could not be loaded is loaded again after so long at most.
const LOAD_AGAIN: Duration = Duration::from_secs(10);
/// Time of a look-up.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most values of a field that count.
const VALUES_MAX: usize = 256;

/// What look-ups need.
pub(crate) struct MemoryFetcher {
    pub calls: Rc<ProviderCalls>,
    pub maps: Arc<LoadedMaps>,
    pub limits: LookupLimits,
    pub counts: Arc<LookupCounts>,
}

impl MemoryFetcher {
    /// Looks up values until no rule can be opened any more. A rule that is slow delays no other.
    pub async fn run(self: Rc<Self>, mut queues: UnboundedReceiver<RuleQueue>) {
        while let Some(RuleQueue { rule, values }) = queues.recv().await {
            let is_loaded = rule.upgrade().is_some_and(|open| open.rule.load.is_some());
            if is_loaded {
                tokio::task::spawn_local(Rc::clone(&self).load_again_and_again(rule));
            } else {
                tokio::task::spawn_local(Rc::clone(&self).run_rule(values));
            }
        }
    }

    /// Loads all values of a rule, until nobody has it open any more.
    async fn load_again_and_again(self: Rc<Self>, rule: Weak<OpenRule>) {
        while let Some(open) = rule.upgrade() {
            let Some(load) = open.rule.load.clone() else { return };
            let loaded = self.load(&open, &load).await;
            let every = Duration::from_millis(open.every());
            let wait = match loaded {
                Ok(count) => {
                    self.counts.loads.increment();
                    info!(query = load.query, values = count, "values are in memory");
                    every
                }
                Err(reason) => {
                    self.counts.load_failures.increment();
                    warn!(query = load.query, reason, "values cannot be loaded into memory");
                    every.min(LOAD_AGAIN)
                }
            };
            drop(open);
            sleep(wait).await;
        }
    }

    /// Loads all values of a rule. Returns their number, or why they cannot be loaded.
    async fn load(&self, open: &Arc<OpenRule>, load: &MemoryLoad) -> Result<usize, String> {
        let (map, vocabulary) = (&self.maps.map, self.maps.map.vocabulary());
        let query = parse(&load.query, &vocabulary, QueryLimits::default());
        let query = query.map_err(|error| error.to_string())?;
        let run = QueryRun {
            plan: plan(map, &query).map_err(|error| error.to_string())?,
            entry: QueryEntry::new(query),
            class: CallClass::Background,
            user: LookupUser(open.id.into()),
            timeout: LOAD_TIMEOUT,
            limits: self.limits,
        };
        let (known, reason) = {
            let ended = fetch(Rc::clone(&self.calls), Arc::clone(&self.maps), &run).await;
            (ended.known.filter(|known| known.is_complete), ended.reason)
        };
        let failed = || {
            let calls = run.entry.progress();
            let of_call = calls.calls.iter().find_map(|call| call.reason.as_deref());
            reason.as_deref().or(of_call).unwrap_or("its answer is not complete").to_owned()
        };
        let known = known.ok_or_else(failed)?;
        // One load may fail.
        let overdue = known.fetched_unix_ms.saturating_add(open.every().saturating_mul(2));
        let loaded = LoadedValues {
            fetched: known.fetched_unix_ms,
            expires: overdue.max(known.expires_unix_ms),
            ..LoadedValues::default()
        };
        let (open, maps) = (Arc::clone(open), Arc::clone(&self.maps));
        let reading = move || {
            let primary = primary_fields(&maps.map, std::slice::from_ref(&open.rule.key));
            let loaded = texts_by_value(&open, &known.records, &primary[0], loaded)?;
            let count = loaded.texts.len();
            open.loaded.store(Some(Arc::new(loaded)));
            Ok(count)
        };
        let read = tokio::task::spawn_blocking(reading).await;
        read.unwrap_or_else(|_| Err("a defect of this process".to_owned()))
    }

    /// Looks up the values of a rule until nobody has it open any more.
    async fn run_rule(self: Rc<Self>, mut queue: Receiver<MemoryRefresh>) {
        let places = Arc::new(Semaphore::new(RUNNING_MAX));
        while let Some(refresh) = queue.recv().await {
            let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
            // It may have been looked up while this one waited.
            if !refresh.rule.needs(&refresh.value, unix_ms().max(refresh.asked)) {
                continue;
            }
            let fetcher = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                let under_way = ValueUnderWay(&refresh);
                fetcher.refresh(&refresh.rule, &refresh.value).await;
                drop(under_way);
                drop(place);
            });
        }
    }

    async fn refresh(&self, open: &OpenRule, value: &str) {
        let query = open.rule.query(value);
        let Ok(plan) = plan(&self.maps.map, &query) else {
            // No provider takes such a value, and none ever will.
            self.counts.remembered_none.increment();
            let now = unix_ms();
            open.remember(value, MemoryEntry::found(None, now, u64::MAX, u64::MAX), now);
            return;
        };
        let run = QueryRun {
            entry: QueryEntry::new(query),
            plan,
            class: CallClass::Bid,
            user: LookupUser(open.id.into()),
            timeout: TIMEOUT,
            limits: self.limits,
        };
        let ended = fetch(Rc::clone(&self.calls), Arc::clone(&self.maps), &run).await;
        let Some(known) = ended.known else {
            self.counts.refresh_failures.increment();
            debug!(key = open.rule.key, reason = ended.reason, "a look-up for the memory failed");
            return;
        };
        let records: Vec<_> = known.records.records.iter().collect();
        let text = text_of(&open.rule, &known.records.fields, &records);
        let counted =
            if text.is_some() { &self.counts.remembered } else { &self.counts.remembered_none };
        counted.increment();
        let (fetched, expires) = (known.fetched_unix_ms, known.expires_unix_ms);
        let now = unix_ms();
        let again = now.saturating_add(AGAIN_AFTER_MS);
        let mut found = MemoryEntry::found(text.map(Arc::from), fetched, expires, again);
        found.lacks_part = !known.is_complete;
        open.remember(value, found, now);
    }
}

/// A look-up of a value that has begun.
struct ValueUnderWay<'r>(&'r MemoryRefresh);

impl Drop for ValueUnderWay<'_> {
    fn drop(&mut self) {
        let MemoryRefresh { rule, value, .. } = self.0;
        rule.give_up(value, unix_ms());
    }
}

/// The texts of all records, by the values of a field.
fn texts_by_value(
    open: &OpenRule,
    records: &MergedRecords,
    primary: &str,
    mut loaded: LoadedValues,
) -> Result<LoadedValues, String> {
    /// Bytes around a value: of the table, and of two allocations.
    const OVERHEAD: usize = 80;
    if records.records.is_empty() {
        return Ok(loaded);
    }
    let at = records.field(primary).ok_or_else(|| format!("no record has `{primary}`"))?;
    let mut by_value: HashMap<Box<str>, Vec<&MergedRecord>> = HashMap::new();
    for record in &records.records {
        let value = value_at(&record.row, at).text();
        by_value.entry((*value).into()).or_default().push(record);
    }
    for (value, of_value) in by_value {
        let Some(text) = text_of(&open.rule, &records.fields, &of_value) else { continue };
        loaded.bytes += (value.len() + text.len() + OVERHEAD) as u64;
        if open.bytes_max() < loaded.bytes {
            let most = open.bytes_max();
            return Err(format!("the values need more than the {most} bytes of lookup.memory"));
        }
        loaded.texts.insert(value, text.into());
    }
    Ok(loaded)
}

/// The text of a value's records. Of too many values, only the first count.
fn text_of(rule: &MemoryRule, names: &[String], records: &[&MergedRecord]) -> Option<String> {
    let mut most = VALUES_MAX;
    while most > 0 {
        let fields = rule.fields.iter();
        let values: Vec<_> = fields.map(|field| values_of(names, records, field, most)).collect();
        let text = (rule.render)(&values)?;
        if text.len() <= rule.bytes_max {
            return Some(text);
        }
        most /= 2;
    }
    None
}

/// The first scalars of a field, each once.
fn values_of(names: &[String], records: &[&MergedRecord], field: &str, most: usize) -> FieldValues {
    let Some(at) = names.iter().position(|name| name == field) else { return FieldValues::new() };
    let items = records.iter().flat_map(|record| match value_at(&record.row, at) {
        RecordValue::Absent => Vec::new(),
        RecordValue::Json(json) => match &**json {
            Value::Array(items) => items.clone(),
            _ => Vec::new(),
        },
        scalar => vec![scalar.to_json()],
    });
    let mut found = FieldValues::new();
    for item in items {
        if found.len() == most {
            break;
        }
        let is_scalar = !matches!(item, Value::Null | Value::Array(_) | Value::Object(_));
        let text = item.to_string();
        if is_scalar && !found.contains(&text) {
            found.push(text);
        }
    }
    found
}
