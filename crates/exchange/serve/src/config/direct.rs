//! A direct campaign's rules: its bid, targeting and creatives, and the limits of all of them in
//! one auction. Must not know its account or budget.

use std::collections::HashSet;
use std::sync::Arc;

use exchange_core::Region;
use exchange_core::campaigns::{
    ACCOUNTS_MAX, BiddingLimits, BiddingRules, CampaignPrice, CampaignTargeting, Creative,
    CreativeProblem, CreativeSpec, Interner, KeyValues, MatchList, PagePrefix,
};
use openrtb::codes::MediaType;
use runtime::config::{Optional, Required, Section};
use units::{Cpm, Currency, Decimal, Rounding};

use super::values::{country, device_type, format, not_empty, read_ids, region, size};

/// DSP id that stands for direct campaigns.
pub const DIRECT_DSP: &str = "direct";

/// Rules of a direct campaign; clones share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectRules(pub Arc<BiddingRules>);

impl DirectRules {
    /// Tables that a campaign has if it bids.
    pub const TABLES: &[&str] = &["bid", "creative"];

    /// Reads `bid`, `targeting` and `[[creative]]` of a campaign whose account is in `currency`.
    /// None if it has none of them: then it does not bid here.
    pub fn read(s: &mut Section<'_>, currency: Currency) -> Option<Self> {
        let about = "What the campaign bids in auctions, in its account's currency: either `value` \
             or `price`. Without `bid`, `targeting` and creatives, only bidders of the pacer \
             spend its budget.";
        let price = s.table("bid", about, |s| read_price(s, currency));
        let about = "Requests that the campaign bids on. A request without a targeted property does \
             not match.";
        let targeting = s.section("targeting", about, read_targeting);
        let about = "An ad. If several fit an impression, one is chosen at random.";
        let read = s.tables("creative", about, read_creative);
        let price = match price {
            None if read.is_empty() && targeting == CampaignTargeting::default() => return None,
            None => {
                s.problem("bid", "absent", "is needed beside `targeting` and creatives");
                CampaignPrice::Value(Cpm::ZERO)
            }
            Some(price) => price,
        };
        if read.is_empty() {
            s.problem("creative", "[]", "needs one at least, under `[[creative]]`");
        }
        let is_whole = read.iter().all(|(_, creative)| creative.is_some());
        let mut known = HashSet::with_capacity(read.len());
        for (id, _) in read.iter().filter(|(id, _)| !known.insert(id)) {
            s.problem("creative", id, format!("has two with the id `{id}`"));
        }
        let mut creatives: Vec<_> = read.into_iter().filter_map(|(_, creative)| creative).collect();
        // They live as long as the campaign, so give back spare capacity.
        creatives.shrink_to_fit();
        let rules = BiddingRules { price, targeting: targeting.into(), creatives };
        if is_whole && !rules.creatives.is_empty() && !rules.can_show() {
            let remedy = "leaves nothing to show: no creative is of a format and size listed here";
            s.problem("targeting", "…", remedy);
        }
        Some(Self(rules.into()))
    }

    /// Shares parts equal to those of earlier rules. Does nothing if the rules have clones.
    pub fn intern(&mut self, interner: &mut Interner) {
        if let Some(rules) = Arc::get_mut(&mut self.0) {
            interner.intern(rules);
        }
    }

    /// Whether strategies must leave the price alone.
    pub fn is_fixed_price(&self) -> bool {
        matches!(self.0.price, CampaignPrice::Fixed(_))
    }
}

pub(super) fn read_limits(s: &mut Section<'_>) -> BiddingLimits {
    BiddingLimits {
        matches_max: s.integer(
            "matches_max",
            1000,
            1..=1_000_000_usize,
            "Maximum number of matches (a campaign and an impression) to examine. If there are \
             more, a random selection is examined.",
        ),
        bids_max: s.integer(
            "bids_max",
            2,
            1..=ACCOUNTS_MAX,
            "Maximum number of bids per impression, each from a different account. Bids of the \
             highest priority class are used first, then those worth the most.",
        ),
    }
}

