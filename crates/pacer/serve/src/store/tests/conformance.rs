//! The conformance suite: on a disk in memory that fails and loses power, and on a real one.

use std::collections::VecDeque;
use std::time::Duration;

use faults::{DiskFaults, FaultDisk};
use pacer_core::store::testing::conformance::{Subject, check};
use pacer_core::store::{LeaseStore, StoreAnswer, StoreRequest};
use tempfile::TempDir;

use super::disk;
use crate::store::engine::StoreEngine;
use crate::{DiskStore, StoreOptions};

/// The engine without its thread: requests run when an answer is taken.
struct Direct {
    disk: FaultDisk,
    engine: StoreEngine<FaultDisk>,
    asked: Vec<StoreRequest>,
    answers: VecDeque<StoreAnswer>,
}

impl LeaseStore for Direct {
    fn ask(&mut self, request: StoreRequest) {
        self.asked.push(request);
    }

    fn poll(&mut self) -> Option<StoreAnswer> {
        if !self.asked.is_empty() {
            self.engine.reopen();
            self.answers.extend(self.engine.serve(&std::mem::take(&mut self.asked)));
        }
        self.answers.pop_front()
    }
}

struct OnFaultDisk {
    seed: u64,
    faults: DiskFaults,
}

impl OnFaultDisk {
    fn open(&self, disk: FaultDisk) -> Direct {
        let engine = loop {
            match StoreEngine::open(disk.clone()) {
                Ok(engine) => break engine,
                Err(crate::StoreOpenError::Disk { .. }) => (),
                Err(error) => panic!("{error}"),
            }
        };
        disk.set_faults(self.faults);
        Direct { disk, engine, asked: Vec::new(), answers: VecDeque::new() }
    }
}

impl Subject for OnFaultDisk {
    type Store = Direct;

    fn fresh(&mut self) -> Direct {
        self.seed += 1;
        self.open(disk::empty(self.seed))
    }

    fn restart(&mut self, store: Direct) -> Direct {
        let Direct { disk, engine, .. } = store;
        disk.lose_power();
        drop(engine);
        self.open(disk)
    }

    fn wait(&mut self, _: &mut Direct) {}
}

#[test]
fn the_suite_is_passed_on_a_disk_that_loses_power() {
    check(&mut OnFaultDisk { seed: 0, faults: DiskFaults::default() }).unwrap();
}

#[test]
fn the_suite_is_passed_on_a_disk_that_fails() {
    let faults = DiskFaults { write: 60, sync: 12, other: 30 };
    check(&mut OnFaultDisk { seed: 1_000, faults }).unwrap();
}

struct OnDirectories(Vec<TempDir>);

impl Subject for OnDirectories {
    type Store = DiskStore;

    fn fresh(&mut self) -> DiskStore {
        self.0.push(tempfile::tempdir().expect("there is room"));
        let path = self.0.last().expect("just there").path();
        DiskStore::open(path, StoreOptions::default()).expect("it is new")
    }

    fn restart(&mut self, store: DiskStore) -> DiskStore {
        drop(store);
        let path = self.0.last().expect("it was made there").path();
        DiskStore::open(path, StoreOptions::default()).expect("nobody has it")
    }

    fn wait(&mut self, store: &mut DiskStore) {
        store.wait(Duration::from_secs(60));
    }
}

#[test]
fn the_suite_is_passed_on_a_directory() {
    check(&mut OnDirectories(Vec::new())).unwrap();
}
