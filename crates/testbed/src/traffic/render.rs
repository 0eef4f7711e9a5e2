//! Renders one bid request: a choice for every field, in the order that exchanges use, padded to a
//! given size. Knows the shapes of OpenRTB 2.6, not how often each occurs.

use super::json::Json;
use super::vocabulary::{
    BLOCKED_CATEGORIES, CATEGORIES, CONSENT, COUNTRIES, Country, IDENTITY_SOURCES, NATIVE_REQUEST,
    SIZES, USER_AGENTS, WORDS,
};
use crate::draws::Draws;

/// Requests shorter than this omit rarely sent fields.
const FULL_BYTES: usize = 2_048;

/// Longest segment of `user.data`.
const SEGMENT_BYTES: usize = 64;

/// A format that an impression offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImpFormat {
    Banner,
    Video,
    Audio,
    Native,
}

/// Where the impressions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Site,
    App,
    Dooh,
}

/// The choices of one request.
#[derive(Clone, Debug)]
pub(super) struct RequestPlan {
    pub(super) id: String,
    pub(super) imps: Vec<ImpPlan>,
    pub(super) channel: Channel,
    /// Index in the list of publishers.
    pub(super) publisher: usize,
    pub(super) country: usize,
    pub(super) currency: String,
    pub(super) tmax_ms: Option<u32>,
    /// None omits the field, which means second price.
    pub(super) auction_type: Option<u8>,
    pub(super) test: bool,
    /// Entries of each of `bcat` and `badv`.
    pub(super) blocks: usize,
    /// Target length; content that needs more makes the request longer.
    pub(super) bytes: usize,
}

/// The choices of one impression.
#[derive(Clone, Debug)]
pub(super) struct ImpPlan {
    pub(super) format: ImpFormat,
    pub(super) size: (u32, u32),
    /// Hundredths of the currency per thousand impressions; 0 omits the floor.
    pub(super) floor_cents: u32,
    /// Number of deals, and whether only their holders may bid.
    pub(super) deals: usize,
    pub(super) private: bool,
}

impl Default for ImpPlan {
    fn default() -> Self {
        Self { format: ImpFormat::Banner, size: SIZES[0], floor_cents: 0, deals: 0, private: false }
    }
}

/// The request as JSON.
pub(super) fn render(plan: &RequestPlan, draws: &Draws) -> String {
    let shortest = write(plan, &mut draws.clone(), 0).0.len();
    let segments = plan.bytes.saturating_sub(shortest + 2 * SEGMENT_BYTES) / SEGMENT_BYTES;
    let (mut text, keywords_at) = write(plan, &mut draws.clone(), segments);
    let keywords = keywords(plan.bytes.saturating_sub(text.len()));
    text.insert_str(keywords_at, &keywords);
    text
}

/// Exactly `bytes` bytes of keywords.
fn keywords(bytes: usize) -> String {
    let mut words = WORDS.iter().cycle();
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.push_str(words.next().expect("a cycle has no end"));
        text.push(if text.len() + 1 < bytes { ',' } else { 's' });
    }
    text.truncate(bytes);
    text
}

/// The request with `segments` segments, and the position of its keywords.
fn write(plan: &RequestPlan, draws: &mut Draws, segments: usize) -> (String, usize) {
    let country = &COUNTRIES[plan.country % COUNTRIES.len()];
    let full = plan.bytes >= FULL_BYTES;
    let mut keywords_at = 0;
    let text = Json::document(|json| {
        json.text("id", &plan.id);
        json.objects("imp", plan.imps.iter().enumerate(), |imp, (place, choice)| {
            write_imp(plan, choice, place, imp);
        });
        match plan.channel {
            Channel::Site => json.object("site", |site| write_site(plan, country, site)),
            Channel::App => json.object("app", |app| write_app(plan, app)),
            Channel::Dooh => json.object("dooh", |dooh| write_dooh(plan, dooh)),
        }
        json.object("device", |device| write_device(plan, country, draws, device));
        json.object("user", |user| {
            user.text("id", format!("{:016x}", draws.bits()));
            user.text("buyeruid", format!("{:016x}", draws.bits()));
            user.text("keywords", "");
            keywords_at = user.len() - 1;
            write_identity(full, segments, draws, user);
        });
        json.object("source", |source| write_source(plan, draws, source));
        json.object("regs", |regs| {
            regs.plain("coppa", 0);
            regs.plain("gdpr", u8::from(country.utc_offset == 60));
            regs.text("us_privacy", "1YNN");
        });
        write_terms(plan, draws, json);
    });
    (text, keywords_at)
}

