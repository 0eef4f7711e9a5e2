//! A connection to the pacer, from the address to the first catalogue.

use std::io;

use pacer_wire::{FrameError, Hello, ProtocolError, RawFrame, write_hello};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::options::PacerClientOptions;

/// The longest frame to accept.
pub(crate) const FRAME_BYTES_MAX: u32 = 1 << 20;
/// Room for what is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// The socket, or TLS.
    #[error("{0}")]
    Socket(#[from] io::Error),
    /// It took too long.
    #[error("it does not answer")]
    Timeout,
    /// Bytes that are not a frame.
    #[error("a malformed frame: {0}")]
    Frame(#[from] FrameError),
    /// A frame that does not fit.
    #[error("{0}")]
    Contradiction(&'static str),
    /// The server's last word.
    #[error("the pacer closed the connection: {text}")]
    Closed {
        /// None if this version does not know it.
        code: Option<ProtocolError>,
        /// For people.
        text: String,
    },
}

impl ConnectionError {
    /// Whether connecting again cannot help until somebody changes something.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self,
            Self::Closed { code: Some(ProtocolError::Denied | ProtocolError::Version), .. }
        )
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection's bytes in, in whole frames.
pub(crate) struct ConnectionReader {
    stream: tokio::io::ReadHalf<Box<dyn Stream>>,
    input: Vec<u8>,
    taken: usize,
}

/// A connection's bytes out.
pub(crate) struct ConnectionWriter {
    stream: tokio::io::WriteHalf<Box<dyn Stream>>,
    /// Frames to write.
    pub out: Vec<u8>,
    written: usize,
}

/// Connects, encrypts if the options say so, and sends the hello.
pub(crate) async fn connect(
    options: &PacerClientOptions,
) -> Result<(ConnectionReader, ConnectionWriter), ConnectionError> {
    let stream = TcpStream::connect(&options.address).await?;
    stream.set_nodelay(true)?;
    let stream: Box<dyn Stream> = match &options.tls {
        None => Box::new(stream),
        Some((config, server)) => {
            let connector = TlsConnector::from(config.clone());
            Box::new(connector.connect(server.clone(), stream).await?)
        }
    };
    let (reader, writer) = tokio::io::split(stream);
    let mut writer = ConnectionWriter { stream: writer, out: Vec::new(), written: 0 };
    write_hello(&mut writer.out, 1, &Hello::new(&options.id, &options.secret, FRAME_BYTES_MAX));
    while writer.has_bytes() {
        writer.write_some().await?;
    }
    Ok((ConnectionReader { stream: reader, input: Vec::new(), taken: 0 }, writer))
}

impl ConnectionReader {
    /// Calls `take` with each whole frame that has arrived.
    ///
    /// # Errors
    /// Its own, or a malformed frame.
    pub fn each<E: From<FrameError>>(
        &mut self,
        mut take: impl FnMut(RawFrame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(frame) = RawFrame::read(&self.input[self.taken..], FRAME_BYTES_MAX)? {
            self.taken += frame.bytes.len();
            take(frame)?;
        }
        Ok(())
    }

    /// Reads more bytes. Cancel-safe.
    pub async fn read(&mut self) -> io::Result<()> {
        self.input.drain(..self.taken);
        self.taken = 0;
        self.input.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl ConnectionWriter {
    /// Whether something is to be written.
    pub fn has_bytes(&self) -> bool {
        self.written < self.out.len()
    }

    /// Writes what the socket takes. Cancel-safe.
    pub async fn write_some(&mut self) -> io::Result<()> {
        self.written += self.stream.write(&self.out[self.written..]).await?;
        if !self.has_bytes() {
            self.out.clear();
            self.written = 0;
            self.stream.flush().await?;
        }
        Ok(())
    }
}
