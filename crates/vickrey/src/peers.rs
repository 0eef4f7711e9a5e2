//! Commands that simulate a service's peers: the DSPs that an exchange calls, the origin of a cache, and
//! the load on both.

pub(crate) mod dsp;
pub(crate) mod hammer;
pub(crate) mod long_run;
pub(crate) mod origin;
