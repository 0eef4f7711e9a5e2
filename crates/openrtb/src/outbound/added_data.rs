//! Data that the exchange adds to a request, in places that the request may lack.

use std::ops::Range;

use super::{Editor, PieceGate};
use crate::json::span_of;
use crate::members::{entries, named, string};
use crate::request::BidRequest;

/// A place for data in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPlace {
    /// `user.data`. DSPs with a limited view do not get what is added.
    UserData,
    /// `content.data` of `site`, `app` or `dooh`.
    ContentData,
    /// A member of `ext`, by its path.
    Ext(&'static [&'static str]),
}

/// Where data goes in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSpot(Spot);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Spot {
    /// Into this array.
    Array(Range<usize>),
    /// Into this object, which lacks the first of these members.
    Object(Range<usize>, DataPath),
    /// Instead of this null, with members that it would have had.
    Null(Range<usize>, DataPath),
}

/// Names of members, down to the data.
type DataPath = &'static [&'static str];

const USER: DataPath = &["user", "data"];
const PROPERTIES: [DataPath; 3] =
    [&["site", "content", "data"], &["app", "content", "data"], &["dooh", "content", "data"]];

/// The members of a request in which data has its places.
#[derive(Clone, Debug)]
pub struct DataMembers {
    root: Range<usize>,
    user: Option<Range<usize>>,
    /// With the path to its data.
    property: Option<(Range<usize>, DataPath)>,
    ext: Option<Range<usize>>,
}

impl DataMembers {
    /// Of the text of a request that was parsed: no parser takes one of them twice.
    pub fn of(body: &str) -> Self {
        let start = body.find('{').expect("a parsed request is an object");
        let root = start..body.trim_end().len();
        let mut members = Self { root: root.clone(), user: None, property: None, ext: None };
        for (name, value) in entries(Some(&body[root]), b'{') {
            let (at, name) = (|| span_of(value, body), string(name).unwrap_or_default());
            match &*name {
                "user" => members.user = Some(at()),
                "ext" => members.ext = Some(at()),
                name => {
                    let path = PROPERTIES.into_iter().find(|path| path[0] == name);
                    let path = path.filter(|_| value.starts_with('{'));
                    members.property = path.map(|path| (at(), path)).or(members.property);
                }
            }
        }
        members
    }
}

impl DataPlace {
    /// Finds the place in a request that was parsed from `body`. None if something else is there.
    pub fn find(
        self,
        members: &DataMembers,
        body: &str,
        request: &BidRequest<'_>,
    ) -> Option<DataSpot> {
        let below = |member: &Option<Range<usize>>, path: DataPath, last| match member.clone() {
            None => Some(Spot::Object(members.root.clone(), path)),
            Some(value) if &body[value.clone()] == "null" => Some(Spot::Null(value, &path[1..])),
            Some(value) => spot(body, value, &path[1..], last),
        };
        let spot = match self {
            Self::UserData => {
                // DSPs with a limited view would get nothing instead of a null.
                let spot = below(&members.user, USER, '[');
                spot.filter(|spot| !matches!(spot, Spot::Null(_, path) if !path.is_empty()))
            }
            Self::ContentData => {
                let (property, path) = members.property.clone()?;
                below(&Some(property), path, '[')
            }
            Self::Ext(path) => below(&members.ext, path, '\0'),
        };
        // What is removed from the request has no place for more.
        let is_kept = |spot: &Spot| {
            let (Spot::Array(at) | Spot::Object(at, _) | Spot::Null(at, _)) = spot;
            let is_in = |removed: &Range<usize>| removed.start <= at.start && at.end <= removed.end;
            !request.fields.removals.iter().any(is_in)
        };
        spot.filter(is_kept).map(DataSpot)
    }

    /// Appends data: as a list in `data`, as an object in `ext`.
    fn write<'d>(self, out: &mut String, data: impl Iterator<Item = &'d str>) {
        let (open, close) = if let Self::Ext(_) = self { ("{", "}") } else { ("[", "]") };
        out.push_str(open);
        write_parts(out, data);
        out.push_str(close);
    }
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NamedMember {
    Absent,
    Value(Range<usize>),
    /// Parsers read it differently.
    Repeated,
}

impl NamedMember {
    fn of(body: &str, object: &Range<usize>, key: &str) -> Self {
        let mut values = named(Some(&body[object.clone()]), key);
        match (values.next(), values.next()) {
            (None, _) => Self::Absent,
            (Some(value), None) => Self::Value(span_of(value, body)),
            (Some(_), Some(_)) => Self::Repeated,
        }
    }

    fn is_null(&self, body: &str) -> bool {
        matches!(self, Self::Value(value) if &body[value.clone()] == "null")
    }
}

/// The place at the end of a path of objects, all of which may be absent. `last` begins the value
/// there, if there is one.
fn spot(body: &str, object: Range<usize>, path: DataPath, last: char) -> Option<Spot> {
    let (key, rest) = path.split_first()?;
    if !body[object.clone()].starts_with('{') {
        return None;
    }
    let member = NamedMember::of(body, &object, key);
    if member.is_null(body) {
        let NamedMember::Value(value) = member else { return None };
        return Some(Spot::Null(value, rest));
    }
    match member {
        NamedMember::Absent => Some(Spot::Object(object, path)),
        NamedMember::Value(value) if rest.is_empty() => {
            body[value.clone()].starts_with(last).then_some(Spot::Array(value))
        }
        NamedMember::Value(value) if body[value.clone()].starts_with('{') => {
            spot(body, value, rest, last)
        }
        NamedMember::Value(_) | NamedMember::Repeated => None,
    }
}

impl Editor<'_> {
    /// Adds data: elements of an array, or members of the object in `ext`, each as JSON text. At most
    /// once for each place.
    pub fn add_data<'d>(
        &mut self,
        place: DataPlace,
        spot: &DataSpot,
        data: impl Iterator<Item = &'d str>,
    ) {
        let gate = (place == DataPlace::UserData).then_some(PieceGate::Unlimited);
        match &spot.0 {
            Spot::Array(array) => self.append_for(array, gate, |out| write_parts(out, data)),
            Spot::Object(object, path) => self.add_absent_member(object, gate, |out| {
                let Some((first, rest)) = path.split_first() else { return };
                out.extend(["\"", first, "\":"]);
                write_nested(out, rest, |out| place.write(out, data));
            }),
            Spot::Null(null, path) => self.replace_for(null.clone(), gate, |out| {
                write_nested(out, path, |out| place.write(out, data));
            }),
        }
    }
}

fn write_parts<'d>(out: &mut String, parts: impl Iterator<Item = &'d str>) {
    for (at, part) in parts.enumerate() {
        out.extend([if at == 0 { "" } else { "," }, part]);
    }
}

/// Objects with one member each, around what `write` appends.
fn write_nested(out: &mut String, path: DataPath, write: impl FnOnce(&mut String)) {
    path.iter().for_each(|key| out.extend(["{\"", key, "\":"]));
    write(out);
    path.iter().for_each(|_| out.push('}'));
}

#[cfg(test)]
mod tests;
