//! Bid increments: by how much a bid must exceed the price, in bands of the price.

use units::Cpm;

/// Maximum number of bands.
pub const INCREMENT_BANDS_MAX: usize = 16;

/// An increment, and the prices it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncrementBand {
    /// The lowest price of the band; the next band's ends it.
    pub from: Cpm,
    /// By how much a bid must exceed a price of the band.
    pub increment: Cpm,
}

/// Bands of increments, the first from 0, each from a higher price than the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncrementBands(pub Vec<IncrementBand>);

impl IncrementBands {
    /// The increment at a price: that of the last band which starts at or below it.
    ///
    /// # Panics
    ///
    /// If no band starts at 0, which [`IncrementBands::problem`] reports.
    pub fn at(&self, price: Cpm) -> Cpm {
        let band = self.0.iter().rev().find(|band| band.from <= price);
        band.expect("the first band starts at 0").increment
    }

    /// The price and its increment, at most [`Cpm::MAX`].
    pub fn after(&self, price: Cpm) -> Cpm {
        price.saturating_add(self.at(price))
    }

    /// The first rule that the bands break, and the remedy. None if they are sound.
    pub fn problem(&self) -> Option<(String, String)> {
        let count = self.0.len();
        if count == 0 || count > INCREMENT_BANDS_MAX {
            let remedy = format!("give 1 to {INCREMENT_BANDS_MAX} bands");
            return Some((format!("has {count} bands"), remedy));
        }
        if let Some(first) = self.0.first().filter(|band| band.from > Cpm::ZERO) {
            let problem = format!("starts at {}", first.from);
            return Some((problem, "let the first band start at 0".to_owned()));
        }
        if let Some(pair) = self.0.windows(2).find(|pair| pair[1].from <= pair[0].from) {
            let problem =
                format!("has a band from {} after that from {}", pair[1].from, pair[0].from);
            return Some((problem, "sort the bands by price, each once".to_owned()));
        }
        let zero = self.0.iter().find(|band| band.increment == Cpm::ZERO)?;
        let problem = format!("has no increment from {}", zero.from);
        Some((problem, "give an increment above 0".to_owned()))
    }
}
