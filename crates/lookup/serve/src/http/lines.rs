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

use super::answer::{LookupBody, NDJSON};
use super::document::{Page, head, write_row};
use crate::queries::entry::QueryEntry;

/// Rows are sent in pieces of about so many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// How far the response is.
enum LinesState {
    /// It follows the query; the version that was sent last.
    Running(Option<u64>),
    /// The next row.
    Rows(usize),
    Ended,
}

/// The rows from the first of the page on, all of them.
pub(super) fn response(entry: Arc<QueryEntry>, page: Page) -> Response<LookupBody> {
    let lines = StreamBody::new(Box::pin(lines(entry, page.first)) as super::answer::RowLines);
    let mut response = Response::new(Either::Right(lines));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn lines(
    entry: Arc<QueryEntry>,
    first: usize,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
    stream::unfold(LinesState::Running(None), move |state| {
        let entry = Arc::clone(&entry);
        async move {
            let (text, next) = match state {
                LinesState::Running(sent) => {
                    if let Some(sent) = sent {
                        entry.changed_from(sent).await;
                    }
                    let version = entry.version();
                    let is_final = entry.status().is_final();
                    let next = match is_final {
                        true => LinesState::Rows(first),
                        false => LinesState::Running(Some(version)),
                    };
                    (status_line(&entry), next)
                }
                LinesState::Rows(from) => rows(&entry, from),
                LinesState::Ended => return None,
            };
            Some((Ok(Frame::data(Bytes::from(text))), next))
        }
    })
}

fn status_line(entry: &QueryEntry) -> String {
    format!("{}\n", head(entry, &entry.progress()))
}

/// Some rows; behind the last one, how the query ended.
fn rows(entry: &QueryEntry, from: usize) -> (String, LinesState) {
    let rows = Arc::clone(&entry.progress().rows);
    let mut text = String::new();
    for at in from..rows.len() {
        write_row(&mut text, rows.row(at));
        text.push('\n');
        if PIECE_BYTES <= text.len() {
            return (text, LinesState::Rows(at + 1));
        }
    }
    text.push_str(&status_line(entry));
    (text, LinesState::Ended)
}
