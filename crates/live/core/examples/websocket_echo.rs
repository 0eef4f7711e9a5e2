//! An echo server on the codec of the live floor, for test suites of the protocol:
//! `compat/websocket`.
//!
//! One thread per connection. It has no limits beside those of the codec.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use live_core::websocket::{
    UpgradeHeaders, WebSocketEvent, WebSocketReader, write_binary, write_close, write_close_reply,
    write_pong, write_text,
};

/// Longest message. The suites send up to 16 MiB.
const MESSAGE_BYTES_MAX: usize = 32 << 20;
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// How long a client may take to close the connection after the server's close frame.
const PATIENCE: Duration = Duration::from_secs(5);
const HEAD_END: &[u8] = b"\r\n\r\n";

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("a connection failed: {error}");
            }
        });
    }
    Ok(())
}

/// Upgrades a connection and echoes its messages to the end.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    let head_bytes = loop {
        if let Some(at) = received.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END) {
            break at + HEAD_END.len();
        }
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes)?;
        if count == 0 || received.len() + count > HEAD_BYTES_MAX {
            return Err(io::Error::other("the client sends no request"));
        }
        received.extend_from_slice(&bytes[..count]);
    };
    let mut frames = received.split_off(head_bytes);
    let head = String::from_utf8(received).map_err(io::Error::other)?;
    match upgrade(&head).accept() {
        Ok(accept) => write!(
            stream,
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: \
             Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        )?,
        Err(error) => {
            let status = error.status();
            write!(stream, "HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\n\r\n")?;
            return Err(io::Error::other(error));
        }
    }
    let mut reader = WebSocketReader::new(MESSAGE_BYTES_MAX);
    let (mut buffer, mut out) = (vec![0; READ_BYTES], Vec::new());
    let mut is_open = echo(&mut reader, &mut frames, &mut out);
    stream.write_all(&out)?;
    while is_open {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        out.clear();
        is_open = echo(&mut reader, &mut buffer[..count], &mut out);
        stream.write_all(&out)?;
    }
    // What the client still sends is read: closing with unread bytes would reset the connection,
    // and the close frame would be lost.
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

/// The headers of a request that the handshake needs.
fn upgrade(head: &str) -> UpgradeHeaders<'_> {
    let value = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        let field = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.trim())
    };
    UpgradeHeaders {
        upgrade: value("Upgrade"),
        connection: value("Connection"),
        version: value("Sec-WebSocket-Version"),
        key: value("Sec-WebSocket-Key"),
    }
}

/// Appends the answers to what was received. Returns whether the connection stays open.
fn echo(reader: &mut WebSocketReader, mut input: &mut [u8], out: &mut Vec<u8>) -> bool {
    loop {
        match reader.read(&mut input) {
            Ok(None) => return true,
            Ok(Some(WebSocketEvent::Text(text))) => write_text(out, &text),
            Ok(Some(WebSocketEvent::Binary(bytes))) => write_binary(out, &bytes),
            Ok(Some(WebSocketEvent::Ping(payload))) => write_pong(out, &payload),
            Ok(Some(WebSocketEvent::Pong(_))) => (),
            Ok(Some(WebSocketEvent::Close { code, .. })) => {
                write_close_reply(out, code);
                return false;
            }
            Err(violation) => {
                write_close(out, violation.code(), &violation.to_string());
                return false;
            }
        }
    }
}
