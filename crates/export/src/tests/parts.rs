//! The assignment of rows to files, and the number of open files.

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

use super::*;

fn files(disk: &Memory) -> Vec<String> {
    disk.visible().into_keys().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// For any clock and any limits: every row once, in its hour, and a correct summary.
    #[test]
    fn rows_stand_in_their_hours(
        hours in prop::collection::vec((0_u64..6, 0..HOUR_US, 0_u8..8), 0..60),
        hours_open in 0_usize..4,
        commit_rows in 1_u64..30,
        commit_bytes in 100_u64..3000,
        commit_files in 1_usize..5,
        is_parquet: bool,
        parts in prop::collection::vec(0_usize..60, 0..3),
    ) {
        let items: Vec<ExportItem<Line>> = (1..)
            .zip(&hours)
            .map(|(sequence, (hour, within, kind))| match kind {
                0 => ExportItem::Passed(place(sequence)),
                1 => ExportItem::Gap { place: place(sequence), records: 3 },
                _ => row(sequence, EIGHT_US + hour * HOUR_US + within),
            })
            .collect();
        let format = if is_parquet { FileFormat::Parquet } else { FileFormat::Jsonl };
        let limits = ExportLimits { hours_open, commit_rows, commit_bytes, commit_files, ..small() };
        let options = options(format, limits);
        let disk = Memory::new();
        let mut sum = ExportSummary::default();
        let mut parts = parts;
        parts.sort_unstable();
        parts.push(items.len());
        for part in parts {
            let summary = whole(&disk, &items[..part.min(items.len())], &options).unwrap();
            sum.rows += summary.rows;
            sum.gaps += summary.gaps;
            sum.shed += summary.shed;
            sum.records += summary.records;
            sum.files += summary.files;
            sum.bytes += summary.bytes;
        }
        prop_assert_eq!(read_back(&disk), expected(&items));
        let count = |kind: fn(&&ExportItem<Line>) -> bool| items.iter().filter(kind).count() as u64;
        prop_assert_eq!(sum.rows, count(|item| matches!(item, ExportItem::Row { .. })));
        prop_assert_eq!(sum.gaps, count(|item| matches!(item, ExportItem::Gap { .. })));
        prop_assert_eq!(sum.shed, sum.gaps * 3);
        prop_assert_eq!(sum.records, items.len() as u64);
        let visible = disk.visible();
        prop_assert_eq!(sum.files, visible.len() as u64);
        prop_assert_eq!(sum.bytes, visible.values().map(Vec::len).sum::<usize>() as u64);
    }
}

#[test]
fn an_hour_has_one_file_by_export_and_node() {
    let disk = Memory::new();
    let mut options = options(FileFormat::Jsonl, ExportLimits::default());
    let at = |sequence: u64, minutes: u64| row(sequence, EIGHT_US + minutes * 60_000_000);
    // Around the full hour, rows of both hours alternate.
    let mut items = vec![at(1, 30), at(2, 59), at(3, 60), at(4, 59), at(5, 61), at(6, 60)];
    whole(&disk, &items, &options).unwrap();
    let eight = |name: &str| format!("hour=2026-11-22T08/node-{name}.jsonl");
    let nine = |name: &str| format!("hour=2026-11-22T09/node-{name}.jsonl");
    assert_eq!(
        files(&disk),
        [eight("007-epoch-000001-from-000000000001"), nine("007-epoch-000001-from-000000000003")]
    );
    // The hour continues in the log's third epoch, beside an export of another node.
    items.extend([at(20, 70), at(21, 71)]);
    whole(&disk, &items, &options).unwrap();
    options.node = 8;
    whole(&disk, &items[..1], &options).unwrap();
    assert_eq!(
        files(&disk),
        [
            eight("007-epoch-000001-from-000000000001"),
            eight("008-epoch-000001-from-000000000001"),
            nine("007-epoch-000001-from-000000000003"),
            nine("007-epoch-000003-from-000000000020"),
        ]
    );
    // Without new records nothing happens.
    let before = disk.visible();
    options.node = 7;
    let summary = whole(&disk, &items, &options).unwrap();
    let untouched = ExportSummary { position: summary.position, ..ExportSummary::default() };
    assert_eq!(summary, ExportSummary { resumed: summary.position, ..untouched });
    assert_eq!(disk.visible(), before);
}

/// When a new hour comes, the least recently written one is finished; many finished files are
/// completed.
#[test]
fn only_so_many_hours_are_under_way() {
    let visits = |hours: &[u64], limits: ExportLimits| {
        let items: Vec<_> =
            (1..).zip(hours).map(|(n, hour)| row(n, EIGHT_US + hour * HOUR_US)).collect();
        let disk = Memory::new();
        whole(&disk, &items, &options(FileFormat::Jsonl, limits)).unwrap();
        assert_eq!(read_back(&disk), expected(&items));
        assert_eq!(disk.open_most(), limits.hours_open, "files side by side");
        files(&disk).len()
    };
    let limits = |hours_open, commit_files| ExportLimits {
        hours_open,
        commit_files,
        ..ExportLimits::default()
    };
    let hours = [0, 1, 0, 2, 0, 1, 0, 2];
    assert_eq!(visits(&hours, limits(3, 64)), 3);
    assert_eq!(visits(&hours, limits(2, 64)), 5, "hour 0 stays open");
    assert_eq!(visits(&hours, limits(1, 64)), 8);
    // Completing the first finished file also completes the open ones.
    assert_eq!(visits(&hours, limits(2, 1)), 6);
}

/// Row groups end at their limits, which bounds memory.
#[test]
fn row_groups_are_bounded_by_rows_and_bytes() {
    let groups = |limits: ExportLimits| -> Vec<i64> {
        let items: Vec<_> = (1..=100).map(|sequence| row(sequence, EIGHT_US)).collect();
        let disk = Memory::new();
        whole(&disk, &items, &options(FileFormat::Parquet, limits)).unwrap();
        let (_, bytes) = disk.visible().into_iter().next().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        reader.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect()
    };
    assert_eq!(groups(ExportLimits::default()), [100]);
    assert_eq!(groups(ExportLimits { group_rows: 40, ..ExportLimits::default() }), [40, 40, 20]);
    let batch = ExportLimits { batch_rows: 10, ..ExportLimits::default() };
    let by_bytes = groups(ExportLimits { group_bytes: 1000, ..batch });
    assert!(by_bytes.len() > 3, "{by_bytes:?}");
    // A batch also ends at its limit of record bytes; each record has 100 here.
    let batch = ExportLimits { batch_bytes: 500, group_bytes: 1, ..ExportLimits::default() };
    assert_eq!(groups(batch)[..2], [5, 5]);
}

/// For a log of any length, a killed run loses bounded work.
#[test]
fn what_is_taken_is_complete_before_long() {
    let check = |limits: ExportLimits, rows_max: u64| {
        let disk = Memory::new();
        let items = (1..=100).map(|sequence| {
            let complete = read_back(&disk).values().map(Vec::len).sum::<usize>() as u64;
            let taken = sequence - 1;
            assert_eq!(complete, taken / rows_max * rows_max, "{limits:?}");
            Ok::<_, Infallible>(row(sequence, EIGHT_US))
        });
        run(&disk, items, &options(FileFormat::Jsonl, limits), || false).unwrap();
    };
    check(ExportLimits { commit_rows: 30, ..ExportLimits::default() }, 30);
    // Each record has 100 bytes here.
    check(ExportLimits { commit_bytes: 1500, ..ExportLimits::default() }, 15);
    check(ExportLimits::default(), 1000);
}
