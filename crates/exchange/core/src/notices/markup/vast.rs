//! Where to insert an `Impression` in VAST 2 to 4 and DAAST 1: tokenises XML, checked as far as
//! element structure depends on it. Namespaces are known only by their prefix.

use super::no_beacon::NoBeacon;

/// Limit of ads in a document: pods are shorter, and each ad gets a beacon.
pub(super) const ADS_MAX: usize = 16;

/// Limit of nesting: VAST has about ten levels, and its extensions some.
const DEPTH_MAX: usize = 64;

pub(super) fn add_impression(xml: &str, url: &str) -> Result<String, NoBeacon> {
    let places = places(xml)?;
    let beacon =
        |prefix: &str| format!("<{prefix}Impression><![CDATA[{url}]]></{prefix}Impression>");
    let mut out = String::with_capacity(xml.len() + places.len() * (url.len() + 64));
    let mut at = 0;
    for place in places {
        out.push_str(&xml[at..place.at]);
        out.push_str(&beacon(place.prefix));
        at = place.at;
    }
    out.push_str(&xml[at..]);
    Ok(out)
}

#[derive(Debug)]
struct BeaconPosition<'a> {
    at: usize,
    /// Of the surrounding elements, with its colon.
    prefix: &'a str,
}

struct OpenAd<'a> {
    prefix: &'a str,
    /// After its tag.
    start: usize,
    /// Before its first `Impression`.
    impression: Option<usize>,
    /// Before the first element that follows an `Impression` up to VAST 3.
    follower: Option<usize>,
    /// After the last element that precedes an `Impression` in VAST 4.
    leader: Option<usize>,
    is_empty: bool,
}

impl<'a> OpenAd<'a> {
    /// Next to an `Impression`, which every ad must have; otherwise as the schema of its version
    /// requires: up to version 3 before `Creatives` and `Extensions`, in version 4 after
    /// `AdSystem`, `Error` and `Extensions`.
    fn place(&self, end: usize, is_version_4: bool) -> BeaconPosition<'a> {
        let by_schema = if is_version_4 {
            self.leader.unwrap_or(self.start)
        } else {
            self.follower.unwrap_or(end)
        };
        BeaconPosition { at: self.impression.unwrap_or(by_schema), prefix: self.prefix }
    }
}

fn places(xml: &str) -> Result<Vec<BeaconPosition<'_>>, NoBeacon> {
    let mut tokens = XmlTokens { xml, at: 0 };
    let mut walk = VastWalk::default();
    while let Some(token) = tokens.next() {
        match token? {
            XmlToken::Start { name, at, tag, is_empty } => {
                walk.open(name, at, tag, tokens.at)?;
                if is_empty {
                    walk.close(name, tokens.at, tokens.at)?;
                }
            }
            XmlToken::End { name, at } => walk.close(name, at, tokens.at)?,
            XmlToken::Other { is_content } if is_content && walk.stack.is_empty() => {
                return Err(NoBeacon::NotVast);
            }
            XmlToken::Other { .. } => (),
        }
    }
    if !walk.has_root || !walk.stack.is_empty() {
        return Err(NoBeacon::NotVast);
    }
    if walk.places.is_empty() { Err(NoBeacon::NoAd) } else { Ok(walk.places) }
}

#[derive(Default)]
struct VastWalk<'a> {
    has_root: bool,
    is_version_4: bool,
    stack: Vec<&'a str>,
    ad: Option<OpenAd<'a>>,
    places: Vec<BeaconPosition<'a>>,
}

impl<'a> VastWalk<'a> {
    /// Opens the element `name`, whose tag spans `at..end`; `tag` follows the name.
    fn open(&mut self, name: &'a str, at: usize, tag: &str, end: usize) -> Result<(), NoBeacon> {
        let (prefix, local) = split_name(name);
        match (self.stack.len(), &mut self.ad) {
            (0, _) => {
                if self.has_root || !is_root(name) {
                    return Err(NoBeacon::NotVast);
                }
                self.has_root = true;
                self.is_version_4 = local == "VAST" && is_version_4(tag);
            }
            (2, _) if is_ad(local) && split_name(self.stack[1]).1 == "Ad" => {
                self.ad = Some(OpenAd {
                    prefix,
                    start: end,
                    impression: None,
                    follower: None,
                    leader: None,
                    is_empty: true,
                });
            }
            (3, Some(ad)) => {
                ad.is_empty = false;
                match local {
                    "Impression" => drop(ad.impression.get_or_insert(at)),
                    "Creatives" | "Extensions" => drop(ad.follower.get_or_insert(at)),
                    _ => (),
                }
            }
            _ => (),
        }
        if self.stack.len() == DEPTH_MAX {
            return Err(NoBeacon::NotVast);
        }
        self.stack.push(name);
        Ok(())
    }

