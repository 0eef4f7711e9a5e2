//! What a call asks for: the path and query of its request.

use std::borrow::Cow;
use std::collections::HashMap;

use url::form_urlencoded;

use crate::map::{CallParameter, KeyParameter, ParameterSource, ProviderCall};
use crate::query::{QueryCondition, QueryTest, QueryValue};

#[cfg(test)]
mod tests;

/// Where the values of parameters come from.
#[derive(Clone, Copy, Debug)]
pub struct CallValues<'v> {
    /// The conditions of the query.
    pub conditions: &'v [QueryCondition],
    /// Values of keys that a step is repeated for, at most a chunk of each. They stand above conditions.
    pub bound: &'v HashMap<String, Vec<String>>,
    /// Seconds since 1970, for spans before now.
    pub now: i64,
}

/// The path and query of a call, percent-encoded. The plan has found that it takes its conditions.
pub fn target(call: &ProviderCall, values: CallValues<'_>) -> String {
    let mut path = call.path.clone();
    let mut pairs = Vec::new();
    for CallParameter { name, source } in &call.parameters {
        let placeholder = format!("{{{name}}}");
        let is_in_path = path.contains(&placeholder);
        for (name, value) in arguments(name, source, values) {
            if is_in_path {
                path = path.replace(&placeholder, &encoded(&value));
            } else {
                pairs.push(format!("{}={}", encoded(name), encoded(&value)));
            }
        }
    }
    if pairs.is_empty() {
        return path;
    }
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}{}", pairs.join("&"))
}

/// Names and values that a parameter adds.
fn arguments<'p>(
    name: &'p str,
    source: &'p ParameterSource,
    CallValues { conditions, bound, now }: CallValues<'p>,
) -> Vec<(&'p str, Cow<'p, str>)> {
    let of = match source {
        ParameterSource::Literal(value) => return vec![(name, value.into())],
        ParameterSource::Key(of) => of,
    };
    if let Some(values) = bound.get(&of.key) {
        return several(name, of, values.iter().map(|value| value.as_str().into()).collect());
    }
    let condition = conditions.iter().find(|condition| condition.key == of.key);
    let range = of.range.as_ref();
    match (condition.map(|condition| &condition.test), range) {
        (None, _) => Vec::new(),
        (Some(QueryTest::Is(value)), _) => vec![(name, text_of(value))],
        (Some(QueryTest::In(values)), _) => several(name, of, values.iter().map(text_of).collect()),
        (Some(QueryTest::Between([low, high])), Some([low_name, high_name])) => {
            vec![(low_name, text_of(low)), (high_name, text_of(high))]
        }
        (Some(QueryTest::Last(span)), Some([low_name, high_name])) => {
            let span = i64::try_from(*span).unwrap_or(i64::MAX);
            let low = now.saturating_sub(span).max(0);
            vec![(low_name, low.to_string().into()), (high_name, now.to_string().into())]
        }
        (Some(QueryTest::Between(_) | QueryTest::Last(_)), None) => Vec::new(),
    }
}

fn several<'p>(
    name: &'p str,
    of: &KeyParameter,
    values: Vec<Cow<'p, str>>,
) -> Vec<(&'p str, Cow<'p, str>)> {
    match &of.joined_by {
        Some(joined_by) => vec![(name, values.join(joined_by).into())],
        None => values.into_iter().map(|value| (name, value)).collect(),
    }
}

fn text_of(value: &QueryValue) -> Cow<'_, str> {
    match value {
        QueryValue::Text(text) => text.into(),
        QueryValue::Integer(number) | QueryValue::Time(number) => number.to_string().into(),
        QueryValue::Decimal(_) => value.to_string().into(),
    }
}

fn encoded(text: &str) -> String {
    // In paths a `+` is no space.
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}
