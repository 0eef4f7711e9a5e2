//! The rules of look-ups: what a query means. Time is an argument; sockets, files and threads belong to
//! others.

pub mod query;
