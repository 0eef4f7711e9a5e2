//! What holds for a whole process: its limit of descriptors, and signals.

mod descriptors;
mod sighup;
