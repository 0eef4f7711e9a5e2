//! Providers and their calls, as the files of the map describe them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::statement::SqlStatement;
use crate::query::{KeyAttributes, Vocabulary};

/// Begins the URL of a provider that is a folder of files.
pub const FOLDER: &str = "file:";

/// Prefix of the URL of a database.
pub const DATABASE: &str = "postgres:";

/// All files of the map together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderMap {
    /// The keys that queries may name.
    pub keys: Vec<MapKey>,
    /// In the order of the files.
    pub providers: Vec<LookupProvider>,
}

/// A key: a kind of things that providers know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapKey {
    /// The name, as queries write it.
    pub name: String,
    /// What it is, for users.
    pub about: String,
    /// The attribute that tells one record from another: `name` of `file`. Records of several
    /// providers are merged by it.
    pub primary: String,
}

/// A service that answers calls over HTTP, a folder of files, or a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupProvider {
    /// The name: the `system` of queries.
    pub name: String,
    /// URLs by instance; the first is the default. Paths of calls are appended.
    pub instances: Vec<(String, String)>,
    /// Whether a query fails if this provider does.
    pub is_required: bool,
    /// The most calls at a time. None: it is found out.
    pub concurrency_max: Option<u32>,
    /// The most calls per second. None: any.
    pub rate_max: Option<u32>,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// What it can be asked.
    pub calls: Vec<ProviderCall>,
}

/// A call of a provider, by its place in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// Index of the provider.
    pub provider: usize,
    /// Index among the provider's calls.
    pub call: usize,
}

/// One question that a provider answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderCall {
    /// The name, which is unique among those of the provider.
    pub name: String,
    /// The keys of its records.
    pub gives: Vec<String>,
    /// Path and fixed query, with `{name}` where a parameter stands in the path.
    pub path: String,
    /// What a database is asked; then the path is of no meaning. None: the provider is no database.
    pub statement: Option<SqlStatement>,
    /// How the records of an answer are written.
    pub form: RecordForm,
    /// What it takes.
    pub parameters: Vec<CallParameter>,
    /// How it gives many records. None: all at once.
    pub pages: Option<CallPages>,
    /// How long answers count.
    pub ttl: Duration,
    /// How long empty answers count.
    pub empty_ttl: Duration,
    /// How long answers are used beyond that, while new ones are fetched.
    pub stale_ttl: Duration,
    /// About how many records an answer has, for estimates.
    pub records_typical: u64,
}

/// How a call gives its records page by page. A page with fewer records than asked for is the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPages {
    /// The parameter that says which page.
    pub parameter: String,
    /// What it counts.
    pub counts: PageCount,
    /// The parameter that says how many records a page has. None: the provider decides it.
    pub size_parameter: Option<String>,
    /// Records of a page.
    pub size: usize,
    /// The most pages.
    pub pages_max: usize,
}

/// What the parameter of a page counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCount {
    /// Records of the pages before it, from 0.
    Records,
    /// Pages, from 1.
    Pages,
}

/// How the records of an answer are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordForm {
    /// The format of the body.
    pub format: RecordFormat,
    /// Names of the members that lead to the records: `result.files`. Empty: the whole body.
    pub path: Vec<String>,
    /// Paths in a record, and the fields that they become: `lfn` and `file.name`.
    pub fields: Vec<(String, String)>,
    /// Whether other members stay as they are, below the first key that the call gives.
    pub keeps_others: bool,
}

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// One JSON value; records are an array, or one object.
    Json,
    /// A JSON value on each line.
    Ndjson,
    /// Comma-separated values with a header line (RFC 4180).
    Csv,
    /// XML; a record is an element, its attributes and children are its members.
    Xml,
}

/// A parameter of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallParameter {
    /// The name that the provider knows.
    pub name: String,
    /// What its value is.
    pub source: ParameterSource,
}

/// What the value of a parameter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterSource {
    /// Always this.
    Literal(String),
    /// What the query says of a key.
    Key(KeyParameter),
}

