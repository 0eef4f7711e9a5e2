//! The bytes of a token, and invalid bytes.

use proptest::prelude::*;

use super::*;

const KEY: [u8; 16] = [
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
];

fn token() -> ReservationToken {
    ReservationToken {
        origin: TokenOrigin { node: 0x1011_1213, epoch: Epoch(0x2021_2223), shard: 0x3031 },
        ttl: TtlClass(2),
        bucket: 0x4041_4243,
        sequence: 0x5051_5253,
        line: 0x6061_6263,
        slot: CampaignIndex(0x7071_7273),
        period: Period(0x8081_8283),
        amount: Nanos::new(0x9091_9293_9495_9697),
    }
}

#[test]
fn golden_bytes() {
    let text = TokenKey::new(KEY).seal(&token());
    let bytes = URL_SAFE_NO_PAD.decode(text.as_str()).unwrap();
    let body = [
        &[1, 2, 0x30, 0x31][..],
        &[0x10, 0x11, 0x12, 0x13, 0x20, 0x21, 0x22, 0x23],
        &[0x70, 0x71, 0x72, 0x73, 0x80, 0x81, 0x82, 0x83],
        &[0x40, 0x41, 0x42, 0x43, 0x50, 0x51, 0x52, 0x53, 0x60, 0x61, 0x62, 0x63],
        &[0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97],
    ]
    .concat();
    assert_eq!(bytes[..BODY_BYTES], body);
    assert_eq!(text.as_str(), "AQIwMRAREhMgISIjcHFyc4CBgoNAQUJDUFFSU2BhYmOQkZKTlJWWl66MVmJyt66K");
    assert_eq!(text.to_string().len(), TOKEN_TEXT_BYTES);
    assert_eq!(format!("{text:?}"), text.as_str());
    assert_eq!(format!("{:?}", TokenKey::new(KEY)), "TokenKey(…)");
}

/// Any bytes, valid or not, convert to text and back.
#[test]
fn a_text_and_its_bytes_are_one() {
    let key = TokenKey::new(KEY);
    let text = key.seal(&token());
    assert_eq!(text.to_bytes()[..BODY_BYTES], token().encode());
    assert_eq!(TokenText::from_bytes(&text.to_bytes()), text);
    let none = TokenText::from_bytes(&[0xff; TOKEN_BYTES]);
    assert_eq!(none.to_bytes(), [0xff; TOKEN_BYTES]);
    assert_eq!(key.open(none.as_str().as_bytes()), Err(ReservationTokenError::Version));
}

/// The check is the published function: the vector of 15 bytes in SipHash's paper, appendix A.
#[test]
fn the_check_is_siphash() {
    let input: Vec<u8> = (0..15).collect();
    assert_eq!(TokenKey::new(KEY).0.hash(&input), 0xa129_ca61_49be_45e5);
}

#[test]
fn what_is_sealed_opens() {
    let key = TokenKey::new(KEY);
    assert_eq!(key.open(key.seal(&token()).as_str().as_bytes()), Ok(token()));
    let token = token();
    assert_eq!(token.slot(), CampaignIndex(0x7071_7273));
    assert_eq!(token.period(), Period(0x8081_8283));
    assert_eq!(token.amount(), Nanos::new(0x9091_9293_9495_9697));
    assert_eq!(token.ttl(), TtlClass(2));
    assert_eq!(token.number(), (TtlClass(2), 0x4041_4243, 0x5051_5253));
    assert_eq!(token.origin().shard, 0x3031);
}

#[test]
fn each_way_to_be_none_has_its_error() {
    let key = TokenKey::new(KEY);
    let good = key.seal(&token()).to_string();
    let check = |text: &str, want: ReservationTokenError| {
        assert_eq!(key.open(text.as_bytes()), Err(want), "{text:?}");
    };
    check("", ReservationTokenError::Length);
    check(&good[..63], ReservationTokenError::Length);
    check(&good[..60], ReservationTokenError::Length);
    check(&format!("{good}A"), ReservationTokenError::Length);
    check(&format!("{good}===="), ReservationTokenError::Length);
    check(&format!("{}=", &good[..63]), ReservationTokenError::Alphabet);
    check(&format!("{}+", &good[..63]), ReservationTokenError::Alphabet);
    check(&format!("{}/", &good[..63]), ReservationTokenError::Alphabet);
    check(&format!("{}\n", &good[..63]), ReservationTokenError::Alphabet);
    check(&format!("{} ", &good[..63]), ReservationTokenError::Alphabet);
    check(&format!("{}é", &good[..62]), ReservationTokenError::Alphabet);
    check(&format!("AA{}", &good[2..]), ReservationTokenError::Version);
    check(&format!("Ag{}", &good[2..]), ReservationTokenError::Version);
    check(&format!("{}A", &good[..63]), ReservationTokenError::Forged);
    check(&"A".repeat(64).replacen("AA", "AQ", 1), ReservationTokenError::Forged);
    let other = TokenKey::new([7; 16]).seal(&token()).to_string();
    check(&other, ReservationTokenError::Forged);
    for (at, error) in ReservationTokenError::ALL.into_iter().enumerate() {
        assert_eq!(error as usize, at, "{error:?}");
        let same = ReservationTokenError::ALL.iter().filter(|other| other.label() == error.label());
        assert_eq!(same.count(), 1, "{error:?}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn any_bit_matters() {
    let key = TokenKey::new(KEY);
    let bytes = URL_SAFE_NO_PAD.decode(key.seal(&token()).as_str()).unwrap();
    for bit in 0..TOKEN_BYTES * 8 {
        let mut altered = bytes.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        let want =
            if bit < 8 { ReservationTokenError::Version } else { ReservationTokenError::Forged };
        let text = URL_SAFE_NO_PAD.encode(&altered);
        assert_eq!(key.open(text.as_bytes()), Err(want), "bit {bit}");
    }
}

fn tokens() -> impl Strategy<Value = ReservationToken> {
    let origin = (any::<u32>(), any::<u32>(), any::<u16>());
    let place = (any::<u8>(), any::<u32>(), any::<u32>(), any::<u32>());
    let money = (any::<u32>(), any::<u32>(), any::<u64>());
    (origin, place, money).prop_map(|(origin, place, money)| ReservationToken {
        origin: TokenOrigin { node: origin.0, epoch: Epoch(origin.1), shard: origin.2 },
        ttl: TtlClass(place.0),
        bucket: place.1,
        sequence: place.2,
        line: place.3,
        slot: CampaignIndex(money.0),
        period: Period(money.1),
        amount: Nanos::new(money.2),
    })
}

proptest! {
    #[test]
    fn every_token_comes_back(token in tokens(), key: [u8; 16]) {
        let key = TokenKey::new(key);
        let text = key.seal(&token);
        let is_url_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        prop_assert!(text.as_str().bytes().all(is_url_safe));
        prop_assert_eq!(key.open(text.as_str().as_bytes()), Ok(token));
    }

    #[test]
    fn any_bytes_are_a_token_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..130)) {
        prop_assert!(TokenKey::new(KEY).open(&bytes).is_err());
    }

    #[test]
    fn an_altered_letter_is_found(at in 0..TOKEN_TEXT_BYTES, letter: u8) {
        let key = TokenKey::new(KEY);
        let mut text = *key.seal(&token()).as_str().as_bytes().first_chunk::<64>().unwrap();
        prop_assume!(text[at] != letter);
        text[at] = letter;
        prop_assert!(key.open(&text).is_err());
    }
}
