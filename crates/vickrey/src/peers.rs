//! Commands that play a service's peers: the DSPs that an exchange asks, and the load that it is put under.

pub(crate) mod dsp;
pub(crate) mod hammer;
