//! Look-ups of single values, on the look-up thread.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lookup_core::plan::plan;
use lookup_core::records::{MergedRecords, RecordValue, value_at};
use lookup_core::schedule::{CallClass, LookupUser};
use runtime::process::unix_ms;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::debug;

use super::entry::{AGAIN_AFTER_MS, MemoryEntry};
use super::rule::{FieldValues, MemoryRule};
use super::values::{MemoryRefresh, OpenRule, RuleQueue};
use crate::calls::ProviderCalls;
use crate::config::LookupLimits;
use crate::counters::LookupCounts;
use crate::maps::LoadedMaps;
use crate::queries::entry::QueryEntry;
use crate::queries::execution::{QueryRun, fetch};

/// Most look-ups of a rule that run at a time.
const RUNNING_MAX: usize = 256;
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
        while let Some(queue) = queues.recv().await {
            tokio::task::spawn_local(Rc::clone(&self).run_rule(queue));
        }
    }

    /// Looks up the values of a rule until nobody has it open any more.
    async fn run_rule(self: Rc<Self>, mut queue: RuleQueue) {
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
            open.remember(value, MemoryEntry::found(None, unix_ms(), u64::MAX, u64::MAX), false);
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
        let text = text_of(&open.rule, &known.records);
        let counted =
            if text.is_some() { &self.counts.remembered } else { &self.counts.remembered_none };
        counted.increment();
        // What is missing is asked for again soon.
        let expires = if known.is_complete { known.expires_unix_ms } else { known.fetched_unix_ms };
        let again = unix_ms().saturating_add(AGAIN_AFTER_MS);
        let found = MemoryEntry::found(text.map(Arc::from), known.fetched_unix_ms, expires, again);
        open.remember(value, found, !known.is_complete);
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

/// The text of a value's records. Of too many values, only the first count.
fn text_of(rule: &MemoryRule, records: &MergedRecords) -> Option<String> {
    let mut most = VALUES_MAX;
    while most > 0 {
        let fields = rule.fields.iter();
        let values: Vec<_> = fields.map(|field| values_of(records, field, most)).collect();
        let text = (rule.render)(&values)?;
        if text.len() <= rule.bytes_max {
            return Some(text);
        }
        most /= 2;
    }
    None
}

/// The first scalars of a field, each once.
fn values_of(records: &MergedRecords, field: &str, most: usize) -> FieldValues {
    let Some(at) = records.field(field) else { return FieldValues::new() };
    let items = records.records.iter().flat_map(|record| match value_at(&record.row, at) {
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
