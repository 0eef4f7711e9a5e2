//! The pacer on the wire, as bidders meet it: a server that is killed, clients that are cut off,
//! bytes that are not frames. The books are compared to the nano.

mod bad_input;
mod ceilings;
mod clients;
mod exchanges;
mod fixtures;
mod full;
mod killed;
mod life;
mod reload;
mod soak;
