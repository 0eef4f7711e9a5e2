//! What a subscription selects: a topic, a filter, and what the client may see of it. Subscribers
//! with the same selection share a view.

use audit::{FILTER_BYTES_MAX, Filter};
use live_core::protocol::{LiveError, LiveErrorCode};
use live_core::rights::TopicScope;
use live_core::topic::TopicName;

use super::auction::{AuctionPart, NamedAuction};

/// Identifies a selection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SelectionKey {
    pub topic: TopicName,
    pub filter: String,
    pub scope: TopicScope,
}

/// A selection, ready to be applied.
#[derive(Debug)]
pub(crate) struct Selection {
    pub key: SelectionKey,
    filter: Filter,
}

impl Selection {
    /// Parses the filter of a subscription.
    ///
    /// # Errors
    /// It is no filter, is about time, or the topic has none.
    pub fn new(topic: TopicName, filter: &str, scope: TopicScope) -> Result<Self, LiveError> {
        let wrong = |message: String| LiveError::field(LiveErrorCode::BadFilter, "filter", message);
        // Its position in the feed is the only time that a subscription knows.
        let filter = Filter::parse(filter, 0).map_err(|error| {
            let words: String = error.to_string().chars().take(FILTER_BYTES_MAX).collect();
            wrong(words)
        })?;
        if filter.is_about_time() {
            return Err(wrong("a feed has no filter by time: resume with `after`".to_owned()));
        }
        let is_of_auctions = matches!(&topic, TopicName::Feed(topic) if topic.is_of_auctions());
        if !filter.is_empty() && !is_of_auctions {
            return Err(wrong(format!("the topic `{topic}` has no filter: leave it out")));
        }
        let key = SelectionKey { topic, filter: filter.text().to_owned(), scope };
        Ok(Self { key, filter })
    }

    /// Whether a message about an auction is selected.
    pub fn has_part(&self, auction: &NamedAuction<'_, '_>, part: &AuctionPart) -> bool {
        if let TopicScope::Seats(_) = self.key.scope {
            let is_granted =
                auction.seat(part).is_some_and(|(dsp, seat)| self.key.scope.has_seat(&dsp, &seat));
            if !is_granted {
                return false;
            }
        }
        let NamedAuction { record, generation } = *auction;
        self.filter.is_empty()
            || self.filter.matches_among(
                record,
                generation,
                part.bids.iter().map(|&at| &record.bids[at]),
            )
    }
}
