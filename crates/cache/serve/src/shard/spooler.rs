//! Writes entries to the disk that were asked for again while in memory, a few at a time.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::CacheShard;

/// Places of the directory's list that are visited before others have their turn.
const VISITED_AT_A_TIME: usize = 64;

/// Shortest rest after all entries were visited.
const REST_MIN: Duration = Duration::from_secs(1);

/// The rest is so many times as long as the visits: a shard gives little of its time for them.
const REST_FACTOR: u32 = 20;

/// Runs as long as its shard; one shard's is enough.
pub(crate) async fn spool(shard: Rc<CacheShard>) {
    while shard.store.disk.is_some() {
        let begun = Instant::now();
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            cursor = shard.write_reused(at, VISITED_AT_A_TIME);
            tokio::task::yield_now().await;
        }
        sleep((begun.elapsed() * REST_FACTOR).max(REST_MIN)).await;
    }
}
