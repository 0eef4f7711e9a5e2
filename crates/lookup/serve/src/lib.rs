//! Look-ups, outside of their rules: the files that describe providers.

pub mod maps;
