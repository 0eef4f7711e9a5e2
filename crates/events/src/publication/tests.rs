//! Tests of `publication`.

use prost::Message as _;

use super::*;
use crate::v1;

#[test]
fn publications_are_written_as_by_prost_and_read_back() {
    let full =
        Publication { topic: "news", publisher: "acme", key: "k", body: r#"{"price":"1.50"}"# };
    for publication in
        [full, Publication { publisher: "", key: "", ..full }, Publication::default()]
    {
        let mut bytes = Vec::new();
        publication.encode(&mut bytes);
        assert_eq!(Publication::decode(&bytes), Ok(publication));
        let message = v1::Publication::decode(&*bytes).unwrap();
        assert_eq!(message.body, publication.body.as_bytes());
        assert_eq!(message.encode_to_vec(), bytes);
        for len in 0..bytes.len() {
            assert!(Publication::decode(&bytes[..len]).is_err(), "the first {len} bytes");
        }
    }
}

#[test]
fn a_body_that_is_not_text_is_refused() {
    let mut message = v1::Publication { version: 1, body: vec![0xff], ..Default::default() };
    message.length = u32::try_from(message.encoded_len()).unwrap();
    assert!(Publication::decode(&message.encode_to_vec()).is_err());
}
