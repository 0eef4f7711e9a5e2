//! Prints queries, in one form for each.

use std::fmt::{self, Display, Formatter};

use super::ast::{Aggregate, LookupQuery, PipeStage, QueryCondition, QueryTest};
use super::value::Word;
use super::vocabulary::{INSTANCE, SYSTEM};

/// Parsed again, the text is the same query.
impl Display for LookupQuery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fields.join(","))?;
        for QueryCondition { key, test } in &self.conditions {
            write!(f, " {key}{test}")?;
        }
        match &*self.systems {
            [] => (),
            [system] => write!(f, " {SYSTEM}={}", Word(system))?,
            systems => write!(f, " {SYSTEM} in [{}]", joined(systems.iter().map(|of| Word(of))))?,
        }
        if let Some(instance) = &self.instance {
            write!(f, " {INSTANCE}={}", Word(instance))?;
        }
        self.pipe.iter().try_for_each(|stage| write!(f, " | {stage}"))
    }
}

impl Display for QueryTest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Is(value) => write!(f, "={value}"),
            Self::In(values) => write!(f, " in [{}]", joined(values.iter())),
            Self::Between(values) => write!(f, " between [{}]", joined(values.iter())),
            Self::Last(seconds) => match seconds {
                seconds if seconds % 86_400 == 0 => write!(f, " last {}d", seconds / 86_400),
                seconds if seconds % 3_600 == 0 => write!(f, " last {}h", seconds / 3_600),
                seconds if seconds % 60 == 0 => write!(f, " last {}m", seconds / 60),
                seconds => write!(f, " last {seconds}s"),
            },
        }
    }
}

impl Display for PipeStage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grep(items) => {
                let items = items.iter().map(|item| match &item.comparison {
                    Some((comparison, value)) => {
                        format!("{}{}{value}", item.field, comparison.sign())
                    }
                    None => item.field.clone(),
                });
                write!(f, "grep {}", joined(items))
            }
            Self::Sort { field, is_descending } => {
                write!(f, "sort {field}{}", if *is_descending { "-" } else { "" })
            }
            Self::Unique => f.write_str("unique"),
            Self::Limit(count) => write!(f, "limit {count}"),
            Self::Aggregate(aggregates) => f.write_str(&joined(aggregates.iter())),
        }
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.function.name(), self.field)
    }
}

fn joined<T: Display>(items: impl Iterator<Item = T>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
