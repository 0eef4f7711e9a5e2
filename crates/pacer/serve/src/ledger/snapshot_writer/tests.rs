//! Files written piece by piece, complete and incomplete.

use std::thread;
use std::time::{Duration, Instant};

use faults::{DiskFaults, FaultDisk};
use pacer_core::messages::Epoch;

use super::*;
use crate::ledger::states::{FILE_NAME, ReadStates, append, read};
use crate::store::tests::disk;

const EVER: Duration = Duration::from_secs(60);

const WRITER: StoreWriter = StoreWriter { node: 1, epoch: Epoch(1) };

fn piece(count: u32) -> StatesPiece {
    let mut rows = Vec::new();
    (0..count).for_each(|_| append(&mut rows, |row| row.extend([7; 100])));
    StatesPiece::Rows(rows, count)
}

fn give(keeper: &SnapshotWriter, pieces: impl IntoIterator<Item = StatesPiece>) {
    pieces.into_iter().for_each(|piece| keeper.give(piece));
}

fn rows(disk: &FaultDisk) -> ReadStates {
    let next = StoreWriter { epoch: Epoch(2), ..WRITER };
    read(disk, next, |row| *row == [7; 100]).unwrap()
}

#[test]
fn a_file_that_is_ended_is_there_and_one_that_is_not_leaves_nothing() {
    let disk = disk::empty(1);
    let keeper = SnapshotWriter::start(disk.clone(), WRITER, &Builder::start().unwrap());
    give(&keeper, [StatesPiece::Begin, piece(3), piece(4), StatesPiece::End]);
    give(
        &keeper,
        [
            StatesPiece::Begin,
            piece(9),
            StatesPiece::Begin,
            piece(5),
            StatesPiece::End,
            StatesPiece::Begin,
        ],
    );
    give(&keeper, [piece(1)]);
    let files = Arc::clone(&keeper.files);
    drop(keeper);
    assert_eq!(rows(&disk), ReadStates { taken: 5, damaged: 0 });
    assert_eq!(disk.names(), [FILE_NAME]);
    assert_eq!(files.written.load(Ordering::Relaxed), 2);
}

#[test]
fn what_a_disk_refuses_takes_no_room_and_the_next_file_is_written() {
    for faults in [
        DiskFaults { other: 1, ..DiskFaults::default() },
        DiskFaults { write: 1, ..DiskFaults::default() },
        DiskFaults { sync: 1, ..DiskFaults::default() },
    ] {
        let disk = disk::empty(2);
        let keeper = SnapshotWriter::start(disk.clone(), WRITER, &Builder::start().unwrap());
        give(&keeper, [StatesPiece::Begin, piece(3), StatesPiece::End]);
        let counts = |keeper: &SnapshotWriter| {
            let StatesFileCounts { written, failed } = &*keeper.files;
            (written.load(Ordering::Relaxed), failed.load(Ordering::Relaxed))
        };
        let until = |want: (u64, u64)| {
            let begun = Instant::now();
            while counts(&keeper) != want {
                assert!(begun.elapsed() < EVER, "{faults:?}: {:?}, not {want:?}", counts(&keeper));
                thread::yield_now();
            }
        };
        until((1, 0));
        let used = disk.used();
        disk.set_faults(faults);
        give(&keeper, [StatesPiece::Begin, piece(40), piece(40), StatesPiece::End]);
        until((1, 1));
        disk.set_faults(DiskFaults::default());
        give(&keeper, [StatesPiece::Begin, piece(2), StatesPiece::End]);
        until((2, 1));
        drop(keeper);
        assert_eq!(rows(&disk).taken, 2, "{faults:?}");
        assert!(disk.used() <= used, "{faults:?}");
    }
}

#[test]
fn whoever_offers_more_than_may_be_on_its_way_has_it_back() {
    let (pieces, inbox) = mpsc::sync_channel(PIECES_MAX);
    let keeper = SnapshotWriter { pieces, files: Arc::default(), job: None };
    for _ in 0..PIECES_MAX {
        assert!(keeper.offer(StatesPiece::Begin).is_ok());
    }
    assert!(matches!(keeper.offer(piece(2)), Err(StatesPiece::Rows(_, 2))));
    drop(inbox);
    assert!(keeper.offer(StatesPiece::End).is_ok(), "nobody is there to write it");
    keeper.give(StatesPiece::End);
}
