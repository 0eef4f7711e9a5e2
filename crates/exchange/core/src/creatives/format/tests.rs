//! The syntax of markup, however it begins, and its media.

use super::*;

#[test]
fn the_beginning_of_markup_tells_its_syntax() {
    for (markup, want) in [
        ("<VAST version='4.0'>", Syntax::Vast),
        ("<VAST>", Syntax::Vast),
        ("<VAST/>", Syntax::Vast),
        ("<v:VAST\txmlns:v='u'>", Syntax::Vast),
        ("<DAAST version='1.0'>", Syntax::Daast),
        ("\u{feff} \n<?xml version='1.0'?>\n<!-- <p> -->\n<VAST>", Syntax::Vast),
        (r#""<?xml version=\"1.0\"?>\r\n\t<VAST version=\"3.0\">""#, Syntax::Vast),
        (r#""\ufeff<VAST\n version=\"3.0\">""#, Syntax::Vast),
        (r#""<VAST\/>""#, Syntax::Vast),
        (" {\"native\":{}}", Syntax::Json),
        (r#""\n{\"native\":{}}""#, Syntax::Json),
        ("<VASTER>", Syntax::Html),
        ("<vast>", Syntax::Html),
        ("<!DOCTYPE html><VAST>", Syntax::Html),
        ("<p><VAST>", Syntax::Html),
        ("<!-- <VAST>", Syntax::Html),
        ("<?xml", Syntax::Html),
        ("text", Syntax::Html),
        ("<", Syntax::Html),
        ("", Syntax::Blank),
        ("\" \\n\"", Syntax::Blank),
    ] {
        assert_eq!(Syntax::of(markup), want, "{markup}");
    }
}

#[test]
fn media_files_tell_video_from_audio() {
    let (video, audio) = (Some(MediaType::Video), Some(MediaType::Audio));
    for (vast, want) in [
        ("<VAST><MediaFile type='video/mp4'>", video),
        ("<VAST><MediaFile\n id=\"a\" type = \"Video/MP4\" >", video),
        (r#""<VAST><MediaFile\n id=\"a\" type=\"audio\/mpeg\">"#, audio),
        ("<VAST><v:MediaFile type='audio/mp4'><v:MediaFile type='video/mp4'>", video),
        ("<VAST><MediaFiles><MediaFile type='application/javascript'>", None),
        ("<VAST><MediaFiles type='video/mp4'>", None),
        ("<VAST><MediaFile id='a'>type='video/mp4'", None),
        ("<VAST><MediaFile type=>", None),
        ("<VAST><MediaFile", None),
        ("MediaFile type='video/mp4'", None),
        ("<VAST><Wrapper>", None),
    ] {
        assert_eq!(media_of(vast), want, "{vast}");
    }
}

/// Even without any closed tag.
#[test]
fn no_byte_of_media_files_is_looked_at_twice() {
    for tag in ["<MediaFile ", "<MediaFile type=", "<MediaFile type=\"x/y\">a</MediaFile>"] {
        let vast = tag.repeat(1000);
        let looked_at: usize = media_file_tags(vast.as_bytes()).map(<[u8]>::len).sum();
        assert!(0 < looked_at && looked_at < vast.len(), "{looked_at} of {}: {tag}", vast.len());
    }
}
