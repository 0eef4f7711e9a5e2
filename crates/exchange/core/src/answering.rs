//! Answering: the bids returned to the caller, their prices and macro values.

pub(crate) mod notice_url;
pub(crate) mod other_bids;
pub(crate) mod response;
pub(crate) mod sale;
pub(crate) mod values;
pub(crate) mod win_markup;
