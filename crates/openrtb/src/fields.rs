//! The JSON types of a request's fields (OpenRTB 2.6, section 3.2), checked once over its text.
//!
//! Fields that rules read are not in the table: their parser checks them. A field of the table that
//! has another type is removed from what goes out, or makes the request invalid where privacy or
//! money depends on it. What the standard does not name is passed on, whatever it is.

use std::fmt;
use std::ops::Range;

use crate::json::{DEPTH_MAX, described, too_deep};
use crate::key_values::{nested_len, string_len, value_len};
use crate::members::string;
use crate::{Invalid, Reason};

/// Most fields of a wrong type that one request may have.
pub const MISTYPED_MAX: usize = 256;

/// A type of the standard's, as JSON has it.
#[derive(Clone, Copy)]
enum JsonType {
    Text,
    /// A number without a fraction, which JSON may write as `300.0`.
    Whole,
    Number,
    /// An object whose members are not looked at.
    Ext,
    /// An object with these members.
    Object(Members),
    /// The same, and where it stands is noted.
    Placed(Members, Place),
    Texts,
    Wholes,
    /// An array of objects with these members, so many of them required.
    Objects(Members, usize),
}

/// Objects of the request that edits reach into.
#[derive(Clone, Copy)]
enum Place {
    User,
    Source,
}

/// What the table says of a member.
#[derive(Clone, Copy)]
enum Member {
    /// Removed if it has another type.
    Optional(JsonType),
    /// The same, and its object is of no use without it.
    Required(JsonType),
    /// The request is invalid if it has another type.
    Decisive(JsonType),
    /// For one buyer alone: never passed on as it is.
    Private,
    /// Passed on whatever it is, or checked where it is parsed.
    Any,
}

type Members = fn(&[u8]) -> Member;

use JsonType::{Ext, Number, Object, Objects, Placed, Text, Texts, Whole, Wholes};
use Member::{Any, Decisive, Optional, Private, Required};

