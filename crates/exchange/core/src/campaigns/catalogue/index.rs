//! Inverted indexes of campaigns as bit sets. Knows no requests.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

#[derive(Clone, Debug, Default)]
pub(in crate::campaigns) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(in crate::campaigns) fn of(len: usize, members: &[u32]) -> Self {
        let mut bits = Self::default();
        bits.reset(len);
        members.iter().for_each(|member| bits.set(*member));
        bits
    }

    pub(in crate::campaigns) fn reset(&mut self, len: usize) {
        self.words.clear();
        self.words.resize(len.div_ceil(64), 0);
    }

    pub(in crate::campaigns) fn fill(&mut self, len: usize) {
        self.reset(len);
        self.words.fill(u64::MAX);
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), len % 64) {
            *last = (1 << rest) - 1;
        }
    }

    pub(in crate::campaigns) fn copy(&mut self, other: &Self) {
        self.words.clear();
        self.words.extend_from_slice(&other.words);
    }

    pub(in crate::campaigns) fn set(&mut self, member: u32) {
        self.words[member as usize / 64] |= 1 << (member % 64);
    }

    pub(in crate::campaigns) fn unset(&mut self, member: u32) {
        self.words[member as usize / 64] &= !(1 << (member % 64));
    }

    pub(in crate::campaigns) fn has(&self, member: u32) -> bool {
        self.words[member as usize / 64] >> (member % 64) & 1 == 1
    }

    pub(in crate::campaigns) fn keep(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(own, other)| *own &= other);
    }

    pub(in crate::campaigns) fn remove(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(own, other)| *own &= !other);
    }

    pub(in crate::campaigns) fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(own, other)| *own |= other);
    }

    pub(in crate::campaigns) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(in crate::campaigns) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(in crate::campaigns) fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.members_from(0)
    }

    /// The members in ascending order, rotated by `skipped`, which is less than their number.
    pub(in crate::campaigns) fn members_from(
        &self,
        skipped: usize,
    ) -> impl Iterator<Item = u32> + '_ {
        let (mut first, mut left) = (0, skipped);
        let ones = |word: &u64| word.count_ones() as usize;
        while let Some(passed) = self.words.get(first).map(ones).filter(|ones| *ones <= left) {
            left -= passed;
            first += 1;
        }
        let split = self.words.get(first).copied().unwrap_or_default();
        let upper = (0..left).fold(split, |word, _| word & word.wrapping_sub(1));
        // The first word comes again at the end, for members skipped in it.
        (0..=self.words.len()).flat_map(move |turn| {
            let place = (first + turn) % self.words.len().max(1);
            let word = match turn {
                0 => upper,
                _ if place == first => split & !upper,
                _ => self.words[place],
            };
            let base = u32::try_from(place * 64).expect("numbers have 32 bits");
            ones_of(word).map(move |bit| base + bit)
        })
    }
}

fn ones_of(word: u64) -> impl Iterator<Item = u32> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(bit)
    })
}

/// Campaigns that list one value, as numbers or as bits, whichever takes less memory.
#[derive(Clone, Debug)]
pub(in crate::campaigns) enum Postings {
    Few(Box<[u32]>),
    Many(Bits),
}

impl Postings {
    fn new(len: usize, members: Vec<u32>) -> Self {
        match members.len() * 32 < len {
            true => Self::Few(members.into()),
            false => Self::Many(Bits::of(len, &members)),
        }
    }

    pub(in crate::campaigns) fn add_to(&self, bits: &mut Bits) {
        match self {
            Self::Few(members) => members.iter().for_each(|member| bits.set(*member)),
            Self::Many(members) => bits.add(members),
        }
    }

    pub(in crate::campaigns) fn take_from(&self, bits: &mut Bits) {
        match self {
            Self::Few(members) => members.iter().for_each(|member| bits.unset(*member)),
            Self::Many(members) => bits.remove(members),
        }
    }
}

#[derive(Clone, Debug)]
pub(in crate::campaigns) struct InvertedIndex<K>(HashMap<K, Postings>);

impl<K: Hash + Eq> InvertedIndex<K> {
    pub(in crate::campaigns) fn get<Q>(&self, key: &Q) -> Option<&Postings>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.get(key)
    }

    pub(in crate::campaigns) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug)]
pub(in crate::campaigns) struct InvertedIndexBuilder<K>(HashMap<K, Vec<u32>>);

