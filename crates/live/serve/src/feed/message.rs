//! Which messages a record has, and who selected them.

use std::hash::{BuildHasher as _, RandomState};

use audit::{GenerationRecord, Publication, RecordPosition};
use live_core::topic::{FeedTopic, TopicName};

use super::auction::{AuctionPart, NamedAuction};
use super::place::{LotNewsRecord, MessagePlace, MissingRecords};
use super::selection::Selection;

/// A record that subscribers may want.
pub(crate) enum FeedRecord<'r> {
    /// An auction.
    Auction(NamedAuction<'r, 'r>),
    /// What a client published.
    Publication(Publication<'r>),
    /// What everyone may know of a lot.
    Lot(LotNewsRecord),
    /// A configuration that came into force.
    Generation(Box<GenerationRecord>),
    /// Records that are missing.
    Missing(MissingRecords),
}

/// A message of a record: not written yet.
pub(crate) struct RecordMessage<'m> {
    pub place: MessagePlace<'m>,
    content: MessageContent<'m>,
}

enum MessageContent<'m> {
    Auction(&'m NamedAuction<'m, 'm>, &'m AuctionPart),
    Publication(&'m Publication<'m>),
    Lot(&'m LotNewsRecord),
    Generation(&'m GenerationRecord),
    Missing(&'m MissingRecords),
}

impl FeedRecord<'_> {
    /// Calls `visit` with each message of a topic, whose lane the record is of, in order.
    pub fn for_each_message(
        &self,
        topic: &TopicName,
        record: &RecordPosition,
        visit: &mut dyn FnMut(&RecordMessage<'_>),
    ) {
        let (name, lane, record) = (topic.as_str(), topic.lane(), *record);
        let at = |part| MessagePlace { topic: name, lane, record, part };
        let mut visit = |place, content| visit(&RecordMessage { place, content });
        match (self, topic) {
            (Self::Auction(auction), TopicName::Feed(topic)) => {
                let parts = auction.parts(*topic);
                for part in &parts {
                    visit(at(part.number), MessageContent::Auction(auction, part));
                }
            }
            (Self::Publication(publication), TopicName::Declared(name))
                if name == publication.topic =>
            {
                visit(at(0), MessageContent::Publication(publication));
            }
            (Self::Lot(news), TopicName::Feed(FeedTopic::Lots)) => {
                visit(at(0), MessageContent::Lot(news));
            }
            (Self::Generation(generation), TopicName::Feed(FeedTopic::System)) => {
                visit(at(0), MessageContent::Generation(generation));
            }
            (Self::Missing(missing), _) => visit(at(0), MessageContent::Missing(missing)),
            _ => (),
        }
    }
}

impl RecordMessage<'_> {
    /// Whether a subscription to its topic has it.
    pub fn is_selected(&self, selection: &Selection) -> bool {
        match &self.content {
            MessageContent::Auction(auction, part) => selection.has_part(auction, part),
            // A missing record might have been selected.
            _ => true,
        }
    }

    /// What it is about: a later message of the topic about the same replaces it for subscribers
    /// that conflate.
    pub fn key(&self, hasher: &RandomState) -> u64 {
        match &self.content {
            MessageContent::Auction(auction, part) => auction.key(part, hasher),
            MessageContent::Publication(of) => hasher.hash_one((of.publisher, of.key)),
            MessageContent::Lot(news) => hasher.hash_one(&news.lot),
            MessageContent::Generation(_) => 0,
            MessageContent::Missing(_) => hasher.hash_one(self.place.position()),
        }
    }

    /// Appends its frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.content {
            MessageContent::Auction(auction, part) => auction.write(part, &self.place, out),
            MessageContent::Publication(publication) => {
                self.place.write_publication(publication, out);
            }
            MessageContent::Lot(news) => self.place.write_lot(news, out),
            MessageContent::Generation(generation) => self.place.write_generation(generation, out),
            MessageContent::Missing(missing) => self.place.write_gap(missing, out),
        }
    }
}
