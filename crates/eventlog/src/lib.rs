//! A durable segmented log: framed records, group commit, recovery.
