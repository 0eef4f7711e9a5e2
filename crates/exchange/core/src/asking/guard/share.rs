//! Divides units among shards: by weight, within each shard's demand, and fairly over time if there
//! is less than one each. Knows neither tokens nor permits.

use std::cmp::Reverse;

const UNIT: i64 = 1_000_000;

/// Credit is a shard's share of whole units that could not be divided. It stays within a few units
/// by itself; the limit keeps an intermittent shard from accumulating it.
const CREDIT_MAX: i64 = 8 * UNIT;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShareClaim {
    pub(super) demand: u64,
    pub(super) weight: u64,
}

#[derive(Clone, Debug)]
pub(super) struct ShareDivider {
    credit: Vec<i64>,
    served: Vec<bool>,
}

impl ShareDivider {
    pub(super) fn new(shards: usize) -> Self {
        Self { credit: vec![0; shards], served: vec![false; shards] }
    }

    /// Divides `total` into `parts` by weight: three quarters by demand, and one quarter evenly
    /// among shards with demand, so that small demand is served too. At a `turn`, indivisible units
    /// go to the shards with the highest credit, which pay for them in credit and keep them until
    /// the next turn. Returns units without demand.
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
            let unmet = UnmetDemand::of(claims, parts);
            if unmet.shards == 0 {
                break;
            }
            if !fill_small_demands(&mut left, claims, parts, unmet) {
                self.divide_unmet(left, claims, turn, parts);
                left = 0;
            }
        }
        left
    }

    fn divide_unmet(&mut self, left: u64, claims: &[ShareClaim], turn: bool, parts: &mut [u64]) {
        let unmet = UnmetDemand::of(claims, parts);
        let mut rest = left;
        // The credit of each shard with unmet demand, highest first.
        let mut owed: Vec<Option<i64>> = vec![None; claims.len()];
        for (shard, claim) in claims.iter().enumerate() {
            if claim.demand <= parts[shard] {
                continue;
            }
            let (whole, fraction) = unmet.part_of(left, claim.weight);
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

/// Shards whose part is less than their demand.
#[derive(Clone, Copy, Default)]
struct UnmetDemand {
    weights: u128,
    shards: u64,
}

impl UnmetDemand {
    fn of(claims: &[ShareClaim], parts: &[u64]) -> Self {
        let unmet = claims.iter().zip(parts).filter(|(claim, part)| claim.demand > **part);
        unmet.fold(Self::default(), |Self { weights, shards }, (claim, _)| Self {
            weights: weights + u128::from(claim.weight.max(1)),
            shards: shards + 1,
        })
    }

    /// A shard's part of `total`: whole units, and the rest in millionths of one.
    fn part_of(self, total: u64, weight: u64) -> (u64, i64) {
        // 3/4 × weight / weights + 1/4 × 1 / shards, over one denominator.
        let shards = u128::from(self.shards);
        let numerator = u128::from(total) * (3 * u128::from(weight.max(1)) * shards + self.weights);
        let denominator = 4 * self.weights * shards;
        let whole = u64::try_from(numerator / denominator).expect("a part is at most the total");
        let unit = u128::from(UNIT.unsigned_abs());
        let fraction = i64::try_from(numerator % denominator * unit / denominator);
        (whole, fraction.expect("a fraction is less than a unit"))
    }
}

/// Serves demands no larger than their part in full. False if no demand is that small.
fn fill_small_demands(
    left: &mut u64,
    claims: &[ShareClaim],
    parts: &mut [u64],
    unmet: UnmetDemand,
) -> bool {
    let total = *left;
    for (claim, part) in claims.iter().zip(parts) {
        let missing = claim.demand - *part;
        if missing > 0 && missing <= unmet.part_of(total, claim.weight).0 {
            *part += missing;
            *left -= missing;
        }
    }
    *left < total
}

#[cfg(test)]
mod tests;
