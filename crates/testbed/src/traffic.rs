//! Realistic OpenRTB 2.6 bid requests in any number, each with an id of its own. Templates are
//! rendered once; making a request copies one and sets its id. Owns the content of traffic; knows
//! nothing of how it is sent.

mod json;
mod render;
mod vocabulary;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::draws::{Draws, PPM};
use crate::scan;
use render::{Channel, ImpFormat, ImpPlan, RequestPlan, render};
use vocabulary::{COUNTRIES, SIZES};

/// Bytes of every id that traffic gives: 32 hexadecimal digits.
pub const ID_BYTES: usize = 32;

/// Bytes of [`reference_request`].
pub const REFERENCE_BYTES: usize = 3 * 1024;

/// Most impressions of a generated request.
const IMPS_MAX: usize = 4;

/// The id of one bid request, unique within its [`Traffic`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId([u8; ID_BYTES]);

impl RequestId {
    /// The first half identifies the traffic, the second counts.
    pub(crate) fn new(origin: u64, count: u64) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let number = (u128::from(origin) << 64) | u128::from(count);
        let mut id = [0; ID_BYTES];
        for (pair, byte) in id.as_chunks_mut::<2>().0.iter_mut().zip(number.to_be_bytes()) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        Self(id)
    }

    /// The id as written in the request.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The mix of generated traffic. Shares are in parts per million of requests; the first alternative
/// gets the remainder.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficOptions {
    /// Source of every choice.
    pub seed: u64,
    /// Distinct requests rendered at the start, then used in a random order.
    pub templates: usize,
    /// Smallest and largest request, in bytes. A request whose content needs more is larger.
    pub bytes: RangeInclusive<usize>,
    /// Half of the requests are smaller than this.
    pub bytes_typical: usize,
    /// Impressions that offer video, the rest banner.
    pub video_ppm: u32,
    /// Impressions that offer audio.
    pub audio_ppm: u32,
    /// Impressions that offer native.
    pub native_ppm: u32,
    /// Requests from apps; the rest are from sites.
    pub app_ppm: u32,
    /// Requests from digital out-of-home screens.
    pub dooh_ppm: u32,
    /// Requests with two to four impressions.
    pub multi_imp_ppm: u32,
    /// Impressions with one to three deals, a third of them in a private auction.
    pub pmp_ppm: u32,
    /// Impressions with a floor of up to 2.00 per thousand.
    pub floor_ppm: u32,
    /// Requests marked as tests, which move no money.
    pub test_ppm: u32,
    /// How many of the known countries occur, at most 10.
    pub countries: usize,
    /// Publishers: `publisher-0` and up.
    pub publishers: usize,
    /// Currencies of requests, one each.
    pub currencies: Vec<String>,
    /// Most entries of each of `bcat` and `badv`.
    pub blocks_max: usize,
    /// `tmax` values of requests, in milliseconds, one each; if empty, requests have none.
    pub tmax_ms: Vec<u32>,
}

impl Default for TrafficOptions {
    /// 1 to 8 KB, typically 3; six in ten impressions are banners, seven in ten requests from
    /// sites.
    fn default() -> Self {
        Self {
            seed: 1,
            templates: 512,
            bytes: 1024..=8192,
            bytes_typical: 3072,
            video_ppm: 220_000,
            audio_ppm: 60_000,
            native_ppm: 120_000,
            app_ppm: 250_000,
            dooh_ppm: 50_000,
            multi_imp_ppm: 150_000,
            pmp_ppm: 150_000,
            floor_ppm: 800_000,
            test_ppm: 0,
            countries: COUNTRIES.len(),
            publishers: 50,
            currencies: vec!["USD".to_owned()],
            blocks_max: 20,
            tmax_ms: vec![250],
        }
    }
}

/// Why there is no traffic. The caller can fix all of these.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options make no sense.
    #[error("traffic needs {0}")]
    Options(&'static str),
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line is not a request.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// A given body is not a request.
    #[error("a request must be a JSON object with an id: {0}")]
    Body(String),
    /// The file has only empty lines.
    #[error("{}: holds no request", .0.display())]
    Empty(PathBuf),
}

/// An endless sequence of bid requests, the same for the same source and seed.
#[derive(Clone, Debug)]
pub struct Traffic {
    templates: Vec<Template>,
    order: TemplateOrder,
    origin: u64,
    count: u64,
}

