//! The columns by which a report is grouped.

use std::str::FromStr;

use diagnostics::{nearest, shortened};
use strum::{IntoStaticStr, VariantArray};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ReportColumn {
    /// The hour of the auction, in UTC.
    Hour,
    /// The day of the auction, in UTC.
    Day,
    /// The publisher.
    Publisher,
    /// Formats of the impression.
    Format,
    /// The DSP that was called or bid.
    Dsp,
    /// The seat that bid.
    Seat,
    /// The deal that the bid is under.
    Deal,
    /// The campaign that the bid is for.
    Campaign,
}

units::labelled!(ReportColumn);

impl ReportColumn {
    /// Whether each bid has its own value.
    pub(super) const fn is_of_bids(self) -> bool {
        matches!(self, Self::Dsp | Self::Seat | Self::Deal | Self::Campaign)
    }
}

/// The columns of a report, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportColumns(Vec<ReportColumn>);

/// An error in a list of columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// An unknown column.
    #[error(
        "there is no column `{0}`: known are hour, day, publisher, format, dsp, seat, deal and campaign{1}"
    )]
    Unknown(String, String),
    /// A duplicate.
    #[error("`{0}` is there twice")]
    Twice(&'static str),
}

impl ReportColumns {
    /// The columns, in order.
    pub fn iter(&self) -> impl Iterator<Item = ReportColumn> {
        self.0.iter().copied()
    }

    /// Whether groups are by bids.
    pub fn are_of_bids(&self) -> bool {
        self.iter().any(ReportColumn::is_of_bids)
    }

    pub(super) fn has(&self, column: ReportColumn) -> bool {
        self.0.contains(&column)
    }

    /// Whether a called DSP without a bid is in a group.
    pub(super) fn count_calls(&self) -> bool {
        self.has(ReportColumn::Dsp)
            && self.iter().all(|column| column == ReportColumn::Dsp || !column.is_of_bids())
            && !self.has(ReportColumn::Format)
    }
}

impl FromStr for ReportColumns {
    type Err = ColumnError;

    fn from_str(text: &str) -> Result<Self, ColumnError> {
        let mut columns = Vec::new();
        for name in text.split(',').map(str::trim) {
            let known = ReportColumn::ALL.into_iter().find(|column| column.label() == name);
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
    let near = nearest(name, ReportColumn::ALL.into_iter().map(ReportColumn::label));
    let near = near.map_or_else(String::new, |near| format!(". Did you mean `{near}`?"));
    ColumnError::Unknown(shortened(name), near)
}