/// A parameter that depends on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyParameter {
    /// The key, or `date`.
    pub key: String,
    /// Whether the call needs it.
    pub is_required: bool,
    /// The call that finds its values if the query has none: `provider.call`.
    pub from: Option<String>,
    /// The most values in one call.
    pub batch: usize,
    /// The separator of several values. None if the parameter is repeated instead.
    pub joined_by: Option<String>,
    /// Whether values may have `*`.
    pub takes_patterns: bool,
    /// The pattern that values match. None: any.
    pub pattern: Option<String>,
    /// Names of the parameters of the lowest and the highest value, if it takes ranges.
    pub range: Option<[String; 2]>,
}

impl CallPages {
    /// The names of its parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.parameter).chain(&self.size_parameter)
    }
}

impl ProviderMap {
    /// The keys and attributes that queries may name.
    pub fn vocabulary(&self) -> Vocabulary {
        let names = self.keys.iter().map(|key| key.name.clone());
        let mut keys: BTreeMap<_, _> = names.map(|name| (name, KeyAttributes::default())).collect();
        for (_, _, call) in self.calls() {
            for (_, field) in &call.form.fields {
                if let Some((key, attribute)) = field.split_once('.')
                    && let Some(attributes) = keys.get_mut(key)
                {
                    attributes.known.insert(attribute.to_owned());
                }
            }
            let first = call.gives.first().and_then(|key| keys.get_mut(key));
            if let Some(attributes) = first.filter(|_| call.form.keeps_others) {
                attributes.has_others = true;
            }
        }
        Vocabulary::of(keys)
    }

    /// All calls, in the order of the map.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, &LookupProvider, &ProviderCall)> {
        self.providers.iter().enumerate().flat_map(|(at, provider)| {
            let id = move |call| CallId { provider: at, call };
            provider.calls.iter().enumerate().map(move |(call, it)| (id(call), provider, it))
        })
    }

    /// A call.
    pub fn call(&self, id: CallId) -> &ProviderCall {
        &self.providers[id.provider].calls[id.call]
    }

    /// The name of a call: `provider.call`.
    pub fn call_name(&self, id: CallId) -> String {
        format!("{}.{}", self.providers[id.provider].name, self.call(id).name)
    }

    /// The call of a name.
    pub fn call_named(&self, name: &str) -> Option<CallId> {
        let (provider, call) = name.split_once('.')?;
        let has_name =
            |of: &LookupProvider, it: &ProviderCall| of.name == provider && it.name == call;
        self.calls().find(|(_, of, it)| has_name(of, it)).map(|(id, ..)| id)
    }

    /// A key.
    pub fn key(&self, name: &str) -> Option<&MapKey> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl ProviderCall {
    /// Whether an answer may answer a later call.
    pub const fn is_kept(&self) -> bool {
        !self.ttl.is_zero() || !self.stale_ttl.is_zero()
    }

    /// The parameters that depend on keys.
    pub fn key_parameters(&self) -> impl Iterator<Item = &KeyParameter> {
        self.parameters.iter().filter_map(|parameter| match &parameter.source {
            ParameterSource::Key(parameter) => Some(parameter),
            ParameterSource::Literal(_) => None,
        })
    }

    /// The ends of a range that a single value is sent as: the query of a database names them alone.
    pub fn ends_for_value<'p>(&self, parameter: &'p CallParameter) -> Option<&'p [String; 2]> {
        let names = self.statement.as_ref()?.parameters();
        let ParameterSource::Key(of) = &parameter.source else { return None };
        of.range.as_ref().filter(|_| !names.contains(&&*parameter.name))
    }

    /// Whether a parameter of this name may have several values.
    pub fn takes_list(&self, name: &str) -> bool {
        self.parameters.iter().any(|parameter| match &parameter.source {
            ParameterSource::Key(of) => parameter.name == name && of.batch > 1,
            ParameterSource::Literal(_) => false,
        })
    }

    /// The parameter of a key.
    pub fn parameter_of(&self, key: &str) -> Option<&KeyParameter> {
        self.key_parameters().find(|parameter| parameter.key == key)
    }
}
