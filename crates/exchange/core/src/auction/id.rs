//! Auction ids: never repeated within a process, and revealing neither the number of auctions nor
//! the next id.
//!
//! An id is a keyed permutation of (shard, count): a balanced Feistel network over 128 bits with
//! SipHash-2-4 of the round and one half as round function (Luby and Rackoff, "How to construct
//! pseudorandom permutations from pseudorandom functions", 1988), so ids of one key differ. Each
//! process draws a key; ids of two processes coincide like two draws of 128 bits.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

/// Four rounds are strong up to about 2^32 ids; each further pair approaches 2^64.
const ROUNDS: u8 = 8;

/// The ids of one shard's auctions.
#[derive(Clone)]
pub struct AuctionIds {
    key: [u8; 16],
    shard: u32,
    count: u64,
}

impl AuctionIds {
    /// `key` is drawn per process, shared by its shards, and otherwise secret.
    pub const fn new(key: [u8; 16], shard: u32) -> Self {
        Self { key, shard, count: 0 }
    }

    /// The next id, 32 hexadecimal digits.
    pub fn next_id(&mut self) -> String {
        let input = u128::from(self.shard) << 64 | u128::from(self.count);
        self.count = self.count.checked_add(1).expect("no shard holds 2^64 auctions");
        format!("{:032x}", permuted(&self.key, input))
    }
}

impl std::fmt::Debug for AuctionIds {
    /// The key is secret, and ids hide the count.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuctionIds(…)")
    }
}

fn permuted(key: &[u8; 16], input: u128) -> u128 {
    (0..ROUNDS).fold(input, |block, round| {
        let (left, right) = halves(block);
        joined(right, left ^ round_value(key, round, right))
    })
}

fn round_value(key: &[u8; 16], round: u8, half: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write_u8(round);
    hasher.write_u64(half);
    hasher.finish()
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn halves(block: u128) -> (u64, u64) {
    ((block >> 64) as u64, block as u64)
}

const fn joined(left: u64, right: u64) -> u128 {
    (left as u128) << 64 | right as u128
}

#[cfg(test)]
mod tests;
