//! What look-ups of single values found, in memory, for those who cannot wait for an answer.
//!
//! A value that is not there, or has expired, is looked up in the background, on the look-up thread.

mod entry;
pub(crate) mod refresh;
mod rule;
mod values;

pub use rule::{FieldValues, MemoryLoad, MemoryRule};
pub(crate) use values::RuleQueue;
pub use values::{LOOKUP_MEMORIES, LookupMemories, LookupMemory, NotRemembered, RememberedValue};
