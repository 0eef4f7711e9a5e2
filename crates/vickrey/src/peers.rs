//! Commands that simulate a service's peers: the DSPs that an exchange calls, the origin of a cache, the
//! providers of look-ups, and the load on all of them.

pub(crate) mod dsp;
pub(crate) mod hammer;
pub(crate) mod long_run;
pub(crate) mod origin;
pub(crate) mod provider;
