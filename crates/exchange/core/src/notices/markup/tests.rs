//! Where the beacon is inserted in HTML, VAST and native markup, and where not.

use proptest::prelude::*;

use super::*;

const URL: &str = "https://x.example/n/t";
const PIXEL: &str = "<img src=\"https://x.example/n/t\" width=\"1\" height=\"1\" alt=\"\" \
                     style=\"position:absolute;border:0;opacity:0;pointer-events:none\"/>";
const IMPRESSION: &str = "<Impression><![CDATA[https://x.example/n/t]]></Impression>";

/// `marked` has `@` at the beacon's place, if a beacon is expected.
#[track_caller]
fn check(format: MediaType, marked: &str, beacon: &str) {
    let markup = marked.replace('@', "");
    let got = add_beacon(format, &markup, URL);
    assert_eq!(got, Ok(marked.replace('@', beacon)), "{marked}");
}

#[track_caller]
fn check_banner(marked: &str) {
    check(MediaType::Banner, marked, PIXEL);
}

#[track_caller]
fn check_vast(marked: &str) {
    check(MediaType::Video, marked, IMPRESSION);
    check(MediaType::Audio, marked, IMPRESSION);
}

#[track_caller]
fn check_refused(markup: &str, want: NoBeacon) {
    assert_eq!(add_beacon(MediaType::Video, markup, URL), Err(want), "{markup}");
}

#[test]
fn a_pixel_stands_before_the_end_of_the_body() {
    for marked in [
        "<p>@",
        "text alone@",
        "a < b, 1<2 </ > <@",
        "<html><body><p>@</body></html>",
        "<HTML><BODY a='</body>'>@</BODY \n></HTML>",
        "<body></body>@</body>",
        "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0//EN\"><body>@</body>",
        "<?xml version=\"1.0\"?><html xmlns=\"http://www.w3.org/1999/xhtml\"><body>@</body></html>",
        "<p>é@</body>é",
        "<bodyx></bodyx>@",
        "<a title=\"</body>\">@",
        "<a title='>' x=\">\">@</body>",
        // Text that looks like an end tag, or like a quote.
        "<a title=</body>@",
        "<a =\"></body>\">@</body>",
        "<a b\"c>@</body>",
    ] {
        check_banner(marked);
    }
}

#[test]
fn a_pixel_stands_outside_what_is_no_markup() {
    for marked in [
        "<script>document.write('<body></body>')</script>@",
        "<script src='https://a/b.js'></script>@",
        "<SCRIPT>x</SCRIPT >@</body><script>'</body>'</script>",
        "<script>'</scripty></body>'</script>@",
        "<style></body></style>@",
        "<textarea></body></textarea>@",
        "<title></body></title><x>@",
        "<noscript></body></noscript>@",
        "<iframe></body></iframe>@",
        "<template></body></template>@",
        "<!-- </body> -->@",
        "<!-->@</body>",
        "<!--->@</body>",
        "<!-- --!>@</body>",
        "<!-- --->@</body>",
        "<!--[if IE]></body><![endif]-->@",
        // A comment to browsers, which the first bracket ends.
        "<![CDATA[</body>@",
    ] {
        check_banner(marked);
    }
}

#[test]
fn a_pixel_stands_before_what_is_never_closed() {
    for marked in [
        "<p>@<script>var x = '",
        "<p>@<!-- ",
        "<p>@<!--",
        "<p>@<img src=\"",
        "<p>@<img src=x",
        "<p>@</div",
        "<p>@<!doctype",
        "<p>@<plaintext></body>",
        "@<style></body>",
        "<p>@</body><script>",
        "<p>@<script></scrip",
    ] {
        check_banner(marked);
    }
    assert_eq!(add_beacon(MediaType::Banner, " \n\t", URL), Err(NoBeacon::Empty));
}

#[test]
fn an_impression_stands_beside_others_in_every_ad() {
    for marked in [
        "<VAST version=\"3.0\"><Ad id=\"1\"><InLine><AdSystem/>@<Impression>a</Impression>\
         <Impression>b</Impression><Creatives/></InLine></Ad></VAST>",
        "\u{feff}<?xml version=\"1.0\"?>\n<!-- <InLine> -->\n<VAST><Ad><Wrapper>\
         @<Impression/></Wrapper></Ad>\n</VAST>\n<!-- -->",
        "<VAST version=\"4.2\"><Ad><InLine>@<Impression id=\"a>b\">a</Impression></InLine></Ad>\
         <Ad><Wrapper><AdSystem/>@<Impression></Impression></Wrapper></Ad></VAST>",
        "<DAAST version=\"1.0\"><Ad><InLine>@<Impression/></InLine></Ad></DAAST>",
        // Elements that look like an ad, or are nested deeper.
        "<VAST><Ad><InLine><Extensions><Impression/><Extension><InLine><Impression/></InLine>\
         </Extension></Extensions>@<Impression/></InLine></Ad></VAST>",
        "<VAST><Ad><InLine><AdTitle><![CDATA[<Impression></InLine>]]></AdTitle>\
         <!-- <Impression> --><?x <Impression> ?><a b='>'/>@</InLine></Ad></VAST>",
        "<VAST><Error/><X><InLine><Impression/></InLine></X><Ad><InLine>@<Impression/></InLine>\
         </Ad></VAST>",
    ] {
        check_vast(marked);
    }
}

