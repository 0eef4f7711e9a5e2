//! Asking: who is asked for what, why the others are not, and what they see of the request.

pub(crate) mod admission;
pub(crate) mod eligibility;
pub mod guard;
pub(crate) mod mask;
pub(crate) mod not_asked;
pub(crate) mod outbound;
pub(crate) mod privacy;
