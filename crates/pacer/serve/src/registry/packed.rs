//! The JSON text of a definition in little room: most of it is keys and forms that all definitions have,
//! and names that it says again and again.
//!
//! Owns the form, which is for memory alone: nothing of it is kept or told. Knows no keys but as text.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Text that definitions are likely to have, what is likeliest last: a text that has it refers to it.
const LIKELY: &[u8] = br#"{"app_bundles":[""],"attributes":[],"budget":"","categories":["IAB"],"category_taxonomy":,"currency":"EUR","deals":[""],"device_types":["mobile","pc","tv"],"duration_s":,"key_values":["="],"language":"en","late_holdback":"","paused":true,"regions":["USA/CA"],"seats":["/"],"time_zone":"Europe/","audio","native","video","markup":"<?xml version=\"1.0\"?><VAST version=\"4.0\"><Ad id=\"\"><InLine><Impression><![CDATA[https://]]></Impression><Creatives><Creative><Linear><Duration>00:00:15</Duration></Linear></Creative></Creatives></InLine></Ad></VAST>","size":"320x50","160x600","970x250"{"account":"","bid":{"price":"","value":""},"creative":[{"app_bundle":"com.","domains":["www..com"],"format":"banner","id":"","markup":"<a href=\"https://www..com/\"><script src=\"https://</script><img src=\"https://cdn..com/.png\" width=\"\" height=\"\"></a>","size":"728x90"},{"domains":[""],"format":"banner","id":"","markup":"<a href='https:///'><img src='https://.png'></a>","size":"300x250"}],"daily_budget":"100.00","hourly_budget":"","hours":["mon-fri 08-20"],"end":"2026-12-01T00:00:00Z","id":"","start":"2026-11-01T00:00:00Z","strategy":{"name":"","start":""},"targeting":{"countries":["USA"],"formats":[""],"sizes":["300x250"],"publishers":[""]}}"#;

/// How far back a text refers, as the power of two: further than most are long.
const WINDOW_BITS: u8 = 12;

/// The most bytes of room for texts that a thread keeps.
const SPARE_BYTES_MAX: usize = 64 << 10;

/// A text, packed. Clones share it; two are equal when their texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed {
    bytes: Arc<[u8]>,
}

impl Packed {
    /// The text.
    pub fn text(&self) -> String {
        let mut inflate = Decompress::new_with_window_bits(false, WINDOW_BITS);
        inflate.set_dictionary(LIKELY).expect("a dictionary comes before the text");
        let mut text = Vec::with_capacity(8 * self.bytes.len());
        loop {
            // At least a byte more, so that the end of the text is seen too.
            text.reserve(256);
            let taken = usize::try_from(inflate.total_in()).expect("it is of a text");
            let rest = &self.bytes[taken..];
            let status = inflate.decompress_vec(rest, &mut text, FlushDecompress::Finish);
            match status.expect("what was packed is whole") {
                Status::StreamEnd => return String::from_utf8(text).expect("text was packed"),
                Status::Ok | Status::BufError => {
                    assert!(text.len() == text.capacity(), "what was packed is whole");
                }
            }
        }
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

/// What packs texts. It takes some hundred kilobytes, and its thread keeps them for the next one: with a room
/// for each file, the memory between those rooms was filled with what stays, and theirs was left empty.
pub(super) struct Packer {
    /// None once it is dropped.
    room: Option<Box<PackerRoom>>,
}

struct PackerRoom {
    deflate: Compress,
    spare: Vec<u8>,
}

thread_local! {
    static UNUSED: Cell<Option<Box<PackerRoom>>> = const { Cell::new(None) };
}

impl Packer {
    pub(super) fn new() -> Self {
        let unused = UNUSED.try_with(Cell::take).ok().flatten();
        Self { room: Some(unused.unwrap_or_else(PackerRoom::new)) }
    }

    pub(super) fn pack(&mut self, text: &str) -> Packed {
        self.room.as_mut().expect("it is there until the drop").pack(text)
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        // A thread that ends keeps nothing.
        let _ended = UNUSED.try_with(|unused| unused.set(self.room.take()));
    }
}

impl PackerRoom {
    fn new() -> Box<Self> {
        let deflate = Compress::new_with_window_bits(Compression::default(), false, WINDOW_BITS);
        Box::new(Self { deflate, spare: Vec::new() })
    }

    fn pack(&mut self, text: &str) -> Packed {
        self.deflate.reset();
        self.deflate.set_dictionary(LIKELY).expect("a dictionary comes before the text");
        self.spare.clear();
        loop {
            // What cannot be packed grows a little.
            self.spare.reserve(text.len() + 64);
            let taken = usize::try_from(self.deflate.total_in()).expect("it is of a text");
            let rest = &text.as_bytes()[taken..];
            let status = self.deflate.compress_vec(rest, &mut self.spare, FlushCompress::Finish);
            if status.expect("deflating has no errors") == Status::StreamEnd {
                let packed = Packed { bytes: self.spare.as_slice().into() };
                // A long text is rare: its room is not kept.
                self.spare.shrink_to(SPARE_BYTES_MAX);
                return packed;
            }
        }
    }
}

/// Packs one text.
pub(super) fn pack(text: &str) -> Packed {
    Packer::new().pack(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_out_as_it_went_in() {
        let mut packer = Packer::new();
        let long = format!(r#"{{"id":"{}"}}"#, "ä\\n'\"".repeat(20_000));
        // What nothing repeats in: bytes grow, and are read all the same.
        let mut state = 1u32;
        let noise: String = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from_u32(0x1_0000 + (state >> 12) % 0x8_0000).unwrap_or('x')
        })
        .take(50_000)
        .collect();
        for text in ["", "{}", r#"{"id":"summer"}"#, &long, &noise] {
            let packed = packer.pack(text);
            assert_eq!(packed.text(), text);
            assert_eq!(packed, pack(text), "whatever was packed before");
            assert_ne!(packed, packer.pack(&format!("{text} ")));
        }
    }

    /// Of a campaign with two banners and ids of their own.
    #[test]
    fn a_campaign_takes_a_quarter_of_its_text() {
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
        assert!(4 * packed.bytes.len() <= text.len(), "{} of {}", packed.bytes.len(), text.len());
    }
}
