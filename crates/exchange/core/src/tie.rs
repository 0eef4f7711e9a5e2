//! The order of equal bids: a keyed hash, so that it is fair, reproducible and beyond the reach
//! of bidders; never arrival order.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// The secret that orders equal bids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TieKey([u8; 16]);

impl TieKey {
    /// A key that bidders do not know: who knows it can pick bid ids that win ties.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// Of two equal bids the one with the lower rank comes first. A seat is named by its DSP and
    /// its own id: another DSP's seat of the same id is another seat, and may use the same bid ids.
    pub fn rank(&self, auction: &str, imp: &str, (dsp, seat): (&str, &str), bid: &str) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        for part in [auction, imp, dsp, seat, bid] {
            hasher.write_usize(part.len());
            hasher.write(part.as_bytes());
        }
        hasher.finish()
    }
}

impl std::fmt::Debug for TieKey {
    /// The key is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TieKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_depends_on_every_part_and_the_key() {
        let key = TieKey::new([7; 16]);
        let rank = key.rank("a", "1", ("d", "s"), "b");
        assert_eq!(rank, key.rank("a", "1", ("d", "s"), "b"));
        let others = [
            key.rank("x", "1", ("d", "s"), "b"),
            key.rank("a", "2", ("d", "s"), "b"),
            key.rank("a", "1", ("e", "s"), "b"),
            key.rank("a", "1", ("d", "t"), "b"),
            key.rank("a", "1", ("d", "s"), "c"),
            key.rank("a", "1", ("ds", ""), "b"),
            TieKey::new([8; 16]).rank("a", "1", ("d", "s"), "b"),
        ];
        assert!(others.iter().all(|other| *other != rank));
        assert_eq!(format!("{key:?}"), "TieKey(…)");
    }
}
