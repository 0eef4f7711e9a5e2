//! Tasks that end, are stopped, or panic.

use std::rc::Rc;
use std::time::Duration;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn work_runs_on_the_thread_and_may_be_of_one_thread_alone() {
    let control = Control::start().expect("a thread");
    let (tell, told) = mpsc::channel();
    let task = control.spawn(move || {
        let kept = Rc::new(7);
        async move {
            tokio::task::yield_now().await;
            tell.send((*kept, thread::current().name().map(str::to_owned))).expect("it is awaited");
        }
    });
    let told = told.recv_timeout(PATIENCE).expect("it runs");
    assert_eq!(told, (7, Some("control".to_owned())));
    task.join();
}

#[test]
fn what_is_stopped_is_dropped_and_a_panic_ends_its_own_work_alone() {
    let control = Control::start().expect("a thread");
    let (held, drops) = mpsc::channel::<()>();
    let task = control.spawn(move || async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    control.spawn(|| async { panic!("a defect") }).join();
    task.stop();
    assert!(drops.recv().is_err());
    control.spawn(|| async {}).join();
}

/// The end does not wait for blocking work.
#[test]
fn the_thread_ends_with_its_last_handle() {
    let control = Control::start().expect("a thread");
    let (held, drops) = mpsc::channel::<()>();
    let (_never, blocks) = mpsc::channel::<()>();
    let task = control.spawn(move || async move {
        let _held = held;
        let _ended = tokio::task::spawn_blocking(move || blocks.recv()).await;
    });
    drop(control.clone());
    drop(control);
    assert!(drops.recv().is_err());
    task.join();
}
