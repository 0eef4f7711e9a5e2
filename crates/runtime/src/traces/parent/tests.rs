//! Valid and invalid `traceparent` headers.

use super::*;

#[track_caller]
fn check(value: &str, want: Option<bool>) {
    let parsed = Parent::parse(value.as_bytes());
    assert_eq!(parsed.map(|parent| parent.is_sampled), want, "{value}");
    if let Some(parent) = parsed {
        assert_eq!(parent.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!(Some(parent.span_id), SpanId::new(0x00f0_67aa_0ba9_02b7));
    }
}

#[test]
fn values() {
    let ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
    check(&format!("00-{ids}-01"), Some(true));
    check(&format!("00-{ids}-00"), Some(false));
    check(&format!("00-{ids}-03"), Some(true));
    check(&format!("00-{ids}-02"), Some(false));
    check(&format!("cc-{ids}-01-more"), Some(true));
    check(&format!("cc-{ids}-01"), Some(true));
    check(&format!("cc-{ids}-01more"), None);
    check(&format!("00-{ids}-01-more"), None);
    check(&format!("ff-{ids}-01"), None);
    check(&format!("00-{}-01", ids.to_uppercase()), None);
    check("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None);
    check("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None);
    check("00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None);
    check("", None);
    check("00", None);
    check(&format!("00-{ids}"), None);
    check("00-é", None);
}
