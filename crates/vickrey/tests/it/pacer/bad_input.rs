//! Bytes that are not frames, and clients that misbehave: each ends its own connection with a code, and
//! nothing of it is authorised.

use pacer_wire::{
    BatchItem, BidRequestEntry, CandidateEntry, DecisionCode, DecisionsFrame, FrameKind,
    HEAD_BYTES, Hello, Offer, ProtocolError, RawFrame, SettlementEntry, SettlementOutcome,
    write_batch, write_heartbeat, write_hello, write_settle,
};
use units::{Cpm, Nanos};

use super::fixtures::{Pacer, cpm, error_of, first_bid, hello, runtime};
use crate::program::until;

/// A batch of one request for a campaign.
fn batch(sequence: u64, campaign: u32) -> Vec<u8> {
    let candidate = CandidateEntry::new(campaign, Offer::Price(cpm(1_000_000)), Cpm::ZERO);
    let item = BatchItem { request: BidRequestEntry::new(1, 1), candidates: &[candidate] };
    let mut out = Vec::new();
    write_batch(&mut out, sequence, 1_000_000, [item].into_iter());
    out
}

/// Alters a frame, and mends its checksum.
fn altered(mut frame: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut frame);
    let covered: Vec<u8> = frame[..20].iter().chain(&frame[HEAD_BYTES..]).copied().collect();
    let sum = crc32c::crc32c(&covered);
    frame[20..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    frame
}

/// The last decisions that a server said.
fn codes_of(bytes: &[u8]) -> Vec<Option<DecisionCode>> {
    let (mut rest, mut codes) = (bytes, Vec::new());
    while let Some(frame) = RawFrame::read(rest, 1 << 20).unwrap() {
        rest = &rest[frame.bytes.len()..];
        if frame.kind == FrameKind::Decisions {
            let decisions = DecisionsFrame::decode(&frame).unwrap();
            codes =
                decisions.map(|(decision, _)| DecisionCode::from_number(decision.code)).collect();
        }
    }
    codes
}

#[test]
fn a_batch_without_time_is_late() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    first_bid(&runtime, &client);
    let without_time = altered(batch(2, pacer_handle(&pacer)), |frame| frame[24..28].fill(0));
    let codes = codes_of(&pacer.raw(&[hello(), without_time].concat()));
    assert_eq!(codes, [Some(DecisionCode::Late)]);
    let late = r#"pacer_decisions_total{client="dsp-1",decision="late"}"#;
    assert_eq!(pacer.server.scraped(late), 1);
}

#[test]
fn errors_of_the_stream_end_it_with_a_code() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    first_bid(&runtime, &client);
    let connections = r#"pacer_connections{client="dsp-1"}"#;
    let other = |kind: FrameKind| altered(batch(2, 0), |frame| frame[3] = kind as u8);
    let mut wrong_secret = Vec::new();
    write_hello(&mut wrong_secret, 1, &Hello::new("dsp-1", "of dsp 2", 65_536));
    let mut stranger = Vec::new();
    write_hello(&mut stranger, 1, &Hello::new("dsp-9", "of dsp 1", 65_536));
    let mut small = Vec::new();
    write_hello(&mut small, 1, &Hello::new("dsp-1", "of dsp 1", 4_095));
    let no_version = altered(hello(), |frame| (frame[24], frame[25]) = (2, 9));
    let mut settle = Vec::new();
    write_settle(&mut settle, 2, &[]);
    let mut flood = Vec::new();
    for sequence in 2..=300 {
        let lost = SettlementEntry::new([0; 48], SettlementOutcome::Lost, Nanos::ZERO);
        write_settle(&mut flood, sequence, &[lost]);
    }
    let greeted = |bytes: Vec<u8>| [hello(), bytes].concat();
    let heartbeat = |sequence: u64| {
        let mut bytes = Vec::new();
        write_heartbeat(&mut bytes, sequence, 0, 0);
        bytes
    };
    use ProtocolError as E;
    for (what, bytes, want) in [
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec(), Some(E::Magic)),
        ("a later version", altered(hello(), |frame| frame[2] = 2), Some(E::Version)),
        ("versions of the future", no_version, Some(E::Version)),
        ("no such kind", greeted(altered(batch(2, 0), |frame| frame[3] = 77)), Some(E::Kind)),
        ("a frame of the server", greeted(other(FrameKind::Decisions)), Some(E::Kind)),
        ("a batch before the hello", batch(1, 0), Some(E::Kind)),
        ("a second hello", greeted(altered(hello(), |frame| frame[12] = 2)), Some(E::Kind)),
        (
            "a frame beyond the limit",
            greeted(altered(batch(2, 0), |frame| frame[10] = 2)),
            Some(E::TooLong),
        ),
        (
            "a head that ends within itself",
            greeted(altered(batch(2, 0), |frame| frame[4] = 23)),
            Some(E::Length),
        ),
        ("a flipped bit", greeted(batch(2, 0).tap(|frame| frame[40] ^= 1)), Some(E::Checksum)),
        ("no settlements", greeted(settle), Some(E::Count)),
        (
            "a candidate too few",
            greeted(altered(batch(2, 0), |frame| frame[46] = 2)),
            Some(E::Count),
        ),
        ("a hole", greeted(batch(3, 0)), Some(E::Sequence)),
        ("the same again", greeted([heartbeat(2), heartbeat(2)].concat()), Some(E::Sequence)),
        ("a wrong secret", wrong_secret, Some(E::Denied)),
        ("an unknown client", stranger, Some(E::Denied)),
        ("a client of short frames", small, Some(E::Length)),
        ("a hello that is cut off", hello()[..30].to_vec(), None),
        ("a batch that is cut off", greeted(batch(2, 0)[..50].to_vec()), None),
        ("unknown tokens are no error", greeted(flood), None),
    ] {
        assert_eq!(error_of(&pacer.raw(&bytes)), want, "{what}");
    }
    // Others go on.
    until("only the client is left", || pacer.server.scraped(connections) == 1);
    first_bid(&runtime, &client);
    let authorised = r#"pacer_decisions_total{client="dsp-1",decision="authorised"}"#;
    assert_eq!(pacer.server.scraped(authorised), 2, "nothing else was authorised");
}

