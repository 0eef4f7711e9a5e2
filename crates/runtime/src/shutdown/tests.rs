//! Drains that end in time, at the deadline, and by signals.

use tokio::runtime::Builder;

use super::*;

fn block_on(future: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future);
}

#[test]
fn drains_then_ends() {
    block_on(async {
        let shutdown = Shutdown::new(Duration::MAX);
        assert!(!shutdown.is_started());
        assert_eq!(shutdown.deadline(), None);
        let task = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.started().await }
        });
        shutdown.begin();
        let deadline = task.await.unwrap();
        assert_eq!(shutdown.deadline(), Some(deadline));
        assert!(Instant::now() + Duration::from_secs(3000) < deadline);

        let ended = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.ended().await }
        });
        tokio::task::yield_now().await;
        assert!(!ended.is_finished());
        shutdown.begin();
        ended.await.unwrap();
        assert!(shutdown.is_started());
    });
}

#[test]
fn the_deadline_ends_the_drain() {
    block_on(async {
        let shutdown = Shutdown::new(Duration::from_millis(1));
        shutdown.begin();
        shutdown.ended().await;
        assert!(shutdown.deadline().unwrap() <= Instant::now());
    });
}

#[test]
fn signals_begin_and_end() {
    use rustix::process::{Signal, getpid, kill_process};
    block_on(async {
        let shutdown = Shutdown::new(Duration::from_secs(3600));
        let control = Control::start().unwrap();
        shutdown.on_signals(&control).unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        shutdown.started().await;
        kill_process(getpid(), Signal::INT).unwrap();
        shutdown.ended().await;
    });
}
