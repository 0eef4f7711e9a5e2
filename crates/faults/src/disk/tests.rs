//! The disk fails as documented, and in no other way.

use std::io::ErrorKind;

use super::*;

const SEEDS: u64 = 200;
const BYTES: usize = 200;

/// A disk whose `file` holds durable zeros and unsynced ones.
fn written(seed: u64) -> (FaultDisk, FaultFile) {
    let disk = FaultDisk::new(seed);
    let file = disk.create("file").unwrap();
    file.write_at(0, &[0; BYTES]).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory().unwrap();
    file.write_at(0, &[1; BYTES]).unwrap();
    (disk, file)
}

#[test]
fn what_is_synced_stays_and_of_the_rest_any_part_in_whole_sectors() {
    let (mut none, mut all, mut torn) = (0, 0, 0);
    for seed in 0..SEEDS {
        let (disk, file) = written(seed);
        assert_eq!(disk.bytes("file").unwrap(), [1; BYTES], "seen at once");
        disk.restart_process();
        assert_eq!(disk.bytes("file").unwrap(), [1; BYTES], "by the next process, too");
        disk.lose_power();
        let bytes = disk.bytes("file").unwrap();
        assert_eq!(bytes.len(), BYTES);
        for sector in bytes.chunks(SECTOR_BYTES) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is whole: {sector:?}");
        }
        match bytes.iter().map(|byte| usize::from(*byte)).sum() {
            0 => none += 1,
            BYTES => all += 1,
            _ => torn += 1,
        }
        assert!(file.write_at(0, &[2]).is_err(), "of the process before");
    }
    assert!(none > 20 && all > 20 && torn > 20, "{none} none, {all} all, {torn} torn");
}

#[test]
fn a_failed_sync_forgets_and_the_next_succeeds_at_nothing() {
    let mut lost = 0;
    for seed in 0..SEEDS {
        let (disk, file) = written(seed);
        disk.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
        assert!(file.sync_data().is_err());
        disk.set_faults(DiskFaults::default());
        assert_eq!(disk.bytes("file").unwrap(), [1; BYTES], "as if nothing had been");
        file.sync_data().unwrap();
        disk.lose_power();
        lost += u64::from(disk.bytes("file").unwrap() != [1; BYTES]);
    }
    assert!(lost > 50, "{lost}");
}

#[test]
fn a_stop_in_a_sync_loses_nothing_that_the_machine_still_has() {
    for seed in 0..SEEDS {
        let (disk, file) = written(seed);
        disk.stop_after(Some(1));
        assert!(file.sync_data().is_err() && disk.has_stopped());
        disk.restart_process();
        disk.open("file").unwrap().sync_data().unwrap();
        disk.lose_power();
        assert_eq!(disk.bytes("file").unwrap(), [1; BYTES]);
    }
}

#[test]
fn names_are_durable_apart_and_a_new_name_takes_the_old_ones_place_at_once() {
    let (mut kept, mut taken) = (0, 0);
    for seed in 0..SEEDS {
        let (disk, _) = written(seed);
        let new = disk.create("new").unwrap();
        disk.sync_directory().unwrap();
        new.write_at(0, b"new").unwrap();
        new.sync_data().unwrap();
        disk.rename("new", "file").unwrap();
        assert_eq!(disk.names(), ["file"]);
        disk.lose_power();
        match disk.names().as_slice() {
            [name] if name == "file" && disk.bytes("file").unwrap() == b"new" => taken += 1,
            [first, second] if (first.as_str(), second.as_str()) == ("file", "new") => kept += 1,
            names => panic!("{names:?}"),
        }
    }
    assert!(kept > 50 && taken > 50, "{kept} kept, {taken} taken");
}

#[test]
fn room_ends_where_it_is_said_to() {
    let (disk, file) = written(1);
    disk.set_space(Some(BYTES + 10));
    assert_eq!(file.set_len(BYTES as u64 + 11).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.write_at(BYTES as u64, &[3; 11]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(disk.used() <= BYTES + 10, "a part may have been written");
    file.set_len(BYTES as u64 + 10).unwrap();
    file.write_at(BYTES as u64, &[3; 10]).unwrap();
    assert_eq!((disk.used(), file.size()), (BYTES + 10, BYTES as u64 + 10));
    disk.set_space(Some(BYTES + 30));
    assert_eq!(file.allocate(BYTES as u64 + 31).unwrap_err().kind(), ErrorKind::StorageFull);
    file.allocate(BYTES as u64 + 30).unwrap();
    assert_eq!((disk.used(), file.size()), (BYTES + 30, BYTES as u64 + 10));
    let other = disk.create("other").unwrap();
    assert_eq!(other.write_at(0, &[4]).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_at(BYTES as u64 + 10, &[3; 20]).unwrap();
    file.set_len(BYTES as u64).unwrap();
    other.write_at(0, &[4; 30]).unwrap();
}

#[test]
fn a_directory_is_taken_once_until_its_process_ends() {
    let disk = FaultDisk::new(1);
    let lock = disk.lock().unwrap();
    assert_eq!(disk.lock().unwrap_err().kind(), ErrorKind::WouldBlock);
    disk.restart_process();
    let next = disk.lock().unwrap();
    drop(lock);
    assert!(disk.lock().is_err(), "what the process before held is not what this one holds");
    drop(next);
    disk.lock().unwrap();
}

#[test]
fn long_reads_are_done_in_part_and_counted() {
    let (disk, file) = written(1);
    file.write_at(0, &[1; 4 * SHORT_READ_BYTES]).unwrap();
    let mut buffer = [0; 2 * SHORT_READ_BYTES];
    assert_eq!(file.read_at(0, &mut buffer), SHORT_READ_BYTES);
    assert_eq!(file.read_at(4 * SHORT_READ_BYTES as u64, &mut buffer), 0, "nothing at the end");
    assert_eq!(disk.longest_read(), 2 * SHORT_READ_BYTES);
    assert_eq!(disk.bytes_read(), SHORT_READ_BYTES as u64);
}
