//! The seats of a DSP, found by name.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

/// Fewer seats are scanned instead of hashed.
const SCANNED_MAX: usize = 16;

/// Names of seats, in order. Clones share their data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seats(Arc<SeatNames>);

#[derive(Debug, PartialEq, Eq)]
struct SeatNames {
    names: Box<[Box<str>]>,
    positions: HashMap<Box<str>, usize>,
}

impl Seats {
    /// The position of the first seat of that name.
    pub fn position(&self, name: &str) -> Option<usize> {
        let SeatNames { names, positions } = &*self.0;
        if names.len() <= SCANNED_MAX {
            return names.iter().position(|own| **own == *name);
        }
        positions.get(name).copied()
    }
}

impl From<&[Box<str>]> for Seats {
    fn from(names: &[Box<str>]) -> Self {
        names.iter().cloned().collect()
    }
}

impl FromIterator<Box<str>> for Seats {
    fn from_iter<I: IntoIterator<Item = Box<str>>>(names: I) -> Self {
        let names: Box<[Box<str>]> = names.into_iter().collect();
        let mut positions = HashMap::new();
        if names.len() > SCANNED_MAX {
            for (position, name) in names.iter().enumerate() {
                positions.entry(name.clone()).or_insert(position);
            }
        }
        Self(Arc::new(SeatNames { names, positions }))
    }
}

impl Deref for Seats {
    type Target = [Box<str>];

    fn deref(&self) -> &Self::Target {
        &self.0.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_at_its_first_place() {
        for len in [0, 1, SCANNED_MAX, SCANNED_MAX + 1, 1000] {
            let names: Vec<Box<str>> = (0..len).map(|at| format!("s{at}").into()).collect();
            let doubled: Vec<_> = names.iter().chain(&names).cloned().collect();
            for (seats, all) in [(&names, len), (&doubled, 2 * len)] {
                let seats = Seats::from(seats.as_slice());
                assert_eq!((seats.len(), seats.position("s")), (all, None));
                for (at, name) in names.iter().enumerate() {
                    assert_eq!(seats.position(name), Some(at), "{len}");
                    assert_eq!(&seats[at], name);
                }
            }
        }
    }
}
