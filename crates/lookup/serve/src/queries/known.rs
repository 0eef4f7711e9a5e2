//! Complete answers, before any stages: they answer the same query again, and narrower ones.

use std::cell::RefCell;
use std::sync::Arc;

use lookup_core::plan::Plan;
use lookup_core::query::{LookupQuery, QueryCondition};
use lookup_core::records::MergedRecords;
use lookup_core::reuse::{PlannedQuery, narrowing};
use quick_cache::Weighter;
use quick_cache::unsync::Cache;

/// How many answers are looked through for a wider one.
const LOOKED_THROUGH_MAX: usize = 1_000;

/// For how many answers there is room at first.
const ANSWER_BYTES_TYPICAL: usize = 64 << 10;

/// An answer.
#[derive(Clone)]
pub(crate) struct KnownAnswer {
    /// Without stages.
    pub query: Arc<LookupQuery>,
    pub plan: Arc<Plan>,
    pub records: Arc<MergedRecords>,
    /// Names of the calls that answered, by the sources of the records.
    pub names: Arc<[String]>,
    /// Whether all of its calls were answered.
    pub is_complete: bool,
    /// When its oldest part was fetched, in milliseconds since 1970.
    pub fetched_unix_ms: u64,
    /// Until when all of its parts count, in milliseconds since 1970.
    pub expires_unix_ms: u64,
}

/// An answer that contains that of a query.
pub(crate) struct WiderAnswer {
    pub known: KnownAnswer,
    /// What leaves the answer of its records.
    pub conditions: Vec<QueryCondition>,
}

/// The answers that are known, within a number of bytes.
pub(crate) struct KnownAnswers(RefCell<Cache<String, KnownAnswer, AnswerWeight>>);

impl KnownAnswers {
    pub fn new(bytes_max: usize) -> Self {
        let items = bytes_max / ANSWER_BYTES_TYPICAL;
        Self(RefCell::new(Cache::with_weighter(items, bytes_max as u64, AnswerWeight)))
    }

    /// Keeps an answer.
    pub fn keep(&self, answer: KnownAnswer) {
        self.0.borrow_mut().insert(answer.query.to_string(), answer);
    }

    /// An answer that still counts and contains that of a query.
    pub fn find(&self, query: &LookupQuery, plan: &Plan, now_unix_ms: u64) -> Option<WiderAnswer> {
        let bare = LookupQuery { pipe: Vec::new(), ..query.clone() };
        let answers = self.0.borrow();
        let same = answers.get(&bare.to_string());
        let same = same.filter(|known| now_unix_ms < known.expires_unix_ms);
        if let Some(known) = same {
            return Some(WiderAnswer { known: known.clone(), conditions: Vec::new() });
        }
        let narrow = PlannedQuery { query, plan };
        let others = answers.iter().map(|(_, known)| known).take(LOOKED_THROUGH_MAX);
        let mut fresh = others.filter(|known| now_unix_ms < known.expires_unix_ms);
        fresh.find_map(|known| {
            let wide = PlannedQuery { query: &known.query, plan: &known.plan };
            let conditions = narrowing(wide, narrow)?;
            let conditions = conditions.into_iter().cloned().collect();
            Some(WiderAnswer { known: known.clone(), conditions })
        })
    }
}

/// Bytes of an answer.
#[derive(Clone)]
struct AnswerWeight;

impl Weighter<String, KnownAnswer> for AnswerWeight {
    fn weight(&self, text: &String, known: &KnownAnswer) -> u64 {
        let names: usize = known.names.iter().map(String::len).sum();
        // The text stands for the query and its plan too.
        let bytes = size_of::<KnownAnswer>() + 4 * text.len() + names + known.records.bytes();
        bytes as u64
    }
}