impl<K> Default for InvertedIndexBuilder<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq> InvertedIndexBuilder<K> {
    /// Call in ascending order of campaigns.
    pub(in crate::campaigns) fn add(&mut self, key: K, campaign: u32) {
        let members = self.0.entry(key).or_default();
        if members.last() != Some(&campaign) {
            members.push(campaign);
        }
    }

    pub(in crate::campaigns) fn build(self, len: usize) -> InvertedIndex<K> {
        let lists = self.0.into_iter();
        InvertedIndex(lists.map(|(key, members)| (key, Postings::new(len, members))).collect())
    }
}

/// One attribute of requests, of which campaigns may list or block values.
#[derive(Clone, Debug)]
pub(in crate::campaigns) struct Dimension<K> {
    /// Campaigns that list nothing and accept any value. None if all do.
    open: Option<Bits>,
    listed: InvertedIndex<K>,
    blocked: InvertedIndex<K>,
}

impl<K: Hash + Eq> Dimension<K> {
    /// Keeps campaigns that accept a request with these `values`, which may be empty.
    pub(in crate::campaigns) fn narrow<'v, Q>(
        &self,
        matched: &mut Bits,
        spare: &mut Bits,
        values: impl Iterator<Item = &'v Q> + Clone,
    ) where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized + 'v,
    {
        if let Some(open) = &self.open {
            spare.copy(open);
            for postings in values.clone().filter_map(|value| self.listed.get(value)) {
                postings.add_to(spare);
            }
            matched.keep(spare);
        }
        if !self.blocked.is_empty() {
            for postings in values.filter_map(|value| self.blocked.get(value)) {
                postings.take_from(matched);
            }
        }
    }

    pub(in crate::campaigns) fn is_used(&self) -> bool {
        self.open.is_some() || !self.blocked.is_empty()
    }
}

#[derive(Debug)]
pub(in crate::campaigns) struct DimensionBuilder<K> {
    open: Vec<u32>,
    listed: InvertedIndexBuilder<K>,
    blocked: InvertedIndexBuilder<K>,
}

impl<K> Default for DimensionBuilder<K> {
    fn default() -> Self {
        let (listed, blocked) = Default::default();
        Self { open: Vec::new(), listed, blocked }
    }
}

impl<K: Hash + Eq> DimensionBuilder<K> {
    /// Call in ascending order of campaigns.
    pub(in crate::campaigns) fn add(
        &mut self,
        campaign: u32,
        listed: impl Iterator<Item = K>,
        blocked: impl Iterator<Item = K>,
    ) {
        let mut is_open = true;
        for key in listed {
            is_open = false;
            self.listed.add(key, campaign);
        }
        if is_open {
            self.open.push(campaign);
        }
        blocked.for_each(|key| self.blocked.add(key, campaign));
    }

    pub(in crate::campaigns) fn build(self, len: usize) -> Dimension<K> {
        let open = (self.open.len() < len).then(|| Bits::of(len, &self.open));
        Dimension { open, listed: self.listed.build(len), blocked: self.blocked.build(len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn bits_are_a_set(
            len in 1usize..400,
            drawn in prop::collection::vec(prop::collection::vec(0u32..400, 0..60), 3),
        ) {
            let sets: Vec<BTreeSet<u32>> = drawn
                .iter()
                .map(|set| set.iter().copied().filter(|member| (*member as usize) < len).collect())
                .collect();
            let mut bits = Bits::default();
            bits.fill(len);
            prop_assert_eq!(bits.members().count(), len);
            let list = |set: &BTreeSet<u32>| set.iter().copied().collect::<Vec<_>>();
            bits.keep(&Bits::of(len, &list(&sets[0])));
            Postings::new(len, list(&sets[1])).add_to(&mut bits);
            Postings::new(len, list(&sets[2])).take_from(&mut bits);
            let mut want = sets[0].clone();
            want.extend(&sets[1]);
            want.retain(|member| !sets[2].contains(member));
            let members: Vec<_> = want.iter().copied().collect();
            prop_assert_eq!(bits.members().collect::<Vec<_>>(), members.clone());
            prop_assert_eq!(bits.len(), members.len());
            for skipped in 0..members.len() {
                let mut turned = members.clone();
                turned.rotate_left(skipped);
                prop_assert_eq!(bits.members_from(skipped).collect::<Vec<_>>(), turned);
            }
            prop_assert_eq!(bits.is_empty(), want.is_empty());
            for member in 0..u32::try_from(len).unwrap() {
                prop_assert_eq!(bits.has(member), want.contains(&member));
            }
        }
    }
}
