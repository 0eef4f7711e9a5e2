//! The record as it stands on the disk: its directory, the lanes in it, their records and damage.

pub mod chain;
pub mod directory;
pub mod follow;
pub mod lane;
pub mod place;
