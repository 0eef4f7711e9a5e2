//! Ranks of equal bids, and samples.

use super::*;

#[test]
fn rank_depends_on_every_part_and_the_key() {
    let key = TieKey::new([7; 16]);
    let ids = |[dsp, seat, bid]: [&'static str; 3]| BidIds { dsp, seat, bid };
    let rank_of = |auction, imp, of| key.rank(auction, imp, ids(of));
    let rank = rank_of("a", "1", ["d", "s", "b"]);
    assert_eq!(rank, rank_of("a", "1", ["d", "s", "b"]));
    let others = [
        rank_of("x", "1", ["d", "s", "b"]),
        rank_of("a", "2", ["d", "s", "b"]),
        rank_of("a", "1", ["e", "s", "b"]),
        rank_of("a", "1", ["d", "t", "b"]),
        rank_of("a", "1", ["d", "s", "c"]),
        rank_of("a", "1", ["ds", "", "b"]),
        TieKey::new([8; 16]).rank("a", "1", ids(["d", "s", "b"])),
    ];
    assert!(others.iter().all(|other| *other != rank));
    assert_eq!(format!("{key:?}"), "TieKey(…)");
}

#[test]
fn samples_are_stable_exact_and_independent() {
    let key = TieKey::new([7; 16]);
    let share = |parts| Ppm::new(parts).unwrap();
    let ids: Vec<String> = (0..20_000).map(|n| format!("request-{n}")).collect();
    let sampled = |key: TieKey, dsp, parts| {
        ids.iter().map(|id| key.is_sampled(id, dsp, share(parts))).collect::<Vec<_>>()
    };
    let count = |drawn: &[bool]| drawn.iter().filter(|is_in| **is_in).count();
    assert_eq!(count(&sampled(key, "d", 0)), 0);
    assert_eq!(count(&sampled(key, "d", 1_000_000)), ids.len());
    let (tenth, half) = (sampled(key, "d", 100_000), sampled(key, "d", 500_000));
    assert_eq!(tenth, sampled(key, "d", 100_000));
    assert!((1_800..2_200).contains(&count(&tenth)), "{}", count(&tenth));
    assert!((9_700..10_300).contains(&count(&half)), "{}", count(&half));
    // A larger share includes the smaller.
    assert!(tenth.iter().zip(&half).all(|(tenth, half)| !tenth || *half));
    for other in [sampled(key, "e", 500_000), sampled(TieKey::new([8; 16]), "d", 500_000)] {
        let both: Vec<bool> = half.iter().zip(&other).map(|(a, b)| *a && *b).collect();
        assert!((4_700..5_300).contains(&count(&both)), "{}", count(&both));
    }
}
