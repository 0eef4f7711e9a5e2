//! What is looked up for a value.

use std::fmt;
use std::time::Duration;

use lookup_core::map::ProviderMap;
use lookup_core::plan::{PlanError, Rejection, plan};
use lookup_core::query::{
    LookupQuery, QueryCondition, QueryLimits, QueryTest, QueryValue, Vocabulary, parse,
};

/// JSON scalars of one field, each once, in the order of the records.
pub type FieldValues = Vec<String>;

/// Makes one text of the values of all fields. None if they amount to nothing.
type Render = Box<dyn Fn(&[FieldValues]) -> Option<String> + Send + Sync>;

/// What is looked up for a value, and what is remembered of it.
pub struct MemoryRule {
    /// The key of the value.
    pub key: String,
    /// The fields of the records that count.
    pub fields: Vec<String>,
    /// Most bytes of a text. Of too many values, only the first count.
    pub bytes_max: usize,
    /// Makes the text that is remembered.
    pub render: Render,
    /// None: values are looked up one by one.
    pub load: Option<MemoryLoad>,
}

/// A query whose records are all remembered, each as that of the value that is its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLoad {
    /// The query, without stages.
    pub query: String,
    /// How often it is asked.
    pub every: Duration,
}

impl fmt::Debug for MemoryRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRule").field("key", &self.key).finish_non_exhaustive()
    }
}

impl MemoryRule {
    /// The query for a value, which is taken literally.
    pub(super) fn query(&self, value: &str) -> LookupQuery {
        let mut keys: Vec<String> = Vec::new();
        for field in &self.fields {
            let key = field.split_once('.').map_or(&**field, |(key, _)| key);
            if keys.iter().all(|known| known != key) {
                keys.push(key.to_owned());
            }
        }
        LookupQuery {
            fields: keys,
            conditions: vec![QueryCondition {
                key: self.key.clone(),
                test: QueryTest::Is(QueryValue::Text(value.to_owned())),
            }],
            systems: Vec::new(),
            instance: None,
            pipe: Vec::new(),
        }
    }

    /// Checks that a map has what the rule names, and a way to look it up.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(&self, map: &ProviderMap) -> Result<(), String> {
        let vocabulary = map.vocabulary();
        let known = || vocabulary.keys().collect::<Vec<_>>().join(", ");
        if !vocabulary.has_key(&self.key) {
            return Err(format!("the maps have no key `{}`, only {}", self.key, known()));
        }
        for field in &self.fields {
            let (key, attribute) = field.split_once('.').unwrap_or((field, ""));
            if !vocabulary.has_key(key) {
                return Err(format!("the maps have no key `{key}`, only {}", known()));
            }
            if !vocabulary.has_attribute(key, attribute) {
                let attributes = vocabulary.attributes(key).collect::<Vec<_>>().join(", ");
                return Err(format!("`{key}` has no attribute `{attribute}`, only {attributes}"));
            }
        }
        if let Some(load) = &self.load {
            return self.check_load(map, &vocabulary, load);
        }
        match plan(map, &self.query("x")) {
            // Another value may be like the pattern.
            Err(PlanError::AllRejected(calls))
                if calls.iter().any(|call| is_unfit(&call.reason)) =>
            {
                Ok(())
            }
            planned => planned.map(drop).map_err(|error| error.to_string()),
        }
    }
}

impl MemoryRule {
    fn check_load(
        &self,
        map: &ProviderMap,
        vocabulary: &Vocabulary,
        load: &MemoryLoad,
    ) -> Result<(), String> {
        let query = parse(&load.query, vocabulary, QueryLimits::default());
        let query = query.map_err(|error| format!("the query to load is wrong: {error}"))?;
        if !query.pipe.is_empty() {
            return Err("the query to load must have no stages".to_owned());
        }
        let wanted = self.query("x").fields.into_iter().chain([self.key.clone()]);
        if let Some(key) = wanted.into_iter().find(|key| !query.fields.contains(key)) {
            return Err(format!("the query to load must ask for `{key}` too"));
        }
        plan(map, &query).map(drop).map_err(|error| error.to_string())
    }
}

/// Whether only the value is wrong, for the call or for one before it.
fn is_unfit(reason: &Rejection) -> bool {
    match reason {
        Rejection::Unfit { .. } => true,
        Rejection::NoFeeder { feeder, .. } => is_unfit(&feeder.reason),
        _ => false,
    }
}
