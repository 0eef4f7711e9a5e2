//! Seeded simulation of the pure cores under faults.
