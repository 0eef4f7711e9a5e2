//! The interface of CMS DAS, for clients that exist. A client asks `/das/cache` with its query and gets
//! an id, with which it polls until it gets anything else: the answer.

use std::sync::Arc;
use std::time::Duration;

use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use lookup_core::map::ProviderMap;
use lookup_core::query::{
    LookupQuery, PipeStage, QueryCondition, QueryLimits, QueryTest, QueryValue, Vocabulary, parse,
    to_json,
};
use runtime::process::unix_ms;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::answer::{LookupBody, allowed, body};
use super::parameters::{LookupParameters, Refusal, number, value};
use super::start::Starter;
use crate::queries::entry::{QueryEntry, QueryId, QueryStatus};
use crate::queries::rows::WrittenRow;

/// Answers with a bare id until the query has ended.
pub(super) const CACHE_PATH: &str = "/das/cache";
/// Answers with documents at all times.
pub(super) const REQUEST_PATH: &str = "/das/request";

/// Rows of an answer that does not say how many.
const ROWS_DEFAULT: usize = 50;

/// An answer with more rows is written on another thread.
const ROWS_INLINE_MAX: usize = 1_000;

/// How long the first answer of `/das/cache` waits for the end, which saves most clients a poll.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// What a client asks for.
struct DasRequest {
    input: Option<String>,
    pid: Option<String>,
    first: usize,
    /// 0: all.
    rows: usize,
    instance: Option<String>,
}

impl DasRequest {
    fn read(uri: &str) -> Result<Self, Refusal> {
        let given = |name| value(uri, name).map(|of| of.filter(|text| !text.trim().is_empty()));
        let number = |name| given(name)?.map(|text| number(name, &text)).transpose();
        Ok(Self {
            input: given("input")?,
            pid: given("pid")?,
            first: number("idx")?.unwrap_or(0),
            rows: number("limit")?.unwrap_or(ROWS_DEFAULT),
            instance: given("instance")?,
        })
    }
}

/// Answers a request.
pub(super) async fn answer(starter: &Starter<'_>, head: &Parts) -> Response<LookupBody> {
    if head.method != Method::GET {
        return allowed("GET");
    }
    let is_cache = head.uri.path() == CACHE_PATH;
    let answered = answered(starter, head.uri.query().unwrap_or_default(), is_cache).await;
    answered.unwrap_or_else(|refusal| {
        let text = json!({
            "status": "fail", "reason": refusal.message, "nresults": 0, "data": [],
            "mongo_query": {}, "timestamp": seconds(),
        });
        body(refusal.status, "application/json", text.to_string())
    })
}

async fn answered(
    starter: &Starter<'_>,
    uri: &str,
    is_cache: bool,
) -> Result<Response<LookupBody>, Refusal> {
    let request = DasRequest::read(uri)?;
    let known = request.pid.as_deref().and_then(|pid| pid.parse::<QueryId>().ok());
    let entry = match (known.and_then(|id| starter.shared.table.get(id)), &request.input) {
        (Some(entry), _) => entry,
        // The process may have been restarted, or the answer forgotten.
        (None, Some(input)) => {
            let instance = request.instance.as_deref();
            let query = with_instance(&starter.shared.vocabulary, input, instance);
            let parameters = LookupParameters::of_query(query);
            let entry = starter.start(&parameters)?;
            let _ended = timeout(FIRST_WAIT, entry.ended()).await;
            entry
        }
        (None, None) => {
            let text = "needs input=…, a query, or the pid of one";
            return Err(Refusal::bad(text));
        }
    };
    let (status, count) = {
        let progress = entry.progress();
        (progress.status, progress.rows.len())
    };
    if !status.is_final() {
        let pid = entry.id.to_string();
        return Ok(match is_cache {
            true => body(StatusCode::OK, "text/plain", pid),
            false => {
                let text = json!({ "status": "processing", "pid": pid, "timestamp": seconds() });
                body(StatusCode::OK, "application/json", text.to_string())
            }
        });
    }
    let maps = Arc::clone(&starter.shared.maps);
    let text = move || document(&maps.map, &entry, &request).to_string();
    let text = match count {
        0..=ROWS_INLINE_MAX => text(),
        // The shard has auctions to hold.
        _ => spawn_blocking(text).await.expect("writing does not panic"),
    };
    Ok(body(StatusCode::OK, "application/json", text))
}

/// The query with the instance that the client chose apart from it.
fn with_instance(vocabulary: &Vocabulary, input: &str, instance: Option<&str>) -> String {
    let Some(instance) = instance else { return input.to_owned() };
    let parsed = parse(input, vocabulary, QueryLimits::default());
    match parsed {
        Ok(query) if query.instance.is_none() => {
            LookupQuery { instance: Some(instance.to_owned()), ..query }.to_string()
        }
        // What is wrong with it is said where it starts.
        _ => input.to_owned(),
    }
}

