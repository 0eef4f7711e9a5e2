//! Any bytes of a connection: what is answered before hyper sees it is one whole message without a
//! body, and has the target, host and fields that hyper would have read.
#![no_main]

use http::Uri;
use http_kit::framing::FramingCheck;
use http_kit::head::HeadLimits;
use http_kit::plain::PlainGet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let limits = HeadLimits { bytes_max: 8 << 10, fields_max: 64 };
    let read = PlainGet::read(input, limits, |get| {
        let target = match get.query {
            Some(query) => format!("{}?{query}", get.path),
            None => get.path.to_owned(),
        };
        let uri = Uri::try_from(&target).expect("a target that hyper reads");
        assert_eq!((uri.path(), uri.query()), (get.path, get.query));
        let host = get.authority.parse::<http::uri::Authority>().expect("an authority");
        assert_eq!(host.as_str(), get.authority);
        for demanding in ["range", "if-none-match", "content-length", "transfer-encoding"] {
            assert_eq!(get.lines(demanding).count(), 0);
        }
        assert_eq!(get.lines("host").count(), 1);
    });
    if let Some(((), length)) = read {
        let (mut check, mut bytes) = (FramingCheck::default(), input[..length].to_vec());
        check.follow(&mut bytes);
        assert_eq!((check.whole_messages(), &*bytes), (Some(1), &input[..length]));
    }
});