#[test]
fn an_impression_stands_where_the_schema_of_the_version_wants_it() {
    for (version, inside) in [
        ("2.0", "<AdSystem/><AdTitle/><Error/>@<Creatives><Creative/></Creatives><Extensions/>"),
        ("3.0", "<AdSystem/><AdTitle/>@<Extensions><Extension/></Extensions>"),
        ("3.0", "<AdSystem/><VASTAdTagURI>u</VASTAdTagURI><Error/>@"),
        ("4.0", "<AdSystem>a</AdSystem>@<AdTitle/><Creatives/>"),
        ("4.2", "<AdSystem/><Error/><Extensions><Extension/></Extensions>@<Pricing/><AdTitle/>"),
        ("4.1", "@<AdTitle/>"),
        (" 10.0", "<AdSystem/>@<Creatives/>"),
        ("x", "<AdSystem/><AdTitle/>@<Creatives/>"),
    ] {
        for ad in ["InLine", "Wrapper"] {
            check_vast(&format!(
                "<VAST a='b' version = '{version}'><Ad><{ad} x=\"y\">{inside}</{ad}></Ad></VAST>"
            ));
        }
    }
}

#[test]
fn an_impression_has_the_prefix_of_its_ad() {
    let marked = "<v:VAST xmlns:v=\"u\" v:version=\"4.0\"><v:Ad><v:InLine><v:AdSystem/>\
                  @<v:Impression/></v:InLine></v:Ad></v:VAST>";
    let beacon = "<v:Impression><![CDATA[https://x.example/n/t]]></v:Impression>";
    check(MediaType::Video, marked, beacon);
}

#[test]
fn what_is_no_vast_is_refused() {
    for markup in [
        "https://a/vast.xml",
        "<p>",
        "<VideoAdServingTemplate/>",
        "<VAST>",
        "<VAST/><VAST/>",
        "<VAST/>x",
        "x<VAST/>",
        "<![CDATA[]]><VAST/>",
        "<!DOCTYPE VAST [<!ENTITY a \"<InLine/>\">]><VAST/>",
        "<VAST><Ad></VAST></Ad>",
        "<VAST></VAST></VAST>",
        "<VAST><Ad><InLine><Impression></InLine></Ad></VAST>",
        "<VAST><!-- </VAST>",
        "<VAST><![CDATA[</VAST>",
        "<VAST><?x </VAST>",
        "<VAST><a b></a></VAST>",
        "<VAST><a b=c></a></VAST>",
        "<VAST><a b='<'></a></VAST>",
        "<VAST><a b=\"c\"d=\"e\"/></VAST>",
        "<VAST><a =\"c\"/></VAST>",
        "<VAST><a b=\"c/></VAST>",
        "<VAST>< a/></VAST>",
        "<VAST><1/></VAST>",
        "<VAST></VAST x>",
        "{}",
    ] {
        check_refused(markup, NoBeacon::NotVast);
    }
    let deep = |depth: usize| {
        format!("<VAST>{}{}</VAST>", "<a>".repeat(depth - 1), "</a>".repeat(depth - 1))
    };
    check_refused(&deep(64), NoBeacon::NoAd);
    check_refused(&deep(65), NoBeacon::NotVast);
    check_refused(" ", NoBeacon::Empty);
}

#[test]
fn vast_without_an_ad_is_left_alone() {
    for markup in [
        "<VAST/>",
        "<VAST version=\"3.0\"></VAST>",
        "<VAST><Error>u</Error></VAST>",
        "<VAST><Ad/></VAST>",
        "<VAST><Ad><InLine/></Ad></VAST>",
        "<VAST><Ad><InLine> <!-- <Impression/> --> </InLine></Ad></VAST>",
        "<VAST><InLine><Impression/></InLine></VAST>",
    ] {
        check_refused(markup, NoBeacon::NoAd);
    }
}

#[test]
fn markup_grows_within_bounds() {
    let ads = |count: usize| {
        format!("<VAST>{}</VAST>", "<Ad><InLine><Impression/></InLine></Ad>".repeat(count))
    };
    let marked = add_beacon(MediaType::Video, &ads(vast::ADS_MAX), URL).unwrap();
    assert_eq!(marked.matches(URL).count(), vast::ADS_MAX);
    check_refused(&ads(vast::ADS_MAX + 1), NoBeacon::TooManyAds);
}

#[test]
fn native_markup_gets_a_tracker() {
    let got = add_beacon(MediaType::Native, r#"{"ver":"1.1"}"#, URL);
    assert_eq!(got.as_deref(), Ok(r#"{"ver":"1.1","imptrackers":["https://x.example/n/t"]}"#));
    assert_eq!(add_beacon(MediaType::Native, "<p>", URL), Err(NoBeacon::NotNative));
}

#[test]
fn reasons_have_labels_of_their_own() {
    for (index, why) in NoBeacon::ALL.into_iter().enumerate() {
        assert_eq!(why as usize, index);
        assert_eq!(NoBeacon::ALL.iter().filter(|other| other.label() == why.label()).count(), 1);
    }
}

fn jumble() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<",
        ">",
        "/",
        "!",
        "--",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?",
        "?>",
        "<VAST>",
        "</VAST>",
        "<Ad>",
        "</Ad>",
        "<InLine>",
        "</InLine>",
        "<Wrapper>",
        "</Wrapper>",
        "<Impression/>",
        "<script>",
        "</script>",
        "<body>",
        "</body>",
        "<a b=\"",
        "'",
        "\"",
        "=",
        " ",
        "é",
        "x",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// No markup is lost, and only whole beacons are added.
    #[test]
    fn all_of_the_markup_stays(markup in jumble()) {
        for (format, beacon) in [
            (MediaType::Banner, PIXEL),
            (MediaType::Video, IMPRESSION),
        ] {
            let got = add_beacon(format, &markup, URL);
            if let Ok(got) = got {
                let added = if got.contains(PIXEL) { PIXEL } else { beacon };
                prop_assert_eq!(got.replace(added, ""), markup.clone());
                prop_assert!(got.contains(URL));
            }
        }
    }
}
