//! What a call asks for: the path and query of its request.

use std::borrow::Cow;
use std::collections::HashMap;

use url::form_urlencoded;

use crate::map::{
    CallPages, CallParameter, KeyParameter, PageCount, ParameterSource, ProviderCall,
};
use crate::query::{QueryCondition, QueryTest, QueryValue};

#[cfg(test)]
mod tests;

/// Where the values of parameters come from.
#[derive(Clone, Copy, Debug)]
pub struct CallValues<'v> {
    /// The conditions of the query.
    pub conditions: &'v [QueryCondition],
    /// Keys of those that the call takes.
    pub takes: &'v [String],
    /// Values of keys that a step is repeated for, at most a chunk of each. They stand above conditions.
    pub bound: &'v HashMap<String, Vec<String>>,
    /// Seconds since 1970, for spans before now.
    pub now: i64,
    /// Which page, from 0. Without meaning for calls without pages.
    pub page: usize,
}

/// Why a value cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsendableValue {
    /// It would make another path of the path.
    #[error("`{0}` cannot be a part of a path")]
    NoSegment(String),
    /// It would become two values.
    #[error("`{0}` cannot be in a list that is joined by `{1}`")]
    HasSeparator(String, String),
    /// The call would list everything.
    #[error("there is no value for `{0}`")]
    NoValue(String),
}

/// The path and query of a call, percent-encoded. The plan has found that it takes its conditions.
///
/// # Errors
/// A value cannot be sent as it is.
pub fn target(call: &ProviderCall, values: CallValues<'_>) -> Result<String, UnsendableValue> {
    let mut path = call.path.clone();
    let mut pairs = Vec::new();
    for parameter in &call.parameters {
        let CallParameter { name, source } = parameter;
        let placeholder = format!("{{{name}}}");
        let is_in_path = path.contains(&placeholder);
        let ends = call.ends_for_value(parameter);
        for (name, value) in arguments(name, source, values)? {
            if let Some(ends) = ends.filter(|_| *name == parameter.name) {
                let pair = |end: &String| format!("{}={}", encoded(end), encoded(&value));
                pairs.extend(ends.each_ref().map(pair));
            } else if is_in_path {
                if matches!(&*value, "" | "." | "..") {
                    return Err(UnsendableValue::NoSegment(value.into_owned()));
                }
                path = path.replace(&placeholder, &encoded(&value));
            } else {
                pairs.push(format!("{}={}", encoded(name), encoded(&value)));
            }
        }
    }
    if let Some(CallPages { parameter, counts, size_parameter, size, .. }) = &call.pages {
        let number = match counts {
            PageCount::Records => values.page.saturating_mul(*size),
            PageCount::Pages => values.page.saturating_add(1),
        };
        pairs.push(format!("{}={number}", encoded(parameter)));
        pairs.extend(size_parameter.iter().map(|name| format!("{}={size}", encoded(name))));
    }
    if pairs.is_empty() {
        return Ok(path);
    }
    let sign = if path.contains('?') { '&' } else { '?' };
    Ok(format!("{path}{sign}{}", pairs.join("&")))
}

/// Names and values that a parameter adds.
fn arguments<'p>(
    name: &'p str,
    source: &'p ParameterSource,
    CallValues { conditions, takes, bound, now, .. }: CallValues<'p>,
) -> Result<Vec<(&'p str, Cow<'p, str>)>, UnsendableValue> {
    let of = match source {
        ParameterSource::Literal(value) => return Ok(vec![(name, value.into())]),
        ParameterSource::Key(of) => of,
    };
    if let Some(values) = bound.get(&of.key) {
        return several(name, of, values.iter().map(|value| value.as_str().into()).collect());
    }
    let condition = conditions.iter().find(|condition| condition.key == of.key);
    let condition = condition.filter(|condition| takes.contains(&condition.key));
    let range = of.range.as_ref();
    Ok(match (condition.map(|condition| &condition.test), range) {
        (None, _) => Vec::new(),
        (Some(QueryTest::Is(value)), _) => several(name, of, vec![text_of(value)])?,
        (Some(QueryTest::In(values)), _) => {
            several(name, of, values.iter().map(text_of).collect())?
        }
        (Some(QueryTest::Between([low, high])), Some([low_name, high_name])) => {
            vec![(low_name, text_of(low)), (high_name, text_of(high))]
        }
        (Some(QueryTest::Last(span)), Some([low_name, high_name])) => {
            let span = i64::try_from(*span).unwrap_or(i64::MAX);
            // Queries of the same minute, or of the same sixtieth of a shorter span, ask the same.
            let step = (span / 60).clamp(1, 60);
            let high = now.saturating_add(step - 1) / step * step;
            let low = high.saturating_sub(span).max(0);
            vec![(low_name, low.to_string().into()), (high_name, high.to_string().into())]
        }
        (Some(QueryTest::Between(_) | QueryTest::Last(_)), None) => Vec::new(),
    })
}

/// The values that a condition lists, as they are sent.
pub fn listed_values(condition: &QueryCondition) -> Vec<String> {
    let values = match &condition.test {
        QueryTest::Is(value) => std::slice::from_ref(value),
        QueryTest::In(values) => values,
        QueryTest::Between(_) | QueryTest::Last(_) => &[],
    };
    values.iter().map(|value| text_of(value).into_owned()).collect()
}

fn several<'p>(
    name: &'p str,
    of: &KeyParameter,
    values: Vec<Cow<'p, str>>,
) -> Result<Vec<(&'p str, Cow<'p, str>)>, UnsendableValue> {
    if values.is_empty() {
        return Err(UnsendableValue::NoValue(of.key.clone()));
    }
    let Some(separator) = &of.joined_by else {
        return Ok(values.into_iter().map(|value| (name, value)).collect());
    };
    if let Some(value) = values.iter().find(|value| value.contains(separator)) {
        let (value, separator) = (value.clone().into_owned(), separator.clone());
        return Err(UnsendableValue::HasSeparator(value, separator));
    }
    Ok(vec![(name, values.join(separator).into())])
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
