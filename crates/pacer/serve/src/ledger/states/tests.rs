//! Files of states that are torn, damaged, or another ledger's.

use faults::{Chance, DiskFaults, FaultDisk};
use pacer_core::messages::Epoch;

use super::*;
use crate::store::tests::disk;

const FIRST: StoreWriter = StoreWriter { node: 1, epoch: Epoch(4) };
const NEXT: StoreWriter = StoreWriter { node: 1, epoch: Epoch(5) };

fn rows(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|row| vec![row; 1 + usize::from(row) * 40 % SNAPSHOT_BYTES_MAX]).collect()
}

fn write(disk: &FaultDisk, writer: StoreWriter, rows: &[Vec<u8>]) -> io::Result<()> {
    let mut new = NewStates::begin(disk)?;
    for part in rows.chunks(64) {
        let mut bytes = Vec::new();
        part.iter().for_each(|row| append(&mut bytes, |into| into.extend(row)));
        new.add(&bytes, u32::try_from(part.len()).unwrap())?;
    }
    new.put(disk, writer)
}

fn read_rows(
    disk: &FaultDisk,
    writer: StoreWriter,
) -> Result<(ReadStates, Vec<Vec<u8>>), StatesError> {
    let mut taken = Vec::new();
    let read = read(disk, writer, |row| {
        taken.push(row.to_vec());
        true
    })?;
    Ok((read, taken))
}

fn changed(disk: &FaultDisk, change: impl FnOnce(&mut Vec<u8>)) -> FaultDisk {
    let disk = disk.copy();
    let mut bytes = disk.bytes(FILE_NAME).unwrap();
    change(&mut bytes);
    disk.put(FILE_NAME, &bytes);
    disk
}

#[test]
fn what_is_put_is_read_by_later_epochs_of_the_same_node_alone() {
    let disk = disk::empty(1);
    assert_eq!(read_rows(&disk, NEXT).unwrap(), (ReadStates::default(), Vec::new()));
    // More than a piece.
    let rows = [rows(250), rows(250), rows(250)].concat();
    assert!(rows.iter().map(Vec::len).sum::<usize>() > PIECE_BYTES);
    write(&disk, FIRST, &rows).unwrap();
    let (read, taken) = read_rows(&disk, NEXT).unwrap();
    assert_eq!((read, taken == rows), (ReadStates { taken: 750, damaged: 0 }, true));
    for other in [FIRST, StoreWriter { node: 2, ..NEXT }] {
        let refused = read_rows(&disk, other).unwrap_err().to_string();
        assert_eq!(refused, "it is another ledger's");
    }
    write(&disk, NEXT, &[]).unwrap();
    let last = StoreWriter { epoch: Epoch(9), ..NEXT };
    assert_eq!(read_rows(&disk, last).unwrap().0, ReadStates::default());
}

#[test]
fn a_row_that_is_damaged_takes_no_other_with_it() {
    let disk = disk::empty(2);
    let rows = rows(20);
    write(&disk, FIRST, &rows).unwrap();
    let start = |row: usize| {
        let before = rows[..row].iter().map(|row| ROW_HEAD_BYTES + row.len());
        HEAD_BYTES + before.sum::<usize>()
    };
    for row in 0..20 {
        for at in [4, 11, 12] {
            let disk = changed(&disk, |bytes| bytes[start(row) + at] ^= 1);
            let (read, mut taken) = read_rows(&disk, NEXT).unwrap();
            assert_eq!(read, ReadStates { taken: 19, damaged: 1 });
            taken.insert(row, rows[row].clone());
            assert!(taken == rows, "{row} {at}");
        }
        // A damaged length loses the later rows too.
        let disk = changed(&disk, |bytes| bytes[start(row) + 3] ^= 1);
        let (read, taken) = read_rows(&disk, NEXT).unwrap();
        assert!(taken == rows[..row] && read.damaged == 20 - row as u64, "{read:?}");
    }
    // An unknown row counts as damaged.
    let read = read(&disk, NEXT, |row| row[0] != 3).unwrap();
    assert_eq!(read, ReadStates { taken: 19, damaged: 1 });
}

#[test]
fn a_file_of_anything_is_refused_or_read_in_part() {
    let disk = disk::empty(3);
    let rows = rows(20);
    write(&disk, FIRST, &rows).unwrap();
    let length = disk.bytes(FILE_NAME).unwrap().len();
    for cut in 0..length {
        let read = read_rows(&changed(&disk, |bytes| bytes.truncate(cut)), NEXT);
        match read {
            Ok((read, taken)) => {
                assert!(cut >= HEAD_BYTES && taken[..] == rows[..taken.len()], "{read:?}");
            }
            Err(error) => assert!(cut < HEAD_BYTES && matches!(error, StatesError::Damaged)),
        }
    }
    for bit in 0..8 * HEAD_BYTES {
        let disk = changed(&disk, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        assert!(matches!(read_rows(&disk, NEXT), Err(StatesError::Damaged)), "{bit}");
    }
    let newer = changed(&disk, |bytes| {
        bytes[8] = 2;
        let sum = digest(&[&bytes[..24]]);
        bytes[24..32].copy_from_slice(&sum);
    });
    let refused = read_rows(&newer, NEXT).unwrap_err().to_string();
    assert_eq!(refused, "it has format 2, this program reads 1");
    let mut chance = Chance::new(3);
    for _ in 0..2_000 {
        let disk = changed(&disk, |bytes| {
            let at =
                HEAD_BYTES + usize::try_from(chance.below((length - HEAD_BYTES) as u64)).unwrap();
            bytes[at] ^= 1 << chance.below(8);
        });
        let (read, taken) = read_rows(&disk, NEXT).unwrap();
        assert!(read.taken < 20 && read.taken + read.damaged == 20);
        assert!(taken.iter().all(|row| rows.contains(row)));
    }
}

#[test]
fn on_a_disk_that_fails_or_loses_power_the_file_before_is_there_or_the_new_one() {
    let (old, new) = (rows(10), rows(200));
    let mut found = [0; 2];
    for seed in 0..200 {
        let disk = disk::empty(seed);
        write(&disk, FIRST, &old).unwrap();
        disk.set_faults(DiskFaults { write: 40, sync: 8, other: 12 });
        let written = write(&disk, FIRST, &new);
        disk.set_faults(DiskFaults::default());
        disk.lose_power();
        let (read, taken) = read_rows(&disk, NEXT).unwrap();
        assert_eq!(read.damaged, 0, "seed {seed}");
        assert!(taken == new || (taken == old && written.is_err()), "seed {seed}");
        found[usize::from(taken == new)] += 1;
    }
    assert!(found.into_iter().all(|times| times > 20), "{found:?}");
}
