//! The first frame of either side.

use zerocopy::little_endian::U32;

use crate::frame::{EntryLayout, FrameError, FrameKind, RawFrame, VERSION, begin, finish};
use crate::layout::{HelloFields, WelcomeFields};

/// The client's first frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hello<'b> {
    /// The lowest version that it speaks.
    pub version_min: u8,
    /// The highest version that it speaks.
    pub version_max: u8,
    /// The longest frame that it accepts.
    pub frame_bytes_max: u32,
    /// Its id; at most 255 bytes.
    pub client: &'b str,
    /// Its secret; at most 255 bytes.
    pub secret: &'b str,
}

impl std::fmt::Debug for Hello<'_> {
    /// The secret is never shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hello").field("client", &self.client).finish_non_exhaustive()
    }
}

impl<'b> Hello<'b> {
    /// The hello of a client that speaks this package's version.
    pub const fn new(client: &'b str, secret: &'b str, frame_bytes_max: u32) -> Self {
        Self { version_min: VERSION, version_max: VERSION, frame_bytes_max, client, secret }
    }

    /// Checks a hello.
    ///
    /// # Errors
    /// Its lengths; texts that are not UTF-8.
    pub fn decode(frame: &RawFrame<'b>) -> Result<Self, FrameError> {
        let fields = frame.fixed::<HelloFields>()?;
        let (client_len, secret_len) = (fields.client_len.into(), fields.secret_len.into());
        let (client, rest) = frame.tail().split_at_checked(client_len).ok_or(FrameError::Length)?;
        let secret = rest.get(..secret_len).ok_or(FrameError::Length)?;
        let text = |bytes| str::from_utf8(bytes).map_err(|_| FrameError::Text);
        Ok(Self {
            version_min: fields.version_min,
            version_max: fields.version_max,
            frame_bytes_max: fields.frame_bytes_max.get(),
            client: text(client)?,
            secret: text(secret)?,
        })
    }
}

/// The server's first frame.
pub type Welcome<'b> = &'b WelcomeFields;

impl<'b> RawFrame<'b> {
    /// The fixed part of a welcome.
    ///
    /// # Errors
    /// Its length.
    pub fn welcome(&self) -> Result<Welcome<'b>, FrameError> {
        self.fixed()
    }
}

/// Writes a hello.
///
/// # Panics
/// If client or secret is longer than 255 bytes.
pub fn write_hello(out: &mut Vec<u8>, sequence: u64, hello: &Hello<'_>) {
    let length = |text: &str| u8::try_from(text.len()).expect("at most 255 bytes");
    let fields = HelloFields {
        version_min: hello.version_min,
        version_max: hello.version_max,
        client_len: length(hello.client),
        secret_len: length(hello.secret),
        frame_bytes_max: U32::new(hello.frame_bytes_max),
    };
    let start = begin(out, FrameKind::Hello, sequence, &fields, EntryLayout::NONE);
    out.extend_from_slice(hello.client.as_bytes());
    out.extend_from_slice(hello.secret.as_bytes());
    finish(out, start);
}

/// Writes a welcome.
pub fn write_welcome(out: &mut Vec<u8>, sequence: u64, welcome: &WelcomeFields) {
    let start = begin(out, FrameKind::Welcome, sequence, welcome, EntryLayout::NONE);
    finish(out, start);
}
