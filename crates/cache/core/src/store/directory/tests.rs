//! The directory against a list that does the same slowly.

use proptest::prelude::*;

use super::*;

const SEEDS: [u64; 4] = [1, 2, 3, 4];

/// A value that says what it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    key: u16,
    version: u64,
    bytes: usize,
}

impl Weigh for Stamp {
    fn bytes(&self) -> usize {
        self.bytes
    }
}

fn key_of(key: u16) -> [u8; 2] {
    key.to_be_bytes()
}

/// SIEVE over a plain list, oldest first.
struct Model {
    bytes_max: usize,
    entries: Vec<(Stamp, bool)>,
    hand: usize,
}

impl Model {
    fn at(&self, key: u16) -> Option<usize> {
        self.entries.iter().position(|(stamp, _)| stamp.key == key)
    }

    fn probe(&mut self, key: u16) -> Option<Stamp> {
        let at = self.at(key)?;
        self.entries[at].1 = true;
        Some(self.entries[at].0)
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|(stamp, _)| stamp.bytes + 2 + ENTRY_BYTES).sum()
    }

    fn put(&mut self, stamp: Stamp) -> Vec<Stamp> {
        if stamp.bytes + 2 + ENTRY_BYTES > self.bytes_max {
            let mut gone = vec![stamp];
            gone.extend(self.remove(stamp.key));
            return gone;
        }
        let mut gone = Vec::new();
        match self.at(stamp.key) {
            Some(at) => gone.push(std::mem::replace(&mut self.entries[at].0, stamp)),
            None => self.entries.push((stamp, false)),
        }
        let mut passes = 0;
        while self.bytes() > self.bytes_max {
            if self.entries[self.hand].1 && passes < PASSES_MAX {
                self.entries[self.hand].1 = false;
                self.hand += 1;
                passes += 1;
            } else {
                passes = 0;
                gone.push(self.entries.remove(self.hand).0);
            }
            self.wrap();
        }
        gone
    }

    fn remove(&mut self, key: u16) -> Option<Stamp> {
        let at = self.at(key)?;
        self.hand -= usize::from(at < self.hand);
        let (stamp, _) = self.entries.remove(at);
        self.wrap();
        Some(stamp)
    }

    /// Behind the newest entry, the hand begins again.
    fn wrap(&mut self) {
        if self.hand == self.entries.len() {
            self.hand = 0;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Probe(u16),
    Put(u16, usize),
    Remove(u16),
    /// Removes every key that this divides.
    Sweep(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0_u16..300;
    prop_oneof![
        6 => key().prop_map(Step::Probe),
        4 => (key(), 0_usize..2_000).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        1 => key().prop_map(Step::Remove),
        1 => (17_u16..200).prop_map(Step::Sweep),
    ]
}

proptest! {
    #[test]
    fn the_directory_is_a_list_with_a_hand(
        bytes_max in prop_oneof![1_000_usize..20_000, Just(200_000)],
        steps in proptest::collection::vec(step(), 0..600),
    ) {
        let (directory, mut handles) = Directory::<Stamp>::new(bytes_max, SEEDS, 1);
        let handle = &mut handles[0];
        let mut model = Model { bytes_max, entries: Vec::new(), hand: 0 };
        for (version, step) in (0..).zip(steps) {
            match step {
                Step::Probe(key) => {
                    let found = directory.probe(handle, &key_of(key), |stamp| *stamp);
                    prop_assert_eq!(found, model.probe(key));
                }
                Step::Put(key, bytes) => {
                    let stamp = Stamp { key, version, bytes };
                    let gone = directory.change(handle, &key_of(key), |_| Change::Put(stamp));
                    prop_assert_eq!(gone, model.put(stamp));
                }
                Step::Remove(key) => {
                    let gone = directory.change(handle, &key_of(key), |_| Change::Remove);
                    prop_assert_eq!(gone, Vec::from_iter(model.remove(key)));
                }
                Step::Sweep(divisor) => {
                    let mut gone = remove_all(&directory, handle, |key| key % divisor == 0);
                    gone.sort_by_key(|stamp| stamp.key);
                    let of_model =
                        (0..300).filter(|key| key % divisor == 0).filter_map(|key| model.remove(key));
                    prop_assert_eq!(gone, of_model.collect::<Vec<_>>());
                }
            }
            let want = Occupancy { entries: model.entries.len(), bytes: model.bytes() };
            prop_assert_eq!(directory.occupancy(), want);
        }
    }
}

/// From the first entry to the last.
fn remove_all(
    directory: &Directory<Stamp>,
    handle: &mut bravo::Handle,
    mut is_wanted: impl FnMut(u16) -> bool,
) -> Vec<Stamp> {
    let (mut all, mut cursor) = (Vec::new(), Some(0));
    while let Some(at) = cursor {
        let (keys, next) = directory.select(handle, at, 100, |key, stamp, _| {
            assert_eq!(key, key_of(stamp.key));
            is_wanted(stamp.key)
        });
        for key in keys {
            all.extend(directory.change(handle, &key, |_| Change::Remove));
        }
        cursor = next;
    }
    all
}

#[test]
fn a_value_is_changed_in_place() {
    let (directory, mut handles) = Directory::<Stamp>::new(10_000, SEEDS, 1);
    let handle = &mut handles[0];
    let put = |_: Option<&mut Stamp>| Change::Put(Stamp { key: 1, version: 1, bytes: 100 });
    assert_eq!(directory.change(handle, b"a", put), []);
    let gone = directory.change(handle, b"a", |stamp| {
        stamp.expect("it is there").bytes = 500;
        Change::Keep
    });
    assert_eq!(gone, []);
    assert_eq!(directory.occupancy(), Occupancy { entries: 1, bytes: 501 + ENTRY_BYTES });
    assert_eq!(
        directory.change(handle, b"b", |stamp| {
            assert_eq!(stamp, None);
            Change::Keep
        }),
        []
    );
}

#[test]
fn an_entry_is_reused_once_it_was_looked_up_since_it_came() {
    let (directory, mut handles) = Directory::<Stamp>::new(1_000, SEEDS, 1);
    let handle = &mut handles[0];
    let put =
        |key: u16| move |_: Option<&mut Stamp>| Change::Put(Stamp { key, version: 1, bytes: 300 });
    directory.change(handle, b"a", put(1));
    directory.change(handle, b"b", put(2));
    let reused = |handle: &mut bravo::Handle| {
        directory.select(handle, 0, 100, |_, _, is_reused| is_reused).0
    };
    assert_eq!(reused(handle).len(), 0);
    directory.probe(handle, b"a", |_| ());
    assert_eq!(reused(handle), [Box::from(&b"a"[..])]);
    // The hand passes over it.
    directory.change(handle, b"c", put(3));
    assert_eq!(reused(handle), [Box::from(&b"a"[..])]);
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let mut sieve = Sieve::default();
    let mut shard = Shard::default();
    for (key, value) in [(&b"one"[..], 1), (b"two", 2)] {
        let node = sieve.insert(7, 1);
        shard.insert(7, Entry::new(node, key, value));
    }
    let value_of = |key: &[u8]| shard.find(7, key).map(|entry| entry.value);
    assert_eq!((value_of(b"one"), value_of(b"two"), value_of(b"")), (Some(1), Some(2), None));
}
