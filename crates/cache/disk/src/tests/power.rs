//! Many lives of a store, each ended by a loss of power or a killed process in the midst of it, on a
//! disk that also fails: what is loaded was written so, and what is void stays void; also after the
//! end, if that was durable.

use std::collections::HashMap;

use cache_core::key::CacheKey;
use cache_core::store::purges::{Purge, PurgeEffect, PurgeScope};
use faults::{Chance, DiskFaults, FaultDisk};

use super::fixtures::Fixture;

const KEYS: u64 = 12;
const NAMES: u64 = 4;

/// What may be loaded of a key.
#[derive(Clone, Debug, Default)]
struct KeyModel {
    /// The last version that was written.
    version: u64,
    /// Versions up to this one are void.
    void: u64,
    /// Versions up to this one are void whatever happens: that was made durable.
    durably_void: u64,
}

/// Whether a purge is of a key.
type Concerns = Box<dyn Fn(&str) -> bool>;

struct Life {
    fixture: Fixture,
    model: HashMap<String, KeyModel>,
    chance: Chance,
}

impl Life {
    fn key(&mut self) -> String {
        format!("http://host{}/{}", self.chance.below(2), self.chance.below(KEYS))
    }

    /// Each key has one name.
    fn name(key: &str) -> String {
        let digits: String = key.chars().filter(char::is_ascii_digit).collect();
        format!("name{}", digits.parse::<u64>().unwrap() % NAMES)
    }

    fn step(&mut self) {
        let key = self.key();
        match self.chance.below(12) {
            0..5 => {
                let model = self.model.entry(key.clone()).or_default();
                // A newer one makes it void.
                model.void = model.version;
                model.version += 1;
                let length = 100 + self.chance.index(9_000);
                let body = format!("{key} {} {}", model.version, "x".repeat(length));
                self.fixture.write(&key, &body, &Self::name(&key));
            }
            5 => {
                self.fixture.tier.forget(&key);
                let model = self.model.entry(key).or_default();
                model.void = model.version;
            }
            6..8 => self.purge(&key),
            _ => self.load(&key),
        }
    }

    fn purge(&mut self, key: &str) {
        let (scope, is_met): (_, Concerns) = match self.chance.below(8) {
            0 => (PurgeScope::Prefix("".into()), Box::new(|_| true)),
            1..3 => {
                let prefix: String = key.chars().take(13).collect();
                (PurgeScope::Prefix(prefix.as_str().into()), {
                    Box::new(move |key| key.starts_with(&prefix))
                })
            }
            3..6 => {
                let name = Self::name(key);
                let scope = PurgeScope::SurrogateKey(name.as_str().into());
                (scope, Box::new(move |key| Self::name(key) == name))
            }
            _ => {
                let key = key.to_owned();
                (PurgeScope::Key(CacheKey::written(&key)), Box::new(move |other| other == key))
            }
        };
        let purge = Purge { scope, effect: PurgeEffect::Gone };
        if self.fixture.try_purge(purge).is_ok() {
            for (key, model) in &mut self.model {
                if is_met(key) {
                    model.void = model.version;
                }
                // One sync for all that came before.
                model.durably_void = model.void;
            }
        }
    }

    fn load(&mut self, key: &str) {
        let Some(body) = self.fixture.load(key) else { return };
        let mut parts = body.split(' ');
        assert_eq!(parts.next(), Some(key), "the body of another key");
        let version: u64 = parts.next().unwrap().parse().unwrap();
        assert!(parts.next().unwrap().bytes().all(|byte| byte == b'x'));
        let model = &self.model[key];
        assert!(version <= model.version);
        assert!(version > model.void, "version {version} of {key} is void: {model:?}");
    }
}

fn lives(seed: u64, faults: DiskFaults) {
    let disk = FaultDisk::new(seed);
    let mut life =
        Life { fixture: Fixture::open(&disk), model: HashMap::new(), chance: Chance::new(seed) };
    for _ in 0..6 {
        let calls = 20 + life.chance.below(150);
        disk.set_faults(faults);
        disk.stop_after(Some(calls));
        for _ in 0..400 {
            if disk.has_stopped() {
                break;
            }
            life.step();
        }
        disk.stop_after(None);
        disk.set_faults(DiskFaults::default());
        match life.chance.once_in(2) {
            true => disk.lose_power(),
            false => disk.restart_process(),
        }
        life.fixture = life.fixture.reopen(&disk);
        for model in life.model.values_mut() {
            model.void = model.durably_void;
        }
        let keys: Vec<String> = life.model.keys().cloned().collect();
        for key in keys {
            life.load(&key);
        }
    }
    life.fixture.tier.close();
}

#[test]
fn nothing_void_is_served_after_a_loss_of_power() {
    for seed in 0..60 {
        lives(seed, DiskFaults::default());
    }
}

#[test]
fn nor_on_a_disk_that_fails() {
    for seed in 0..60 {
        lives(seed, DiskFaults { write: 40, sync: 20, other: 40 });
    }
}
