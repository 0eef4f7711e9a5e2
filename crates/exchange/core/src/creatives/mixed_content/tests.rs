//! Markup that loads over plain HTTP, and markup that only looks like it.

use super::*;

#[track_caller]
fn check(markup: &str, want: bool) {
    assert_eq!(is_insecure(markup), want, "{markup}");
    // As JSON text, with and without escaped slashes.
    let json = format!("\"{}\"", openrtb::escaped(markup));
    assert_eq!(is_insecure(&json), want, "{json}");
    let json = json.replace('/', r"\/");
    assert_eq!(is_insecure(&json), want, "{json}");
}

#[test]
fn tags_load_what_their_attributes_say() {
    for markup in [
        "<img src=\"http://x/i.png\">",
        "<img src='HTTP://x/i.png'>",
        "<img src=http://x/i.png>",
        "<p><img alt='a>b' class=c SRC = ' http://x'></p>",
        "<a href=\"http://x\"><img src=\"http://y\"></a>",
        "<link rel=\"stylesheet\" href=\"http://x/a.css\">",
        "<image xlink:href='http://x'>",
        "<video poster='http://x'>",
        "<img srcset='https://x 1x, http://y 2x'>",
        "<p style=\"background:url( http://x )\">",
        "<p onclick=\"new Image().src='http://x'\">",
        "<iframe srcdoc='&lt;img src=&quot;http://x&quot;&gt;'>",
        "<meta http-equiv=refresh content='0;url=http://x'>",
        "<noscript><img src='http://x'></noscript>",
        "<script>load('http://x')</script>",
        "<script>w(\"<img src=http://x>\")</script>",
        "<script>w(\"<img src=\\\"http://x\\\">\")</script>",
        "<style>p{background:url(http://x)}</style>",
        "<style>@import \"http://x\";</style>",
        "<script src='https://x'></script><script src='http://x'></script>",
        // As in browsers: character references, no tabs and line ends, any slashes.
        "<img src=\"http:&#x2F;&#x2F;x\">",
        "<img src='&#104;ttp&#58//x'>",
        "<img src='ht&#10;tp://x'>",
        "<img src='ht\n\ttp:\n//x'>",
        "<img src='http:/x'>",
        "<img src='http:\\\\x'>",
        "<img srcset='https://x 1x,&#32;http://y 2x'>",
        "<p onclick=\"new Image().src=&quot;http://x&quot;\">",
        "<p style='background:url(&apos;http://x&apos;)'>",
        "<script>if (location == \"http://x\") f()</script>",
        "<script>img.href = 'http://x'; imgLocation = 'http://x'</script>",
        "<script>xhr.open('GET', 'http://x')</script>",
    ] {
        check(markup, true);
    }
}

#[test]
fn what_is_followed_named_or_read_loads_nothing() {
    let long = format!("<a {} href='http://x'>", "x ".repeat(4096));
    for markup in [
        "<img src=\"https://a/?u=http://b/\">",
        "<img src=https://a/?u=http://b/>",
        "<img srcset='https://a/?u=http://b 1x'>",
        "<a href=\"https://a/?u=http://b\">",
        "<a href=\"http://x\">",
        "<a class='b' HREF = 'http://x'>",
        "<area href=http://x>",
        "<svg><a xlink:href='http://x'></svg>",
        &long,
        "see http: the protocol, or http://x",
        "<p>see http://x</p><p>http://x</p>",
        "<p title='http://x' data-click='http://x'>",
        "<!-- <img src='http://x'> -->",
        "<textarea><img src='http://x'></textarea>",
        "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0//EN\" \"http://www.w3.org/x.dtd\">",
        "<svg xmlns=\"http://www.w3.org/2000/svg\">",
        "<meta property='og:url' content='http://x'>",
        "<script>load('https://a/?u=http://b')</script>",
        "<script>// see http://x</script>",
        "<script>createElementNS('http://www.w3.org/2000/svg')</script>",
        "<script>w(\"<a href='http://x'>\")</script>",
        "<script>var clickTag = \"http://x\", clickTAG2='http://x'</script>",
        "<script>mraid.open('http://x');window.open( \"http://x\" )</script>",
        "<script>top.location = 'http://x';window.location.href='http://x'</script>",
        "<p onclick=\"window.open(&quot;http://x&quot;)\">",
        "<img alt='&#72;' src='https://x/?a=1&amp;u=http://y'>",
        "<script>if (location.protocol == \"http:\") f()</script>",
        "<script type='application/ld+json'>{\"@context\":\"http://schema.org\"}</script>",
        "<style>p{background:url(https://a/?u=http://b)}</style>",
        "<img src='http://x",
        "http://x",
    ] {
        check(markup, false);
    }
}

