//! The syntax of header fields, and those that a proxy removes or adds.

pub mod dates;
pub mod forwarding;
pub mod lists;
pub mod surrogate;
