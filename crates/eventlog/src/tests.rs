//! The log on failing and real disks, its format, and its lanes, stepped and threaded.

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
