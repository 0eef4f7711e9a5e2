//! The log on a disk that fails, on a real one, and its bytes; its lanes, stepped and threaded.

mod chain;
mod damage;
mod faults;
mod files;
mod follow;
mod format;
mod lane;
mod newest;
mod retention;
mod seek;
