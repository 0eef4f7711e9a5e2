//! Win, billing and loss notices: which there are, to whom, with what in them, and how those that
//! fire later are sealed until then. Sections 4.3, 4.4 and 7.2.
//!
//! Nothing here sends anything, opens a connection or keeps anything between auctions.

pub(crate) mod conclude;
pub mod delivery;
pub(crate) mod markup;
pub(crate) mod reservation;
pub(crate) mod token;
