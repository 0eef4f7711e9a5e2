//! Any frames, cut anywhere: the same events as whole, and as a naive decoder's.

use proptest::collection::vec;
use proptest::prelude::*;

use super::client::{
    BINARY, CLOSE, CONTINUATION, FIN, PING, PONG, Reading, TEXT, frame_with, naive_events,
};

const BYTES_MAX: usize = 70_000;

/// A message in one or more fragments, with pings between them.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let text = "[a-zé€🦀]{0,200}".prop_map(|text| (TEXT, text.into_bytes()));
    let sizes = prop_oneof![8 => 0..300_usize, 1 => 65_500..65_600_usize];
    let binary = sizes.prop_flat_map(|size| vec(any::<u8>(), size));
    let binary = binary.prop_map(|bytes| (BINARY, bytes));
    let fragments = vec((any::<prop::sample::Index>(), any::<bool>()), 0..4);
    let key = any::<[u8; 4]>();
    (prop_oneof![text, binary], fragments, key).prop_map(|((opcode, payload), fragments, key)| {
        let (mut bytes, mut first, mut rest) = (Vec::new(), opcode, &payload[..]);
        for (cut, ping) in fragments {
            let (fragment, after) = rest.split_at(cut.index(rest.len() + 1));
            bytes.extend(frame_with(first, fragment, key));
            if ping {
                bytes.extend(frame_with(PING, &fragment[..fragment.len().min(125)], key));
            }
            (first, rest) = (CONTINUATION, after);
        }
        bytes.extend(frame_with(FIN | first, rest, key));
        bytes
    })
}

/// What a client may send until it closes the connection.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let pong = (vec(any::<u8>(), 0..=125), any::<[u8; 4]>())
        .prop_map(|(payload, key)| frame_with(PONG, &payload, key));
    let close = "\\PC{0,30}".prop_map(|reason| {
        let payload = [&4321_u16.to_be_bytes(), reason.as_bytes()].concat();
        frame_with(CLOSE, &payload, [1, 2, 3, 4])
    });
    let frames = vec(prop_oneof![3 => message(), 1 => pong], 0..6);
    (frames, proptest::option::of(close))
        .prop_map(|(frames, close)| [frames.concat(), close.unwrap_or_default()].concat())
}

/// The bytes in parts of these sizes, in turn.
fn parts<'b>(mut bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let parts = sizes.iter().cycle().map_while(|size| {
        let size = bytes.len().min(*size);
        bytes.split_off(..size).filter(|part| !part.is_empty())
    });
    parts.collect()
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![4 => 1..20_usize, 1 => 20..5000_usize], 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_do_not_matter(bytes in stream(), sizes in sizes()) {
        let whole = Reading::of([&bytes[..]], BYTES_MAX);
        prop_assert_eq!(whole.violation, None);
        prop_assert!(whole.events == naive_events(&bytes));
        prop_assert!(whole == Reading::of(parts(&bytes, &sizes), BYTES_MAX));
    }

    /// A violation comes after the same events, wherever the input was cut, and memory is bounded.
    #[test]
    fn damage_is_found_alike(
        mut bytes in stream(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        sizes in sizes(),
    ) {
        for (at, with) in damage {
            if !bytes.is_empty() {
                *at.get_mut(&mut bytes) ^= with;
            }
        }
        let whole = Reading::of([&bytes[..]], 300);
        prop_assert!(whole == Reading::of(parts(&bytes, &sizes), 300));
    }

    #[test]
    fn garbage_is_found_alike(bytes in vec(any::<u8>(), 0..100), sizes in sizes()) {
        prop_assert!(Reading::of([&bytes[..]], 50) == Reading::of(parts(&bytes, &sizes), 50));
    }
}
