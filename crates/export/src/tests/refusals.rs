//! Refusals to continue an export, and their messages.

use super::store::Fault;
use super::*;
use crate::store::ExportStore;

const STATE: &str = "_export-node-007/state.json";
const FILE: &str = "hour=2026-11-22T08/node-007-epoch-000001-from-000000000001.jsonl";

fn items() -> Vec<ExportItem<Line>> {
    (1..=5).map(|sequence| row(sequence, EIGHT_US)).collect()
}

/// A folder with five exported rows.
fn exported() -> Memory {
    let disk = Memory::new();
    whole(&disk, &items(), &options(FileFormat::Jsonl, ExportLimits::default())).expect("it works");
    assert!(disk.paths().iter().any(|path| path == FILE));
    disk
}

/// Checks the message, and that nothing changed.
fn refused(disk: &Memory, items: &[ExportItem<Line>], options: &ExportOptions) -> String {
    let (before, state) = (disk.visible(), disk.paths());
    let error = whole(disk, items, options).expect_err("it is refused").to_string();
    assert_eq!((disk.visible(), disk.paths()), (before, state), "{error}");
    error
}

#[test]
fn what_the_state_does_not_fit_is_refused() {
    let check = |disk: &Memory, change: fn(&mut ExportOptions), want: &str| {
        let mut options = options(FileFormat::Jsonl, ExportLimits::default());
        change(&mut options);
        assert_eq!(refused(disk, &items(), &options), want);
    };
    let disk = exported();
    check(
        &disk,
        |options| options.format = FileFormat::Parquet,
        "out/_export-node-007/state.json says that files here are jsonl: ask for jsonl, or export parquet into another folder",
    );
    check(
        &disk,
        |options| options.filter = "seat=acme".into(),
        "out/_export-node-007/state.json says that files here are filtered by `all`, not by `seat=acme`: ask for the same, or name another folder",
    );
    // Several nodes share a folder, but only with the same format.
    let other = |options: &mut ExportOptions| {
        (options.node, options.filter) = (8, "seat=acme".into());
    };
    let mut foreign = options(FileFormat::Parquet, ExportLimits::default());
    other(&mut foreign);
    let error = whole(&disk, &items(), &foreign).unwrap_err().to_string();
    assert!(error.contains("node-007/state.json says that files here are jsonl"), "{error}");
    foreign.format = FileFormat::Jsonl;
    assert_eq!(whole(&disk, &items(), &foreign).unwrap().rows, 5);

    let lock = disk.lock("_export-node-007/lock").unwrap();
    check(
        &disk,
        |_| (),
        "out/_export-node-007/lock is held by another export of node 7: wait for its end, or name another folder",
    );
    drop(lock);
    let summary =
        whole(&disk, &items(), &options(FileFormat::Jsonl, ExportLimits::default())).unwrap();
    assert_eq!((summary.rows, summary.resumed), (0, Some(place(5))));
}

#[test]
fn a_state_that_is_none_is_refused() {
    let text = exported().text(STATE);
    let check = |text: &str, want: &str| {
        let disk = exported();
        disk.put(STATE, text.as_bytes());
        let error = refused(&disk, &items(), &options(FileFormat::Jsonl, ExportLimits::default()));
        assert!(error.starts_with("out/_export-node-007/state.json "), "{error}");
        assert!(error.contains(want), "{error}");
    };
    let later = text.replace("\"version\": 1", "\"version\": 2");
    check(
        &later,
        "has version 2, known is 1: use the release that wrote it, or export into an empty folder",
    );
    // Regardless of further content of a later version.
    check("{\"version\": 3, \"positions\": []}", "has version 3");
    check("", "is damaged, EOF while parsing");
    check(&text[..text.len() / 2], "is damaged, EOF while parsing");
    check(&text.replace("\"node\": 7", "\"node\": 8"), "is damaged, it is that of node 8");
    check(&text.replace("\"filter\"", "\"filtre\""), "is damaged, unknown field `filtre`");
    check(
        &text.replace(
            "\"publishing\": []",
            "\"publishing\": [{\"hour\":70389528,\"epoch\":1,\"first\":9}]",
        ),
        "is damaged, hour 70389528 is beyond the year 9999",
    );
    check(&format!("{}{text}", " ".repeat(1 << 20)), "is damaged, EOF while parsing");
}

#[test]
fn another_log_is_refused() {
    let check = |place: LogPosition| {
        let stray = ExportItem::Row { place, time_us: EIGHT_US, bytes: 1, row: line(9, EIGHT_US) };
        let error =
            refused(&exported(), &[stray], &options(FileFormat::Jsonl, ExportLimits::default()));
        let sequence = place.sequence;
        assert_eq!(
            error,
            format!(
                "out/ holds records of epoch 1, but record {sequence} is of epoch 0: this is another log; name its own folder"
            )
        );
    };
    check(LogPosition { epoch: 0, sequence: 5 });
    check(LogPosition { epoch: 0, sequence: 6 });
    // Epochs before the position do not matter.
    let old = ExportItem::Passed(LogPosition { epoch: 0, sequence: 4 });
    let options = options(FileFormat::Jsonl, ExportLimits::default());
    assert_eq!(whole(&exported(), &[old], &options).unwrap().records, 0);
}

