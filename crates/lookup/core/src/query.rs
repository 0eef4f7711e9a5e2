//! The query language, that of CMS DAS:
//!
//! ```text
//! query     := [key {("," | " ") key}] {condition} {"|" stage}
//!            | path {condition} {"|" stage}
//! condition := key "=" value
//!            | key "in" "[" value {"," value} "]"
//!            | key "between" "[" number "," number "]"
//!            | "date" "last" digits ("s" | "m" | "h" | "d")
//! stage     := "grep" item {"," item} | "sort" field ["-"] | "unique" | "limit" digits
//!            | aggregate {"," aggregate}
//! item      := field | field ("=" | "!=" | "<" | "<=" | ">" | ">=") value
//! aggregate := ("sum" | "count" | "min" | "max" | "avg" | "median") "(" field ")"
//! field     := key {"." name}
//! value     := number | word | quoted
//! ```
//!
//! Values of `date` are `20110124` or `"20110124 08:30:00"`, in UTC. `system` and `instance` choose
//! providers and are no conditions. A text with `*` is a pattern. A path stands for a condition:
//! `/a/b/c` for `dataset=/a/b/c`, with `#` for `block=…`, and one that ends with `.root` for `file=…`.

mod ast;
mod cursor;
mod json;
mod limits;
mod parse;
mod pipe;
mod print;
mod token;
mod value;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use ast::{
    Aggregate, AggregateFunction, Comparison, GrepItem, LookupQuery, PipeStage, QueryCondition,
    QueryTest, QueryValue,
};
pub use json::to_json;
pub use limits::QueryLimits;
pub use parse::parse;
pub(crate) use value::{loose_number, number};
pub use vocabulary::{DATE, KeyAttributes, Vocabulary, is_key_name, is_name};
