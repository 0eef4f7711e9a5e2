//! A campaign's creative, and its members of a bid. The auction decides whether it may be shown.

use std::fmt::Write as _;
use std::sync::Arc;

use openrtb::codes::MediaType;
use openrtb::{BID_LIST_MAX, escaped, is_json, parse_bid};
use thiserror::Error;

use crate::creatives::format::{Syntax, formats_of_markup};
use crate::creatives::mixed_content::is_insecure;
use crate::creatives::rules::has_tag;
use crate::market::size::AdSize;

/// Codes are bits of a word. AdCOM 1.0 (List: Creative Attributes) ends at 18.
const ATTRIBUTE_MAX: u32 = 63;

/// The definition of a creative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreativeSpec {
    /// Its id; `crid` of its bids.
    pub id: Box<str>,
    /// The format of its markup.
    pub format: MediaType,
    /// Banner size in DIPS. None if it adapts to any size.
    pub size: Option<AdSize>,
    /// HTML, VAST, or JSON of the Native Ads API, with macros of OpenRTB.
    pub markup: Box<str>,
    /// The advertiser's domains.
    pub domains: Vec<Box<str>>,
    /// The advertised application's store id.
    pub bundle: Option<Box<str>>,
    /// Categories of the advertiser.
    pub categories: Vec<Box<str>>,
    /// The categories' taxonomy (AdCOM 1.0, List: Category Taxonomies).
    pub taxonomy: u32,
    /// Creative attributes (AdCOM 1.0, List: Creative Attributes), from 1 to 63.
    pub attributes: Vec<u32>,
    /// Its language (BCP 47).
    pub language: Option<Box<str>>,
    /// Seconds of video or audio.
    pub duration_s: Option<u32>,
}

impl CreativeSpec {
    /// A creative with only an id, a format and markup.
    pub fn new(id: &str, format: MediaType, markup: &str) -> Self {
        Self {
            id: id.into(),
            format,
            size: None,
            markup: markup.into(),
            domains: Vec::new(),
            bundle: None,
            categories: Vec::new(),
            taxonomy: 1,
            attributes: Vec::new(),
            language: None,
            duration_s: None,
        }
    }
}

/// Why a creative is refused. Declaration order is precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CreativeProblem {
    /// No id.
    #[error("must not be empty")]
    Id,
    /// No markup.
    #[error("must not be empty")]
    Markup,
    /// More than [`MARKUP_BYTES_MAX`].
    #[error("must be at most 65536 bytes: load the rest from a URL")]
    MarkupLength,
    /// A video or audio ad that is not VAST.
    #[error("must be VAST: an XML document with a <VAST> element")]
    Vast,
    /// A banner that is VAST.
    #[error("is VAST, which no banner is: its format is video or audio")]
    Banner,
    /// A native ad that is not JSON.
    #[error("must be a JSON object of the Native Ads API")]
    Native,
    /// A size for another format than banner, or a side of zero.
    #[error("is for banners alone, and both sides are above 0")]
    Size,
    /// A duration for a format without one, or of zero.
    #[error("is for video and audio alone, and above 0")]
    Duration,
    /// More domains than a bid may have.
    #[error("has more than 32 entries")]
    Domains,
    /// More categories than a bid may have.
    #[error("has more than 32 entries")]
    Categories,
    /// An unknown attribute, or more than a bid may have.
    #[error("must be at most 32 codes from 1 to 63: those of AdCOM end at 18")]
    Attributes,
}

/// Limit of a creative's markup, which every bid carries.
pub const MARKUP_BYTES_MAX: usize = 65_536;

const _: () = assert!(BID_LIST_MAX == 32, "what problems say is so");

/// A checked creative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creative {
    pub(super) format: MediaType,
    pub(super) size: Option<AdSize>,
    /// Shared by creatives with equal metadata.
    pub(super) metadata: Arc<AdMetadata>,
    /// Code n is bit n.
    pub(super) attributes: u64,
    pub(super) duration_s: Option<u32>,
    pub(super) is_insecure: bool,
    pub(super) has_script: bool,
    pub(super) has_iframe: bool,
    /// The members of every bid with it, as JSON text.
    pub(super) members: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AdMetadata {
    pub(super) domains: Box<[Box<str>]>,
    pub(super) bundle: Option<Box<str>>,
    pub(super) categories: Box<[Box<str>]>,
    pub(super) taxonomy: u32,
    pub(super) language: Option<Box<str>>,
}

const _: () = assert!(size_of::<Creative>() <= 56, "two hundred thousand creatives are 11 MB");

