//! `[exchange.cache]`: winners' markup is stored, and the response says where.

use std::time::Duration;

use exchange_core::{CacheUrl, MarkupKind};
use runtime::config::{Required, Section, secs};

pub(super) const ABOUT: &str = "Stores the winners' markup in [cache.puts], and says in `ext.prebid` of \
                                their bids where it is: see docs/cache.md.";

/// The table `[exchange.cache]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkupCacheConfig {
    /// Where pages and players reach the cache.
    pub url: CacheUrl,
    /// For how long a bid is kept. None: bids are not stored.
    pub bids: Option<Duration>,
    /// For how long a VAST document is kept. None: documents are not stored.
    pub vast: Option<Duration>,
}

impl MarkupCacheConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let url = s.parsed(
            "url",
            Required("https://cache.example/cache"),
            |url| {
                CacheUrl::parse(url).ok_or_else(|| {
                    "needs the form \"https://host/path\", without a query: the path is that of \
                     [cache.puts]"
                        .to_owned()
                })
            },
            "URL at which pages and players reach `path` of [cache.puts].",
        );
        let bids = s.boolean(
            "bids",
            true,
            "Whether to store the JSON of each winning bid (targeting key `hb_cache_id`).",
        );
        let bids_ttl =
            s.duration("bids_ttl", "5m", secs(1)..=secs(7 * 86_400), "How long a bid is kept.");
        let vast = s.boolean(
            "vast",
            true,
            "Whether to store the VAST document of winning video and audio ads (`hb_uuid`).",
        );
        let vast_ttl = s.duration(
            "vast_ttl",
            "30m",
            secs(1)..=secs(7 * 86_400),
            "How long a VAST document is kept.",
        );
        Self { url, bids: bids.then_some(bids_ttl), vast: vast.then_some(vast_ttl) }
    }

    /// For how long this is kept. None if it is not stored.
    pub const fn lifetime(&self, kind: MarkupKind) -> Option<Duration> {
        match kind {
            MarkupKind::Bid => self.bids,
            MarkupKind::Vast => self.vast,
        }
    }
}
