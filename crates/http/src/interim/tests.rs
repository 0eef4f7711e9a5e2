//! What a client reads.

use hyper::header::{HeaderValue, LINK};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;

#[tokio::test]
async fn interim_responses_come_whole_and_between_messages() {
    // So small that every message takes several writes.
    let (mut client, server) = duplex(5);
    let slot = InterimSlot::default();
    let mut stream = WithInterim::new(server, slot.clone());
    let headers = HeaderMap::from_iter([(LINK, HeaderValue::from_static("</a>"))]);
    let write = async move {
        stream.write_all(b"first message, ").await.unwrap();
        slot.push(StatusCode::EARLY_HINTS, &headers);
        // The rest of the message comes before it.
        stream.write_all(b"and its rest\n").await.unwrap();
        stream.flush().await.unwrap();
        assert!(slot.is_empty());
        // What is not sent by then comes too late.
        slot.push(StatusCode::PROCESSING, &HeaderMap::new());
        slot.clear();
        stream.write_all(b"final").await.unwrap();
        stream.flush().await.unwrap();
    };
    let read = async {
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        text
    };
    let ((), text) = tokio::join!(write, read);
    let want = "first message, and its rest\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nfinal";
    assert_eq!(text, want);
}
