//! Notices on the wire: calls to DSPs' URLs, and to the nodes that sealed a beacon.

mod client;
mod clock;
mod dispatcher;
mod journal;
mod nodes;
mod sealer;
mod settlements;
mod start;

pub use client::{CallError, NoticeClient, NoticeClientOptions, NoticeHost, ServerAnswer};
pub use clock::DeliveryClock;
pub use dispatcher::{
    BeaconAnswer, MARKUP_TIMEOUT, MarkupFetch, NoticeCommand, NoticeDispatcher, NoticeMonitor,
    NoticeSender, NoticeStatus, NoticeTiming,
};
pub use nodes::{ForeignBeacon, NodeClient};
pub use sealer::{NodeKey, Sealer, read_or_create_key};
pub use settlements::{NoBudgets, Settlements};
pub use start::{ReplayError, replay};
