//! The store among real processes.

mod killed;
