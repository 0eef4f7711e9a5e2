//! The live floor as clients meet it: a foreign WebSocket client, a server that is killed, clients
//! that reconnect at random, that read nothing, or that send what is no command.

mod bad_input;
mod feed;
mod fixtures;
mod lots;
mod resume;
mod slow;
mod transcript;
mod watch;
