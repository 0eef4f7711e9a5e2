//! Tests of `auction`.
