//! Commands that simulate a service's peers: the DSPs that an exchange calls, and the load on it.

pub(crate) mod dsp;
pub(crate) mod hammer;
pub(crate) mod long_run;
