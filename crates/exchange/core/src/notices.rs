//! Win, billing and loss notices: which there are, to whom, with what in them, and how those that
//! fire later are sealed until then. Sections 4.3, 4.4 and 7.2.
//!
//! Nothing here sends anything, opens a connection or keeps anything between auctions.

mod conclude;
mod expiry;
mod markup;
mod on_win;
#[cfg(test)]
pub(crate) mod rehearsal;
mod token;
mod url;

pub use conclude::{
    BeaconBase, BilledSale, Cleared, Conclusion, NotSent, Notice, Sealing, Unsent, conclude,
};
pub use expiry::Lifetimes;
pub use markup::Unmarked;
pub use on_win::{Fetched, Wanted, checked_markup, markup_wanted};
pub(crate) use on_win::{fetches_markup, is_out_of_reach as markup_is_out_of_reach};
pub use token::{Claims, KeyRing, TOKEN_BYTES_MAX, TokenError, TokenId};
pub use url::{NoticeTarget, URL_BYTES_MAX};
