//! Why the records of an answer cannot be read.

/// Why the records of an answer cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableRecords {
    /// It is not of the format that the map says.
    #[error("the answer is not {0}: {1}")]
    Malformed(&'static str, String),
    /// The path of the map leads nowhere.
    #[error("the answer has no `{0}`")]
    NoRecords(String),
    /// Too many records.
    #[error("the answer has more than {0} records")]
    TooManyRecords(usize),
    /// It may be the message of a failure.
    #[error("no record of the answer has a `{0}`")]
    NoNames(String),
    /// Too many values.
    #[error("the answer's records have more than {0} values")]
    TooManyValues(usize),
    /// Too many fields.
    #[error("the answer's records have more than {0} fields")]
    TooManyFields(usize),
}
