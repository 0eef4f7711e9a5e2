//! The cache's store on disk, behind the one in memory: bounded, warm after a restart, and never in the
//! way of a hit.
//!
//! A log of segments (`format`, `log`) takes resources as they are worth it (`admission`); an index in
//! memory (`index`) says where they are. One thread writes (`writer`), some read (`reader`), and no
//! lock that a request needs is held meanwhile. When the log is full its oldest segment goes, with all
//! it contains; so does what the log says of purges once nothing older is left.

mod admission;
mod content;
mod folder;
mod format;
mod index;
mod log;
mod reader;
mod recovery;
mod segments;
mod size;
mod tier;
mod writer;

pub use admission::DiskAdmission;
pub use folder::UnusableFolder;
pub use tier::{DiskFigures, DiskLimits, DiskTier, LoadedResource, PurgeReceipt};
pub use writer::UnrecordedPurge;

#[cfg(test)]
mod tests;
