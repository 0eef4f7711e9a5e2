//! Tests of `settlements`.

use prost::Message as _;

use super::*;
use crate::v1;

const FIRST: WinRecord<'static> =
    WinRecord { token: [7; TOKEN_BYTES], cost_nanos: 1_500_000, currency: "USD", client: "dsp-1" };
const FREE: WinRecord<'static> = WinRecord { token: [9; TOKEN_BYTES], cost_nanos: 0, ..FIRST };

fn record(wins: &[WinRecord<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = SettlementsWriter::new(&mut out);
    wins.iter().for_each(|win| writer.win(win));
    writer.finish();
    out
}

fn read(record: &[u8]) -> Result<Vec<WinRecord<'_>>, MalformedRecord> {
    let mut wins = Vec::new();
    SettlementsReader::new(record)?.each(|win| wins.push(win))?;
    Ok(wins)
}

#[test]
fn wins_are_written_as_by_prost_and_read_back() {
    let bytes = record(&[FIRST, FREE]);
    assert_eq!(read(&bytes), Ok(vec![FIRST, FREE]));
    let message = v1::Settlements::decode(&*bytes).unwrap();
    assert_eq!(message.wins.len(), 2);
    assert_eq!(message.wins[0].token, FIRST.token);
    assert_eq!(message.wins[0].cost_nanos, 1_500_000);
    assert_eq!(message.encode_to_vec(), bytes);
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "the first {len} bytes");
    }
}

#[test]
fn a_win_without_a_whole_token_is_refused() {
    for token in [vec![], vec![1; TOKEN_BYTES - 1], vec![1; TOKEN_BYTES + 1]] {
        let win = v1::Win { token, cost_nanos: 1, currency: "USD".into(), client: String::new() };
        let mut message = v1::Settlements { version: 1, wins: vec![win], length: 0 };
        message.length = u32::try_from(message.encoded_len()).unwrap();
        assert!(read(&message.encode_to_vec()).is_err());
    }
}