#[test]
fn slow_and_silent_clients_are_closed() {
    use std::io::{Read as _, Write as _};
    let pacer = Pacer::start();
    let mut silent = std::net::TcpStream::connect(pacer.address()).unwrap();
    let mut slow = std::net::TcpStream::connect(pacer.address()).unwrap();
    slow.write_all(&hello()[..10]).unwrap();
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).unwrap();
    assert_eq!(error_of(&answer), Some(ProtocolError::Slow));
    silent.write_all(&hello()).unwrap();
    let mut welcome = [0; HEAD_BYTES];
    silent.read_exact(&mut welcome).unwrap();
    // Limits of connections count by client and shard: the rest of this one's are free.
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..12 {
        let mut stream = std::net::TcpStream::connect(pacer.address()).unwrap();
        stream.write_all(&hello()).unwrap();
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).unwrap();
        refused += usize::from(head[3] == FrameKind::Error as u8);
        open.push(stream);
    }
    assert!((12 + 1 - 2 * 3..=12).contains(&refused), "{refused} of 12");
}

/// Items are answered one by one; the rest of their frame counts.
#[test]
fn unknown_campaigns_are_refused_alone() {
    let pacer = Pacer::start();
    let runtime = runtime();
    let _entered = runtime.enter();
    let client = pacer.client();
    first_bid(&runtime, &client);
    let candidate =
        |campaign: u32| CandidateEntry::new(campaign, Offer::Price(cpm(1_000)), Cpm::ZERO);
    let own = pacer_handle(&pacer);
    let (known, unknown) = ([candidate(own)], [candidate(4_000_000_000)]);
    let mut invalid = [candidate(own)];
    invalid[0].kind = 9;
    let item = |candidates| BatchItem { request: BidRequestEntry::new(1, 1), candidates };
    let mut bytes = hello();
    let items = [item(&known[..]), item(&unknown[..]), item(&invalid[..])];
    write_batch(&mut bytes, 2, 10_000_000, items.into_iter());
    let codes = codes_of(&pacer.raw(&bytes));
    let want = [DecisionCode::Authorised, DecisionCode::Unknown, DecisionCode::Invalid];
    // The other shard may have no grant yet.
    assert!(codes == want.map(Some) || codes[0] == Some(DecisionCode::Unavailable), "{codes:?}");
    assert_eq!(codes[1..], want.map(Some)[1..]);
}

/// The handle of `spring` of the first account.
fn pacer_handle(pacer: &Pacer) -> u32 {
    let answer = pacer.raw(&hello());
    let mut rest = &answer[..];
    while let Some(frame) = RawFrame::read(rest, 1 << 20).unwrap() {
        rest = &rest[frame.bytes.len()..];
        if frame.kind == FrameKind::Catalogue {
            let rows = pacer_wire::CatalogueChange::decode(&frame).unwrap().map(Result::unwrap);
            let row = rows.into_iter().find(|row| row.campaign == "acme-spring").unwrap();
            return row.handle;
        }
    }
    panic!("there is no catalogue")
}

/// Changes a value in passing.
trait Tap: Sized {
    fn tap(self, change: impl FnOnce(&mut Self)) -> Self;
}

impl Tap for Vec<u8> {
    fn tap(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
