//! The format of a bid, from its `mtype`, its markup, and its members for video and audio.

use memchr::memmem;
use openrtb::codes::MediaType;
use openrtb::{Bid, Imp};

const BANNER: u8 = MediaType::Banner.bit();
const VIDEO: u8 = MediaType::Video.bit();
const AUDIO: u8 = MediaType::Audio.bit();
const NATIVE: u8 = MediaType::Native.bit();

/// DAAST 1.0 and its wrapper (AdCOM 1.0, List: Creative Subtypes - Audio/Video).
const DAAST_PROTOCOLS: [u32; 2] = [9, 10];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Vast,
    Daast,
    Json,
    Blank,
    Html,
}

impl Syntax {
    /// `markup` is plain or JSON text, in which no letter before the root's name may be escaped.
    pub(crate) fn of(markup: &str) -> Self {
        let mut rest = markup.as_bytes();
        rest = rest.strip_prefix(b"\"").unwrap_or(rest);
        loop {
            rest = skip_space(rest);
            let close: &[u8] = match rest {
                [b'<', b'?', ..] => b"?>",
                [b'<', b'!', b'-', b'-', ..] => b"-->",
                [b'{', ..] => return Self::Json,
                [] | [b'"'] => return Self::Blank,
                [b'<', tag @ ..] => return Self::of_root(tag),
                _ => return Self::Html,
            };
            let Some(at) = memmem::find(rest, close) else { return Self::Html };
            rest = &rest[at + close.len()..];
        }
    }

    fn of_root(tag: &[u8]) -> Self {
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b">/\\\"".contains(byte);
        let name = tag.split(is_end).next().unwrap_or_default();
        match name.rsplit(|byte| *byte == b':').next() {
            Some(b"VAST") => Self::Vast,
            Some(b"DAAST") => Self::Daast,
            _ => Self::Html,
        }
    }
}

/// `text` without initial white space, plain or escaped, and byte order marks.
fn skip_space(mut text: &[u8]) -> &[u8] {
    loop {
        text = match text {
            [byte, rest @ ..] if byte.is_ascii_whitespace() => rest,
            [b'\\', b'n' | b'r' | b't', rest @ ..]
            | [b'\xef', b'\xbb', b'\xbf', rest @ ..]
            | [b'\\', b'u', b'f' | b'F', b'e' | b'E', b'f' | b'F', b'f' | b'F', rest @ ..] => rest,
            _ => return text,
        };
    }
}

/// The offered formats that the bid may have, as a set of [`MediaType::bit`]. Empty if it has
/// another, or if its markup does not match its format.
pub(crate) fn formats_of(imp: &Imp<'_>, bid: &Bid<'_>, markup: Option<&str>) -> u8 {
    let named = match bid.mtype {
        Some(code) => MediaType::from_code(code).map_or(0, MediaType::bit),
        None => u8::MAX,
    };
    // Only native markup may be an object; all other is a string.
    let is_object = bid.markup().is_some_and(|raw| raw.starts_with('{'));
    let formats = imp.formats() & named & if is_object { NATIVE } else { u8::MAX };
    match markup {
        Some(markup) => formats_of_markup(formats, markup),
        None if bid.protocol.is_some_and(|protocol| DAAST_PROTOCOLS.contains(&protocol)) => {
            formats & AUDIO
        }
        None if bid.mtype.is_none() && (bid.protocol.is_some() || bid.dur.is_some()) => {
            narrowed(formats, VIDEO | AUDIO)
        }
        None => formats,
    }
}

pub(crate) fn formats_of_markup(formats: u8, markup: &str) -> u8 {
    match Syntax::of(markup) {
        // Some banners are JSON for an SDK.
        Syntax::Json => narrowed(formats & (NATIVE | BANNER), NATIVE),
        Syntax::Html => formats & BANNER,
        Syntax::Blank => formats,
        Syntax::Daast => formats & AUDIO,
        Syntax::Vast if formats & VIDEO != 0 && formats & AUDIO != 0 => {
            media_of(markup).map_or(VIDEO | AUDIO, MediaType::bit)
        }
        Syntax::Vast => formats & (VIDEO | AUDIO),
    }
}

const fn narrowed(formats: u8, likely: u8) -> u8 {
    if formats & likely == 0 { formats } else { formats & likely }
}

/// Video or audio, from the types of the media files in `vast`. None if they do not show it.
fn media_of(vast: &str) -> Option<MediaType> {
    let mut has_audio = false;
    for tag in media_file_tags(vast.as_bytes()) {
        let types = memmem::find_iter(tag, b"type").filter_map(|at| {
            let value = skip_space(&tag[at + b"type".len()..]).strip_prefix(b"=")?;
            let start = value.iter().position(|byte| !b"\\\"' ".contains(byte))?;
            Some(&value[start..])
        });
        for value in types {
            // JSON may escape the slash that follows.
            let kind = value.split(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
            if kind.eq_ignore_ascii_case(b"video") {
                return Some(MediaType::Video);
            }
            has_audio |= kind.eq_ignore_ascii_case(b"audio");
        }
    }
    has_audio.then_some(MediaType::Audio)
}

fn media_file_tags(vast: &[u8]) -> impl Iterator<Item = &[u8]> {
    const NAME: &[u8] = b"MediaFile";
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + memmem::find(&vast[from..], NAME)?;
            from = at + NAME.len();
            let rest = &vast[from..];
            let is_name = at > 0 && matches!(vast[at - 1], b'<' | b':');
            let is_whole =
                rest.first().is_some_and(|byte| byte.is_ascii_whitespace() || *byte == b'\\');
            if is_name && is_whole {
                let tag = &rest[..memchr::memchr(b'>', rest).unwrap_or(rest.len())];
                from += tag.len();
                return Some(tag);
            }
        }
    })
}

#[cfg(test)]
mod tests;
