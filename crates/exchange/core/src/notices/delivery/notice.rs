//! A notice: a DSP's URL, and the device on whose behalf it is called. Checked on construction,
//! except its host, which is checked when a connection opens.

use std::sync::Arc;

/// The longest DSP id.
pub const DSP_BYTES_MAX: usize = 128;
/// The longest URL.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// The longest header that is forwarded.
pub const HEADER_BYTES_MAX: usize = 1024;

/// The device on whose behalf a notice is sent (7.8, server-side billing notifications).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardedDevice {
    ip: Option<String>,
    user_agent: Option<String>,
}

impl ForwardedDevice {
    /// Omits values longer than [`HEADER_BYTES_MAX`] or not printable ASCII.
    pub fn new(ip: Option<&str>, user_agent: Option<&str>) -> Self {
        let fit = |text: &&str| {
            let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            !text.is_empty() && text.len() <= HEADER_BYTES_MAX && printable
        };
        let kept = |text: Option<&str>| text.filter(fit).map(str::to_owned);
        Self { ip: kept(ip), user_agent: kept(user_agent) }
    }

    /// The device's address.
    pub fn ip(&self) -> Option<&str> {
        self.ip.as_deref()
    }

    /// The device's user agent.
    pub fn user_agent(&self) -> Option<&str> {
        self.user_agent.as_deref()
    }

    /// Headers to send with the notice.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let ip = self.ip().map(|ip| ("x-forwarded-for", ip));
        let user_agent = self.user_agent().map(|text| ("x-device-user-agent", text));
        ip.into_iter().chain(user_agent)
    }
}

/// Why a notice is refused. Order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeError {
    /// The DSP's id is empty or longer than [`DSP_BYTES_MAX`].
    Dsp,
    /// Longer than [`URL_BYTES_MAX`].
    Length,
    /// Neither `http://` nor `https://`.
    Scheme,
    /// Contains a space or control character, which would end it on the wire.
    Character,
}

/// A URL to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    dsp: Arc<str>,
    url: String,
    forwarded: ForwardedDevice,
}

impl Notice {
    /// A call of `url`, which belongs to `dsp`.
    ///
    /// # Errors
    /// If it cannot be called: see [`NoticeError`].
    pub fn new(
        dsp: Arc<str>,
        url: String,
        forwarded: ForwardedDevice,
    ) -> Result<Self, NoticeError> {
        let schemes = ["http://", "https://"];
        let starts = |scheme: &&str| {
            url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if dsp.is_empty() || dsp.len() > DSP_BYTES_MAX {
            Err(NoticeError::Dsp)
        } else if url.len() > URL_BYTES_MAX {
            Err(NoticeError::Length)
        } else if !schemes.iter().any(starts) {
            Err(NoticeError::Scheme)
        } else if url.bytes().any(|byte| byte <= b' ' || byte == 0x7F) {
            Err(NoticeError::Character)
        } else {
            Ok(Self { dsp, url, forwarded })
        }
    }

    /// The DSP.
    pub fn dsp(&self) -> &Arc<str> {
        &self.dsp
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The device.
    pub fn forwarded(&self) -> &ForwardedDevice {
        &self.forwarded
    }

    pub(crate) fn bytes(&self) -> usize {
        let headers: usize = self.forwarded.headers().map(|(_, value)| value.len()).sum();
        self.url.len() + headers + self.dsp.len()
    }
}
