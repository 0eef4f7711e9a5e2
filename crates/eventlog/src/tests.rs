//! The log on a disk that fails, on a real one, and its bytes.

mod damage;
mod faults;
mod files;
mod format;
mod retention;
mod seek;
