//! Thousands of epochs of a log on a disk that fails, loses, tears and stops. Acknowledged records
//! are found, none is invented, and sequences have no holes. Planted bugs are caught.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::testing::{Chance, DiskFaults, FaultDisk};
use crate::{END_BYTES, HEADER_BYTES, LogEntry, LogReader, LogRecord, LogWriter, WriterOptions};

const SEEDS: u64 = 2_000;
const LIVES: u64 = 6;
const OPTIONS: WriterOptions = WriterOptions {
    segment_bytes: 2_000,
    batch_bytes_max: 4_000,
    index_every_bytes: 500,
    ..WriterOptions::DEFAULT
};

/// The model of the log, kept outside of the disk.
#[derive(Default)]
struct Model {
    /// Acknowledged records by sequence: committed, or found by a start.
    acknowledged: BTreeMap<u64, Vec<u8>>,
    /// All appended records.
    appended: BTreeSet<(u64, Vec<u8>)>,
    /// Records below this sequence may be removed.
    given_away: u64,
    serial: u64,
    refused: bool,
}

type Check = Result<(), String>;

impl Model {
    /// Compares the records that a start found with the model.
    fn found(&mut self, items: Vec<LogEntry>) -> Check {
        let mut records: Vec<LogRecord> = Vec::new();
        for item in items {
            match item {
                LogEntry::Record(record) => records.push(record),
                LogEntry::Torn(_) => (),
                LogEntry::Corruption(corruption) => {
                    return Err(format!("no rot, yet {corruption}"));
                }
            }
        }
        for pair in records.windows(2) {
            if pair[1].sequence != pair[0].sequence + 1 {
                return Err(format!("{} after {}", pair[1].sequence, pair[0].sequence));
            }
        }
        let found: BTreeMap<_, _> =
            records.into_iter().map(|record| (record.sequence, record.payload)).collect();
        for (sequence, payload) in self.acknowledged.range(self.given_away..) {
            if found.get(sequence) != Some(payload) {
                return Err(format!("acknowledged record {sequence} is lost"));
            }
        }
        for record in found {
            if !self.appended.contains(&record) {
                return Err(format!("record {} was never appended", record.0));
            }
            self.acknowledged.insert(record.0, record.1);
        }
        Ok(())
    }

    fn append(
        &mut self,
        writer: &mut LogWriter<FaultDisk>,
        chance: &mut Chance,
    ) -> Result<(u64, Vec<u8>), String> {
        self.serial += 1;
        let mut payload = self.serial.to_le_bytes().to_vec();
        payload.resize(8 + chance.index(300), b'x');
        let time_ms = self.serial ^ chance.below(64);
        let sequence = writer.append(1, time_ms, &payload).map_err(|error| error.to_string())?;
        if self.acknowledged.contains_key(&sequence) {
            return Err(format!("sequence {sequence} was given once more"));
        }
        self.appended.insert((sequence, payload.clone()));
        Ok((sequence, payload))
    }

    /// Commits a batch, or applies retention.
    fn act(&mut self, writer: &mut LogWriter<FaultDisk>, chance: &mut Chance) -> Check {
        self.refused = false;
        if chance.once_in(8) {
            let before = writer.durable().saturating_sub(chance.below(20));
            self.given_away = self.given_away.max(before);
            writer.remove_before(before);
            return Ok(());
        }
        if chance.once_in(8) {
            let keep_from = writer.durable().saturating_sub(chance.below(20));
            let bytes_max = (!chance.once_in(3)).then(|| chance.below(8_000));
            let older_than_ms = chance.once_in(2).then(|| chance.below(self.serial + 64));
            if (bytes_max, older_than_ms) != (None, None) {
                self.given_away = self.given_away.max(keep_from);
            }
            // It may fail, but wanted records stay.
            drop(writer.retain(bytes_max, older_than_ms, keep_from));
            return Ok(());
        }
        let mut batch = BTreeMap::new();
        for _ in 0..=chance.below(5) {
            let (sequence, payload) = self.append(writer, chance)?;
            batch.insert(sequence, payload);
            if chance.once_in(6) && writer.flush().is_err() {
                self.refused = true;
                return Ok(());
            }
        }
        let committed = writer.commit();
        self.refused = committed.is_err();
        if let Ok(durable) = committed {
            if batch.last_key_value().map(|(sequence, _)| *sequence) != Some(durable) {
                return Err(format!("{durable} is durable, of {:?}", batch.keys()));
            }
            self.acknowledged.append(&mut batch);
        }
        Ok(())
    }
}