#[test]
fn players_load_what_stands_in_vast() {
    for (vast, want) in [
        ("<MediaFile><![CDATA[http://x/v.mp4]]></MediaFile>", true),
        ("<MediaFile>\n  <![CDATA[ http://x/v.mp4 ]]></MediaFile>", true),
        ("<Impression>http://x</Impression>", true),
        ("<ClickTracking><![CDATA[http://x]]></ClickTracking>", true),
        ("<v:VASTAdTagURI>http://x</v:VASTAdTagURI>", true),
        ("<HTMLResource><![CDATA[<img src='http://x'>]]></HTMLResource>", true),
        ("<AdParameters><![CDATA[{\"u\":\"http://x\"}]]></AdParameters>", true),
        ("<AdParameters/><MediaFile><![CDATA[http://x/v.mp4]]></MediaFile>", true),
        ("<AdParameters\n/><script /><style/><Impression>http://x</Impression>", true),
        ("<AdParameters><MediaFile><![CDATA[http://x]]></MediaFile>", true),
        ("<HTMLResource>&lt;img src=&quot;http://x&quot;&gt;</HTMLResource>", true),
        ("<Impression>http:&#x2F;&#47;x</Impression>", true),
        (
            "<AdParameters xmlEncoded=\"true\">{&quot;u&quot;:&quot;http://x&quot;}</AdParameters>",
            true,
        ),
        ("<AdParameters><![CDATA[<c><video>http://x/v.mp4</video></c>]]></AdParameters>", true),
        ("<AdParameters><c><video>http://x/v.mp4</video></c></AdParameters>", true),
        ("<AdParameters><![CDATA[img=a.png&video=http://x]]></AdParameters>", true),
        ("<AdParameters><![CDATA[img=https://a&video=http://x]]></AdParameters>", true),
        ("<AdParameters>http://x/parameters.json</AdParameters>", true),
        ("<Impression><!-- a --><![CDATA[http://x]]></Impression>", true),
        ("<Impression> <!-- a --> http://x</Impression>", true),
        ("<HTMLResource><![CDATA[<p><!-- a]]></HTMLResource><Error>http://x</Error>", true),
        ("<HTMLResource><![CDATA[<p id=\"a]]></HTMLResource><Error>http://x</Error>", true),
        ("<HTMLResource><![CDATA[<script>a]]></HTMLResource><Error>http://x</Error>", true),
        ("<!-- <Error><![CDATA[http://x]]></Error><Error>http://x</Error> -->", false),
        ("<HTMLResource>&lt;a href=&quot;http://x&quot;&gt;</HTMLResource>", false),
        ("<AdParameters><![CDATA[{u:https://a/?b=http://c}]]></AdParameters>", false),
        ("<AdParameters><![CDATA[<ClickThrough>http://x</ClickThrough>]]></AdParameters>", false),
        ("<AdParameters>{\"clickTag\":\"https://x\"}</AdParameters>", false),
        ("<Impression>https://a/?u=http://b</Impression>", false),
        ("<MediaFile>\n  <![CDATA[ https://x/v.mp4 ]]></MediaFile>", false),
        ("<ClickThrough>http://x</ClickThrough>", false),
        ("<ClickThrough id=\"a\">\n <![CDATA[ http://x ]]></ClickThrough>", false),
        ("<CompanionClickThrough><![CDATA[http://x]]></CompanionClickThrough>", false),
        ("<AdTitle>http://x</AdTitle><Description>see http://x</Description>", false),
        ("<AdParameters>{\"u\":\"https://a/?u=http://b\"}</AdParameters>", false),
        ("<Category authority=\"http://x\">1</Category>", false),
        ("<!-- http://x -->", false),
    ] {
        check(&format!("<VAST version='4.0'>{vast}</VAST>"), want);
        check(&format!("<DAAST version='1.0'>{vast}</DAAST>"), want);
    }
    check(
        "<VAST xmlns=\"http://w3\" xmlns:xsi=\"http://w3\" xsi:schemaLocation=\"http://x\">",
        false,
    );
}

#[test]
fn native_markup_loads_its_assets_and_trackers() {
    for (native, want) in [
        (r#"{"img":{"url":"http://x"}}"#, true),
        (r#"{"native":{"assets":[{"img":{"url":"http://x"}}]}}"#, true),
        (r#"{"imptrackers":["https://x","http://x"]}"#, true),
        (r#"{"eventtrackers":[{"event":1,"url":"http://x"}]}"#, true),
        (r#"{"link":{"url":"https://x","clicktrackers":["http://x"]}}"#, true),
        (r#"{"jstracker":"<script src='http://x'></script>"}"#, true),
        (r#"{"video":{"vasttag":"<VAST><Error>http://x</Error></VAST>"}}"#, true),
        // White space and a byte order mark before markup; the first of equal keys.
        (r#"{"jstracker":" \n<script src='http://x'></script>"}"#, true),
        (r#"{"video":{"vasttag":"\ufeff<VAST><Error>http://x</Error></VAST>"}}"#, true),
        (r#"{"video":{"vasttag":"<DAAST><Error>http://x</Error></DAAST>"}}"#, true),
        (r#"{"img":{"url":"http://x","url":"https://x"}}"#, true),
        (r#"{"img":{"url":"\ufeffhttp://x"}}"#, true),
        (r#"{"link":{"url":"http://x","fallback":"http://x"}}"#, false),
        (r#"{"title":{"text":"see http://b"}}"#, false),
        (r#"{"data":{"value":"http://b"}}"#, false),
        (r#"{"img":{"url":"https://a/?u=http://b"}}"#, false),
        (r#"{"privacy":"http://x"}"#, false),
        (r#"{"video":{"vasttag":"<VAST><ClickThrough>http://x</ClickThrough></VAST>"}}"#, false),
    ] {
        check(native, want);
        assert_eq!(is_insecure(&native.replace('/', r"\/")), want, "{native}");
    }
    check("{ <img src='http://x'>", true);
}

/// A lone surrogate makes it JSON that we cannot decode, but a browser may.
#[test]
fn what_cannot_be_unescaped_is_searched_as_it_is() {
    for insecure in [
        r#""\ud83d<img src=\"http:\/\/x\">""#,
        r#"{"title":{"text":"\ud83d"},"img":{"url":"http:\/\/x"}}"#,
        r#"{"title":{"text":"\ud83d"},"img":{"url":"http://x"}}"#,
        r#""{\"title\":{\"text\":\"\ud83d\"},\"img\":{\"url\":\"http:\/\/x\"}}""#,
    ] {
        assert!(is_insecure(insecure), "{insecure}");
    }
    assert!(!is_insecure(r#"{"title":{"text":"\ud83d http://x"}}"#));
}
