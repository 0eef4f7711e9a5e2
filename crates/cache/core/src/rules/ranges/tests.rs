//! Ranges of a response of 100 bytes.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(range: &str, want: &[(u64, u64)]) {
    let parts = want.iter().map(|&(start, end)| ByteRange { start, end }).collect();
    assert_eq!(RequestedRanges::parse(range, 100), RequestedRanges::Parts(parts), "{range}");
}

#[test]
fn ranges_are_cut_to_the_response() {
    check("bytes=0-0", &[(0, 1)]);
    check("BYTES=0-9", &[(0, 10)]);
    check("bytes=90-", &[(90, 100)]);
    check("bytes=90-999", &[(90, 100)]);
    check("bytes=0-99999999999999999999999", &[(0, 100)]);
    check("bytes=-1", &[(99, 100)]);
    check("bytes=-100", &[(0, 100)]);
    check("bytes=-999", &[(0, 100)]);
    check("bytes=0-0, 9-9,\t,-1", &[(0, 1), (9, 10), (99, 100)]);
    check("bytes=50-59, 0-9", &[(50, 60), (0, 10)]);
    // What the response does not have is left out, if it has the rest.
    check("bytes=0-0, 100-, -0", &[(0, 1)]);
    check("bytes=0-9, 10-19", &[(0, 20)]);
    check("bytes=5-9, 0-6, 8-12", &[(0, 13)]);
    check("bytes=0-99, 0-0, 99-99", &[(0, 100)]);
}

#[test]
fn ranges_that_are_not_answered() {
    for unsatisfiable in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=200-, -0"] {
        let parsed = RequestedRanges::parse(unsatisfiable, 100);
        assert_eq!(parsed, RequestedRanges::Unsatisfiable, "{unsatisfiable}");
    }
    assert_eq!(RequestedRanges::parse("bytes=0-", 0), RequestedRanges::Unsatisfiable);
    let many = |count: u64| {
        let specs: Vec<_> = (0..count).map(|at| format!("{0}-{0}", 2 * at)).collect();
        format!("bytes={}", specs.join(","))
    };
    let whole =
        ["", "bytes", "bytes=", "bytes=,", "bytes=-", "bytes=a-b", "bytes=9-0", "bytes=+1-2"];
    let more =
        ["bytes=0-1-2", "bytes 0-1", "items=0-1", "bytes =0-1", "bytes=0 - 1", "bytes=0-0, x"];
    let repeated = "bytes=0-60, 90-99, 0-60";
    for range in whole.into_iter().chain(more).chain([&*many(17), repeated]) {
        assert_eq!(RequestedRanges::parse(range, 100), RequestedRanges::Whole, "{range}");
    }
    assert!(matches!(RequestedRanges::parse(&many(16), 100), RequestedRanges::Parts(_)));
    assert_eq!(unsatisfied_range(100), "bytes */100");
}

#[test]
fn several_parts_are_a_multipart_response() {
    let parts = vec![ByteRange { start: 0, end: 2 }, ByteRange { start: 8, end: 10 }];
    let body = b"0123456789";
    let multipart = MultipartRanges::new(parts, Some("text/plain"), 10, "b");
    let mut written = Vec::new();
    for (head, part) in multipart.parts() {
        written.extend(head.as_bytes());
        let [start, end] = [part.start, part.end].map(|at| usize::try_from(at).unwrap());
        written.extend(&body[start..end]);
    }
    written.extend(multipart.end().as_bytes());
    let want = "--b\r\ncontent-type: text/plain\r\ncontent-range: bytes 0-1/10\r\n\r\n01\
                \r\n--b\r\ncontent-type: text/plain\r\ncontent-range: bytes 8-9/10\r\n\r\n89\
                \r\n--b--\r\n";
    assert_eq!(String::from_utf8(written).unwrap(), want);
    assert_eq!(multipart.content_length(), want.len() as u64);
}

proptest! {
    #[test]
    fn parts_are_within_the_response(range in "bytes=[0-9, -]{0,20}", length in 0_u64..120) {
        if let RequestedRanges::Parts(parts) = RequestedRanges::parse(&range, length) {
            prop_assert!(!parts.is_empty());
            prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= length));
            prop_assert!(parts.iter().map(|part| part.bytes()).sum::<u64>() <= length);
        }
    }

    #[test]
    fn no_text_panics(range in ".{0,30}", length: u64) {
        let _parsed = RequestedRanges::parse(&range, length);
    }
}
