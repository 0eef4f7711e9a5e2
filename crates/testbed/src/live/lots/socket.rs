//! One connection that sends commands about lots and takes messages one by one.

use std::io;
use std::time::Duration;

use bytes::Buf as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::LotsLoadOptions;
use crate::live::frames::{OpenSocket, connect, next_frame, write_text};
use crate::live::options::LiveLoadError;

/// Longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct LotsSocket(OpenSocket);

impl LotsSocket {
    pub async fn open(options: &LotsLoadOptions, token: &str) -> Result<Self, LiveLoadError> {
        Ok(Self(connect(options.address, Some(token)).await?))
    }

    pub async fn send(&mut self, command: &Value) -> io::Result<()> {
        let mut frame = Vec::new();
        write_text(&mut frame, command.to_string().as_bytes());
        self.0.stream.write_all(&frame).await
    }

    /// The next message that is neither a heartbeat nor the greeting.
    pub async fn next(&mut self) -> io::Result<Value> {
        let OpenSocket { stream, read } = &mut self.0;
        loop {
            while let Some((first, payload, behind)) = next_frame(read) {
                let taken = read.len() - behind.len();
                let message: Value = match first {
                    0x81 => serde_json::from_slice(payload).map_err(io::Error::other)?,
                    _ => Value::Null,
                };
                if first == 0x88 {
                    let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
                    return Err(io::Error::other(format!("the server ended it: {reason}")));
                }
                read.advance(taken);
                if !matches!(message["type"].as_str(), None | Some("heartbeat" | "welcome")) {
                    return Ok(message);
                }
            }
            let more = timeout(PATIENCE, stream.read_buf(read)).await;
            if more.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
