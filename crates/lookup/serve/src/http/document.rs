//! A query as a JSON document.

use std::fmt::Write as _;

use lookup_core::map::{MapKey, ProviderMap};
use lookup_core::query::Vocabulary;
use serde_json::{Value, json};

use crate::queries::entry::{ProviderCallProgress, QueryEntry, QueryId, QueryProgress};
use crate::queries::rows::WrittenRow;

/// Rows that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub first: usize,
    pub rows: usize,
}

/// The tag of a version of a query's page.
pub(super) fn etag(id: QueryId, version: u64, page: Page) -> String {
    format!("\"{id}-{version}-{}-{}\"", page.first, page.rows)
}

/// The document of a query.
pub(super) fn write(entry: &QueryEntry, page: Page) -> String {
    let (head, rows) = {
        let progress = entry.progress();
        (head(entry, &progress), progress.rows.clone())
    };
    let end = page.first.saturating_add(page.rows).min(rows.len());
    let mut out = head.to_string();
    // The rows are JSON already.
    out.pop();
    out.push_str(",\"rows\":[");
    for at in page.first.min(end)..end {
        if at > page.first {
            out.push(',');
        }
        write_row(&mut out, rows.row(at));
    }
    let next = if end < rows.len() { Value::from(end) } else { Value::Null };
    write!(out, "],\"next\":{next}}}").expect("a string takes all");
    out
}

/// A row, and where it came from.
pub(super) fn write_row(out: &mut String, WrittenRow { record, from }: WrittenRow<'_>) {
    write!(out, "{{\"record\":{record},\"from\":{from}}}").expect("a string takes all");
}

/// The keys that queries may name, with their attributes.
pub(super) fn keys(map: &ProviderMap, vocabulary: &Vocabulary) -> Value {
    let key = |key: &MapKey| {
        json!({
            "name": key.name, "about": key.about, "primary": key.primary,
            "attributes": vocabulary.attributes(&key.name).collect::<Vec<_>>(),
        })
    };
    json!({ "keys": map.keys.iter().map(key).collect::<Vec<_>>() })
}

/// What is said of a query besides its rows.
pub(super) fn head(entry: &QueryEntry, progress: &QueryProgress) -> Value {
    let mut head = json!({
        "id": entry.id.to_string(),
        "status": progress.status.name(),
        "query": entry.text,
        "providers": progress.calls.iter().map(|call| provider(call, progress)).collect::<Vec<_>>(),
        "total": progress.rows.len(),
    });
    if let Some(reason) = &progress.reason {
        head["reason"] = json!(reason);
    }
    if let Some(reuses) = &progress.reuses {
        head["reuses"] = json!(reuses);
    }
    head
}

fn provider(call: &ProviderCallProgress, query: &QueryProgress) -> Value {
    json!({
        "name": call.provider,
        "call": call.call,
        "instance": call.instance,
        "state": call.state(query.status.is_final()),
        "calls": call.begun,
        "failed": call.failures(),
        "ms": call.ms,
        "rows": call.rows,
        "attempts": call.attempts,
        "expires": call.expires_unix_ms.map(|at| at / 1_000),
        "reason": call.reason.as_deref(),
    })
}
