//! Answers that are files.

use std::fs::{File, metadata};
use std::io::{self, Read as _};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::client::{AnswerLimits, AttemptFailure};

/// Most files that are read at a time: other answers need threads too.
pub(crate) const READS_MAX: usize = 2;

/// Reads the file of a path and query, the latter without an effect. Percent-encoded characters stay as
/// they are: no value leads out of its folder.
pub(crate) async fn read(
    path: &str,
    limits: AnswerLimits,
    places: &Arc<Semaphore>,
) -> Result<Option<Bytes>, AttemptFailure> {
    let path = path.split_once('?').map_or(path, |(path, _)| path).to_owned();
    let place = timeout(limits.timeout, Arc::clone(places).acquire_owned()).await;
    let place = place.map_err(|_| AttemptFailure::TimedOut)?.expect("it is never closed");
    let reading = tokio::task::spawn_blocking(move || {
        // Given back with the thread, which may hang for longer than it is waited for.
        let _place = place;
        let declined = |error: io::Error| AttemptFailure::Declined(format!("{path}: {error}"));
        // To open a pipe would wait for somebody to write.
        if !metadata(&path).map_err(declined)?.is_file() {
            return Err(AttemptFailure::Declined(format!("{path} is no file")));
        }
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(declined)?;
        file.take(limits.bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(declined)?;
        if limits.bytes_max < bytes.len() {
            let most = limits.bytes_max;
            return Err(AttemptFailure::Declined(format!("{path} has more than {most} bytes")));
        }
        Ok(Some(Bytes::from(bytes)))
    });
    let read = timeout(limits.timeout, reading).await.map_err(|_| AttemptFailure::TimedOut)?;
    read.expect("reading does not panic")
}
