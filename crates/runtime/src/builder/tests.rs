//! Jobs that are due, requested, slow, dropped or panicking.

use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::process::getpriority_process;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// A job that signals its start and waits for permission to go on.
fn slow(builder: &Builder) -> (Job, Receiver<()>, Sender<()>) {
    let ((runs, running), (go_on, held)) = (channel(), channel());
    let job = builder.add("slow", move || {
        runs.send(()).expect("the test listens");
        // A test that has ended lets it go on, too.
        let _ = held.recv_timeout(PATIENCE);
        None
    });
    (job, running, go_on)
}

#[test]
fn jobs_run_in_the_order_in_which_they_are_asked_for_once_each() {
    let builder = Builder::start().expect("a thread");
    let (order, ran) = channel();
    let named = |name: &'static str| {
        let order = order.clone();
        builder.add(name, move || {
            order.send(name).expect("the test listens");
            None
        })
    };
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let (slow, running, go_on) = slow(&builder);
    slow.run_soon();
    running.recv_timeout(PATIENCE).expect("it runs");
    for job in [&c, &a, &c, &b, &a] {
        job.run_soon();
    }
    go_on.send(()).expect("it is held");
    let order: Vec<_> = (0..3).map(|_| ran.recv_timeout(PATIENCE).expect("all run")).collect();
    assert_eq!(order, ["c", "a", "b"]);
    [a, b, c, slow].into_iter().for_each(Job::finish);
    assert_eq!(ran.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
}

#[test]
fn a_job_that_is_asked_for_while_it_runs_runs_again() {
    let builder = Builder::start().expect("a thread");
    let (job, running, go_on) = slow(&builder);
    job.run_soon();
    running.recv_timeout(PATIENCE).expect("it runs");
    job.run_soon();
    for _ in 0..2 {
        go_on.send(()).expect("it is held");
    }
    running.recv_timeout(PATIENCE).expect("it runs again");
    job.finish();
}

#[test]
fn a_job_says_when_it_is_due_again() {
    let builder = Builder::start().expect("a thread");
    let (tell, told) = channel();
    let mut left = 5;
    let job = builder.add("counts", move || {
        left -= 1;
        tell.send(left).expect("the test listens");
        (left > 0).then_some(Duration::from_millis(1))
    });
    job.run_soon();
    job.finish();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [4, 3, 2, 1, 0]);
}

#[test]
fn a_job_that_is_dropped_has_ended() {
    let builder = Builder::start().expect("a thread");
    let (job, running, go_on) = slow(&builder);
    job.run_soon();
    running.recv_timeout(PATIENCE).expect("it runs");
    job.run_soon();
    let dropping = thread::spawn(move || drop(job));
    // It may run once more before it is dropped, but not after.
    drop(go_on);
    dropping.join().expect("no panic");
    while running.try_recv().is_ok() {}
    assert!(running.recv().is_err(), "what it owned is dropped");
}

/// As when a job that used a service drops its last handle.
#[test]
fn a_job_may_drop_another_and_the_last_handle_to_the_builder() {
    let builder = Builder::start().expect("a thread");
    let (ended, end) = channel::<()>();
    let other = builder.add("other", move || {
        let _ended = &ended;
        None
    });
    let mut owned = Some((other, builder.clone()));
    let job = builder.add("owner", move || {
        drop(owned.take());
        None
    });
    job.run_soon();
    assert!(end.recv_timeout(PATIENCE).is_err(), "it is dropped");
    drop(builder);
    job.finish();
}

#[test]
fn a_panic_ends_one_job_alone() {
    let builder = Builder::start().expect("a thread");
    let broken = builder.add("broken", || panic!("a defect"));
    let (tell, told) = channel();
    let sound = builder.add("sound", move || {
        tell.send(()).expect("the test listens");
        None
    });
    for _ in 0..2 {
        broken.run_soon();
        sound.run_soon();
        told.recv_timeout(PATIENCE).expect("it runs");
    }
    broken.finish();
}

#[test]
fn jobs_have_the_lowest_priority() {
    let builder = Builder::start().expect("a thread");
    let (tell, told) = channel();
    let job = builder.add("priority", move || {
        tell.send(getpriority_process(None)).expect("the test listens");
        None
    });
    job.run_soon();
    assert_eq!(told.recv_timeout(PATIENCE).expect("it runs"), Ok(19));
}
