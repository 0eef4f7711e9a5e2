//! Work for many records, on another thread.

/// More records are worked on on another thread, so that other queries go on.
const INLINE_MAX: usize = 1_000;

/// Does work for so many records.
pub(super) async fn off_thread<R: Send + 'static>(
    records: usize,
    work: impl FnOnce() -> R + Send + 'static,
) -> R {
    if records <= INLINE_MAX {
        return work();
    }
    tokio::task::spawn_blocking(work).await.expect("work on records does not panic")
}
