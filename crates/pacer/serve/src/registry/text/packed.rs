//! Compressed JSON texts of definitions, in memory only. Most of a text is keys and forms that all
//! definitions share, and repeated names.

use std::fmt;
use std::sync::Arc;

use lz4_flex::block::{
    compress_into_with_dict, decompress_into_with_dict, get_maximum_output_size,
};

/// Text that definitions are likely to contain, the likeliest last: the compressor's dictionary.
const LIKELY: &[u8] = br#"{"app_bundles":[""],"attributes":[],"budget":"","categories":["IAB"],"category_taxonomy":,"currency":"EUR","deals":[""],"device_types":["mobile","pc","tv"],"duration_s":,"key_values":["="],"language":"en","late_holdback":"","paused":true,"regions":["USA/CA"],"seats":["/"],"time_zone":"Europe/","audio","native","video","markup":"<?xml version=\"1.0\"?><VAST version=\"4.0\"><Ad id=\"\"><InLine><Impression><![CDATA[https://]]></Impression><Creatives><Creative><Linear><Duration>00:00:15</Duration></Linear></Creative></Creatives></InLine></Ad></VAST>","size":"320x50","160x600","970x250"{"account":"","bid":{"price":"","value":""},"creative":[{"app_bundle":"com.","domains":["www..com"],"format":"banner","id":"","markup":"<a href=\"https://www..com/\"><script src=\"https://</script><img src=\"https://cdn..com/.png\" width=\"\" height=\"\"></a>","size":"728x90"},{"domains":[""],"format":"banner","id":"","markup":"<a href='https:///'><img src='https://.png'></a>","size":"300x250"}],"daily_budget":"100.00","hourly_budget":"","hours":["mon-fri 08-20"],"end":"2026-12-01T00:00:00Z","id":"","start":"2026-11-01T00:00:00Z","strategy":{"name":"","start":""},"targeting":{"countries":["USA"],"formats":[""],"sizes":["300x250"],"publishers":[""]}}"#;

/// A compressed text. Clones share it; two are equal if their texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed {
    /// The length of the text, then the compressed text.
    bytes: Arc<[u8]>,
}

type Prefix = [u8; size_of::<u32>()];

impl Packed {
    /// The text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.unpack(&mut text);
        text
    }

    /// Replaces the contents of `text`, reusing its memory.
    pub(in crate::registry) fn unpack(&self, text: &mut String) {
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

/// Compresses texts, reusing its buffer.
#[derive(Default)]
pub(in crate::registry) struct Packer(Vec<u8>);

impl Packer {
    pub(in crate::registry) fn pack(&mut self, text: &str) -> Packed {
        let Self(room) = self;
        let length = u32::try_from(text.len()).expect("no file is as large");
        // Incompressible text grows a little.
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

pub(in crate::registry) fn pack(text: &str) -> Packed {
    Packer::default().pack(text)
}

#[cfg(test)]
mod tests;