fn bid_request(key: &[u8]) -> Member {
    match key {
        b"imp" => Decisive(Objects(imp, 0)),
        b"site" | b"app" | b"dooh" => Decisive(Object(media)),
        b"device" => Decisive(Object(device)),
        b"user" => Decisive(Placed(user, Place::User)),
        b"source" => Decisive(Placed(source, Place::Source)),
        b"regs" => Decisive(Object(regs)),
        b"allimps" => Optional(Whole),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn source(key: &[u8]) -> Member {
    match key {
        b"fd" => Optional(Whole),
        b"tid" | b"pchain" => Optional(Text),
        b"schain" => Decisive(Object(supply_chain)),
        b"ext" => Decisive(Object(source_ext)),
        _ => Any,
    }
}

fn source_ext(key: &[u8]) -> Member {
    if key == b"schain" { Decisive(Object(supply_chain)) } else { Any }
}

fn supply_chain(key: &[u8]) -> Member {
    match key {
        b"complete" => Decisive(Whole),
        b"nodes" => Decisive(Objects(supply_chain_node, 0)),
        b"ver" => Decisive(Text),
        b"ext" => Decisive(Ext),
        _ => Any,
    }
}

fn supply_chain_node(key: &[u8]) -> Member {
    match key {
        b"asi" | b"sid" | b"rid" | b"name" | b"domain" => Decisive(Text),
        b"hp" => Decisive(Whole),
        b"ext" => Decisive(Ext),
        _ => Any,
    }
}

fn regs(key: &[u8]) -> Member {
    match key {
        b"coppa" | b"gdpr" => Decisive(Whole),
        b"us_privacy" | b"gpp" => Decisive(Text),
        b"gpp_sid" => Decisive(Wholes),
        b"ext" => Decisive(Object(regs)), // Where OpenRTB 2.5 had all but `coppa`.
        _ => Any,
    }
}

fn imp(key: &[u8]) -> Member {
    match key {
        b"metric" => Optional(Objects(metric, 2)),
        b"banner" => Decisive(Object(banner)),
        b"video" | b"audio" => Decisive(Object(video)),
        b"native" => Decisive(Object(native)),
        b"pmp" => Decisive(Object(pmp)),
        b"qty" => Decisive(Object(qty)),
        b"displaymanager" | b"displaymanagerver" | b"tagid" => Optional(Text),
        b"clickbrowser" | b"rwdd" => Optional(Whole),
        b"dt" => Optional(Number),
        b"iframebuster" => Optional(Texts),
        b"refresh" => Optional(Object(refresh)),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn metric(key: &[u8]) -> Member {
    match key {
        b"type" => Required(Text),
        b"value" => Required(Number),
        b"vendor" => Optional(Text),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn banner(key: &[u8]) -> Member {
    match key {
        b"format" => Decisive(Objects(format, 0)),
        b"pos" | b"topframe" | b"vcm" => Optional(Whole),
        b"expdir" | b"api" => Optional(Wholes),
        b"mimes" => Optional(Texts),
        b"id" => Optional(Text),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn format(key: &[u8]) -> Member {
    if key == b"ext" { Optional(Ext) } else { Any }
}

/// `video` and `audio`, whose own members do not contradict each other.
fn video(key: &[u8]) -> Member {
    match key {
        b"durfloors" => Decisive(Objects(dur_floors, 0)),
        b"companionad" => Optional(Objects(companion, 0)),
        b"podid" => Optional(Text),
        b"startdelay" | b"maxseq" | b"w" | b"h" | b"podseq" | b"placement" | b"plcmt"
        | b"linearity" | b"skip" | b"skipmin" | b"skipafter" | b"sequence" | b"slotinpod"
        | b"maxextended" | b"minbitrate" | b"maxbitrate" | b"boxingallowed" | b"playbackend"
        | b"pos" | b"feed" | b"stitched" | b"nvol" => Optional(Whole),
        b"protocols" | b"playbackmethod" | b"delivery" | b"api" | b"companiontype"
        | b"poddedupe" => Optional(Wholes),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

/// A banner that no rule reads.
fn companion(key: &[u8]) -> Member {
    match key {
        b"format" => Optional(Objects(companion, 0)),
        b"w" | b"h" | b"wratio" | b"hratio" | b"wmin" => Optional(Whole),
        b"btype" | b"battr" => Optional(Wholes),
        _ => banner(key),
    }
}

fn dur_floors(key: &[u8]) -> Member {
    if key == b"ext" { Optional(Ext) } else { Any }
}

fn native(key: &[u8]) -> Member {
    match key {
        b"ver" => Optional(Text),
        b"api" => Optional(Wholes),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn pmp(key: &[u8]) -> Member {
    match key {
        b"deals" => Decisive(Objects(deal, 0)),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn deal(key: &[u8]) -> Member {
    match key {
        b"guar" => Optional(Whole),
        b"durfloors" => Decisive(Objects(dur_floors, 0)),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn qty(key: &[u8]) -> Member {
    match key {
        b"sourcetype" => Optional(Whole),
        b"vendor" => Optional(Text),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn refresh(key: &[u8]) -> Member {
    match key {
        b"refsettings" => Optional(Objects(refresh, 0)),
        b"count" | b"reftype" | b"minint" => Optional(Whole),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

/// `site`, `app` and `dooh`, whose own members do not contradict each other.
fn media(key: &[u8]) -> Member {
    match key {
        b"publisher" => Decisive(Object(company)),
        b"id"
        | b"name"
        | b"page"
        | b"ref"
        | b"search"
        | b"keywords"
        | b"inventorypartnerdomain"
        | b"storeurl"
        | b"ver" => Optional(Text),
        b"cattax" | b"mobile" | b"privacypolicy" | b"paid" | b"venuetypetax" => Optional(Whole),
        b"cat" | b"sectioncat" | b"pagecat" | b"kwarray" | b"venuetype" => Optional(Texts),
        b"content" => Optional(Object(content)),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

/// Publishers, producers, networks and channels.
fn company(key: &[u8]) -> Member {
    match key {
        b"name" | b"domain" => Optional(Text),
        b"cattax" => Optional(Whole),
        b"cat" => Optional(Texts),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn producer(key: &[u8]) -> Member {
    if key == b"id" { Optional(Text) } else { company(key) }
}

fn content(key: &[u8]) -> Member {
    match key {
        b"id" | b"title" | b"series" | b"season" | b"artist" | b"genre" | b"album" | b"isrc"
        | b"url" | b"contentrating" | b"userrating" | b"keywords" | b"language" | b"langb" => {
            Optional(Text)
        }
        b"episode"
        | b"cattax"
        | b"prodq"
        | b"context"
        | b"qagmediarating"
        | b"sourcerelationship"
        | b"len"
        | b"embeddable"
        | b"gtax"
        | b"livestream"
        | b"realtime"
        | b"firstbroadcast" => Optional(Whole),
        b"cat" | b"kwarray" => Optional(Texts),
        b"producer" | b"network" | b"channel" => Optional(Object(producer)),
        b"data" => Optional(Objects(data, 0)),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn device(key: &[u8]) -> Member {
    match key {
        b"geo" => Decisive(Object(geo)),
        b"sua" => Optional(Object(user_agent)),
        b"h" | b"w" | b"ppi" | b"js" | b"geofetch" | b"connectiontype" => Optional(Whole),
        b"pxratio" => Optional(Number),
        b"ua" | b"ip" | b"ipv6" | b"make" | b"model" | b"os" | b"osv" | b"hwv" | b"flashver"
        | b"language" | b"langb" | b"carrier" | b"mccmnc" | b"didsha1" | b"didmd5"
        | b"dpidsha1" | b"dpidmd5" | b"macsha1" | b"macmd5" => Optional(Text),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn user_agent(key: &[u8]) -> Member {
    match key {
        b"browsers" => Optional(Objects(brand_version, 1)),
        b"platform" => Optional(Object(brand_version)),
        b"mobile" | b"source" => Optional(Whole),
        b"architecture" | b"bitness" | b"model" => Optional(Text),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn brand_version(key: &[u8]) -> Member {
    match key {
        b"brand" => Required(Text),
        b"version" => Optional(Texts),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn geo(key: &[u8]) -> Member {
    match key {
        b"lat" | b"lon" => Optional(Number),
        b"type" | b"accuracy" | b"lastfix" | b"ipservice" | b"utcoffset" => Optional(Whole),
        b"regionfips104" | b"metro" | b"city" | b"zip" => Optional(Text),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn user(key: &[u8]) -> Member {
    match key {
        b"buyeruid" => Private,
        b"consent" => Decisive(Text),
        b"eids" => Decisive(Objects(eid, 0)),
        b"ext" => Decisive(Object(user_ext)),
        b"yob" => Optional(Whole),
        b"gender" | b"keywords" | b"customdata" => Optional(Text),
        b"kwarray" => Optional(Texts),
        b"geo" => Optional(Object(geo)),
        b"data" => Optional(Objects(data, 0)),
        _ => Any,
    }
}

fn user_ext(key: &[u8]) -> Member {
    match key {
        b"consent" => Decisive(Text),
        b"eids" => Decisive(Objects(eid, 0)),
        b"buyeruids" => Private,
        b"prebid" => Decisive(Object(user_ext_prebid)),
        _ => Any,
    }
}

fn user_ext_prebid(key: &[u8]) -> Member {
    if key == b"buyeruids" { Private } else { Any }
}

fn eid(key: &[u8]) -> Member {
    match key {
        b"inserter" | b"source" | b"matcher" => Optional(Text),
        b"mm" => Optional(Whole),
        b"uids" => Optional(Objects(uid, 0)),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn uid(key: &[u8]) -> Member {
    match key {
        b"id" => Optional(Text),
        b"atype" => Optional(Whole),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn data(key: &[u8]) -> Member {
    match key {
        b"id" | b"name" | b"value" => Optional(Text),
        b"cids" => Optional(Texts),
        b"segment" => Optional(Objects(data, 0)),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

/// What is found on the way through a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    /// Members that are not passed on, with the commas that go with them, in order and apart.
    pub(crate) removals: Vec<Range<usize>>,
    /// Where members of a wrong type stand.
    pub(crate) mistyped: Vec<String>,
    /// Where `user` stands, unless it is absent or null.
    pub(crate) user: Option<Range<usize>>,
    /// Where `source` stands, unless it is absent or null.
    pub(crate) source: Option<Range<usize>>,
}

/// Goes through `body`, a JSON object.
pub(crate) fn survey(body: &str) -> Result<Survey, Invalid> {
    let mut walk = Walk {
        text: body,
        bytes: body.as_bytes(),
        at: 0,
        depth: 0,
        deepest: 0,
        found: Survey::default(),
    };
    walk.skip_space();
    walk.object(bid_request, 0, &Path::Root)?;
    if walk.deepest > DEPTH_MAX { Err(too_deep()) } else { Ok(walk.found) }
}

/// Where a value stands in the request.
#[derive(Clone, Copy)]
enum Path<'p> {
    Root,
    Member(&'p Path<'p>, &'p [u8]),
    Element(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(Self::Root, key) => f.write_str(&String::from_utf8_lossy(key)),
            Self::Member(of, key) => write!(f, "{of}.{}", String::from_utf8_lossy(key)),
            Self::Element(of, index) => write!(f, "{of}[{index}]"),
        }
    }
}

/// Goes through text that a parser has found to be JSON, within its limit of nesting.
struct Walk<'t> {
    text: &'t str,
    /// The same.
    bytes: &'t [u8],
    at: usize,
    /// Objects and arrays that are open.
    depth: usize,
    /// Most that were.
    deepest: usize,
    found: Survey,
}

impl<'t> Walk<'t> {
    /// Goes through an object; an error if it is none, or if it lacks required members.
    fn object(&mut self, table: Members, required: usize, path: &Path<'_>) -> Result<(), Invalid> {
        self.open(b'{', "an object", path)?;
        let (mut required_left, mut has_kept) = (required, false);
        let mut comma = self.at;
        while self.byte() != b'}' {
            let mut start = self.at;
            if self.byte() == b',' {
                comma = start;
                self.at += 1;
                self.skip_space();
                start = self.at;
            }
            let (key, member) = self.key(table);
            let is_kept = match member {
                Optional(json) if self.is_scalar(json) => self.skip_value() > 0,
                Any => self.skip_value() > 0,
                Private => self.skip_value() == 0,
                Decisive(json) => self.value(json, &Path::Member(path, key)).map(|()| true)?,
                Optional(json) | Required(json) => {
                    let (value, known) = (self.at, self.found.removals.len());
                    let depth = self.depth;
                    let misfit = self.value(json, &Path::Member(path, key)).err();
                    if misfit.is_some() {
                        // What was removed within it goes with it.
                        self.found.removals.truncate(known);
                        (self.at, self.depth) = (value, depth);
                        self.skip_value();
                    }
                    let is_kept = misfit.is_none();
                    misfit.map_or(Ok(()), |misfit| self.note(misfit))?;
                    is_kept
                }
            };
            if is_kept {
                has_kept = true;
                required_left -= usize::from(matches!(member, Required(_)) && required_left > 0);
            } else {
                self.remove(if has_kept { comma } else { start }, has_kept);
            }
            self.skip_space();
        }
        self.at += 1;
        self.depth -= 1;
        if required_left > 0 {
            let problem = "lacks a required field";
            return Err(Invalid::at(Reason::WrongType, path.to_string(), problem));
        }
        Ok(())
    }

    /// Notes a member of a wrong type.
    #[cold]
    fn note(&mut self, misfit: Invalid) -> Result<(), Invalid> {
        self.found.mistyped.push(misfit.path);
        if self.found.mistyped.len() > MISTYPED_MAX {
            let problem = format!("more than {MISTYPED_MAX} fields of a wrong type");
            return Err(Invalid::at(Reason::TooMany, "", problem));
        }
        Ok(())
    }

    /// Removes the member from `start` on, which has just been read: with the comma before it, or,
    /// where nothing that is kept stands before it, with the one behind it.
    fn remove(&mut self, start: usize, has_kept: bool) {
        let mut end = self.at;
        if !has_kept {
            self.skip_space();
            end = if self.byte() == b',' { self.at + 1 } else { end };
        }
        self.found.removals.push(start..end);
    }

    /// Whether a value of the simplest types, which most are of, begins here.
    #[inline]
    fn is_scalar(&self, json: JsonType) -> bool {
        match json {
            Text => self.byte() == b'"',
            Ext => self.byte() == b'{',
            _ => false,
        }
    }

    /// Goes through a value, to behind it; an error if it is of another type.
    fn value(&mut self, json: JsonType, path: &Path<'_>) -> Result<(), Invalid> {
        let (start, first) = (self.at, self.byte());
        if first == b'n' {
            self.at += "null".len();
            return Ok(());
        }
        let is_number = first.is_ascii_digit() || first == b'-';
        let (fits, expected) = match json {
            Text => (first == b'"', "a string"),
            Ext => (first == b'{', "an object"),
            Number => (is_number, "a number"),
            Whole => (is_number, "a whole number"),
            Object(table) => return self.object(table, 0, path),
            Placed(table, place) => {
                self.object(table, 0, path)?;
                let place = match place {
                    Place::User => &mut self.found.user,
                    Place::Source => &mut self.found.source,
                };
                *place = Some(start..self.at);
                return Ok(());
            }
            Objects(table, required) => {
                return self.list(path, |walk, path| walk.object(table, required, path));
            }
            Texts => return self.list(path, |walk, path| walk.value(Text, path)),
            Wholes => return self.list(path, |walk, path| walk.value(Whole, path)),
        };
        self.skip_value();
        if fits && (!matches!(json, Whole) || is_whole(&self.bytes[start..self.at])) {
            return Ok(());
        }
        Err(self.misfit(start, expected, path))
    }

    fn list(
        &mut self,
        path: &Path<'_>,
        each: impl Fn(&mut Self, &Path<'_>) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        self.open(b'[', "an array", path)?;
        let mut index = 0;
        while self.byte() != b']' {
            each(self, &Path::Element(path, index))?;
            index += 1;
            self.skip_space();
            if self.byte() == b',' {
                self.at += 1;
                self.skip_space();
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    #[inline]
    fn open(&mut self, bracket: u8, expected: &str, path: &Path<'_>) -> Result<(), Invalid> {
        if self.byte() != bracket {
            let start = self.at;
            self.skip_value();
            return Err(self.misfit(start, expected, path));
        }
        self.at += 1;
        self.depth += 1;
        self.skip_space();
        Ok(())
    }

    /// The next key, with what the table says of it; stops at its value.
    #[inline]
    fn key(&mut self, table: Members) -> (&'t [u8], Member) {
        let (bytes, start) = (self.bytes, self.at);
        self.at += string_len(&bytes[start..]);
        let key = &bytes[start + 1..(self.at - 1).max(start + 1)];
        self.skip_space();
        self.at += 1; // The colon.
        self.skip_space();
        match table(key) {
            // Behind an escape it may be one of the table all the same.
            Any if key.contains(&b'\\') => {
                let quoted = &self.text[start..start + key.len() + 2];
                (key, string(quoted).map_or(Any, |key| table(key.as_bytes())))
            }
            member => (key, member),
        }
    }

    /// A value that began at `start` and has been gone through is not what is expected.
    #[cold]
    fn misfit(&self, start: usize, expected: &str, path: &Path<'_>) -> Invalid {
        let problem = format!("{}, expected {expected}", described(&self.text[start..self.at]));
        Invalid::at(Reason::WrongType, path.to_string(), problem)
    }

    /// How long the value was.
    #[inline]
    fn skip_value(&mut self) -> usize {
        let rest = &self.bytes[self.at..];
        let length = match self.byte() {
            b'{' | b'[' => {
                let (length, deepest) = nested_len(rest);
                self.deepest = self.deepest.max(self.depth + deepest);
                length
            }
            _ => value_len(rest),
        };
        self.at += length;
        length
    }

    #[inline]
    fn skip_space(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// The next byte; that of a closing bracket at the end, where no JSON ends otherwise.
    #[inline]
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b'}')
    }
}

/// Whether a number has no fraction.
#[inline]
fn is_whole(number: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    number.iter().all(is_plain) || {
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        number.is_some_and(|number: f64| number.fract() == 0.0)
    }
}

#[cfg(test)]
mod tests;
