//! Processes are killed, and their end is observed.

use std::io::{Write as _, stdout};
use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const FIRST: &str = "FAULTS_TEST_FIRST";

#[test]
fn what_a_killed_process_said_is_heard() {
    let mut heard: Vec<u64> = Vec::new();
    let once = Once::more("process::tests::child", &[(FIRST, OsStr::new("7"))]);
    once.kill_after(3, |line| {
        // The test runner has printed the beginning of the line.
        let Some((_, number)) = line.split_once("said ") else { return false };
        heard.push(number.parse().unwrap());
        true
    });
    assert!(heard.len() >= 3, "{heard:?}");
    let want: Vec<u64> = (7..).take(heard.len()).collect();
    assert_eq!(heard, want, "from where it was told, each once, with none left out");
}

static HAS_RUN: AtomicBool = AtomicBool::new(false);

#[test]
fn an_isolated_test_runs_in_another_process() {
    isolated(|| HAS_RUN.store(true, Ordering::Relaxed));
    assert_eq!(HAS_RUN.load(Ordering::Relaxed), env::var_os(ISOLATED).is_some());
}

#[test]
fn an_isolated_test_that_fails_there_fails_here() {
    let end = catch_unwind(|| isolated(|| panic!("it fails")));
    let panic = end.unwrap_err();
    if env::var_os(ISOLATED).is_some() {
        resume_unwind(panic);
    }
    assert!(panic.downcast_ref::<String>().unwrap().contains("it fails"));
}

fn no_test() {
    isolated(|| ());
}

#[test]
#[should_panic = "0 passed"]
fn what_is_no_test_is_not_isolated() {
    no_test();
}

#[test]
#[should_panic = "it has ended by itself"]
fn a_process_that_ends_by_itself_was_not_killed() {
    Once::more("process::tests::nobody", &[]).kill_after(1_000, |_| true);
}

#[test]
#[should_panic = "it has ended by itself"]
fn nor_was_one_that_had_ended() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    kill(&mut child);
}

#[test]
#[ignore = "speaks until it is killed: the first test here starts it"]
fn child() {
    let first: u64 = env::var(FIRST).unwrap().parse().unwrap();
    for number in first.. {
        writeln!(stdout(), "said {number}").unwrap();
    }
}
