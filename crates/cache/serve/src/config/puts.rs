//! `[cache.puts]`: values that clients store and ask for by UUID, as in Prebid Cache.

use std::time::Duration;

use cache_core::fields::dates::Seconds;
use cache_core::puts::PutLimits;
use http_kit::body::BodyLimits;
use runtime::config::{Section, secs};

/// What a value's text may grow by in JSON: `<` as `\u003c`.
const ESCAPED_BYTES: usize = 6;

/// The table `[cache.puts]`.
#[derive(Clone, Debug)]
pub struct PutsConfig {
    /// The path, on any host.
    pub path: String,
    /// Limits on what one request stores.
    pub limits: PutLimits,
    /// Limits on a request's body.
    pub body: BodyLimits,
}

impl PutsConfig {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let path = s.parsed(
            "path",
            "/cache",
            |path| match path.starts_with('/') && !path.contains(['?', '#']) {
                true => Ok(path.to_owned()),
                false => Err("must begin with `/`, without a query".to_owned()),
            },
            "Path of POST and GET, on any host. It stands above all routes.",
        );
        let count_max =
            s.integer("count", 10, 1..=1_000_usize, "Maximum number of values of a POST.");
        let value_max = s.bytes("value_max", "10KiB", 64..=16 << 20, "Maximum size of a value.");
        let ttl_max = s.duration(
            "ttl_max",
            "1h",
            secs(1)..=secs(366 * 86_400),
            "Lifetime of values that ask for more, or for none.",
        );
        let timeout = s.duration(
            "body_timeout",
            "5s",
            Duration::from_millis(10)..=secs(600),
            "Maximum time for the body of a POST.",
        );
        let bytes_max = count_max.saturating_mul(value_max.saturating_mul(ESCAPED_BYTES)) + 4_096;
        Self {
            path,
            limits: PutLimits { count_max, value_max, ttl_max: Seconds(ttl_max.as_secs()) },
            body: BodyLimits { bytes_max, timeout },
        }
    }
}