/// A request in two parts, with room for an id between them.
#[derive(Clone, Debug)]
struct Template {
    before: Vec<u8>,
    after: Vec<u8>,
}

#[derive(Clone, Debug)]
enum TemplateOrder {
    /// In a random order.
    Drawn(Draws),
    /// In turn.
    Turns,
}

impl Traffic {
    /// Requests generated according to `options`.
    pub fn generated(options: &TrafficOptions) -> Result<Self, Error> {
        check(options)?;
        let mut draws = Draws::seeded(options.seed);
        let templates = (0..options.templates)
            .map(|_| {
                let plan = plan(options, &mut draws);
                let fields = Draws::seeded(draws.bits());
                Template::new(render(&plan, &fields).as_bytes())
                    .expect("a generated request is a JSON object with an id")
            })
            .collect();
        Ok(Self { templates, origin: draws.bits(), order: TemplateOrder::Drawn(draws), count: 0 })
    }

    /// The requests of a file, one JSON object per line, in turn, each time with another id. Empty
    /// lines are skipped. The whole file is held in memory.
    pub fn from_json_lines(path: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        let lines = text.split(|&byte| byte == b'\n').enumerate();
        let templates = lines
            .filter(|(_, line)| !line.trim_ascii().is_empty())
            .map(|(index, line)| {
                Template::new(line.trim_ascii()).map_err(|problem| Error::Line {
                    path: path.to_owned(),
                    line: index + 1,
                    problem,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if templates.is_empty() {
            return Err(Error::Empty(path.to_owned()));
        }
        Ok(Self { templates, order: TemplateOrder::Turns, origin: 0, count: 0 })
    }

    /// One request, repeated, each time with another id.
    pub fn fixed(body: &[u8]) -> Result<Self, Error> {
        let template = Template::new(body).map_err(Error::Body)?;
        Ok(Self { templates: vec![template], order: TemplateOrder::Turns, origin: 0, count: 0 })
    }

    /// [`reference_request`], repeated, each time with another id and always 3072 bytes.
    pub fn reference() -> Self {
        Self::fixed(&reference_request()).expect("the reference request has an id")
    }

    /// Replaces what is in `out` with the next request, and returns its id.
    pub fn next(&mut self, out: &mut Vec<u8>) -> RequestId {
        let id = RequestId::new(self.origin, self.count);
        let template = match &mut self.order {
            TemplateOrder::Drawn(draws) => draws.pick(&self.templates),
            TemplateOrder::Turns => {
                let turn = self.count % self.templates.len() as u64;
                &self.templates[usize::try_from(turn).expect("below the number of templates")]
            }
        };
        self.count += 1;
        out.clear();
        out.extend_from_slice(&template.before);
        out.extend_from_slice(&id.0);
        out.extend_from_slice(&template.after);
        id
    }
}

impl Template {
    /// Splits `body` around its id. The error names the problem.
    fn new(body: &[u8]) -> Result<Self, String> {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(body).map_err(|error| error.to_string())?;
        match object.get("id") {
            Some(serde_json::Value::String(_)) => (),
            Some(_) => return Err("`id` is not a string".to_owned()),
            None => return Err("`id` is missing".to_owned()),
        }
        let at = scan::request_id(body).map_err(|_| "`id` is spelt with escapes".to_owned())?;
        Ok(Self { before: body[..at.start].to_vec(), after: body[at.end..].to_vec() })
    }
}

/// The request used for measurements: 3072 bytes, a site, one banner of 300x250, a floor of 0.35
/// USD, first price, 250 ms, and 20 entries in each of `bcat` and `badv`.
pub fn reference_request() -> Vec<u8> {
    let plan = RequestPlan {
        id: RequestId::new(0, 0).as_str().to_owned(),
        imps: vec![ImpPlan { floor_cents: 35, ..ImpPlan::default() }],
        channel: Channel::Site,
        publisher: 7,
        country: 0,
        currency: "USD".to_owned(),
        tmax_ms: Some(250),
        auction_type: Some(1),
        test: false,
        blocks: 20,
        bytes: REFERENCE_BYTES,
    };
    let request = render(&plan, &Draws::seeded(0)).into_bytes();
    assert_eq!(request.len(), REFERENCE_BYTES, "the reference request is filled up exactly");
    request
}

fn check(options: &TrafficOptions) -> Result<(), Error> {
    let o = options;
    let shares = [o.multi_imp_ppm, o.pmp_ppm, o.floor_ppm, o.test_ppm];
    let formats = [o.video_ppm, o.audio_ppm, o.native_ppm];
    let channels = [o.app_ppm, o.dooh_ppm];
    let whole = |mix: &[u32]| mix.iter().map(|&share| u64::from(share)).sum::<u64>();
    let problem = if o.templates == 0 || o.publishers == 0 {
        "at least one template and one publisher"
    } else if !(1..=COUNTRIES.len()).contains(&o.countries) {
        "1 to 10 countries"
    } else if !(*o.bytes.start()..=*o.bytes.end()).contains(&o.bytes_typical) {
        "a typical size between the smallest and the largest"
    } else if *o.bytes.end() > 1024 * 1024 {
        "requests of 1 MiB at most"
    } else if shares.iter().any(|&share| share > PPM)
        || whole(&formats) > u64::from(PPM)
        || whole(&channels) > u64::from(PPM)
    {
        "shares, and mixes in sum, of 1,000,000 parts per million at most"
    } else if o.currencies.is_empty() {
        "at least one currency"
    } else {
        return Ok(());
    };
    Err(Error::Options(problem))
}

fn plan(options: &TrafficOptions, draws: &mut Draws) -> RequestPlan {
    let imps = match draws.happens(options.multi_imp_ppm) {
        true => 2 + draws.below(IMPS_MAX - 1),
        false => 1,
    };
    let half_below = draws.happens(PPM / 2);
    let (low, high) = (*options.bytes.start(), *options.bytes.end());
    let bytes = match half_below {
        true => low + draws.below(options.bytes_typical - low + 1),
        // The smaller of two draws, so that large requests are rare.
        false => {
            let room = high - options.bytes_typical + 1;
            options.bytes_typical + draws.below(room).min(draws.below(room))
        }
    };
    // A small request has one impression and few blocks; otherwise it would not be small.
    let small = bytes < options.bytes_typical.min(2_048);
    let tmax_ms = (!options.tmax_ms.is_empty()).then(|| *draws.pick(&options.tmax_ms));
    RequestPlan {
        id: RequestId::new(0, 0).as_str().to_owned(),
        imps: (0..if small { 1 } else { imps }).map(|_| plan_imp(options, draws, small)).collect(),
        channel: plan_channel(options, draws),
        publisher: draws.below(options.publishers),
        country: draws.below(options.countries),
        currency: draws.pick(&options.currencies).clone(),
        tmax_ms,
        auction_type: *draws.pick(&[Some(1), Some(1), Some(2), None]),
        test: draws.happens(options.test_ppm),
        blocks: if small { 0 } else { draws.below(options.blocks_max + 1) },
        bytes,
    }
}

fn plan_channel(options: &TrafficOptions, draws: &mut Draws) -> Channel {
    let at = u32::try_from(draws.below(PPM as usize)).expect("below a million");
    if at < options.app_ppm {
        Channel::App
    } else if at < options.app_ppm + options.dooh_ppm {
        Channel::Dooh
    } else {
        Channel::Site
    }
}

fn plan_imp(options: &TrafficOptions, draws: &mut Draws, small: bool) -> ImpPlan {
    let at = u32::try_from(draws.below(PPM as usize)).expect("below a million");
    let video_end = options.video_ppm;
    let audio_end = video_end + options.audio_ppm;
    let format = match at {
        at if at < video_end => ImpFormat::Video,
        at if at < audio_end => ImpFormat::Audio,
        at if at < audio_end + options.native_ppm => ImpFormat::Native,
        _ => ImpFormat::Banner,
    };
    let floor = draws.happens(options.floor_ppm).then(|| 1 + draws.below(200));
    let deals = match draws.happens(options.pmp_ppm) && !small {
        true => 1 + draws.below(3),
        false => 0,
    };
    ImpPlan {
        format,
        size: SIZES[draws.below(SIZES.len()).min(draws.below(SIZES.len()))],
        floor_cents: floor.map_or(0, |cents| u32::try_from(cents).expect("at most 200")),
        deals,
        private: deals > 0 && draws.below(3) == 0,
    }
}