fn write_terms(plan: &RequestPlan, draws: &mut Draws, json: &mut Json) {
    if plan.blocks > 0 {
        let first = draws.below(BLOCKED_CATEGORIES.len());
        let categories = BLOCKED_CATEGORIES.iter().cycle().skip(first);
        json.texts("bcat", categories.take(plan.blocks.min(BLOCKED_CATEGORIES.len())));
        // A few domains of the simulated DSPs' advertisers, among many others.
        let domain = |n: usize| match n % 8 {
            0 => format!("advertiser-{}.example", (plan.publisher + n) % 200),
            _ => format!("competitor-{}.example", plan.publisher * 8 + n),
        };
        json.texts("badv", (1..=plan.blocks).map(domain));
    }
    json.texts("cur", [&plan.currency]);
    if let Some(auction_type) = plan.auction_type {
        json.plain("at", auction_type);
    }
    if let Some(tmax_ms) = plan.tmax_ms {
        json.plain("tmax", tmax_ms);
    }
    if plan.test {
        json.plain("test", 1);
    }
}

fn write_imp(plan: &RequestPlan, choice: &ImpPlan, place: usize, imp: &mut Json) {
    let (width, height) = choice.size;
    imp.text("id", (place + 1).to_string());
    match choice.format {
        ImpFormat::Banner => imp.object("banner", |banner| {
            banner.objects("format", [choice.size], |format, (width, height)| {
                format.plain("w", width);
                format.plain("h", height);
            });
            banner.plain("w", width);
            banner.plain("h", height);
            banner.plain("pos", 1);
            banner.plains("battr", [1, 2, 3, 8, 14]);
        }),
        ImpFormat::Video => imp.object("video", |video| {
            video.texts("mimes", ["video/mp4", "video/webm"]);
            video.plain("minduration", 5);
            video.plain("maxduration", 30);
            video.plains("protocols", [2, 3, 5, 6, 7, 8]);
            video.plain("w", 640);
            video.plain("h", 360);
            video.plain("plcmt", 1);
            video.plain("linearity", 1);
        }),
        ImpFormat::Audio => imp.object("audio", |audio| {
            audio.texts("mimes", ["audio/mp4", "audio/mpeg"]);
            audio.plain("minduration", 5);
            audio.plain("maxduration", 30);
            audio.plains("protocols", [9, 10]);
        }),
        ImpFormat::Native => imp.object("native", |native| {
            native.text("request", NATIVE_REQUEST);
            native.text("ver", "1.2");
        }),
    }
    imp.text("tagid", format!("slot-{}-{}", plan.publisher, place));
    if choice.floor_cents > 0 {
        imp.plain("bidfloor", decimal(choice.floor_cents));
        imp.text("bidfloorcur", &plan.currency);
    }
    imp.plain("secure", 1);
    if choice.deals > 0 {
        imp.object("pmp", |pmp| {
            pmp.plain("private_auction", u8::from(choice.private));
            pmp.objects("deals", 1..=choice.deals, |deal, n| {
                deal.text("id", format!("deal-{}-{n}", plan.publisher));
                deal.plain("bidfloor", decimal(choice.floor_cents + 50));
                deal.text("bidfloorcur", &plan.currency);
                deal.plain("at", 1 + n % 2);
            });
        });
    }
}

/// Hundredths as decimal text, without floating point.
fn decimal(cents: u32) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn write_publisher(plan: &RequestPlan, owner: &mut Json) {
    owner.object("publisher", |publisher| {
        publisher.text("id", format!("publisher-{}", plan.publisher));
        publisher.text("name", format!("Publisher {}", plan.publisher));
        publisher.text("domain", format!("publisher-{}.example", plan.publisher));
    });
}

fn category(plan: &RequestPlan) -> &'static str {
    CATEGORIES[plan.publisher % CATEGORIES.len()]
}

