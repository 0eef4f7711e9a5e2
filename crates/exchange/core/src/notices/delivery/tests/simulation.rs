//! Simulates delivery over the real shared log, with failing disks, failing and hanging DSPs, and a
//! ledger that is saved now and then, life after life by seed. Checks invariants at every step.

mod books;
mod log;
mod world;

use world::World;

const SEEDS: u64 = 200;
/// A rare run in which a failing DSP could take all calls, if they were not shared.
const SEED_OF_SHARING: u64 = 423;

#[test]
fn what_was_acknowledged_is_delivered_and_nothing_is_sent_too_soon_or_too_often() {
    for seed in (0..SEEDS).chain([SEED_OF_SHARING]) {
        assert_eq!(World::run(seed), Ok(()), "seed {seed}");
    }
}