    /// Closes the element `name`, whose end tag, or tag if it is empty, spans `at..end`.
    fn close(&mut self, name: &str, at: usize, end: usize) -> Result<(), NoBeacon> {
        if self.stack.pop() != Some(name) {
            return Err(NoBeacon::NotVast);
        }
        match (self.stack.len(), &mut self.ad) {
            (3, Some(ad)) if matches!(split_name(name).1, "AdSystem" | "Error" | "Extensions") => {
                ad.leader = Some(end);
            }
            (2, ad) => {
                let Some(ad) = ad.take().filter(|ad| !ad.is_empty) else { return Ok(()) };
                if self.places.len() == ADS_MAX {
                    return Err(NoBeacon::TooManyAds);
                }
                self.places.push(ad.place(at, self.is_version_4));
            }
            _ => (),
        }
        Ok(())
    }
}

fn split_name(name: &str) -> (&str, &str) {
    name.split_at(name.find(':').map_or(0, |colon| colon + 1))
}

fn is_root(name: &str) -> bool {
    matches!(split_name(name).1, "VAST" | "DAAST")
}

fn is_ad(local: &str) -> bool {
    matches!(local, "InLine" | "Wrapper")
}

fn is_version_4(tag: &str) -> bool {
    let is_version = |(name, _): &(&str, &str)| *name == "version";
    let version = attributes(tag).flatten().find(is_version).map(|(_, value)| value);
    let major = version.and_then(|version| version.trim().split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 4)
}

/// The attributes of a tag, after its name. Ends with None at malformed ones.
fn attributes(tag: &str) -> impl Iterator<Item = Option<(&str, &str)>> {
    let mut rest = tag.trim_ascii();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let attribute = split_attribute(rest);
        rest = attribute.map_or("", |(_, after)| after);
        Some(attribute.map(|(attribute, _)| attribute))
    })
}

fn split_attribute(text: &str) -> Option<((&str, &str), &str)> {
    let (name, rest) = text.split_once('=')?;
    let (name, rest) = (name.trim_ascii_end(), rest.trim_ascii_start());
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let (value, after) = rest[1..].split_once(quote)?;
    let is_name = !name.is_empty()
        && !name.contains(|c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\'' | '<'));
    let parted = after.is_empty() || after.starts_with(|c: char| c.is_ascii_whitespace());
    (is_name && parted && !value.contains('<')).then_some(((name, value), after.trim_ascii_start()))
}

enum XmlToken<'a> {
    /// `tag` follows the name; `is_empty` if the element closes at once.
    Start {
        name: &'a str,
        at: usize,
        tag: &'a str,
        is_empty: bool,
    },
    End {
        name: &'a str,
        at: usize,
    },
    /// Text, CDATA, comments and instructions; whether only allowed within an element.
    Other {
        is_content: bool,
    },
}

/// Tokenises XML. Ignore what follows an error.
struct XmlTokens<'a> {
    xml: &'a str,
    at: usize,
}

impl<'a> XmlTokens<'a> {
    fn token(&mut self) -> Option<XmlToken<'a>> {
        let start = self.at;
        let rest = &self.xml[start..];
        if !rest.starts_with('<') {
            self.at += memchr::memchr(b'<', rest.as_bytes()).unwrap_or(rest.len());
            let text = &self.xml[start..self.at];
            let text = if start == 0 { text.trim_start_matches('\u{feff}') } else { text };
            return Some(XmlToken::Other { is_content: !text.trim_ascii().is_empty() });
        }
        for (opens, closes, is_content) in
            [("<!--", "-->", false), ("<![CDATA[", "]]>", true), ("<?", "?>", false)]
        {
            if let Some(inside) = rest.strip_prefix(opens) {
                let length = memchr::memmem::find(inside.as_bytes(), closes.as_bytes())?;
                self.at += opens.len() + length + closes.len();
                return Some(XmlToken::Other { is_content });
            }
        }
        // Includes `<!`: a document type could define entities that contain tags.
        let end = self.tag_end()?;
        let inside = &rest[1..end - start - 1];
        self.at = end;
        if let Some(name) = inside.strip_prefix('/') {
            let name = name.trim_ascii_end();
            return is_name(name).then_some(XmlToken::End { name, at: start });
        }
        let (inside, is_empty) = match inside.strip_suffix('/') {
            Some(inside) => (inside, true),
            None => (inside, false),
        };
        let name_end = inside.find(|c: char| c.is_ascii_whitespace()).unwrap_or(inside.len());
        let (name, tag) = inside.split_at(name_end);
        (is_name(name) && attributes(tag).all(|attribute| attribute.is_some()))
            .then_some(XmlToken::Start { name, at: start, tag, is_empty })
    }

    fn tag_end(&self) -> Option<usize> {
        let bytes = self.xml.as_bytes();
        let mut at = self.at;
        loop {
            at += memchr::memchr3(b'>', b'"', b'\'', &bytes[at..])?;
            match bytes[at] {
                b'>' => return Some(at + 1),
                quote => at += 1 + memchr::memchr(quote, &bytes[at + 1..])? + 1,
            }
        }
    }
}

impl<'a> Iterator for XmlTokens<'a> {
    type Item = Result<XmlToken<'a>, NoBeacon>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.at < self.xml.len()).then(|| self.token().ok_or(NoBeacon::NotVast))
    }
}

fn is_name(name: &str) -> bool {
    let is_start = |c: char| c.is_alphabetic() || c == '_';
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    name.starts_with(is_start) && name.chars().all(is_part)
}