/// One log over several epochs.
fn run(seed: u64) -> Check {
    let mut disk = FaultDisk::new(seed);
    let mut chance = Chance::new(!seed);
    let mut model = Model::default();
    for _ in 0..LIVES {
        disk.set_faults(DiskFaults::default());
        disk.set_space(None);
        if chance.once_in(4) {
            // An interrupted start leaves the files unchanged.
            disk.stop_after(Some(1 + chance.below(6)));
            drop(LogWriter::open(disk.clone(), OPTIONS, |_| ()));
            end(&disk, &mut chance);
        }
        let (window_bytes, preallocate) = (chance.index(5_000), chance.once_in(2));
        let options = WriterOptions { window_bytes, preallocate, ..OPTIONS };
        let copy = disk.copy();
        let mut items = Vec::new();
        let opened = LogWriter::open(disk.clone(), options, |item| items.push(item));
        let (mut writer, _) = opened.map_err(|error| error.to_string())?;
        model.found(items)?;
        same_from(&disk, &mut chance)?;
        let at_end = same_end(&disk, &writer, &copy, options)?;
        if chance.once_in(2) {
            // The log continues from the quick start.
            (writer, disk) = (at_end, copy);
        }
        let faulty = chance.once_in(2);
        let rate = |chance: &mut Chance| if faulty { 2 + chance.below(10) } else { 0 };
        let (write, sync, other) = (rate(&mut chance), rate(&mut chance), rate(&mut chance));
        disk.set_faults(DiskFaults { write, sync, other });
        if chance.once_in(4) {
            disk.set_space(Some(chance.index(6_000)));
        }
        disk.stop_after(Some(1 + chance.below(60)));
        for _ in 0..30 {
            if disk.has_stopped() {
                break;
            }
            model.act(&mut writer, &mut chance)?;
        }
        if !disk.has_stopped() {
            // The faults have ended: the log recovers without a restart.
            disk.set_faults(DiskFaults::default());
            disk.set_space(None);
            model.act(&mut writer, &mut chance)?;
            if !disk.has_stopped() && model.refused {
                return Err("nothing fails, and a commit does".to_owned());
            }
        }
        drop(writer);
        end(&disk, &mut chance);
    }
    Ok(())
}

/// A reader that seeks finds the same records as one that starts at the beginning.
fn same_from(disk: &FaultDisk, chance: &mut Chance) -> Check {
    let records = |reader: LogReader<'_, FaultDisk>| {
        let items = reader.filter_map(Result::ok);
        items.filter(|item| matches!(item, LogEntry::Record(_))).collect::<Vec<_>>()
    };
    let reader = || LogReader::new(disk).map_err(|error| error.to_string());
    let all = records(reader()?);
    let sequence = chance.below(100);
    let got = records(reader()?.seek(sequence).map_err(|error| error.to_string())?);
    let wanted = all.into_iter().filter(|item| match item {
        LogEntry::Record(record) => record.sequence >= sequence,
        LogEntry::Corruption(_) | LogEntry::Torn(_) => false,
    });
    let want: Vec<_> = wanted.collect();
    if got != want {
        return Err(format!("from {sequence}: {} of {}", got.len(), want.len()));
    }
    Ok(())
}

/// A start that reads only the newest segment, on a copy of the disk, finds the same end, changes
/// the files in the same way, and reads no more.
fn same_end(
    disk: &FaultDisk,
    full: &LogWriter<FaultDisk>,
    copy: &FaultDisk,
    options: WriterOptions,
) -> Result<LogWriter<FaultDisk>, String> {
    let whole = WriterOptions { window_bytes: WriterOptions::DEFAULT.window_bytes, ..options };
    let (counted, before) = (copy.copy(), copy.bytes_read());
    let opened = LogWriter::open_at_end(counted.clone(), whole, |_| ());
    drop(opened.map_err(|error| error.to_string())?);
    let lengths = copy.names().into_iter().filter(|name| name.ends_with(".segment"));
    let lengths: Vec<_> =
        lengths.map(|name| copy.bytes(&name).map_or(0, |bytes| bytes.len())).collect();
    let newest = lengths.iter().rfind(|length| **length > HEADER_BYTES).copied().unwrap_or(0);
    let (read, most) =
        (counted.bytes_read() - before, newest + END_BYTES + 6 * HEADER_BYTES * lengths.len());
    if read > most as u64 {
        return Err(format!("a start at the end read {read} bytes, of {lengths:?}"));
    }
    let opened = LogWriter::open_at_end(copy.clone(), options, |_| ());
    let (quick, _) = opened.map_err(|error| error.to_string())?;
    let ends = [&quick, full].map(|writer| (writer.durable(), writer.epoch(), writer.segments()));
    if ends[0] != ends[1] {
        return Err(format!("a start at the end finds {:?}, a full one {:?}", ends[0], ends[1]));
    }
    let files = |disk: &FaultDisk| {
        disk.names().into_iter().map(|name| (disk.bytes(&name), name)).collect::<Vec<_>>()
    };
    for disk in [disk, &counted] {
        if files(disk) != files(copy) {
            return Err("a start at the end leaves other files".to_owned());
        }
    }
    Ok(quick)
}