fn read_price(s: &mut Section<'_>, currency: Currency) -> CampaignPrice {
    let value = s.text(
        "value",
        Optional("2.50"),
        "Value of 1000 impressions. The campaign's strategy decides how much of it to bid.",
    );
    let fixed = s.text(
        "price",
        Optional("2.00"),
        "Fixed bid for 1000 impressions. Only the strategies asap, even and throttle allow it.",
    );
    let mut parsed = |key, text: &str| {
        amount(text, currency).unwrap_or_else(|remedy| {
            s.problem(key, text, remedy);
            Cpm::ZERO
        })
    };
    match (value, fixed) {
        (Some(value), None) => CampaignPrice::Value(parsed("value", &value)),
        (None, Some(price)) => CampaignPrice::Fixed(parsed("price", &price)),
        (Some(value), Some(price)) => {
            parsed("value", &value);
            parsed("price", &price);
            s.problem("price", price, "cannot stand beside `value`, remove one of them");
            CampaignPrice::Value(Cpm::ZERO)
        }
        (None, None) => {
            s.problem(
                "value",
                "absent",
                "needs an amount as text, for example \"2.50\", or `price` does",
            );
            CampaignPrice::Value(Cpm::ZERO)
        }
    }
}

/// Reads `2.50` exactly, so no finer than a millionth.
fn amount(text: &str, currency: Currency) -> Result<Cpm, String> {
    let decimal = Decimal::parse(text).map_err(|error| {
        format!(
            "needs an amount in {currency} without its code, for example \"2.50\": it is {error}"
        )
    })?;
    if decimal.scaled(6).is_some_and(|(_, dropped)| dropped) {
        return Err("is finer than a millionth of the currency".to_owned());
    }
    match Cpm::parse(text, Rounding::Down) {
        Ok(Cpm::ZERO) => Err("is nothing, must be above 0".to_owned()),
        Ok(amount) => Ok(amount),
        Err(_) => Err(format!("is more than {} {currency}, the largest price", Cpm::MAX)),
    }
}

fn read_targeting(s: &mut Section<'_>) -> CampaignTargeting {
    let formats = s.texts(
        "formats",
        &[],
        format,
        "Ad formats to bid on: banner, video, audio, native. If empty, those of the creatives.",
    );
    let (countries, regions, regions_blocked) = read_geography(s);
    let (publishers, domains, bundles) = read_places(s);
    let pages = s.texts(
        "pages",
        &[],
        |text| PagePrefix::parse(text).ok_or_else(|| "must begin a page's URL, for example \"https://news.example/sport/\" or \"news.example\"".to_owned()),
        "URL prefixes of pages, each with the complete host. If empty, all requests.",
    );
    let pairs = s.texts(
        "key_values",
        &[],
        key_value,
        "First-party data (`ext.data` of site, app, user and impression), for example \
         \"section=sport\". A request must match every key, with any of the key's values. \
         `keywords` is a key too.",
    );
    let about = "Ids of deals. If not empty, the campaign bids only under these deals.";
    let deals = read_ids(s, "deals", not_empty, about);
    let device_types = s.texts(
        "device_types",
        &[],
        device_type,
        "AdCOM device types: mobile (phone or tablet), pc, tv, phone, tablet, connected, \
         set_top_box, ooh. If empty, all types.",
    );
    CampaignTargeting {
        formats: formats.into_iter().fold(0, |set, format| set | format.bit()),
        sizes: s.texts(
            "sizes",
            &[],
            size,
            "Banner sizes, for example 300x250. If empty, all sizes.",
        ),
        countries,
        regions,
        regions_blocked,
        publishers,
        domains,
        bundles,
        pages,
        key_values: by_key(pairs),
        deals,
        device_types: device_types.into_iter().fold(0, |set, number| set | 1 << number),
    }
}

fn read_geography(s: &mut Section<'_>) -> (MatchList, Vec<Region>, Vec<Region>) {
    let about = "Countries (ISO 3166-1 alpha-3). If empty, all countries.";
    let allowed = read_ids(s, "countries", country, about);
    let about = "Excluded countries (ISO 3166-1 alpha-3).";
    let blocked = read_ids(s, "countries_blocked", country, about);
    let regions = s.texts(
        "regions",
        &[],
        region,
        "Regions, for example USA/CA (ISO 3166-2 without its country prefix). In a country named \
         here, the campaign bids only in these regions; other countries are not restricted.",
    );
    let about = "Excluded regions, for example USA/CA.";
    let regions_blocked = s.texts("regions_blocked", &[], region, about);
    (MatchList { allowed, blocked }, regions, regions_blocked)
}

