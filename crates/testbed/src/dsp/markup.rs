//! The end of a bid object: type, size and markup, padded to a given length. Markup is HTML for
//! banners, VAST for video and audio, and a native response for native. Single quotes in the markup
//! save escapes in JSON.

use super::notice_urls;
use crate::scan::{AdFormat, ImpView};
use crate::server::http::append;

/// Names a creative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CreativeRef {
    pub(super) number: usize,
    pub(super) advertiser: usize,
}

/// Text that is valid in a comment of HTML or XML and in a JSON string.
const PADDING: &[u8] = b"The quick brown fox jumps over the lazy dog while five boxing wizards \
watch how vexingly quick daft zebras jump in the morning sun. ";

/// The creative to make, if a win notice returns it instead of the bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkupSpec {
    pub(super) format: AdFormat,
    pub(super) width: u32,
    pub(super) height: u32,
    /// Whether it may load only over HTTPS.
    pub(super) is_secure: bool,
    pub(super) creative: CreativeRef,
}

impl MarkupSpec {
    pub(super) const fn of(imp: &ImpView<'_>, creative: CreativeRef) -> Self {
        let ImpView { format, width, height, is_secure, .. } = *imp;
        Self { format, width, height, is_secure, creative }
    }

    /// The tracker of a DSP at `origin`. Empty if the markup must not load it.
    pub(super) fn tracker(&self, origin: &str, offer: u64) -> String {
        if self.is_secure && !origin.starts_with("https:") {
            return String::new();
        }
        notice_urls::tracker(origin, offer)
    }
}

/// Appends everything from `mtype` to the bid's closing brace. Pads the bid that began at
/// `at_least.0` to `at_least.1` bytes. The markup loads `tracker` when it is shown, unless that is
/// empty.
pub(super) fn write(
    imp: &ImpView<'_>,
    creative: CreativeRef,
    length_min: usize,
    tracker: &str,
    out: &mut Vec<u8>,
) {
    write_type(imp, out);
    out.extend_from_slice(b",\"adm\":\"");
    let tail = write_markup(MarkupSpec::of(imp, creative), tracker, out);
    let mut missing = length_min.saturating_sub(out.len() + tail.len() + b"\"}".len());
    while missing > 0 {
        let part = missing.min(PADDING.len());
        out.extend_from_slice(&PADDING[..part]);
        missing -= part;
    }
    append(out, &[tail, b"\"}"]);
}

/// The markup alone, and its media type.
pub(super) fn served(order: MarkupSpec, tracker: &str) -> (Vec<u8>, &'static str) {
    let mut out = Vec::new();
    let tail = write_markup(order, tracker, &mut out);
    out.extend_from_slice(tail);
    // Native markup in a bid is JSON in a JSON string; only quotes are escaped.
    out.retain(|&byte| byte != b'\\');
    let media_type = match order.format {
        AdFormat::Banner => "text/html",
        AdFormat::Video | AdFormat::Audio => "application/xml",
        AdFormat::Native => "application/json",
    };
    (out, media_type)
}

/// Appends `,"mtype":…` and the size or duration.
pub(super) fn write_type(imp: &ImpView<'_>, out: &mut Vec<u8>) {
    match imp.format {
        AdFormat::Banner => {
            out.extend_from_slice(b",\"mtype\":1");
            if imp.width > 0 && imp.height > 0 {
                let (mut w, mut h) = (itoa::Buffer::new(), itoa::Buffer::new());
                append(out, &[b",\"w\":", w.format(imp.width).as_bytes()]);
                append(out, &[b",\"h\":", h.format(imp.height).as_bytes()]);
            }
        }
        AdFormat::Video => out.extend_from_slice(b",\"mtype\":2,\"dur\":15"),
        AdFormat::Audio => out.extend_from_slice(b",\"mtype\":3,\"dur\":15"),
        AdFormat::Native => out.extend_from_slice(b",\"mtype\":4"),
    }
}