fn document(map: &ProviderMap, entry: &QueryEntry, request: &DasRequest) -> Value {
    let (status, calls, rows, reason) = {
        let progress = entry.progress();
        let rows = progress.rows.clone();
        (progress.status, progress.calls.clone(), rows, progress.reason.clone())
    };
    let is_ok = matches!(status, QueryStatus::Done | QueryStatus::Partial);
    let query = &entry.query;
    let end = match request.rows {
        0 => rows.len(),
        count => request.first.saturating_add(count).min(rows.len()),
    };
    let expires = calls.iter().filter_map(|call| call.expires_unix_ms).min();
    let header = |system: Value| {
        let primary = query.fields.first().and_then(|key| map.key(key));
        let primary = primary.map(|key| format!("{}.{}", key.name, key.primary));
        json!({
            "primary_key": primary, "system": system, "services": system,
            "instance": query.instance, "expire": expires.map(|at| at / 1_000), "record": 1,
        })
    };
    let page = (request.first.min(end)..end).map(|at| {
        let WrittenRow { record, from } = rows.row(at);
        let record = serde_json::from_str(record).expect("rows are JSON");
        let system = header(serde_json::from_str(from).expect("names are JSON"));
        (record, system)
    });
    let data: Vec<Value> = match aggregates(query) {
        Some(names) => page.flat_map(|row| aggregate_rows(&names, &row.0, &row.1)).collect(),
        None => page.map(|(record, system)| das_record(record, system)).collect(),
    };
    let failures: Vec<_> = calls.iter().filter_map(|call| call.reason.clone()).collect();
    let mut document = json!({
        "status": if is_ok { "ok" } else { "fail" },
        "nresults": rows.len(),
        "ctime": calls.iter().map(|call| call.ms).max().map(Duration::from_millis).map(|of| of.as_secs_f64()),
        "timestamp": seconds(),
        "pid": entry.id.to_string(),
        "mongo_query": mongo_query(query),
        "incache": calls.iter().all(|call| call.cached == call.begun),
        "apilist": calls.iter().map(|call| call.call.clone()).collect::<Vec<_>>(),
        "data": data,
    });
    if let Some(reason) = reason.or_else(|| failures.first().map(ToString::to_string)) {
        document["reason"] = json!(reason);
    }
    document
}

/// The aggregates of a query. None if its answer consists of records.
fn aggregates(query: &LookupQuery) -> Option<Vec<(&'static str, String)>> {
    query.pipe.iter().find_map(|stage| match stage {
        PipeStage::Aggregate(of) => {
            Some(of.iter().map(|of| (of.function.name(), of.field.clone())).collect())
        }
        _ => None,
    })
}

/// One record for each aggregate.
fn aggregate_rows(names: &[(&'static str, String)], row: &Value, header: &Value) -> Vec<Value> {
    let rows = names.iter().map(|(function, field)| {
        json!({
            "function": function, "key": field, "das": header,
            "result": { "value": row[format!("{function}({field})")] },
        })
    });
    rows.collect()
}

/// A record with its header. Below each key there is a list.
fn das_record(record: Value, header: Value) -> Value {
    let Value::Object(keys) = record else { return record };
    let lists = keys.into_iter().map(|(key, value)| (key, Value::Array(vec![value])));
    let mut record: Map<String, Value> = lists.collect();
    record.insert("das".to_owned(), header);
    Value::Object(record)
}

/// The query as DAS understood it.
fn mongo_query(query: &LookupQuery) -> Value {
    let spec = query.conditions.iter().map(|QueryCondition { key, test }| {
        let value = match test {
            QueryTest::Is(value) => of_value(value),
            QueryTest::In(values) => {
                json!({ "$in": values.iter().map(of_value).collect::<Vec<_>>() })
            }
            QueryTest::Between([low, high]) => {
                json!({ "$gte": of_value(low), "$lte": of_value(high) })
            }
            QueryTest::Last(span) => {
                let now = seconds();
                json!({ "$gte": now.saturating_sub(*span), "$lte": now })
            }
        };
        (key.clone(), value)
    });
    let mut mongo = json!({
        "fields": query.fields,
        "spec": spec.collect::<Map<_, _>>(),
        "instance": query.instance,
        "system": to_json(query)["system"],
    });
    let filters = query.pipe.iter().filter_map(|stage| match stage {
        PipeStage::Grep(items) => Some(items.iter().map(|item| match &item.comparison {
            Some((comparison, value)) => format!("{}{}{value}", item.field, comparison.sign()),
            None => item.field.clone(),
        })),
        _ => None,
    });
    let filters: Vec<String> = filters.flatten().collect();
    if !filters.is_empty() {
        mongo["filters"] = json!({ "grep": filters });
    }
    if query.pipe.contains(&PipeStage::Unique) {
        mongo["filters"]["unique"] = json!(1);
    }
    if let Some(names) = aggregates(query) {
        mongo["aggregators"] = json!(names);
    }
    mongo
}

fn of_value(value: &QueryValue) -> Value {
    match value {
        QueryValue::Integer(number) | QueryValue::Time(number) => json!(number),
        QueryValue::Decimal(number) => json!(number),
        QueryValue::Text(text) => json!(text),
    }
}

fn seconds() -> u64 {
    unix_ms() / 1_000
}