fn read_places(s: &mut Section<'_>) -> (MatchList, MatchList, MatchList) {
    let publishers = MatchList {
        allowed: read_ids(
            s,
            "publishers",
            not_empty,
            "Ids of publishers. If empty, all publishers.",
        ),
        blocked: read_ids(s, "publishers_blocked", not_empty, "Ids of excluded publishers."),
    };
    let about = "Domains of sites and apps, including their subdomains. If empty, all domains.";
    let allowed = read_ids(s, "domains", domain, about);
    let about = "Excluded domains, including their subdomains.";
    let domains = MatchList { allowed, blocked: read_ids(s, "domains_blocked", domain, about) };
    let about =
        "Apps, by app store id (`app.bundle`). If empty, all requests, also those of sites.";
    let allowed = read_ids(s, "app_bundles", not_empty, about);
    let about = "Excluded apps, by app store id.";
    let bundles =
        MatchList { allowed, blocked: read_ids(s, "app_bundles_blocked", not_empty, about) };
    (publishers, domains, bundles)
}

/// One `[[creative]]`: its id, and itself if valid.
fn read_creative(s: &mut Section<'_>) -> (String, Option<Creative>) {
    let id = s.text("id", Required("summer-300x250"), "Id of the creative, sent as `crid`.");
    let format = s.one_of(
        "format",
        Required("banner"),
        &MediaType::ALL.map(|format| (format.label(), format)),
        "Ad format.",
    );
    let about =
        "HTML for banner, VAST for video and audio, JSON for native. May contain OpenRTB macros.";
    let markup = s.text("markup", Required("<a href=\"https://acme.example\">…</a>"), about);
    let about = "Size of a banner, for example 300x250. If absent, it adapts to any size.";
    let own_size = s.parsed("size", Optional("300x250"), size, about);
    let mut spec = CreativeSpec { size: own_size, ..CreativeSpec::new(&id, format, &markup) };
    spec.domains = read_ids(s, "domains", domain, "The advertiser's domains.");
    let about = "App store id of the advertised app.";
    spec.bundle = s.text("app_bundle", Optional("com.acme"), about).map(Into::into);
    let about = "Content categories of the creative, for example IAB7-39.";
    spec.categories = read_ids(s, "categories", not_empty, about);
    let about = "AdCOM number of the taxonomy of `categories`.";
    spec.taxonomy = s.integer("category_taxonomy", 1, 1..=u32::MAX, about);
    let about = "Creative attributes, by their numbers in AdCOM.";
    spec.attributes = s.integers("attributes", &[], 1..=18_u32, about);
    let about = "Language of the creative (BCP 47). If absent, unknown.";
    spec.language = s.parsed("language", Optional("de"), language, about).map(Into::into);
    let about = "Duration of video or audio, in seconds.";
    spec.duration_s = s.integer("duration_s", Optional(15), 1..=86_400_u32, about);
    let creative = Creative::new(spec).map_err(|problem| {
        // Missing text is already reported.
        if !matches!(problem, CreativeProblem::Id) && !markup.is_empty() {
            s.problem(key_of(problem), "…", problem.to_string());
        }
    });
    (id, creative.ok())
}

const fn key_of(problem: CreativeProblem) -> &'static str {
    match problem {
        CreativeProblem::Id => "id",
        CreativeProblem::Markup
        | CreativeProblem::MarkupLength
        | CreativeProblem::Vast
        | CreativeProblem::Banner
        | CreativeProblem::Native => "markup",
        CreativeProblem::Size => "size",
        CreativeProblem::Duration => "duration_s",
        CreativeProblem::Domains => "domains",
        CreativeProblem::Categories => "categories",
        CreativeProblem::Attributes => "attributes",
    }
}

fn domain(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        !label.is_empty() && label.bytes().all(is_known)
    };
    match text.len() <= 253 && text.split('.').all(is_label) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("must be a domain, for example \"acme.example\"".to_owned()),
    }
}

fn language(text: &str) -> Result<String, String> {
    let mut parts = text.split('-');
    let is_primary = |part: &str| {
        (2..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let is_part = |part: &str| {
        (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    match parts.next().is_some_and(is_primary) && parts.all(is_part) {
        true => Ok(text.to_owned()),
        false => Err("must be a language of BCP 47, for example \"de\" or \"pt-BR\"".to_owned()),
    }
}

fn key_value(text: &str) -> Result<(Box<str>, Box<str>), String> {
    let pair = text.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
    let (key, value) =
        pair.ok_or_else(|| "must be a key and a value, for example \"section=sport\"".to_owned())?;
    Ok((key.into(), value.into()))
}

fn by_key(pairs: Vec<(Box<str>, Box<str>)>) -> Vec<KeyValues> {
    let mut wanted: Vec<KeyValues> = Vec::new();
    for (key, value) in pairs {
        match wanted.iter_mut().find(|known| known.key == key) {
            Some(known) => known.values.push(value),
            None => wanted.push(KeyValues { key, values: vec![value] }),
        }
    }
    wanted
}

#[cfg(test)]
mod tests;
