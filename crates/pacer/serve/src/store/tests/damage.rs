//! Damaged files: each is refused with a remedy, and nothing panics.

use faults::{Chance, DiskFaults, FaultDisk};
use pacer_core::store::{CommitOutcome, StoreFault, StoreRequest, StoreWriter};
use redb::{Database, TableDefinition};

use super::{ask, batch, begin, disk, ended, leases};
use crate::store::engine::StoreEngine;
use crate::{DiskStore, StoreOpenError, StoreOptions};

const FILE: &str = "ledger.redb";
const PAGE_BYTES: usize = 4_096;

/// A disk with a store of three batches, closed or killed, and the pages that the last one changed.
fn written(is_closed: bool) -> (FaultDisk, Vec<usize>) {
    let disk = disk::empty(1);
    let mut engine = StoreEngine::open(disk.clone()).unwrap();
    let writer = begin(&mut engine);
    let mut before = Vec::new();
    for number in 1..=3 {
        before = disk.bytes(FILE).unwrap();
        let answer = ask(&mut engine, StoreRequest::Submit(writer, batch(number, 300)));
        assert_eq!(ended(&answer), CommitOutcome::Committed);
    }
    let after = disk.bytes(FILE).unwrap();
    let pages = after.chunks(PAGE_BYTES).enumerate();
    let changed = pages.filter(|(page, bytes)| {
        let at = page * PAGE_BYTES;
        before.get(at..at + bytes.len()) != Some(bytes)
    });
    let changed = changed.map(|(page, _)| page).filter(|page| *page > 0).collect();
    if is_closed {
        engine.close().unwrap();
    } else {
        disk.restart_process();
        drop(engine);
    }
    (disk, changed)
}

fn opened(disk: &FaultDisk) -> Result<u64, StoreOpenError> {
    let mut engine = StoreEngine::open(disk.clone())?;
    let leases = leases(&mut engine);
    assert_eq!(leases.len(), 300);
    let first = leases[0].1;
    assert!(leases.iter().all(|(_, value)| *value == first), "half a batch");
    disk.restart_process();
    Ok(first)
}

#[test]
fn whoever_ends_well_is_believed_and_whoever_does_not_is_written_anew() {
    for is_closed in [true, false] {
        let (disk, _) = written(is_closed);
        assert_eq!(disk.names().iter().any(|name| name == "open"), !is_closed);
        // A file written anew has another inode.
        let file = disk.inode(FILE);
        assert_eq!(opened(&disk).unwrap(), 3);
        assert_eq!(disk.inode(FILE) == file, is_closed);
        let names = disk.names();
        assert_eq!(names, ["ledger.redb", "open"], "nothing else is left");
    }
}

/// A damaged last commit is reported: the store does not return to the one before.
#[test]
fn a_committed_batch_that_rots_is_not_taken_for_a_torn_one() {
    let (disk, changed) = written(false);
    assert!(changed.len() > 3, "{changed:?}");
    let mut damaged = 0;
    for page in changed {
        let disk = disk.copy();
        let mut bytes = disk.bytes(FILE).unwrap();
        bytes[page * PAGE_BYTES + 100] ^= 0x10;
        disk.put(FILE, &bytes);
        match opened(&disk) {
            Err(StoreOpenError::Damaged { file, .. }) => {
                assert_eq!(file, "memory/ledger.redb");
                damaged += 1;
            }
            Err(error) => panic!("{error}"),
            // Unused pages are not missed.
            Ok(number) => assert_eq!(number, 3, "an earlier batch"),
        }
    }
    assert!(damaged > 1, "{damaged}");
}

