//! Selects DSPs and what they are asked for, the reasons for others, and their view of the request.

pub(crate) mod admission;
pub(crate) mod eligibility;
mod enrich;
pub mod guard;
pub(crate) mod mask;
pub(crate) mod not_asked;
pub(crate) mod outbound;
pub(crate) mod privacy;
