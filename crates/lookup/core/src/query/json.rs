//! Queries as JSON.

use serde_json::{Value, json};

use super::ast::{
    Aggregate, GrepItem, LookupQuery, PipeStage, QueryCondition, QueryTest, QueryValue,
};

/// A query as JSON. Times are seconds since 1970, spans are seconds.
pub fn to_json(query: &LookupQuery) -> Value {
    let LookupQuery { fields, conditions, systems, instance, pipe } = query;
    let system = match &**systems {
        [] => Value::Null,
        [system] => json!(system),
        systems => json!(systems),
    };
    let conditions: Vec<_> = conditions.iter().map(condition).collect();
    let pipe: Vec<_> = pipe.iter().map(stage).collect();
    json!({
        "fields": fields,
        "conditions": conditions,
        "pipe": pipe,
        "system": system,
        "instance": instance,
    })
}

fn condition(QueryCondition { key, test }: &QueryCondition) -> Value {
    let values = |values: &[QueryValue]| values.iter().map(value).collect();
    let (op, value) = match test {
        QueryTest::Is(of) => ("=", value(of)),
        QueryTest::In(of) => ("in", values(of)),
        QueryTest::Between(of) => ("between", values(of)),
        QueryTest::Last(seconds) => ("last", json!(seconds)),
    };
    json!({ "key": key, "op": op, "value": value })
}

fn value(value: &QueryValue) -> Value {
    match value {
        QueryValue::Integer(number) | QueryValue::Time(number) => json!(number),
        QueryValue::Decimal(number) => json!(number),
        QueryValue::Text(text) => json!(text),
    }
}

fn stage(stage: &PipeStage) -> Value {
    match stage {
        PipeStage::Grep(items) => json!({ "grep": items.iter().map(item).collect::<Vec<_>>() }),
        PipeStage::Sort { field, is_descending } => {
            json!({ "sort": { "field": field, "descending": is_descending } })
        }
        PipeStage::Unique => json!({ "unique": true }),
        PipeStage::Limit(count) => json!({ "limit": count }),
        PipeStage::Aggregate(aggregates) => {
            let of = |Aggregate { function, field }: &Aggregate| json!({ "fn": function.name(), "field": field });
            json!({ "aggregate": aggregates.iter().map(of).collect::<Vec<_>>() })
        }
    }
}

fn item(GrepItem { field, comparison }: &GrepItem) -> Value {
    match comparison {
        Some((comparison, of)) => {
            json!({ "field": field, "op": comparison.sign(), "value": value(of) })
        }
        None => json!({ "field": field }),
    }
}
