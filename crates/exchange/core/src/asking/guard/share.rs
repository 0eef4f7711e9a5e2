//! Dividing what there is among shards: by weight, never beyond what a shard wants, and fairly
//! over time where there is less than one for each. Knows neither tokens nor permits.

use std::cmp::Reverse;

/// One whole unit of credit.
const UNIT: i64 = 1_000_000;

/// Credit is what a shard is owed of the whole units that could not be divided. It stays within
/// a few units by itself; the bound keeps a shard that comes and goes from saving it up.
const CREDIT_MAX: i64 = 8 * UNIT;

/// How much a shard wants, and how much that weighs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShareClaim {
    pub(super) want: u64,
    pub(super) weight: u64,
}

/// Divides, and remembers who is owed a remainder.
#[derive(Clone, Debug)]
pub(super) struct ShareDivider {
    credit: Vec<i64>,
    /// Who got a remainder at the last turn, and keeps it until the next.
    served: Vec<bool>,
}

impl ShareDivider {
    pub(super) fn new(shards: usize) -> Self {
        Self { credit: vec![0; shards], served: vec![false; shards] }
    }

    /// Divides `total` into `parts`, in proportion to weight: three quarters by demand, one quarter
    /// evenly among those who want any, so that who wants little next to others is still served.
    /// Whole units that are left go, at a `turn`, to those who are owed most, who then are owed
    /// less; and stay with them until the next. Returns what nobody wants.
    pub(super) fn divide(
        &mut self,
        total: u64,
        claims: &[ShareClaim],
        turn: bool,
        parts: &mut [u64],
    ) -> u64 {
        parts.fill(0);
        let mut left = total;
        while left > 0 {
            let (weights, shards) = open_weights(claims, parts);
            if shards == 0 {
                break;
            }
            if !fill_small_wants(&mut left, claims, parts, (weights, shards)) {
                self.divide_open(left, claims, (weights, shards), (turn, parts));
                left = 0;
            }
        }
        left
    }

    /// Divides `left` among those who want more than their part: all of it goes.
    fn divide_open(
        &mut self,
        left: u64,
        claims: &[ShareClaim],
        scale: (u128, u64),
        (turn, parts): (bool, &mut [u64]),
    ) {
        let mut rest = left;
        // What each is owed, highest first; `None` for who wants no more.
        let mut owed: Vec<Option<i64>> = vec![None; claims.len()];
        for (shard, claim) in claims.iter().enumerate() {
            if claim.want <= parts[shard] {
                continue;
            }
            let (whole, fraction) = part_of(left, claim.weight, scale);
            parts[shard] += whole;
            rest -= whole;
            owed[shard] = Some(self.credit[shard] + fraction);
        }
        let mut order: Vec<usize> = (0..claims.len()).filter(|s| owed[*s].is_some()).collect();
        order.sort_by_key(|shard| {
            let keeps = !turn && self.served[*shard];
            (Reverse(keeps), Reverse(owed[*shard]), *shard)
        });
        for (rank, shard) in order.into_iter().enumerate() {
            let is_served = (rank as u64) < rest;
            parts[shard] += u64::from(is_served);
            if turn {
                self.served[shard] = is_served;
                let owed = owed[shard].unwrap_or_default() - if is_served { UNIT } else { 0 };
                self.credit[shard] = owed.clamp(-CREDIT_MAX, CREDIT_MAX);
            }
        }
    }
}

/// Weight and number of those who want more than they have.
fn open_weights(claims: &[ShareClaim], parts: &[u64]) -> (u128, u64) {
    let open = claims.iter().zip(parts).filter(|(claim, part)| claim.want > **part);
    open.fold((0, 0), |(weight, shards), (claim, _)| {
        (weight + u128::from(claim.weight.max(1)), shards + 1)
    })
}

/// Gives all they want to those who want no more than their part; `false` when there are none.
fn fill_small_wants(
    left: &mut u64,
    claims: &[ShareClaim],
    parts: &mut [u64],
    scale: (u128, u64),
) -> bool {
    let total = *left;
    for (claim, part) in claims.iter().zip(parts) {
        let missing = claim.want - *part;
        if missing > 0 && missing <= part_of(total, claim.weight, scale).0 {
            *part += missing;
            *left -= missing;
        }
    }
    *left < total
}

/// A shard's part of `total`: whole units, and the fraction in credit.
fn part_of(total: u64, weight: u64, (weights, shards): (u128, u64)) -> (u64, i64) {
    // 3/4 × weight / weights + 1/4 × 1 / shards, over one denominator.
    let shards = u128::from(shards);
    let numerator = u128::from(total) * (3 * u128::from(weight.max(1)) * shards + weights);
    let denominator = 4 * weights * shards;
    let whole = u64::try_from(numerator / denominator).expect("a part is at most the total");
    let unit = u128::from(UNIT.unsigned_abs());
    let fraction = i64::try_from(numerator % denominator * unit / denominator);
    (whole, fraction.expect("a fraction is less than a unit"))
}

#[cfg(test)]
mod tests;
