//! The examples of RFC 7541, appendix C, and malformed blocks.

use super::huffman;
use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<_> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("digits"), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("digits")).collect()
}

fn decoded(decoder: &mut FieldDecoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder.decode(block, |name, value| fields.push(format!("{}: {}", text(name), text(value))))?;
    Ok(fields)
}

#[test]
fn examples_of_requests_and_responses() {
    let check = |blocks: &[(&str, &[&str])]| {
        let mut decoder = FieldDecoder::default();
        for (block, want) in blocks {
            assert_eq!(decoded(&mut decoder, &bytes(block)).as_deref(), Ok(&want.map_owned()[..]));
        }
    };
    let first = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
    let second = [&first[..], &["cache-control: no-cache"]].concat();
    let third = [
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ];
    // C.3, without Huffman coding.
    check(&[
        ("828684410f7777772e6578616d706c652e636f6d", &first),
        ("828684be58086e6f2d6361636865", &second),
        ("828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565", &third),
    ]);
    // C.4, with it.
    check(&[
        ("828684418cf1e3c2e5f23a6ba0ab90f4ff", &first),
        ("828684be5886a8eb10649cbf", &second),
        ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", &third),
    ]);
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for &[&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|&text| text.to_owned()).collect()
    }
}

#[test]
fn the_dynamic_table_evicts_its_oldest_entries() {
    let mut decoder = FieldDecoder::default();
    // Room for two entries of 34 bytes and one bit.
    let mut block = Vec::new();
    write_size_update(&mut block, 69);
    for value in [b"1", b"2", b"3"] {
        write_literal(&mut block, b"a", value, Indexing::Incremental);
    }
    block.extend([0xbe, 0xbf]);
    let want = ["a: 1", "a: 2", "a: 3", "a: 3", "a: 2"].map(str::to_owned);
    assert_eq!(decoded(&mut decoder, &block).as_deref(), Ok(&want[..]));
    assert_eq!(decoded(&mut decoder, &[0xc0]), Err(HpackError::UnknownIndex));
    // An entry whose name is that of one it evicts.
    assert_eq!(decoded(&mut decoder, &[0x7f, 0x00, 0x01, b'4']).unwrap(), ["a: 4"]);
    assert_eq!(decoded(&mut decoder, &[0xbe, 0xbf]).unwrap(), ["a: 4", "a: 3"]);
    // One that exceeds the table empties it.
    let mut large = Vec::new();
    write_literal(&mut large, b"b", &[b'x'; 69], Indexing::Incremental);
    assert!(decoded(&mut decoder, &large).is_ok());
    assert_eq!(decoded(&mut decoder, &[0xbe]), Err(HpackError::UnknownIndex));
}

#[test]
fn a_table_that_turns_over_keeps_little() {
    let mut decoder = FieldDecoder::default();
    let mut block = Vec::new();
    for number in 0..10_000 {
        block.clear();
        write_literal(&mut block, b"date", number.to_string().as_bytes(), Indexing::Incremental);
        block.push(0xbe);
        let want = format!("date: {number}");
        assert_eq!(decoded(&mut decoder, &block).unwrap(), [want.clone(), want]);
    }
}

#[test]
fn a_malformed_block_is_refused() {
    let check = |block: &[u8], want: HpackError| {
        assert_eq!(decoded(&mut FieldDecoder::default(), block), Err(want), "{block:x?}");
    };
    check(&[0x80], HpackError::UnknownIndex);
    check(&[0xbe], HpackError::UnknownIndex);
    check(&[0x7e, 0x01, b'x'], HpackError::UnknownIndex);
    check(&[0xff], HpackError::Truncated);
    check(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], HpackError::IntegerTooLarge);
    check(&[0x00, 0x05, b'a'], HpackError::Truncated);
    check(&[0x00, 0x01, b'a'], HpackError::Truncated);
    check(&[0x82, 0x20], HpackError::SizeUpdate);
    check(&[0x3f, 0xe2, 0x1f], HpackError::SizeUpdate); // 4097
    // Padding of zeros, of eight bits, and the end of the string.
    check(&[0x00, 0x81, 0x00, 0x00], HpackError::Huffman);
    check(&[0x00, 0x82, 0x1f, 0xff, 0x00], HpackError::Huffman);
    check(&[0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x00], HpackError::Huffman);
    assert_eq!(decoded(&mut FieldDecoder::default(), &[0x3f, 0xe1, 0x1f]), Ok(vec![]));
}

#[test]
fn a_huffman_string_may_end_with_up_to_seven_ones() {
    let mut out = Vec::new();
    assert_eq!(huffman::decode(&[0x1f], &mut out), Ok(())); // `a`, three ones
    assert_eq!(huffman::decode(&[], &mut out), Ok(()));
    assert_eq!(out, b"a");
}
