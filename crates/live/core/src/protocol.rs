//! What clients say and what they are told: JSON texts over WebSocket, as `docs/live.md` has them.

mod command;
mod error;
mod reply;

pub use command::{BidCommand, Command, LotsCommand, ParsedCommand, Subscribe};
pub use error::{LiveError, LiveErrorCode};
pub use reply::{FeedOrigin, ServerMessage};