/// Records that were exported and then lost by the log: their numbers were reused.
#[test]
fn numbers_that_are_given_again_are_other_records() {
    let disk = exported();
    let options = options(FileFormat::Jsonl, ExportLimits::default());
    let again = |sequence: u64, line: Line| {
        let place = LogPosition { epoch: 2, sequence };
        ExportItem::Row { place, time_us: line.time_us, bytes: 100, row: line }
    };
    let more: Vec<_> = (1..=7).map(|sequence| row(sequence, EIGHT_US)).collect();
    whole(&disk, &more, &options).unwrap();
    let later: Vec<_> = (13..=14).map(|sequence| line(sequence, EIGHT_US)).collect();
    let items = [items()[2].clone(), again(4, later[0].clone())];
    let summary = whole(&disk, &items, &options).unwrap();
    assert_eq!((summary.rows, summary.position), (1, Some(LogPosition { epoch: 2, sequence: 4 })));
    // The state knows the file that begins with number 6 of the previous epoch.
    let items = [items[1].clone(), again(5, later[1].clone())];
    assert_eq!(whole(&disk, &items, &options).unwrap().rows, 1);
    let rows: Vec<_> = read_back(&disk).into_values().flatten().map(|line| line.sequence).collect();
    assert_eq!(rows, [1, 2, 3, 4, 5, 6, 7, 13, 14]);
}

#[test]
fn files_that_the_state_does_not_know_are_refused() {
    let say = |disk: &Memory| {
        refused(disk, &items(), &options(FileFormat::Jsonl, ExportLimits::default()))
    };
    // The state was lost.
    let disk = exported();
    disk.take_away(STATE);
    assert_eq!(
        say(&disk),
        format!(
            "out/{FILE} is not known to out/{STATE}: put back the state that was lost, or move the file away"
        )
    );
    // An older copy was restored.
    let disk = exported();
    let old = disk.text(STATE);
    let more: Vec<_> = (1..=9).map(|sequence| row(sequence, EIGHT_US)).collect();
    whole(&disk, &more, &options(FileFormat::Jsonl, ExportLimits::default())).unwrap();
    disk.put(STATE, old.as_bytes());
    assert!(say(&disk).contains("from-000000000006.jsonl is not known to"));
    // Files of other nodes and other tools do not matter.
    let disk = exported();
    disk.put("hour=2026-11-22T08/node-008-epoch-000001-from-000000000099.jsonl", b"{}\n");
    disk.put("hour=2026-11-22T08/notes.txt", b"hello");
    disk.put("elsewhere/node-007-epoch-000001-from-000000000099.jsonl", b"{}\n");
    whole(&disk, &more, &options(FileFormat::Jsonl, ExportLimits::default())).unwrap();
}

/// A run was stopped between writing the state and renaming its files, and a user removed them.
#[test]
fn complete_files_that_are_gone_are_missed() {
    let options = options(FileFormat::Jsonl, ExportLimits::default());
    let aside = "_export-node-007/node-007-epoch-000001-from-000000000001.jsonl.tmp";
    let sound = Memory::new();
    whole(&sound, &items(), &options).unwrap();
    let mut seen = 0;
    for call in 0..sound.calls() {
        let disk = Memory::new();
        disk.restart(Fault::Killed(call));
        whole(&disk, &items(), &options).unwrap_err();
        disk.restart(Fault::None);
        let is_named = disk.paths().iter().any(|path| path == STATE)
            && disk.text(STATE).contains("\"first\": 1");
        if is_named && disk.paths().iter().any(|path| path == aside) {
            seen += 1;
            let text = disk.text(aside);
            disk.take_away(aside);
            let want = format!(
                "out/{FILE} was complete and is gone: put it back, or export into an empty folder"
            );
            assert_eq!(refused(&disk, &items(), &options), want);

            // They contradict each other, so one is foreign.
            disk.put(aside, text.as_bytes());
            disk.put(FILE, b"{}\n");
            assert!(refused(&disk, &items(), &options).contains("is not known to"));
            disk.take_away(FILE);
            assert_eq!(whole(&disk, &items(), &options).unwrap().resumed, Some(place(5)));
            assert_eq!(read_back(&disk), expected(&items()));
        }
    }
    assert!(seen > 1, "{seen} runs ended there");
}

/// A row that does not match its columns is our bug, and the message says so.
#[test]
fn a_type_that_is_no_columns_is_refused() {
    let nothing = std::iter::empty::<Result<ExportItem<serde_json::Value>, Infallible>>();
    let options = options(FileFormat::Parquet, ExportLimits::default());
    let error = run(&Memory::new(), nothing, &options, || false).unwrap_err().to_string();
    assert!(
        error.starts_with("serde_json::value::Value cannot be written as parquet: "),
        "{error}"
    );
    assert!(error.ends_with("this is a bug of ours"), "{error}");
}
