//! By what a report is grouped.

use std::str::FromStr;

use strum::{IntoStaticStr, VariantArray};

/// What auctions, impressions or bids are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Column {
    /// The hour of the auction, in UTC.
    Hour,
    /// The day of the auction, in UTC.
    Day,
    /// Who is paid.
    Publisher,
    /// What impressions take.
    Format,
    /// Who was asked, or has bid.
    Dsp,
    /// On whose behalf was bid.
    Seat,
    /// Under which deal was bid.
    Deal,
    /// For which campaign was bid.
    Campaign,
}

units::labelled!(Column);

impl Column {
    /// Whether each of an auction's bids has one of its own.
    pub(super) const fn is_of_bids(self) -> bool {
        matches!(self, Self::Dsp | Self::Seat | Self::Deal | Self::Campaign)
    }
}

/// Columns of a report, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

/// What is wrong with a list of columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// There is no such column.
    #[error(
        "there is no column `{0}`: known are hour, day, publisher, format, dsp, seat, deal and campaign{1}"
    )]
    Unknown(String, String),
    /// It is there twice.
    #[error("`{0}` is there twice")]
    Twice(&'static str),
}

impl Columns {
    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = Column> {
        self.0.iter().copied()
    }

    /// Whether groups are of bids.
    pub fn are_of_bids(&self) -> bool {
        self.iter().any(Column::is_of_bids)
    }

    pub(super) fn has(&self, column: Column) -> bool {
        self.0.contains(&column)
    }

    /// Whether who was asked is in a group without a bid.
    pub(super) fn count_calls(&self) -> bool {
        self.has(Column::Dsp)
            && self.iter().all(|column| column == Column::Dsp || !column.is_of_bids())
            && !self.has(Column::Format)
    }
}

impl FromStr for Columns {
    type Err = ColumnError;

    fn from_str(text: &str) -> Result<Self, ColumnError> {
        let mut columns = Vec::new();
        for name in text.split(',').map(str::trim) {
            let known = Column::ALL.into_iter().find(|column| column.label() == name);
            let column = known.ok_or_else(|| unknown(name))?;
            if columns.contains(&column) {
                return Err(ColumnError::Twice(column.label()));
            }
            columns.push(column);
        }
        Ok(Self(columns))
    }
}

fn unknown(name: &str) -> ColumnError {
    let name: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    let distance = |column: &Column| strsim::damerau_levenshtein(&name, column.label());
    let near = Column::ALL.into_iter().min_by_key(distance);
    let near = near.filter(|near| distance(near) <= 2 && distance(near) < name.chars().count());
    let near = near.map_or_else(String::new, |near| format!(". Did you mean `{}`?", near.label()));
    ColumnError::Unknown(name, near)
}
