//! Applies purges to the entries of the store, a few at a time, while the shard serves.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::CacheShard;

/// Places of the directory's list that are visited before others have their turn: some 10 us.
const VISITED_AT_A_TIME: usize = 64;

/// Longest rest after a sweep. Purges that come without a break must not take the shard for sweeps
/// alone, nor wait until there are too many.
const REST_MAX: Duration = Duration::from_millis(200);

/// Runs as long as its shard; one shard's is enough.
pub(crate) async fn sweep(shard: Rc<CacheShard>) {
    loop {
        let purges = shard.store.unswept().await;
        let begun = Instant::now();
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            cursor = shard.sweep(&purges, at, VISITED_AT_A_TIME);
            tokio::task::yield_now().await;
        }
        sleep(begun.elapsed().min(REST_MAX)).await;
    }
}
