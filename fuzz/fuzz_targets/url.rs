//! Any text as the URL of a notice: refused, or parsed as by browsers, so that no undeclared host
//! can be called.
#![no_main]

use exchange_core::NoticeTarget;
use libfuzzer_sys::fuzz_target;
use url::{Host, Url};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(target) = NoticeTarget::parse(text) else { return };
    assert!(!target.host.is_empty() && target.port != 0);
    let rest = target.path_and_query;
    assert!(rest.is_empty() || rest.starts_with(['/', '?']));
    // It becomes part of a request's head.
    assert!(rest.bytes().chain(target.host.bytes()).all(|byte| byte.is_ascii_graphic()));
    // The other parser is stricter about numbers at the end of a host and about punycode.
    let Ok(url) = Url::parse(text) else { return };
    assert_eq!(url.scheme() == "https", target.is_tls);
    assert_eq!(url.port_or_known_default(), Some(target.port));
    assert_eq!((url.username(), url.password()), ("", None));
    match url.host() {
        Some(Host::Domain(domain)) => assert!(domain.eq_ignore_ascii_case(target.host)),
        Some(Host::Ipv4(address)) => {
            // An address, in any spelling, belongs to no domain.
            let parents =
                target.host.match_indices('.').map(|(at, _)| target.host[at + 1..].into());
            assert!(!target.is_declared(&parents.collect::<Vec<Box<str>>>()), "{address}");
            let exact = target.host.parse();
            assert!(exact.is_err() || exact == Ok(address));
        }
        Some(Host::Ipv6(address)) => assert_eq!(target.host.parse(), Ok(address)),
        None => panic!("it has a host"),
    }
});
