//! The JSON text of a definition in little room: most of it is keys and forms that all definitions have,
//! and names that it says again and again.
//!
//! Owns the form, which is for memory alone: nothing of it is kept or told. Knows no keys but as text.

use std::fmt;
use std::sync::Arc;

use lz4_flex::block::{
    compress_into_with_dict, decompress_into_with_dict, get_maximum_output_size,
};

/// Text that definitions are likely to have, what is likeliest last: a text that has it refers to it.
const LIKELY: &[u8] = br#"{"app_bundles":[""],"attributes":[],"budget":"","categories":["IAB"],"category_taxonomy":,"currency":"EUR","deals":[""],"device_types":["mobile","pc","tv"],"duration_s":,"key_values":["="],"language":"en","late_holdback":"","paused":true,"regions":["USA/CA"],"seats":["/"],"time_zone":"Europe/","audio","native","video","markup":"<?xml version=\"1.0\"?><VAST version=\"4.0\"><Ad id=\"\"><InLine><Impression><![CDATA[https://]]></Impression><Creatives><Creative><Linear><Duration>00:00:15</Duration></Linear></Creative></Creatives></InLine></Ad></VAST>","size":"320x50","160x600","970x250"{"account":"","bid":{"price":"","value":""},"creative":[{"app_bundle":"com.","domains":["www..com"],"format":"banner","id":"","markup":"<a href=\"https://www..com/\"><script src=\"https://</script><img src=\"https://cdn..com/.png\" width=\"\" height=\"\"></a>","size":"728x90"},{"domains":[""],"format":"banner","id":"","markup":"<a href='https:///'><img src='https://.png'></a>","size":"300x250"}],"daily_budget":"100.00","hourly_budget":"","hours":["mon-fri 08-20"],"end":"2026-12-01T00:00:00Z","id":"","start":"2026-11-01T00:00:00Z","strategy":{"name":"","start":""},"targeting":{"countries":["USA"],"formats":[""],"sizes":["300x250"],"publishers":[""]}}"#;

/// A text, packed. Clones share it; two are equal when their texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed {
    /// The length of the text, and the text.
    bytes: Arc<[u8]>,
}

/// Of the length.
type Prefix = [u8; size_of::<u32>()];

impl Packed {
    /// The text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.unpack(&mut text);
        text
    }

    /// Puts the text in the place of what `text` says, in its room.
    pub(super) fn unpack(&self, text: &mut String) {
        let (length, packed) = self.bytes.split_first_chunk().expect("a length comes first");
        let length = usize::try_from(u32::from_le_bytes(*length)).expect("it was a length");
        let mut bytes = std::mem::take(text).into_bytes();
        bytes.clear();
        bytes.resize(length, 0);
        let unpacked = decompress_into_with_dict(packed, &mut bytes, LIKELY);
        assert_eq!(unpacked.ok(), Some(length), "what was packed is whole");
        *text = String::from_utf8(bytes).expect("text was packed");
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// What packs texts: one for many of them, which share its room.
#[derive(Default)]
pub(super) struct Packer(Vec<u8>);

impl Packer {
    pub(super) fn pack(&mut self, text: &str) -> Packed {
        let Self(room) = self;
        let length = u32::try_from(text.len()).expect("no file is as large");
        // What cannot be packed grows a little.
        let most = size_of::<Prefix>() + get_maximum_output_size(text.len());
        if room.len() < most {
            room.resize(most, 0);
        }
        let (prefix, rest) =
            room.split_first_chunk_mut::<{ size_of::<Prefix>() }>().expect("it has room");
        *prefix = length.to_le_bytes();
        let packed = compress_into_with_dict(text.as_bytes(), rest, LIKELY);
        let packed = packed.expect("there is room for the most that it may take");
        Packed { bytes: room[..size_of::<Prefix>() + packed].into() }
    }
}

/// Packs one text.
pub(super) fn pack(text: &str) -> Packed {
    Packer::default().pack(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_out_as_it_went_in() {
        let mut packer = Packer::default();
        let long = format!(r#"{{"id":"{}"}}"#, "ä\\n'\"".repeat(20_000));
        // What nothing repeats in: bytes grow, and are read all the same.
        let mut state = 1u32;
        let noise: String = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from_u32(0x1_0000 + (state >> 12) % 0x8_0000).unwrap_or('x')
        })
        .take(50_000)
        .collect();
        let mut unpacked = String::new();
        for text in ["", "{}", r#"{"id":"summer"}"#, &long, &noise, "{}"] {
            let packed = packer.pack(text);
            assert_eq!(packed.text(), text);
            packed.unpack(&mut unpacked);
            assert_eq!(unpacked, text, "whatever was unpacked before");
            assert_eq!(packed, pack(text), "whatever was packed before");
            assert_ne!(packed, packer.pack(&format!("{text} ")));
        }
    }

    /// Of a campaign with two banners and ids of their own.
    #[test]
    fn a_campaign_takes_a_third_of_its_text() {
        let creative = |size| {
            format!(
                r#"{{"domains":["shop-81.example"],"format":"banner","id":"spring-81-{size}","markup":"<a href='https://shop-81.example/'><img src='https://cdn.example/spring-81/{size}.png'></a>","size":"{size}"}}"#
            )
        };
        let text = format!(
            r#"{{"account":"acme-81","bid":{{"value":"0.60"}},"creative":[{},{}],"daily_budget":"1000.00","end":"2027-03-22T00:00:00Z","id":"spring-81","start":"2027-01-23T00:00:00Z","targeting":{{"countries":["DEU"],"publishers":["publisher-7"]}}}}"#,
            creative("300x250"),
            creative("728x90"),
        );
        let packed = pack(&text);
        assert!(3 * packed.bytes.len() <= text.len(), "{} of {}", packed.bytes.len(), text.len());
    }
}
