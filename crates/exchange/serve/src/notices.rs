//! Notices on the wire: calls to DSPs' URLs, and the beacons that trigger them.

pub(crate) mod beacon;
mod client;
mod dispatcher;
mod journal;
mod nodes;
mod sealer;
mod settlements;
mod start;

pub use client::{CallError, NoticeClient, ServerAnswer};
pub use dispatcher::{
    BeaconAnswer, DeliveryClock, MarkupFetch, NoticeCommand, NoticeDispatcher, NoticeMonitor,
    NoticeSender, NoticeStatus, NoticeTiming, unix_ms,
};
pub use nodes::{ForeignBeacon, NodeClient};
pub use sealer::{Sealer, own_key};
pub use settlements::{Settlements, Unbudgeted};
pub use start::{ReplayError, replay};
