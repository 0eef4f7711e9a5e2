//! A client's side of WebSocket: the upgrade, masked frames, and the payloads of a server's frames.

use std::io;
use std::net::SocketAddr;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::options::LiveLoadError;

/// Longest head of an answer.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// A connection after its upgrade.
pub(super) struct OpenSocket {
    pub stream: TcpStream,
    /// What has arrived and is not taken.
    pub read: BytesMut,
}

/// Connects and upgrades, with a token unless the server trusts this machine.
pub(super) async fn connect(
    address: SocketAddr,
    token: Option<&str>,
) -> Result<OpenSocket, LiveLoadError> {
    let refused = |reason: String| LiveLoadError::Refused { address, reason };
    let upgraded = upgrade(address, token).await.map_err(|error| refused(error.to_string()))?;
    upgraded.map_err(refused)
}

/// The connection, or the answer that refuses it.
async fn upgrade(
    address: SocketAddr,
    token: Option<&str>,
) -> io::Result<Result<OpenSocket, String>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let token = token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
    let head = format!(
        "GET /feed HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{token}\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut read = BytesMut::new();
    loop {
        if let Some(end) = memchr::memmem::find(&read, b"\r\n\r\n") {
            if !read.starts_with(b"HTTP/1.1 101") {
                return Ok(Err(String::from_utf8_lossy(&read).into_owned()));
            }
            read.advance(end + 4);
            return Ok(Ok(OpenSocket { stream, read }));
        }
        if read.len() > HEAD_BYTES_MAX || stream.read_buf(&mut read).await? == 0 {
            return Ok(Err("it ends the connection instead of upgrading it".to_owned()));
        }
    }
}

/// Appends a masked text frame. The key is zero: nothing between here and the server looks at it.
pub(super) fn write_text(out: &mut Vec<u8>, payload: &[u8]) {
    out.push(0x81);
    match payload.len() {
        short @ 0..126 => out.push(0x80 | u8::try_from(short).expect("it is short")),
        long => {
            let long = u16::try_from(long).expect("commands are below 64 KiB");
            out.push(0x80 | 126);
            out.extend(long.to_be_bytes());
        }
    }
    out.extend([0; 4]);
    out.extend_from_slice(payload);
}

/// A frame of the server: its first byte and its payload. None if it is incomplete.
pub(super) fn next_frame(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[first, length], mut rest) = bytes.split_first_chunk()?;
    let mut length = usize::from(length);
    if length == 126 {
        let (long, behind) = rest.split_first_chunk()?;
        (length, rest) = (u16::from_be_bytes(*long).into(), behind);
    } else if length == 127 {
        let (long, behind) = rest.split_first_chunk()?;
        (length, rest) = (usize::try_from(u64::from_be_bytes(*long)).ok()?, behind);
    }
    let (payload, behind) = rest.split_at_checked(length)?;
    Some((first, payload, behind))
}

/// The number behind a text such as `"n":`, the first in the payload.
pub(super) fn number_behind(payload: &[u8], name: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(payload, name)? + name.len();
    let digits = payload[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |number: Option<u64>, digit| {
        Some(number.unwrap_or(0).wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_numbers_are_found() {
        for length in [0, 5, 125, 126, 65_535, 65_536] {
            let payload = vec![b'x'; length];
            let mut frame = vec![0x81];
            match length {
                0..126 => frame.push(u8::try_from(length).unwrap()),
                126..65_536 => {
                    frame.push(126);
                    frame.extend(u16::try_from(length).unwrap().to_be_bytes());
                }
                _ => {
                    frame.push(127);
                    frame.extend((length as u64).to_be_bytes());
                }
            }
            frame.extend(&payload);
            assert_eq!(next_frame(&frame[..frame.len() - 1]), None);
            frame.push(7);
            assert_eq!(next_frame(&frame), Some((0x81, &payload[..], &[7][..])));
        }
        assert_eq!(number_behind(br#"{"a":12,"n":345}"#, br#""n":"#), Some(345));
        assert_eq!(number_behind(br#"{"a":12}"#, br#""n":"#), None);
        assert_eq!(number_behind(br#"{"n":x}"#, br#""n":"#), None);
    }
}
