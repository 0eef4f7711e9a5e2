//! The table of JSON types of a request's fields (OpenRTB 2.6, section 3.2), and what to do with a
//! wrong type. Fields that rules read are `Any`: their parser checks them.

/// A JSON type as the standard names it.
#[derive(Clone, Copy)]
pub(super) enum JsonType {
    Text,
    /// A number without a fraction, which JSON may write as `300.0`.
    Whole,
    Number,
    /// An object whose members are not checked.
    Ext,
    /// An object with these members.
    Object(MemberTable),
    /// As `Object`; its span in the body is recorded.
    Edited(MemberTable, EditedObject),
    Texts,
    Wholes,
    /// An array of objects with these members, and the bits of those that are required.
    Objects(MemberTable, u8),
}

/// Objects of the request that edits reach into.
#[derive(Clone, Copy)]
pub(super) enum EditedObject {
    User,
    Source,
}

/// What the table says of a member.
#[derive(Clone, Copy)]
pub(super) enum Member {
    /// Removed if it has another type.
    Optional(JsonType),
    /// As `Optional`; without it the whole object is removed. Has a bit of its own among the
    /// required members.
    Required(u8, JsonType),
    /// The request is invalid if it has another type.
    Decisive(JsonType),
    /// Meant for a single buyer: always removed.
    Private,
    /// Passed on unchecked, or checked where it is parsed.
    Any,
}

pub(super) type MemberTable = fn(&[u8]) -> Member;

use JsonType::{Edited, Ext, Number, Object, Objects, Text, Texts, Whole, Wholes};
use Member::{Any, Decisive, Optional, Private, Required};

pub(super) fn bid_request(key: &[u8]) -> Member {
    match key {
        b"imp" => Decisive(Objects(imp, 0)),
        b"site" | b"app" | b"dooh" => Decisive(Object(media)),
        b"device" => Decisive(Object(device)),
        b"user" => Decisive(Edited(user, EditedObject::User)),
        b"source" => Decisive(Edited(source, EditedObject::Source)),
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
        b"ext" => Decisive(Object(regs_ext)),
        _ => Any,
    }
}

/// The place of all but `coppa` in OpenRTB 2.5.
fn regs_ext(key: &[u8]) -> Member {
    if matches!(key, b"coppa" | b"ext") { Any } else { regs(key) }
}

fn imp(key: &[u8]) -> Member {
    match key {
        b"metric" => Optional(Objects(metric, 0b11)),
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
        b"type" => Required(0b01, Text),
        b"value" => Required(0b10, Number),
        b"vendor" => Optional(Text),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn banner(key: &[u8]) -> Member {
    match key {
        b"format" => Decisive(Objects(format, 0)),
        b"pos" | b"topframe" | b"vcm" => Optional(Whole),
        b"expdir" => Optional(Wholes),
        b"mimes" => Optional(Texts),
        b"id" => Optional(Text),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn format(key: &[u8]) -> Member {
    if key == b"ext" { Optional(Ext) } else { Any }
}

/// The members of `video` and `audio`, which do not contradict each other.
fn video(key: &[u8]) -> Member {
    match key {
        b"durfloors" => Decisive(Objects(dur_floors, 0)),
        b"companionad" => Optional(Objects(companion, 0)),
        b"podid" => Optional(Text),
        b"startdelay" | b"maxseq" | b"w" | b"h" | b"podseq" | b"placement" | b"plcmt"
        | b"linearity" | b"skip" | b"skipmin" | b"skipafter" | b"sequence" | b"slotinpod"
        | b"minbitrate" | b"maxbitrate" | b"boxingallowed" | b"playbackend" | b"pos" | b"feed"
        | b"stitched" | b"nvol" => Optional(Whole),
        b"playbackmethod" | b"delivery" | b"companiontype" | b"poddedupe" => Optional(Wholes),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

/// A companion banner, which no rule reads.
fn companion(key: &[u8]) -> Member {
    match key {
        b"format" => Optional(Objects(companion, 0)),
        b"w" | b"h" | b"wratio" | b"hratio" | b"wmin" => Optional(Whole),
        b"btype" | b"battr" | b"api" => Optional(Wholes),
        _ => banner(key),
    }
}

fn dur_floors(key: &[u8]) -> Member {
    if key == b"ext" { Optional(Ext) } else { Any }
}

fn native(key: &[u8]) -> Member {
    match key {
        b"ver" => Optional(Text),
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

/// The members of `site`, `app` and `dooh`, which do not contradict each other.
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
        b"cat" | b"kwarray" | b"genres" => Optional(Texts),
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
        b"brand" => Required(0b1, Text),
        b"version" => Optional(Texts),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn geo(key: &[u8]) -> Member {
    match key {
        b"lat" | b"lon" => Optional(Number),
        b"type" | b"accuracy" | b"lastfix" | b"ipservice" | b"utcoffset" => Optional(Whole),
        b"country" | b"region" | b"regionfips104" | b"metro" | b"city" | b"zip" => Optional(Text),
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
        b"uids" => Decisive(Objects(uid, 0)),
        b"ext" => Optional(Ext),
        _ => Any,
    }
}

fn uid(key: &[u8]) -> Member {
    match key {
        b"id" => Decisive(Text),
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