fn end(disk: &FaultDisk, chance: &mut Chance) {
    if chance.once_in(3) { disk.restart_process() } else { disk.lose_power() }
}

/// The first seed with a violation.
fn search() -> Option<(u64, String)> {
    (0..SEEDS).find_map(|seed| run(seed).err().map(|problem| (seed, problem)))
}

#[test]
fn what_was_acknowledged_is_found_and_nothing_else() {
    assert_eq!(search(), None);
}

/// Space for a segment is reserved only after the file `end` is written.
#[test]
fn what_is_set_aside_leaves_room_for_the_end() {
    let options =
        WriterOptions { segment_bytes: 2_000, preallocate: true, ..WriterOptions::DEFAULT };
    let disk = FaultDisk::new(1);
    let (mut writer, _) = LogWriter::open(disk.clone(), options, |_| ()).unwrap();
    disk.set_space(Some(disk.used() + 2_000 + END_BYTES - 1));
    writer.append(1, 0, b"first").unwrap();
    assert_eq!(writer.commit().unwrap(), 1);
}

/// On a nearly full disk, a new header first declares old segments unwanted, and they are removed.
#[test]
fn retention_frees_a_nearly_full_disk() {
    let disk = FaultDisk::new(1);
    let (mut writer, _) = LogWriter::open(disk.clone(), OPTIONS, |_| ()).unwrap();
    for sequence in 1..=2 {
        writer.append(1, 0, &[7; 2_000]).unwrap();
        assert_eq!(writer.commit().unwrap(), sequence);
    }
    disk.set_space(Some(disk.used() + HEADER_BYTES));
    let removed = writer.retain(Some(0), None, 3).unwrap();
    assert_eq!(removed.segments.len(), 1);
    writer.append(1, 0, b"goes on").unwrap();
    assert_eq!(writer.commit().unwrap(), 3);
}

#[test]
fn a_full_disk_refuses_and_heals_without_a_restart() {
    let disk = FaultDisk::new(1);
    let (mut writer, _) = LogWriter::open(disk.clone(), OPTIONS, |_| ()).unwrap();
    writer.append(1, 0, b"before").unwrap();
    assert_eq!(writer.commit().unwrap(), 1);
    for round in 0..30 {
        disk.set_space(Some(80 + 10 * round));
        writer.append(1, 0, &[7; 100]).unwrap();
        writer.append(1, 0, &[8; 100]).unwrap();
        let error = writer.commit().unwrap_err();
        assert_eq!(error.source.kind(), std::io::ErrorKind::StorageFull);
        assert_eq!((error.records, writer.durable()), (2, 1));
    }
    let segments = disk.names().into_iter().filter(|name| name.ends_with(".segment")).count();
    assert!(segments <= 2, "tries leave one segment at most: {:?}", disk.names());
    disk.set_space(None);
    assert_eq!(writer.append(1, 0, b"after").unwrap(), 2, "no sequence is skipped");
    assert_eq!(writer.commit().unwrap(), 2);
    drop(writer);
    disk.lose_power();
    let mut payloads = Vec::new();
    let (_, recovery) = LogWriter::open(disk, OPTIONS, |item| match item {
        LogEntry::Record(record) => payloads.push(record.payload),
        other => panic!("{other:?}"),
    })
    .unwrap();
    assert_eq!(payloads, [b"before".to_vec(), b"after".to_vec()]);
    assert_eq!((recovery.records, recovery.corruptions, recovery.torn), (2, 0, false));
}
