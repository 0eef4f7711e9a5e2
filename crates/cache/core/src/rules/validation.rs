//! Validation (RFC 9111, section 4.3): validators and conditions on them, and what a 304 updates.

pub mod freshening;
pub mod validators;
