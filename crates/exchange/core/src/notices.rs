//! Win, billing and loss notices (sections 4.3, 4.4 and 7.2): their recipients and contents, and
//! the sealing of those that fire later. Sends nothing and keeps nothing between auctions.

pub(crate) mod cached_markup;
pub(crate) mod conclude;
pub mod delivery;
pub(crate) mod markup;
pub(crate) mod reservation;
pub(crate) mod token;
