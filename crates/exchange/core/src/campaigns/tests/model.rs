//! A naive model: matches each campaign with the JSON of the request, key by key, and lets the real
//! judge decide on a bid per creative. No index, no parsed request.

use serde_json::{Value, json};

use crate::asking::eligibility::BidderCall;
use crate::auction::Auction;
use crate::auction::fate::Fate;
use crate::campaigns::campaign::DirectCampaign;
use crate::campaigns::creative::CreativeSpec;
use crate::campaigns::targeting::{CampaignTargeting, MatchList};
use crate::clearing::clear::ClearingEntry;
use crate::fixtures::AUCTION_ID;
use crate::judging::judge::{DspAnswer, judge};
use crate::market::size::AdSize;
use crate::market::targeting::Region;

#[derive(Debug, Default)]
pub(super) struct Chances {
    /// Whether any of its creatives may be shown, so that its bidder is asked.
    pub(super) may_show: bool,
    /// The value of its creatives with and without its deals: creative, deal, and entry.
    pub(super) entries: Vec<(usize, Option<String>, ClearingEntry)>,
}

pub(super) fn chances(
    (auction, ask): (&Auction<'_>, &BidderCall),
    request: &Value,
    imp: usize,
    (number, campaign, specs): (usize, &DirectCampaign, &[CreativeSpec]),
) -> Chances {
    let mut chances = Chances::default();
    let targeting = &campaign.rules.targeting;
    let on_sale = &request["imp"][imp];
    if ask.imps >> imp & 1 == 0 || !is_wanted(targeting, request, on_sale) {
        return chances;
    }
    let deals: Vec<Option<String>> = match targeting.deals.as_slice() {
        [] => vec![None],
        deals => deals.iter().map(|deal| Some(deal.to_string())).collect(),
    };
    for (creative, spec) in specs.iter().enumerate() {
        if !is_wanted_creative(targeting, on_sale, spec) {
            continue;
        }
        for deal in &deals {
            let rates = &auction.market.rates;
            let Some(ratio) = rates.ratio(campaign.currency, auction.currency) else {
                continue; // It cannot bid without a rate.
            };
            let price = ratio.convert(campaign.rules.price.amount(), units::Rounding::Down);
            let price = price.unwrap_or(units::Cpm::ZERO);
            // One micro, because a value of zero shows only with the decided price.
            let shown = if price == units::Cpm::ZERO { units::Cpm::new(1).unwrap() } else { price };
            let bid = bid_of((number, campaign), spec, (&on_sale["id"], imp), deal.as_deref());
            let mut bid = bid;
            bid["price"] = serde_json::from_str(&shown.to_string()).unwrap();
            let body = json!({
                "id": AUCTION_ID, "cur": auction.currency.code(),
                "seatbid": [{ "seat": *campaign.account, "bid": [bid] }],
            });
            let body = body.to_string();
            let judgement = judge(auction, &[DspAnswer { ask: *ask, body: body.as_bytes() }]);
            let verdict = judgement.bids[0].entry;
            let fits = matches!(verdict, Ok(_) | Err(Fate::BelowFloor | Fate::BelowDealFloor));
            chances.may_show |= fits;
            if let Ok(entry) = verdict
                && price > units::Cpm::ZERO
            {
                chances.entries.push((creative, deal.clone(), judgement.entries[entry]));
            }
        }
    }
    chances
}

fn bid_of(
    (number, campaign): (usize, &DirectCampaign),
    spec: &CreativeSpec,
    (imp_id, imp): (&Value, usize),
    deal: Option<&str>,
) -> Value {
    let mut bid = json!({
        "id": format!("{imp}-{number}"), "impid": imp_id, "cid": *campaign.id, "crid": *spec.id,
        "adm": *spec.markup, "mtype": spec.format as u32 + 1, "adomain": spec.domains,
        "cat": spec.categories, "cattax": spec.taxonomy, "attr": spec.attributes,
    });
    if let Some(AdSize { w, h }) = spec.size {
        (bid["w"], bid["h"]) = (w.into(), h.into());
    }
    let told = [("bundle", &spec.bundle), ("language", &spec.language)];
    for (key, value) in told {
        if let Some(value) = value {
            bid[key] = (**value).into();
        }
    }
    if let Some(dur) = spec.duration_s {
        bid["dur"] = dur.into();
    }
    if let Some(deal) = deal {
        bid["dealid"] = deal.into();
    }
    bid
}

fn is_wanted(targeting: &CampaignTargeting, request: &Value, imp: &Value) -> bool {
    let media = ["site", "app", "dooh"].into_iter().map(|key| &request[key]);
    let media = media.into_iter().find(|media| media.is_object()).unwrap_or(&Value::Null);
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let geo = &request["device"]["geo"];
    let (country, region) = (geo["country"].as_str(), geo["region"].as_str());
    let page = text(&media["page"]);
    let host = page.as_deref().and_then(|page| page.split_once("://"));
    let host = host.map(|(_, rest)| rest.split('/').next().unwrap_or_default().to_owned());
    let domain = text(&media["domain"]).or(host.clone()).map(|domain| domain.to_lowercase());
    let same = |a: &str, b: &str| a == b;
    let within = |domain: &str, listed: &str| {
        let listed = listed.to_lowercase();
        domain == listed || domain.ends_with(&format!(".{listed}"))
    };
    let device = request["device"]["devicetype"].as_u64();
    is_listed(&targeting.countries, country, str::eq_ignore_ascii_case)
        && is_region(targeting, country, region)
        && is_listed(&targeting.publishers, media["publisher"]["id"].as_str(), same)
        && is_listed(&targeting.domains, domain.as_deref(), within)
        && is_listed(&targeting.bundles, text(&media["bundle"]).as_deref(), same)
        && (targeting.device_types == 0
            || device.is_some_and(|device| targeting.device_types >> device & 1 == 1))
        && (targeting.pages.is_empty()
            || page.is_some_and(|page| {
                let url = crate::campaigns::targeting::PageUrl::parse(&page);
                url.is_some_and(|url| targeting.pages.iter().any(|own| own.is_of(&url)))
            }))
        && has_key_values(targeting, request, media, imp)
}

fn is_listed(listed: &MatchList, told: Option<&str>, is: impl Fn(&str, &str) -> bool) -> bool {
    let among = |list: &[Box<str>]| told.is_some_and(|told| list.iter().any(|own| is(told, own)));
    (listed.allowed.is_empty() || among(&listed.allowed)) && !among(&listed.blocked)
}

fn is_region(targeting: &CampaignTargeting, country: Option<&str>, region: Option<&str>) -> bool {
    let in_country = |own: &&Region| country.is_some_and(|c| own.country.eq_ignore_ascii_case(c));
    let in_region = |own: &Region| {
        let code = region.map(|region| region.rsplit('-').next().unwrap_or_default());
        in_country(&own) && code.is_some_and(|code| own.region.eq_ignore_ascii_case(code))
    };
    let narrowed = targeting.regions.iter().any(|own| in_country(&own));
    (!narrowed || targeting.regions.iter().any(in_region))
        && !targeting.regions_blocked.iter().any(in_region)
}

fn has_key_values(
    targeting: &CampaignTargeting,
    request: &Value,
    media: &Value,
    imp: &Value,
) -> bool {
    let data = [&media["ext"]["data"], &request["user"]["ext"]["data"], &imp["ext"]["data"]];
    let has = |key: &str, value: &str| {
        let is = |told: &Value| match told {
            Value::String(told) => told == value,
            told => *value == *told.to_string(),
        };
        let in_data = data.iter().any(|data| match &data[key] {
            Value::Array(told) => told.iter().any(is),
            told => is(told),
        });
        let words = media["keywords"].as_str().unwrap_or_default();
        in_data || (key == "keywords" && words.split(',').any(|word| word.trim() == value))
    };
    let wanted = &targeting.key_values;
    wanted.iter().all(|wanted| wanted.values.iter().any(|value| has(&wanted.key, value)))
}

fn is_wanted_creative(targeting: &CampaignTargeting, imp: &Value, spec: &CreativeSpec) -> bool {
    if targeting.formats != 0 && targeting.formats & spec.format.bit() == 0 {
        return false;
    }
    if spec.format != openrtb::codes::MediaType::Banner || targeting.sizes.is_empty() {
        return true;
    }
    let banner = &imp["banner"];
    let mut offered: Vec<(u64, u64)> = Vec::new();
    for size in banner["format"].as_array().into_iter().flatten().chain([banner]) {
        offered.extend(size["w"].as_u64().zip(size["h"].as_u64()));
    }
    let is_offered = |size: &AdSize| {
        let (w, h) = (u64::from(size.w), u64::from(size.h));
        offered.iter().any(|own| match imp["instl"].as_u64() {
            Some(1) => w <= own.0 && h <= own.1,
            _ => *own == (w, h),
        })
    };
    match spec.size {
        Some(size) => targeting.sizes.contains(&size) && !offered.is_empty(),
        None => targeting.sizes.iter().any(is_offered),
    }
}
