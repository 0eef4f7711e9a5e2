//! The record on disk: its directory, lanes, positions and damage.

pub mod chain;
pub mod directory;
pub mod follow;
pub mod lane;
pub mod position;
