//! The raw loop: what a broadcast costs at least. Writes messages of the feed's form to every
//! subscriber, all that are due in one write, once in a window, and does nothing else: no log, no
//! subscriptions, no limits.
//!
//! It answers upgrades just enough for `vickrey hammer live --publishers 0`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use rustix::time::{ClockId, clock_gettime};

/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// Writes messages to subscribers in a loop.
#[derive(Debug, Parser)]
struct RawArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Subscribers to wait for
    #[arg(long)]
    subscribers: usize,
    /// Messages per second
    #[arg(long)]
    rate: u32,
    /// Length of a message's body
    #[arg(long, default_value_t = 200)]
    bytes: usize,
    /// Interval of writes, in milliseconds
    #[arg(long, default_value_t = 2)]
    window_ms: u64,
    /// Time after the last subscriber, in seconds
    #[arg(long)]
    seconds: u64,
}

fn main() -> anyhow::Result<()> {
    let args = RawArgs::parse();
    let listener = TcpListener::bind(args.listen)?;
    let mut out = std::io::stdout();
    writeln!(out, "listening on {}", listener.local_addr()?)?;
    out.flush()?;
    let mut subscribers = Vec::with_capacity(args.subscribers);
    while subscribers.len() < args.subscribers {
        let (stream, _) = listener.accept()?;
        subscribers.push(upgraded(stream)?);
    }
    broadcast(&args, &mut subscribers)
}

/// Answers an upgrade and takes the subscription, whatever they say.
fn upgraded(mut stream: TcpStream) -> anyhow::Result<TcpStream> {
    let mut head = Vec::new();
    let mut byte = [0; 512];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut byte)?;
        ensure!(read > 0 && head.len() < HEAD_BYTES_MAX, "a client sends no request");
        head.extend_from_slice(&byte[..read]);
    }
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")?;
    ensure!(stream.read(&mut byte)? > 0, "a client does not subscribe");
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn broadcast(args: &RawArgs, subscribers: &mut [TcpStream]) -> anyhow::Result<()> {
    let (begun, window) = (now_us(), args.window_ms * 1000);
    let interval_us = 1_000_000 / u64::from(args.rate);
    let (mut sent, mut frames, mut blocked) = (0_u64, Vec::new(), 0_u64);
    let mut next = begun + window;
    let end = begun + args.seconds * 1_000_000;
    while next < end {
        std::thread::sleep(Duration::from_micros(next.saturating_sub(now_us())));
        frames.clear();
        let now = now_us();
        while begun + sent * interval_us <= now {
            write_message(&mut frames, args.bytes, sent, begun + sent * interval_us);
            sent += 1;
        }
        if !frames.is_empty() {
            for stream in &mut *subscribers {
                match stream.write(&frames) {
                    Ok(written) => ensure!(written == frames.len(), "a socket took only a part"),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => blocked += 1,
                    // The load is over.
                    Err(_) => return Ok(()),
                }
            }
        }
        next = (next + window).max(now_us());
    }
    writeln!(std::io::stdout(), "{blocked} writes found a full socket")
        .context("the result cannot be printed")
}

/// Appends a frame as the live floor writes it.
fn write_message(out: &mut Vec<u8>, bytes: usize, n: u64, due_us: u64) {
    let head = format!(r#"{{"p":0,"n":{n},"due_us":{due_us},"filler":""#);
    let filler = "x".repeat(bytes.saturating_sub(head.len() + 2));
    let time_ms = 1_764_028_800_000_u64 + due_us / 1000;
    let text = format!(
        r#"{{"type":"message","topic":"news","node":0,"lane":"firehose","epoch":1,"sequence":{n},"part":0,"time_ms":{time_ms},"data":{{"publisher":"","key":"","body":{head}{filler}"}}}}}}"#
    );
    out.push(0x81);
    match text.len() {
        short @ 0..126 => out.push(u8::try_from(short).expect("it is short")),
        long => {
            out.push(126);
            out.extend(u16::try_from(long).expect("messages are below 64 KiB").to_be_bytes());
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn now_us() -> u64 {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
