//! What RFC 9111 says about a request and a stored response.

pub mod combining;
pub mod control;
pub mod freshness;
pub mod invalidation;
pub mod ranges;
pub mod reuse;
pub mod storing;
pub mod validation;
pub mod vary;
