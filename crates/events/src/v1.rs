//! Version 1 of the schema, as prost's types.
#![allow(missing_docs, reason = "generated: see the schema")]

include!(concat!(env!("OUT_DIR"), "/vickrey.v1.rs"));
