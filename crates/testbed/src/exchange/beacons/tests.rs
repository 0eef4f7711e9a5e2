//! Which URLs are beacons, and which prefixes are valid.

use super::*;

#[test]
fn beacons_are_found_where_they_stand() {
    let beacons = |share_ppm| Beacons { prefix: "http://b.example/n/".to_owned(), share_ppm };
    let answer = br#"{"adm":"<img src='http://b.example/n/a-_Z9'>","burl":"http://b.example/n/c","nurl":"http://c.example/n/d"}"#;
    assert_eq!(beacons(PPM).due("1", answer), ["/n/a-_Z9", "/n/c"]);
    assert_eq!(beacons(PPM).due("1", b"http://b.example/n/"), ["/n/"]);
    assert_eq!(beacons(PPM).due("1", b"{}"), [""; 0]);
    assert_eq!(beacons(0).due("1", answer), [""; 0]);
    let half = |id: u32| !beacons(PPM / 2).due(&id.to_string(), answer).is_empty();
    let called = (0..1_000).filter(|id| half(*id)).count();
    assert!((400..600).contains(&called), "{called}");
}

#[test]
fn a_prefix_is_a_url_up_to_a_slash() {
    let check = |prefix: &str, share_ppm, want: bool| {
        let beacons = Beacons { prefix: prefix.to_owned(), share_ppm };
        assert_eq!(beacons.problem().is_none(), want, "{prefix} {share_ppm}");
    };
    check("http://b.example/n/", PPM, true);
    check("https://b.example:1/", 0, true);
    check("http://b.example/n/", PPM + 1, false);
    check("http://b.example/n", 1, false);
    check("http://b.example", 1, false);
    check("http:///n/", 1, false);
    check("ftp://b.example/n/", 1, false);
    check("/n/", 1, false);
    check("http://b.example/n /", 1, false);
}
