//! Definitions as text: JSON without repeated names, JSON as TOML, and texts kept packed.

pub(super) mod json;
pub(super) mod members;
pub(super) mod packed;
