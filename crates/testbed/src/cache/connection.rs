//! One kept-alive connection for GET requests, cheap enough for tens of thousands of requests per second:
//! the request is bytes, and the answer is read where it lies.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::answer::{BodyEnd, GetHead};
use crate::load::CallFailure;

/// Largest head and largest body of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: usize = 128 << 20;

/// A connection, open or not.
#[derive(Debug, Default)]
pub struct GetConnection {
    stream: Option<TcpStream>,
    read: Vec<u8>,
}

impl GetConnection {
    pub(crate) async fn open(&mut self, address: SocketAddr) -> Result<(), CallFailure> {
        let unconnected = |error: std::io::Error| CallFailure::Unconnected(error.to_string());
        let stream = TcpStream::connect(address).await.map_err(unconnected)?;
        stream.set_nodelay(true).map_err(unconnected)?;
        self.stream = Some(stream);
        Ok(())
    }

    /// Sends a GET and waits for the whole answer; `judge` sees its head and body. A caller that
    /// stops waiting drops the connection.
    pub(crate) async fn get<R>(
        &mut self,
        address: SocketAddr,
        request: &[u8],
        judge: impl FnOnce(&GetHead, &[u8]) -> R,
    ) -> Result<R, CallFailure> {
        if self.stream.is_none() {
            self.open(address).await?;
        }
        // Gone if the call fails or is given up.
        let mut stream = self.stream.take().expect("it is open");
        let broken = |error: std::io::Error| CallFailure::Broken(error.to_string());
        stream.write_all(request).await.map_err(broken)?;
        self.read.clear();
        let (head, length) = loop {
            match GetHead::parse(&self.read).map_err(|text| CallFailure::Broken(text.into()))? {
                // Interim answers are not the answer.
                Some((head, length)) if head.status < 200 => {
                    self.read.drain(..length);
                }
                Some(found) => break found,
                None if self.read.len() > HEAD_BYTES_MAX => {
                    return Err(CallFailure::Broken("the head does not end".to_owned()));
                }
                None => self.more(&mut stream).await?,
            }
        };
        let result = match head.body_end {
            BodyEnd::After(bytes) => {
                self.until(&mut stream, length + bytes).await?;
                if self.read.len() > length + bytes {
                    return Err(CallFailure::Broken("bytes follow the answer".to_owned()));
                }
                judge(&head, &self.read[length..])
            }
            BodyEnd::Chunks => {
                let body = self.chunks(&mut stream, length).await?;
                judge(&head, &body)
            }
            BodyEnd::Close => {
                while stream.read_buf(&mut self.read).await.map_err(broken)? > 0 {
                    self.check_size()?;
                }
                judge(&head, &self.read[length..])
            }
        };
        if head.keeps_connection {
            self.stream = Some(stream);
        }
        Ok(result)
    }

    /// Reads more; the end of the connection is an error.
    async fn more(&mut self, stream: &mut TcpStream) -> Result<(), CallFailure> {
        self.check_size()?;
        match stream.read_buf(&mut self.read).await {
            Ok(0) => Err(CallFailure::Broken("the connection ends within the answer".to_owned())),
            Ok(_) => Ok(()),
            Err(error) => Err(CallFailure::Broken(error.to_string())),
        }
    }

    fn check_size(&self) -> Result<(), CallFailure> {
        match self.read.len() > BODY_BYTES_MAX {
            true => Err(CallFailure::Broken("the answer does not end".to_owned())),
            false => Ok(()),
        }
    }

    async fn until(&mut self, stream: &mut TcpStream, bytes: usize) -> Result<(), CallFailure> {
        while self.read.len() < bytes {
            self.more(stream).await?;
        }
        Ok(())
    }

    /// The bytes of all chunks, the first of which begins at `at`.
    async fn chunks(
        &mut self,
        stream: &mut TcpStream,
        mut at: usize,
    ) -> Result<Vec<u8>, CallFailure> {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                match memchr::memmem::find(&self.read[at..], b"\r\n") {
                    Some(end) => break at + end,
                    None => self.more(stream).await?,
                }
            };
            let size = str::from_utf8(&self.read[at..line_end]).ok();
            let size =
                size.and_then(|size| usize::from_str_radix(size.split(';').next()?, 16).ok());
            let Some(size) = size.filter(|size| *size <= BODY_BYTES_MAX) else {
                return Err(CallFailure::Broken("a chunk has no size".to_owned()));
            };
            let start = line_end + 2;
            self.until(stream, start + size + 2).await?;
            body.extend_from_slice(&self.read[start..start + size]);
            at = start + size + 2;
            if size == 0 {
                // Without trailers, which no answer here has.
                return Ok(body);
            }
        }
    }
}
