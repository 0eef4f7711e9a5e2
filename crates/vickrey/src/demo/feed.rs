//! The demo's subscriber: it follows the live feed of auctions, as anyone may with `vickrey watch`.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;

use live_serve::{EVENTS_PATH, FeedFigures, Live};

/// Follows the feed until the server ends.
///
/// # Errors
/// The floor cannot be reached.
pub(super) fn follow(floor: SocketAddr) -> io::Result<JoinHandle<()>> {
    let mut stream = TcpStream::connect(floor)?;
    write!(
        stream,
        "GET {EVENTS_PATH}?topic=auctions&policy=conflate HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )?;
    let read = move || BufReader::new(stream).lines().take_while(Result::is_ok).for_each(drop);
    std::thread::Builder::new().name("feed-reader".to_owned()).spawn(read)
}

/// The counters of the feed, in one line.
pub(super) fn brief(live: &Live) -> String {
    let FeedFigures { messages, delivered, subscriptions, lag } = live.figures();
    format!(
        "feed: {subscriptions} subscribed, {messages} messages, {delivered} delivered, {} ms behind",
        lag.as_millis()
    )
}
