//! Tests of `ratio`.

use super::*;
use proptest::prelude::*;

#[test]
fn parses_rates() {
    for (text, good) in [
        ("1", true),
        ("0.9143", true),
        ("155.27", true),
        ("0", false),
        ("-1", false),
        ("x", false),
        ("1e-40", false),
    ] {
        assert_eq!(Ratio::parse(text).is_some(), good, "{text}");
    }
}

#[test]
fn converts_across_rates() {
    // 1 EUR = 1.08 USD; 1 JPY = 0.0064 USD.
    let eur = Ratio::parse("1.08").unwrap();
    let jpy = Ratio::parse("0.0064").unwrap();
    let eur_to_jpy = eur.over(jpy).unwrap();
    let two_euros = Cpm::new(2_000_000).unwrap();
    assert_eq!(eur_to_jpy.convert(two_euros, Rounding::Down), Cpm::new(337_500_000));
    let one_micro = Cpm::new(1).unwrap();
    assert_eq!(jpy.convert(one_micro, Rounding::Down), Some(Cpm::ZERO));
    assert_eq!(jpy.convert(one_micro, Rounding::Up), Some(one_micro));
}

proptest! {
    #[test]
    fn there_and_back_never_exceeds_the_start(
        micros in 0..=Cpm::MAX.micros(), n in 1u64..1_000_000_000, d in 1u64..1_000_000_000,
    ) {
        let ratio = Ratio::reduced(n.into(), d.into()).unwrap();
        let start = Cpm::new(micros).unwrap();
        if let Some(there) = ratio.convert(start, Rounding::Down) {
            let back = ratio.inverse().convert(there, Rounding::Up).unwrap();
            prop_assert!(back <= start);
        }
    }
}
