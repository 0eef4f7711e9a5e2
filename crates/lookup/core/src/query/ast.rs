//! A query, parsed.

/// What is asked, of which providers, and what happens to the records.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupQuery {
    /// The keys whose records are wanted.
    pub fields: Vec<String>,
    /// At most one for each key.
    pub conditions: Vec<QueryCondition>,
    /// Names of the systems that may answer. Empty: all.
    pub systems: Vec<String>,
    /// The instance of the providers. None: their default.
    pub instance: Option<String>,
    /// What happens to the records, in this order.
    pub pipe: Vec<PipeStage>,
}

/// What must hold for a key.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryCondition {
    /// The key.
    pub key: String,
    /// What must hold.
    pub test: QueryTest,
}

/// What must hold for a value.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryTest {
    /// It is this, or matches this pattern.
    Is(QueryValue),
    /// It is one of these, or matches one.
    In(Vec<QueryValue>),
    /// It lies between these, which are numbers or times, both included.
    Between([QueryValue; 2]),
    /// It is a time of the last so many seconds.
    Last(u64),
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryValue {
    /// A whole number.
    Integer(i64),
    /// A number with a decimal point.
    Decimal(f64),
    /// A text; a `*` in it stands for any characters.
    Text(String),
    /// Seconds since 1970, in UTC.
    Time(i64),
}

/// One step of what happens to records.
#[derive(Clone, Debug, PartialEq)]
pub enum PipeStage {
    /// Keeps the records for which all comparisons hold. If any items have none, only the fields that
    /// are named remain.
    Grep(Vec<GrepItem>),
    /// Orders records by a field, without changing the order of equal ones.
    Sort {
        /// The field.
        field: String,
        /// Whether the largest comes first.
        is_descending: bool,
    },
    /// Removes repeated records.
    Unique,
    /// Keeps so many records.
    Limit(u64),
    /// Replaces the records with what they amount to.
    Aggregate(Vec<Aggregate>),
}

/// An item of `grep`.
#[derive(Clone, Debug, PartialEq)]
pub struct GrepItem {
    /// A key, or a key and the names of its attribute: `file.size`.
    pub field: String,
    /// None if the field is only to be kept.
    pub comparison: Option<(Comparison, QueryValue)>,
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// The sign.
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// What all values of a field amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// How.
    pub function: AggregateFunction,
    /// The field.
    pub field: String,
}

/// How values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// Their sum.
    Sum,
    /// How many there are.
    Count,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Their mean.
    Avg,
    /// The middle one, or the mean of the two in the middle.
    Median,
}

impl AggregateFunction {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Sum, Self::Count, Self::Min, Self::Max, Self::Avg, Self::Median];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Count => "count",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::Median => "median",
        }
    }
}
