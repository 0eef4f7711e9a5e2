//! The rules of look-ups: what a query means, which providers answer it, and in which steps. Time is an
//! argument; sockets, files and threads belong to `lookup-serve`.

pub mod map;
pub mod pipe;
pub mod plan;
pub mod query;
pub mod records;
pub mod reuse;
pub mod schedule;
pub mod target;
pub mod wildcard;
