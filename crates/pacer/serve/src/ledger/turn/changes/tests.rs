//! Changes are submitted one by one, and again until their outcome is known.

use std::sync::mpsc;

use pacer_core::messages::Epoch;
use pacer_core::store::{DefinitionKey, StoredKind, WriteKind};

use super::*;

fn outcome(ended: CommitOutcome, denied: Option<StoreDenial>) -> WriteOutcome {
    let writer = StoreWriter { node: 1, epoch: Epoch(1) };
    WriteOutcome { writer, kind: WriteKind::Change, number: 1, ended, denied }
}

#[track_caller]
fn check(
    answers: &[(CommitOutcome, Option<StoreDenial>)],
    want: &[Option<Result<(), StoreDenial>>],
) {
    let mut changes = ChangeQueue::default();
    let (reply, heard) = mpsc::sync_channel(1);
    changes.push(DefinitionChange::default(), Digest(0), reply);
    for ((ended, denied), want) in answers.iter().zip(want) {
        changes.end(outcome(*ended, denied.clone()));
        assert_eq!(heard.try_recv().ok(), *want, "after {ended:?} {denied:?}");
        assert_eq!(changes.is_empty(), want.is_some());
        assert_eq!(changes.again_at.is_some(), want.is_none());
    }
}

#[test]
fn whoever_asks_for_a_change_hears_what_is_known() {
    let failing = || Some(StoreDenial::Failing(StoreFault::Disk));
    let key = DefinitionKey { kind: StoredKind::Account, id: "a".to_owned() };
    let conflict = StoreDenial::Conflict { key, present: 7 };
    check(&[(CommitOutcome::Committed, None)], &[Some(Ok(()))]);
    check(
        &[(CommitOutcome::Refused, failing())],
        &[Some(Err(StoreDenial::Failing(StoreFault::Disk)))],
    );
    check(
        &[
            (CommitOutcome::Unknown, None),
            (CommitOutcome::Refused, failing()),
            (CommitOutcome::Committed, None),
        ],
        &[None, None, Some(Ok(()))],
    );
    // A refusal by a failing or busy store leaves the change possible; a conflict does not.
    let busy = || Some(StoreDenial::Busy);
    check(
        &[
            (CommitOutcome::Unknown, None),
            (CommitOutcome::Refused, busy()),
            (CommitOutcome::Unknown, None),
            (CommitOutcome::Refused, Some(conflict.clone())),
        ],
        &[None, None, None, Some(Err(conflict))],
    );
}

#[test]
fn what_was_unknown_of_one_change_says_nothing_of_the_next() {
    let mut changes = ChangeQueue::default();
    let (first, _heard) = mpsc::sync_channel(1);
    let (second, heard) = mpsc::sync_channel(1);
    changes.push(DefinitionChange { number: 5, ..DefinitionChange::default() }, Digest(0), first);
    changes.push(DefinitionChange { number: 5, ..DefinitionChange::default() }, Digest(1), second);
    let numbers: Vec<_> = changes.waiting.iter().map(|it| it.change.number).collect();
    assert_eq!(numbers, [1, 2]);
    changes.end(outcome(CommitOutcome::Unknown, None));
    changes.end(outcome(CommitOutcome::Committed, None));
    let failing = StoreDenial::Failing(StoreFault::Disk);
    changes.end(outcome(CommitOutcome::Refused, Some(failing.clone())));
    assert_eq!(heard.try_recv(), Ok(Err(failing)));
}

#[test]
fn what_is_asked_for_again_keeps_its_number() {
    let mut changes = ChangeQueue::default();
    let push = |changes: &mut ChangeQueue, digest| {
        let (reply, heard) = mpsc::sync_channel(1);
        changes.push(DefinitionChange::default(), Digest(digest), reply);
        (changes.waiting.len(), changes.waiting.back().unwrap().change.number, heard)
    };
    // While it waits, a repeated change takes its place, and the last caller is answered.
    let (_, _, first) = push(&mut changes, 1);
    let (waiting, number, again) = push(&mut changes, 1);
    assert_eq!((waiting, number), (1, 1));
    changes.end(outcome(CommitOutcome::Committed, None));
    assert!(first.try_recv().is_err());
    assert_eq!(again.try_recv(), Ok(Ok(())));
    // After it has ended, the store recognises its number.
    assert_eq!(push(&mut changes, 1).1, 1);
    changes.end(outcome(CommitOutcome::Committed, None));
    assert_eq!(push(&mut changes, 2).1, 2);
    assert_eq!(push(&mut changes, 3).1, 3);
    let (waiting, _, _) = push(&mut changes, 2);
    assert_eq!(waiting, 2, "not the last, and waiting still");
}