fn write_site(plan: &RequestPlan, country: &Country, site: &mut Json) {
    let (domain, word) =
        (format!("publisher-{}.example", plan.publisher), WORDS[plan.publisher % WORDS.len()]);
    site.text("id", format!("site-{}", plan.publisher));
    site.text("domain", &domain);
    site.texts("cat", [category(plan)]);
    site.text("page", format!("https://www.{domain}/{word}/article-2026.html"));
    site.text("ref", "https://search.example/");
    write_publisher(plan, site);
    site.object("content", |content| {
        content.text("title", format!("All about {word}"));
        content.text("language", country.language);
        content.plain("livestream", 0);
    });
}

fn write_app(plan: &RequestPlan, app: &mut Json) {
    app.text("id", format!("app-{}", plan.publisher));
    app.text("name", format!("App {}", plan.publisher));
    app.text("bundle", format!("com.example.app{}", plan.publisher));
    app.text("domain", format!("publisher-{}.example", plan.publisher));
    app.text("storeurl", format!("https://store.example/app{}", plan.publisher));
    app.texts("cat", [category(plan)]);
    app.text("ver", "4.2.1");
    write_publisher(plan, app);
}

fn write_dooh(plan: &RequestPlan, dooh: &mut Json) {
    dooh.text("id", format!("screens-{}", plan.publisher));
    dooh.text("name", format!("Screens {}", plan.publisher));
    dooh.texts("venuetype", ["transit.airports", "retail.grocery"]);
    dooh.plain("venuetypetax", 1);
    dooh.text("domain", format!("publisher-{}.example", plan.publisher));
    write_publisher(plan, dooh);
}

fn write_device(plan: &RequestPlan, country: &Country, draws: &mut Draws, device: &mut Json) {
    device.text("ua", draws.pick(&USER_AGENTS));
    // TEST-NET-3 (RFC 5737): nobody's address.
    device.text("ip", format!("203.0.113.{}", draws.below(256)));
    device.object("geo", |geo| {
        geo.plain("lat", country.position[0]);
        geo.plain("lon", country.position[1]);
        geo.plain("type", 2);
        geo.text("country", country.code);
        geo.text("city", country.city);
        geo.plain("utcoffset", country.utc_offset);
    });
    device.plain("dnt", 0);
    device.plain("lmt", 0);
    device.plain("devicetype", if plan.channel == Channel::App { 4 } else { 2 });
    device.text("language", country.language);
    if plan.channel == Channel::App {
        let bits = (draws.bits(), draws.bits());
        device.text("ifa", format!("{:016x}{:016x}", bits.0, bits.1));
        device.text("os", "Android");
        device.text("osv", "15");
    }
}

fn write_identity(full: bool, segments: usize, draws: &mut Draws, user: &mut Json) {
    if !full {
        return;
    }
    user.text("consent", CONSENT);
    user.objects("eids", IDENTITY_SOURCES.iter().take(3), |eid, source| {
        eid.text("source", source);
        eid.objects("uids", [draws.bits()], |uid, bits| {
            uid.text("id", format!("{bits:016x}{:016x}", !bits));
            uid.plain("atype", 1);
        });
    });
    if segments == 0 {
        return;
    }
    user.objects("data", [()], |data, ()| {
        data.text("id", "data-1");
        data.text("name", "segments.example");
        data.objects("segment", 0..segments, |segment, _| {
            let number = draws.below(100_000);
            segment.text("id", format!("seg-{number:05}"));
            segment.text("name", WORDS[number % WORDS.len()]);
        });
    });
}

fn write_source(plan: &RequestPlan, draws: &mut Draws, source: &mut Json) {
    source.plain("fd", 1);
    source.text("tid", format!("{:016x}{:016x}", draws.bits(), draws.bits()));
    source.object("schain", |schain| {
        schain.text("ver", "1.0");
        schain.plain("complete", 1);
        schain.objects("nodes", [("ssp.example", 1), ("reseller.example", 2)], |node, at| {
            let (asi, hop) = at;
            node.text("asi", asi);
            node.text("sid", format!("{:05}", plan.publisher + hop));
            node.plain("hp", 1);
        });
    });
}
