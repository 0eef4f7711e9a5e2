//! A network that delays, loses, repeats and reorders messages. Does not know their content.

use faults::Chance;

/// Faults of the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkFaults {
    /// Longest delay. Each message has its own delay, so messages may overtake each other.
    pub delay_ms_max: u64,
    /// Share of messages lost, in ppm.
    pub lost_ppm: u64,
    /// Share of messages delivered twice, in ppm.
    pub repeated_ppm: u64,
}

/// Messages in transit.
#[derive(Debug)]
pub(super) struct SimNetwork<M> {
    faults: NetworkFaults,
    under_way: Vec<(u64, M)>,
}

impl<M: Copy> SimNetwork<M> {
    pub(super) fn new(faults: NetworkFaults) -> Self {
        Self { faults, under_way: Vec::new() }
    }

    /// Sends a message, unless it is lost.
    pub(super) fn send(&mut self, now_ms: u64, message: M, chance: &mut Chance) {
        let is_lost = chance.happens(self.faults.lost_ppm);
        let copies = if chance.happens(self.faults.repeated_ppm) { 2 } else { 1 };
        for _ in 0..copies {
            let delay = chance.within(0..=self.faults.delay_ms_max);
            if !is_lost {
                self.under_way.push((now_ms + delay, message));
            }
        }
    }

    /// Takes the arrived messages that `takes` accepts.
    pub(super) fn arrived(&mut self, now_ms: u64, takes: impl Fn(&M) -> bool) -> Vec<M> {
        let mut arrived = Vec::new();
        self.under_way.retain(|(at, message)| {
            let is_here = *at <= now_ms && takes(message);
            if is_here {
                arrived.push((*at, *message));
            }
            !is_here
        });
        arrived.sort_by_key(|(at, _)| *at);
        arrived.into_iter().map(|(_, message)| message).collect()
    }
}