#[test]
fn a_file_of_anything_is_refused_or_holds_what_was_committed() {
    let (disk, _) = written(true);
    let bytes = disk.bytes(FILE).unwrap();
    let mut chance = Chance::new(3);
    let mut below = |limit: usize| usize::try_from(chance.below(limit as u64)).unwrap();
    let (mut refused, mut held) = (0, 0);
    for round in 0..300 {
        let disk = disk.copy();
        let mut bytes = bytes.clone();
        match round % 4 {
            0 => bytes.truncate(below(bytes.len())),
            1 => {
                let (at, length) = (below(bytes.len()), below(10_000));
                bytes.iter_mut().skip(at).take(length).for_each(|byte| *byte = 0);
            }
            2 => (0..1 + below(4)).for_each(|_| {
                let at = PAGE_BYTES + below(bytes.len() - PAGE_BYTES);
                bytes[at] ^= 1 << below(8);
            }),
            _ => bytes.iter_mut().for_each(|byte| *byte = u8::try_from(below(256)).unwrap()),
        }
        disk.put(FILE, &bytes);
        match opened(&disk) {
            Ok(3) => held += 1,
            Ok(other) => panic!("round {round}: {other}"),
            Err(StoreOpenError::Damaged { .. }) => refused += 1,
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert!(refused > 100 && held > 5, "{refused} {held}");
}

fn refusal(disk: &FaultDisk) -> String {
    StoreEngine::open(disk.clone()).err().expect("it is refused").to_string()
}

#[test]
fn each_refusal_says_what_to_do() {
    let says = |what: &str| {
        format!(
            "the ledger's store memory/ledger.redb is damaged ({what}): put back a copy of it; \
             without one, move its directory away and take from each limit what was spent"
        )
    };
    let (disk, _) = written(true);
    disk.put(FILE, b"");
    assert_eq!(refusal(&disk), says("it is empty"));
    disk.put(FILE, &[b'x'; 10_000]);
    assert!(refusal(&disk).contains("is damaged"), "{}", refusal(&disk));

    // A killed process, and a file removed afterwards.
    let (killed, _) = written(false);
    crate::store::directory::StoreDirectory::remove(&killed, FILE).unwrap();
    assert_eq!(refusal(&killed), says("it is gone"));

    let held = disk::empty(4);
    let engine = StoreEngine::open(held.clone()).unwrap();
    let taken = "memory is in use by process 7: end it, or name another directory";
    assert_eq!(refusal(&held), taken);
    drop(engine);
    StoreEngine::open(held).unwrap();

    let full = disk::empty(5);
    full.set_space(Some(10_000));
    assert_eq!(refusal(&full), "memory has no room for the ledger's store: free some");
    full.set_space(None);
    StoreEngine::open(full).unwrap();

    let broken = disk::empty(6);
    broken.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    let text = refusal(&broken);
    let want = "memory cannot hold the ledger's store (input/output error): see to the directory \
                and its disk";
    assert_eq!(text, want);
}

#[test]
fn a_file_of_another_program_or_version_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let write = |name: &str, table: &str, value: u64| {
        let directory = temporary.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        let database = Database::create(directory.join(FILE)).unwrap();
        let transaction = database.begin_write().unwrap();
        let definition = TableDefinition::<&str, u64>::new(table);
        transaction.open_table(definition).unwrap().insert("format", value).unwrap();
        transaction.commit().unwrap();
        (directory, database)
    };
    let open = |directory: &std::path::Path| {
        let refused = DiskStore::open(directory, StoreOptions::default()).err();
        refused.expect("it is refused").to_string()
    };
    let (directory, database) = write("newer", "meta", 4);
    let busy = open(&directory);
    assert!(busy.contains("(another program has its file open: end it)"), "{busy}");
    drop(database);
    let text = open(&directory);
    assert!(text.ends_with("has format 4, this program reads 3: use the program that wrote it"));

    let (directory, _) = write("other", "something", 1);
    let text = open(&directory);
    assert!(text.contains("is damaged (it is no store of a ledger's)"), "{text}");

    std::fs::write(temporary.path().join("file"), "").unwrap();
    let text = open(&temporary.path().join("file"));
    assert!(text.contains("file cannot hold the ledger's store"), "{text}");
}

#[test]
fn a_full_disk_refuses_and_heals() {
    let disk = disk::empty(7);
    let mut engine = StoreEngine::open(disk.clone()).unwrap();
    let writer = begin(&mut engine);
    disk.set_space(Some(disk.used()));
    let mut committed = 0;
    let refused = (1..1_000).find(|number| {
        // Each is larger, until one does not fit.
        let slots = u32::try_from(number * 100).unwrap();
        let answer = ask(&mut engine, StoreRequest::Submit(writer, batch(*number, slots)));
        let is_committed = ended(&answer) == CommitOutcome::Committed;
        committed += u64::from(is_committed);
        !is_committed
    });
    assert_eq!(engine.failing(), Some(StoreFault::DiskFull));
    engine.reopen();
    disk.set_space(None);
    engine.reopen();
    assert_eq!(engine.failing(), None);
    let last = refused.unwrap();
    assert_eq!(last, committed + 1);
    let expected = if committed == 0 { None } else { Some(committed) };
    let found = leases(&mut engine).first().map(|(_, value)| *value);
    assert!(found == expected || found == Some(last), "{found:?}");
    let slots = u32::try_from(last * 100).unwrap();
    let answer = ask(&mut engine, StoreRequest::Submit(writer, batch(last, slots)));
    assert_eq!(ended(&answer), CommitOutcome::Committed);
    assert_eq!(leases(&mut engine).len(), usize::try_from(slots).unwrap());
}

fn fill(disk: &FaultDisk, engine: &mut StoreEngine<FaultDisk>, writer: StoreWriter) {
    disk.set_space(Some(disk.used()));
    ask(engine, StoreRequest::Submit(writer, batch(9, 50_000)));
    assert_eq!(engine.failing(), Some(StoreFault::DiskFull));
}

#[test]
fn after_a_failed_sync_the_file_is_written_anew_once() {
    let disk = disk::empty(8);
    let mut engine = StoreEngine::open(disk.clone()).unwrap();
    let writer = begin(&mut engine);
    let first = disk.inode(FILE);
    disk.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
    let answer = ask(&mut engine, StoreRequest::Submit(writer, batch(1, 1)));
    assert_eq!(
        (ended(&answer), engine.failing()),
        (CommitOutcome::Unknown, Some(StoreFault::Disk))
    );
    disk.set_faults(DiskFaults::default());
    engine.reopen();
    let second = disk.inode(FILE);
    assert_eq!((engine.failing(), first == second), (None, false));
    fill(&disk, &mut engine, writer);
    disk.set_space(None);
    engine.reopen();
    assert_eq!((engine.failing(), disk.inode(FILE)), (None, second), "no sync has failed since");
}

#[test]
fn what_was_written_anew_in_part_takes_no_room() {
    for faults in [
        DiskFaults { write: 1, ..DiskFaults::default() },
        DiskFaults { sync: 1, ..DiskFaults::default() },
    ] {
        let disk = disk::empty(8);
        let mut engine = StoreEngine::open(disk.clone()).unwrap();
        let writer = begin(&mut engine);
        disk.set_faults(DiskFaults { sync: 1, ..DiskFaults::default() });
        ask(&mut engine, StoreRequest::Submit(writer, batch(1, 1)));
        let used = disk.used();
        disk.set_faults(faults);
        engine.reopen();
        assert_eq!(engine.failing(), Some(StoreFault::Disk), "{faults:?}");
        assert_eq!(disk.used(), used, "{faults:?}");
    }
}

#[test]
fn a_damaged_file_does_not_heal() {
    let disk = disk::empty(9);
    let mut engine = StoreEngine::open(disk.clone()).unwrap();
    let writer = begin(&mut engine);
    fill(&disk, &mut engine, writer);
    let bytes = disk.bytes(FILE).unwrap();
    disk.put(FILE, &vec![b'x'; bytes.len()]);
    disk.set_space(None);
    // A restored copy may be old: this process must not continue with it.
    for _ in 0..2 {
        engine.reopen();
        assert_eq!(engine.failing(), Some(StoreFault::Damaged));
        disk.put(FILE, &bytes);
    }
    let answer = ask(&mut engine, StoreRequest::Submit(writer, batch(1, 1)));
    assert_eq!(ended(&answer), CommitOutcome::Refused);
    drop(engine);
    StoreEngine::open(disk).unwrap();
}