/// The markup up to the padding and its end, as they appear in a JSON string.
fn write_markup(order: MarkupSpec, tracker: &str, out: &mut Vec<u8>) -> &'static [u8] {
    match order.format {
        AdFormat::Banner => {
            write_banner(order, tracker, out);
            b" -->"
        }
        AdFormat::Video => {
            write_vast("video/mp4", order.creative, tracker, out);
            b" --></VAST>"
        }
        AdFormat::Audio => {
            write_vast("audio/mp4", order.creative, tracker, out);
            b" --></VAST>"
        }
        AdFormat::Native => {
            write_native(order.creative, tracker, out);
            b"\\\"}}}"
        }
    }
}

fn write_banner(order: MarkupSpec, tracker: &str, out: &mut Vec<u8>) {
    let (mut w, mut h) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (width, height) = (w.format(order.width).as_bytes(), h.format(order.height).as_bytes());
    append(out, &[b"<a href='"]);
    write_url("click", order.creative, out);
    append(out, &[b"'><img src='"]);
    write_url("banner.webp", order.creative, out);
    append(out, &[b"' width='", width, b"' height='", height, b"' alt=''></a>"]);
    if !tracker.is_empty() {
        append(out, &[b"<img src='", tracker.as_bytes(), b"' width='1' height='1' alt=''>"]);
    }
    append(out, &[b"<!-- "]);
}

fn write_vast(mime: &str, creative: CreativeRef, tracker: &str, out: &mut Vec<u8>) {
    append(out, &[b"<VAST version='4.2'><Ad id='1'><InLine><AdSystem>testbed"]);
    append(out, &[b"</AdSystem><AdTitle>spot</AdTitle><Impression><![CDATA["]);
    write_url("impression", creative, out);
    append(out, &[b"]]></Impression>"]);
    if !tracker.is_empty() {
        append(out, &[b"<Impression><![CDATA[", tracker.as_bytes(), b"]]></Impression>"]);
    }
    append(out, &[b"<Creatives><Creative><Linear><Duration>00:00:15</Duration>"]);
    append(out, &[b"<MediaFiles><MediaFile delivery='progressive' type='", mime.as_bytes()]);
    append(out, &[b"' width='640' height='360'><![CDATA["]);
    write_url("spot.mp4", creative, out);
    append(out, &[b"]]></MediaFile></MediaFiles></Linear></Creative></Creatives></InLine></Ad>"]);
    append(out, &[b"<!-- "]);
}

fn write_native(creative: CreativeRef, tracker: &str, out: &mut Vec<u8>) {
    append(out, &[b"{\\\"native\\\":{\\\"ver\\\":\\\"1.2\\\",\\\"assets"]);
    append(out, &[b"\\\":[{\\\"id\\\":1,\\\"title\\\":{\\\"text\\\":\\\"A quick brown fox\\\"}},"]);
    append(out, &[b"{\\\"id\\\":2,\\\"img\\\":{\\\"w\\\":1200,\\\"h\\\":627,\\\"url\\\":\\\""]);
    write_url("native.webp", creative, out);
    append(out, &[b"\\\"}}],\\\"link\\\":{\\\"url\\\":\\\""]);
    write_url("click", creative, out);
    append(out, &[b"\\\"}"]);
    if !tracker.is_empty() {
        append(out, &[b",\\\"imptrackers\\\":[\\\"", tracker.as_bytes(), b"\\\"]"]);
    }
    append(out, &[b",\\\"ext\\\":{\\\"note\\\":\\\""]);
}

/// `https://cdn.advertiser-<n>.example/<creative>/<leaf>`
fn write_url(leaf: &str, creative: CreativeRef, out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    append(out, &[b"https://cdn.advertiser-", number.format(creative.advertiser).as_bytes()]);
    append(out, &[b".example/", number.format(creative.number).as_bytes()]);
    append(out, &[b"/", leaf.as_bytes()]);
}
