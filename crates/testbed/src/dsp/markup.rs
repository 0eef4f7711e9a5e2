//! The end of a bid object: type, size and markup, padded to a wanted length. Markup is HTML for
//! banners, VAST for video and audio, a native response for native. Single quotes in the markup
//! spare escapes in JSON.

use super::answer::append;
use crate::scan::{Format, Imp};

/// Names a creative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creative {
    pub(super) number: usize,
    pub(super) advertiser: usize,
}

/// Text that may stand in a comment of HTML and XML, and in a JSON string.
const PADDING: &[u8] = b"The quick brown fox jumps over the lazy dog while five boxing wizards \
watch how vexingly quick daft zebras jump in the morning sun. ";

/// Appends everything from `mtype` to the bid's closing brace, with the bid that began at
/// `at_least.0` padded to `at_least.1` bytes if it is shorter.
pub(super) fn write(
    imp: &Imp<'_>,
    creative: Creative,
    at_least: (usize, usize),
    out: &mut Vec<u8>,
) {
    let tail: &[u8] = match imp.format {
        Format::Banner => {
            write_banner(imp, creative, out);
            b" -->\"}"
        }
        Format::Video => {
            out.extend_from_slice(b",\"mtype\":2,\"dur\":15");
            write_vast("video/mp4", creative, out);
            b" --></VAST>\"}"
        }
        Format::Audio => {
            out.extend_from_slice(b",\"mtype\":3,\"dur\":15");
            write_vast("audio/mp4", creative, out);
            b" --></VAST>\"}"
        }
        Format::Native => {
            write_native(creative, out);
            b"\\\"}}}\"}"
        }
    };
    let (start, bytes) = at_least;
    let mut missing = bytes.saturating_sub(out.len() - start + tail.len());
    while missing > 0 {
        let part = missing.min(PADDING.len());
        out.extend_from_slice(&PADDING[..part]);
        missing -= part;
    }
    out.extend_from_slice(tail);
}

fn write_banner(imp: &Imp<'_>, creative: Creative, out: &mut Vec<u8>) {
    let (mut w, mut h) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (width, height) = (w.format(imp.width).as_bytes(), h.format(imp.height).as_bytes());
    out.extend_from_slice(b",\"mtype\":1");
    if imp.width > 0 && imp.height > 0 {
        append(out, &[b",\"w\":", width, b",\"h\":", height]);
    }
    append(out, &[b",\"adm\":\"<a href='"]);
    write_url("click", creative, out);
    append(out, &[b"'><img src='"]);
    write_url("banner.webp", creative, out);
    append(out, &[b"' width='", width, b"' height='", height, b"' alt=''></a><!-- "]);
}

fn write_vast(mime: &str, creative: Creative, out: &mut Vec<u8>) {
    append(out, &[b",\"adm\":\"<VAST version='4.2'><Ad id='1'><InLine><AdSystem>testbed"]);
    append(out, &[b"</AdSystem><AdTitle>spot</AdTitle><Impression><![CDATA["]);
    write_url("impression", creative, out);
    append(out, &[b"]]></Impression><Creatives><Creative><Linear><Duration>00:00:15</Duration>"]);
    append(out, &[b"<MediaFiles><MediaFile delivery='progressive' type='", mime.as_bytes()]);
    append(out, &[b"' width='640' height='360'><![CDATA["]);
    write_url("spot.mp4", creative, out);
    append(out, &[b"]]></MediaFile></MediaFiles></Linear></Creative></Creatives></InLine></Ad>"]);
    append(out, &[b"<!-- "]);
}

fn write_native(creative: Creative, out: &mut Vec<u8>) {
    append(out, &[b",\"mtype\":4,\"adm\":\"{\\\"native\\\":{\\\"ver\\\":\\\"1.2\\\",\\\"assets"]);
    append(out, &[b"\\\":[{\\\"id\\\":1,\\\"title\\\":{\\\"text\\\":\\\"A quick brown fox\\\"}},"]);
    append(out, &[b"{\\\"id\\\":2,\\\"img\\\":{\\\"w\\\":1200,\\\"h\\\":627,\\\"url\\\":\\\""]);
    write_url("native.webp", creative, out);
    append(out, &[b"\\\"}}],\\\"link\\\":{\\\"url\\\":\\\""]);
    write_url("click", creative, out);
    append(out, &[b"\\\"},\\\"ext\\\":{\\\"note\\\":\\\""]);
}

/// `https://cdn.advertiser-<n>.example/<creative>/<leaf>`
fn write_url(leaf: &str, creative: Creative, out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    append(out, &[b"https://cdn.advertiser-", number.format(creative.advertiser).as_bytes()]);
    append(out, &[b".example/", number.format(creative.number).as_bytes()]);
    append(out, &[b"/", leaf.as_bytes()]);
}
