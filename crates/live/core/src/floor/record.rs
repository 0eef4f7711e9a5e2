//! What the floor logs.

use serde::Serialize;

use crate::lots::{Lot, LotEventKind, LotHistoryEntry, LotId, LotState, LotTerms, LotView};
use crate::ports::HoldAttempt;

/// A record of a lot. Those of a lot, in order, are all that its state follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotRecord {
    /// The lot.
    pub lot: LotId,
    /// When the server received its cause, in Unix milliseconds.
    pub at_ms: u64,
    /// What happened.
    pub body: LotRecordBody,
    /// What everyone may know of it: a JSON object. None if it is secret. A replay must come to the
    /// same.
    pub news: Option<String>,
}

/// What happened to a lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LotRecordBody {
    /// It was created.
    Created(Box<LotTerms>),
    /// An event of the lot.
    Event {
        /// The event.
        kind: LotEventKind,
        /// The attempt by which the ledger holds the money of a bid. None of other events.
        attempt: Option<HoldAttempt>,
    },
    /// The ledger has charged what the winner paid at the close: it is not told again.
    Paid,
}

#[derive(Serialize)]
struct CreatedNews<'n> {
    event: &'static str,
    #[serde(flatten)]
    lot: &'n LotView,
}

#[derive(Serialize)]
struct EventNews<'n> {
    event: &'static str,
    id: &'n str,
    /// The bid, unless it is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    bid: Option<LotHistoryEntry>,
    #[serde(flatten)]
    state: &'n LotState,
}

/// The news of a lot that was created.
pub(super) fn created_news(lot: &Lot) -> String {
    to_json(&CreatedNews { event: "created", lot: &lot.view() })
}

/// The news of the lot's last event.
pub(super) fn event_news(lot: &Lot, event: &'static str) -> String {
    let bid = (event == "bid").then(|| lot.last_bid()).flatten();
    to_json(&EventNews { event, id: lot.terms().id.as_str(), bid, state: &lot.state() })
}

fn to_json(news: &impl Serialize) -> String {
    serde_json::to_string(news).expect("texts and numbers are JSON")
}

/// Whether recorded news say the same as those of the replay. Later releases may say more.
pub(super) fn is_same_news(recorded: &str, replayed: &str) -> bool {
    let parse = serde_json::from_str::<serde_json::Map<_, _>>;
    let (Ok(recorded), Ok(replayed)) = (parse(recorded), parse(replayed)) else { return false };
    recorded.iter().all(|(field, value)| replayed.get(field) == Some(value))
}
