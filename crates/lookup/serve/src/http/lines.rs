//! A query as lines of JSON, while it runs: first how far it is, whenever that changes, then its rows,
//! and how it ended.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http_body_util::{Either, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use runtime::service::BoxError;
use runtime::shutdown::Shutdown;

use super::answer::{LookupBody, NDJSON, RowLines};
use super::document::{head, write_row};
use crate::queries::entry::QueryEntry;

/// Rows are sent in pieces of about so many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// How far the response is.
enum LinesState {
    /// It follows the query; the version that was sent last.
    Running(Option<u64>),
    /// The next row.
    Rows(usize),
    /// After the line that says how the query ended, or that the process does.
    Ended,
}

/// What a response of lines follows.
pub(super) struct FollowedQuery {
    pub entry: Arc<QueryEntry>,
    /// The rows to send, of which there may be any number.
    pub first: usize,
    pub rows: usize,
    pub shutdown: Shutdown,
}

/// The lines. What is `held` lives as long as the client reads them.
pub(super) fn response(query: FollowedQuery, held: impl Sized + 'static) -> Response<LookupBody> {
    let lines = StreamBody::new(Box::pin(lines(query, held)) as RowLines);
    let mut response = Response::new(Either::Right(lines));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn lines(
    query: FollowedQuery,
    held: impl Sized + 'static,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
    let begun = (query, held, LinesState::Running(None));
    stream::unfold(begun, async |(query, held, state)| {
        let (text, next) = match state {
            LinesState::Running(sent) => query.follow(sent).await,
            LinesState::Rows(from) => query.rows_from(from),
            LinesState::Ended => return None,
        };
        Some((Ok(Frame::data(Bytes::from(text))), (query, held, next)))
    })
}

impl FollowedQuery {
    /// How far it is, once that has changed; the first rows once it has ended.
    async fn follow(&self, sent: Option<u64>) -> (String, LinesState) {
        if let Some(sent) = sent {
            tokio::select! {
                () = self.entry.changed_from(sent) => (),
                () = async { self.shutdown.started().await; } => {
                    return (self.status_line(), LinesState::Ended);
                }
            }
        }
        let version = self.entry.version();
        if self.entry.status().is_final() {
            return self.rows_from(self.first);
        }
        (self.status_line(), LinesState::Running(Some(version)))
    }

    fn status_line(&self) -> String {
        format!("{}\n", head(&self.entry, &self.entry.progress()))
    }

    /// Some rows; behind the last one, how the query ended.
    fn rows_from(&self, from: usize) -> (String, LinesState) {
        let rows = Arc::clone(&self.entry.progress().rows);
        let end = self.first.saturating_add(self.rows).min(rows.len());
        let mut text = String::new();
        for at in from..end {
            write_row(&mut text, rows.row(at));
            text.push('\n');
            if PIECE_BYTES <= text.len() {
                return (text, LinesState::Rows(at + 1));
            }
        }
        text.push_str(&self.status_line());
        (text, LinesState::Ended)
    }
}
