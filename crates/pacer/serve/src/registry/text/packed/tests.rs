//! Texts are unpacked as they were packed.

use super::*;

#[test]
fn a_text_comes_out_as_it_went_in() {
    let mut packer = Packer::default();
    let long = format!(r#"{{"id":"{}"}}"#, "ä\\n'\"".repeat(20_000));
    // Incompressible text grows, and still comes back.
    let mut state = 1u32;
    let noise: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_u32(0x1_0000 + (state >> 12) % 0x8_0000).unwrap_or('x')
    })
    .take(50_000)
    .collect();
    let mut unpacked = String::new();
    for text in ["", "{}", r#"{"id":"summer"}"#, &long, &noise, "{}"] {
        let packed = packer.pack(text);
        assert_eq!(packed.text(), text);
        packed.unpack(&mut unpacked);
        assert_eq!(unpacked, text, "whatever was unpacked before");
        assert_eq!(packed, pack(text), "whatever was packed before");
        assert_ne!(packed, packer.pack(&format!("{text} ")));
    }
}

/// A campaign with two banners.
#[test]
fn a_campaign_takes_a_third_of_its_text() {
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
    assert!(3 * packed.bytes.len() <= text.len(), "{} of {}", packed.bytes.len(), text.len());
}
