//! A message as it is sent: where it comes from, and its frame.

use audit::{GenerationRecord, Publication, RecordPosition};
use live_core::feed::{FeedLane, FeedPosition};
use live_core::websocket::ServerFrameHeader;
use serde::Serialize;
use serde_json::value::RawValue;

/// Where a message comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessagePlace<'p> {
    pub topic: &'p str,
    pub lane: FeedLane,
    pub record: RecordPosition,
    /// Number of the message among those of its record and topic.
    pub part: u16,
}

/// A message as it is sent.
#[derive(Serialize)]
struct FeedMessage<'m, D> {
    r#type: &'static str,
    topic: &'m str,
    node: u32,
    lane: FeedLane,
    epoch: u64,
    sequence: u64,
    part: u16,
    time_ms: u64,
    data: &'m D,
}

impl MessagePlace<'_> {
    /// Its position.
    pub const fn position(&self) -> FeedPosition {
        let RecordPosition { epoch, sequence, .. } = self.record;
        FeedPosition { epoch, sequence, part: self.part }
    }

    /// Appends the frame of a message with this content.
    pub fn write<D: Serialize>(&self, data: &D, out: &mut Vec<u8>) {
        self.write_as("message", data, out);
    }

    fn write_as<D: Serialize>(&self, kind: &'static str, data: &D, out: &mut Vec<u8>) {
        let Self { topic, lane, record, part } = *self;
        let RecordPosition { node, epoch, sequence, time_ms } = record;
        let message =
            FeedMessage { r#type: kind, topic, node, lane, epoch, sequence, part, time_ms, data };
        let text = serde_json::to_vec(&message).expect("texts and numbers are JSON");
        out.extend_from_slice(ServerFrameHeader::text(text.len()).as_bytes());
        out.extend_from_slice(&text);
    }

    /// Appends the frame of what a client published.
    pub fn write_publication(&self, publication: &Publication<'_>, out: &mut Vec<u8>) {
        // It was checked before it was recorded.
        let body = serde_json::from_str::<&RawValue>(publication.body).unwrap_or(RawValue::NULL);
        let Publication { publisher, key, .. } = *publication;
        self.write(&PublishedBody { publisher, key, body }, out);
    }

    /// Appends the frame of the news of a lot.
    pub fn write_lot(&self, news: &LotNewsRecord, out: &mut Vec<u8>) {
        // The floor wrote them.
        let body = serde_json::from_str::<&RawValue>(&news.text).unwrap_or(RawValue::NULL);
        self.write(&body, out);
    }

    /// Appends the frame of a change of the configuration.
    pub fn write_generation(&self, generation: &GenerationRecord, out: &mut Vec<u8>) {
        let GenerationRecord { number, since_unix_ms, dsps, campaigns, .. } = generation;
        let dsps = dsps.iter().map(|dsp| &*dsp.id).collect();
        let (number, since_ms, campaigns) = (*number, *since_unix_ms, *campaigns);
        self.write(&GenerationSummary { number, since_ms, dsps, campaigns }, out);
    }

    /// Appends the frame of a gap: records that are not in the log, and so in no message.
    pub fn write_gap(&self, missing: &MissingRecords, out: &mut Vec<u8>) {
        self.write_as("gap", missing, out);
    }
}

/// What everyone may know of an event of a lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LotNewsRecord {
    /// The lot.
    pub lot: String,
    /// JSON.
    pub text: String,
}

/// Records that subscribers do not get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MissingRecords {
    /// How many.
    pub records: u64,
    pub reason: MissingReason,
}

/// Why records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissingReason {
    /// The log could not take them.
    Shed,
    /// They were so old that they were removed.
    Removed,
    /// They were damaged.
    Damaged,
}

#[derive(Serialize)]
struct PublishedBody<'p> {
    publisher: &'p str,
    key: &'p str,
    body: &'p RawValue,
}

#[derive(Serialize)]
struct GenerationSummary<'g> {
    number: u64,
    since_ms: u64,
    dsps: Vec<&'g str>,
    campaigns: u64,
}