impl Creative {
    /// Checks `spec`.
    pub fn new(spec: CreativeSpec) -> Result<Self, CreativeProblem> {
        check(&spec)?;
        let members = members_of(&spec);
        // The judge will see exactly this bid.
        let bid = format!("{{{members}}}");
        let bid = parse_bid(&bid).expect("what was written is a bid");
        let markup = bid.markup_text().expect("markup that is not empty is markup");
        Ok(Self {
            is_insecure: is_insecure(&markup),
            has_script: has_tag(&markup, "script"),
            has_iframe: has_tag(&markup, "iframe"),
            format: spec.format,
            size: spec.size,
            metadata: Arc::new(AdMetadata {
                domains: spec.domains.into(),
                bundle: spec.bundle,
                categories: spec.categories.into(),
                taxonomy: spec.taxonomy,
                language: spec.language,
            }),
            attributes: spec.attributes.iter().fold(0, |set, code| set | 1 << code),
            duration_s: spec.duration_s,
            members: members.into(),
        })
    }

    /// Its format.
    pub const fn format(&self) -> MediaType {
        self.format
    }

    /// Banner size in DIPS. None if it adapts to any size.
    pub const fn size(&self) -> Option<AdSize> {
        self.size
    }
}

fn check(spec: &CreativeSpec) -> Result<(), CreativeProblem> {
    let unless = |sound: bool, problem| if sound { Ok(()) } else { Err(problem) };
    let is_timed = matches!(spec.format, MediaType::Video | MediaType::Audio);
    let is_native = spec.format == MediaType::Native;
    let is_object = |text: &str| text.trim_ascii_start().starts_with('{') && is_json(text);
    let is_banner = spec.format == MediaType::Banner;
    let is_code = |code: &u32| (1..=ATTRIBUTE_MAX).contains(code);
    unless(!spec.id.is_empty(), CreativeProblem::Id)?;
    unless(!spec.markup.trim_ascii().is_empty(), CreativeProblem::Markup)?;
    unless(spec.markup.len() <= MARKUP_BYTES_MAX, CreativeProblem::MarkupLength)?;
    let is_of_format = formats_of_markup(spec.format.bit(), &spec.markup) != 0;
    unless(!is_timed || Syntax::of(&spec.markup) == Syntax::Vast, CreativeProblem::Vast)?;
    unless(!is_banner || is_of_format, CreativeProblem::Banner)?;
    unless(!is_native || is_object(&spec.markup), CreativeProblem::Native)?;
    unless(
        spec.size.is_none_or(|size| is_banner && size.w > 0 && size.h > 0),
        CreativeProblem::Size,
    )?;
    unless(spec.duration_s.is_none_or(|s| is_timed && s > 0), CreativeProblem::Duration)?;
    unless(spec.domains.len() <= BID_LIST_MAX, CreativeProblem::Domains)?;
    unless(spec.categories.len() <= BID_LIST_MAX, CreativeProblem::Categories)?;
    let attributes = &spec.attributes;
    unless(
        attributes.len() <= BID_LIST_MAX && attributes.iter().all(is_code),
        CreativeProblem::Attributes,
    )
}

fn members_of(spec: &CreativeSpec) -> String {
    let mut out = String::with_capacity(spec.markup.len() + 160);
    let _ = write!(out, r#""crid":"{}","adm":"{}""#, escaped(&spec.id), escaped(&spec.markup));
    let _ = write!(out, r#","mtype":{}"#, spec.format as u32 + 1);
    if let Some(AdSize { w, h }) = spec.size {
        let _ = write!(out, r#","w":{w},"h":{h}"#);
    }
    if let Some(seconds) = spec.duration_s {
        let _ = write!(out, r#","dur":{seconds}"#);
    }
    write_texts(&mut out, "adomain", &spec.domains);
    if let Some(bundle) = &spec.bundle {
        let _ = write!(out, r#","bundle":"{}""#, escaped(bundle));
    }
    write_texts(&mut out, "cat", &spec.categories);
    if !spec.categories.is_empty() {
        let _ = write!(out, r#","cattax":{}"#, spec.taxonomy);
    }
    if let Some(((first, rest), out)) = spec.attributes.split_first().zip(Some(&mut out)) {
        let _ = write!(out, r#","attr":[{first}"#);
        for code in rest {
            let _ = write!(out, ",{code}");
        }
        out.push(']');
    }
    if let Some(language) = &spec.language {
        // ISO 639-1 has two letters; anything longer is BCP 47 (section 4.2.3).
        let key = if language.len() == 2 { "language" } else { "langb" };
        let _ = write!(out, r#","{key}":"{}""#, escaped(language));
    }
    out
}

fn write_texts(out: &mut String, key: &str, texts: &[Box<str>]) {
    let Some((first, rest)) = texts.split_first() else { return };
    let _ = write!(out, r#","{key}":["{}""#, escaped(first));
    for text in rest {
        let _ = write!(out, r#","{}""#, escaped(text));
    }
    out.push(']');
}
