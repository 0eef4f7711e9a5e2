//! The kinds of behaviour by name: their effects, options and defaults. Owns the names; each
//! behaviour checks its own limits.

use std::time::Duration;

use runtime::config::{Optional, Section, ms, secs};

use crate::dsp::bid_fault::{BidFault, DspAct, Garble, LEVELS_MAX};
use crate::server::{
    BOMB_BYTES_MAX, Cut, DripFrom, FLOOD_MAX, FloodFrame, Http2Fault, INTERIM_MAX,
};

/// One kind of behaviour, as a profile file names it.
#[derive(Debug)]
pub struct ActDoc {
    /// Its `kind`.
    pub name: &'static str,
    /// Its keys, besides `lasts`, `kind` and `share`.
    pub knobs: &'static [&'static str],
    /// Its effect, in one line.
    pub line: &'static str,
    build: fn(&Knobs) -> DspAct,
}

/// Every kind.
pub static ACTS: [ActDoc; 23] = [
    ActDoc {
        name: "healthy",
        knobs: &[],
        line: "answers as the profile has it",
        build: |_| DspAct::Healthy,
    },
    ActDoc {
        name: "status",
        knobs: &["status", "body"],
        line: "answers with a status, 503 unless told otherwise",
        build: |knobs| DspAct::Status {
            code: knobs.status.unwrap_or(503),
            body: knobs.body.clone().unwrap_or_default(),
        },
    },
    ActDoc {
        name: "hang",
        knobs: &[],
        line: "reads the request and never answers",
        build: |_| DspAct::Hang,
    },
    ActDoc {
        name: "trickle",
        knobs: &["bytes", "every", "from"],
        line: "sends a bid `bytes` at a time, with `every` between pieces, from head or body on",
        build: |knobs| DspAct::Trickle {
            bytes: knobs.bytes.unwrap_or(1),
            every: knobs.every.unwrap_or(Duration::from_millis(10)),
            from: knobs.from.unwrap_or(DripFrom::Head),
        },
    },
    ActDoc {
        name: "close",
        knobs: &["at"],
        line: "closes before the answer, in its head, or in its body",
        build: |knobs| DspAct::Close { at: knobs.at.unwrap_or(Cut::Body) },
    },
    ActDoc {
        name: "reset",
        knobs: &["at"],
        line: "resets the connection before the answer, in its head, or in its body",
        build: |knobs| DspAct::Reset { at: knobs.at.unwrap_or(Cut::Before) },
    },
    ActDoc {
        name: "garbage",
        knobs: &[],
        line: "sends bytes that are not HTTP, and closes",
        build: |_| DspAct::Garbage,
    },
    ActDoc {
        name: "malformed",
        knobs: &["variant"],
        line: "answers 200 with a body that is not a response, in one of eight ways or in each in turn",
        build: |knobs| DspAct::Content(BidFault::Malformed { how: knobs.variant.flatten() }),
    },
    ActDoc {
        name: "huge",
        knobs: &["size", "endless"],
        line: "answers with `size` (64MiB) declared, or with chunks without end",
        build: |knobs| {
            DspAct::Content(BidFault::Huge {
                bytes: (!knobs.endless.unwrap_or(false))
                    .then(|| knobs.size.unwrap_or(64 << 20) as u64),
            })
        },
    },
    ActDoc {
        name: "deep",
        knobs: &["levels"],
        line: "answers with JSON nested `levels` (10000) deep",
        build: |knobs| DspAct::Content(BidFault::Deep { levels: knobs.levels.unwrap_or(10_000) }),
    },
    ActDoc {
        name: "wrong_id",
        knobs: &[],
        line: "bids in a response to another request",
        build: |_| DspAct::Content(BidFault::WrongId),
    },
    ActDoc {
        name: "wrong_imp",
        knobs: &[],
        line: "bids on impressions that were not offered",
        build: |_| DspAct::Content(BidFault::WrongImp),
    },
    ActDoc {
        name: "wrong_currency",
        knobs: &["currency"],
        line: "bids in a currency of its own (XTS)",
        build: |knobs| {
            DspAct::Content(BidFault::WrongCurrency {
                code: knobs.currency.clone().unwrap_or_else(|| "XTS".to_owned()),
            })
        },
    },
    ActDoc {
        name: "late",
        knobs: &["by"],
        line: "answers as the profile has it, `by` (500ms) after the request",
        build: |knobs| DspAct::Late { by: knobs.by.unwrap_or(Duration::from_millis(500)) },
    },
    ActDoc {
        name: "refused",
        knobs: &[],
        line: "closes its port and all connections",
        build: |_| DspAct::Refused,
    },
    ActDoc {
        name: "gzip",
        knobs: &["always"],
        line: "answers in gzip where the request accepts it, or always",
        build: |knobs| DspAct::Gzip { always: knobs.always.unwrap_or(false) },
    },
    ActDoc {
        name: "gzip_bomb",
        knobs: &["size"],
        line: "answers with a small gzip that inflates to `size` (32MiB)",
        build: |knobs| DspAct::GzipBomb { inflated: knobs.size.unwrap_or(32 << 20) },
    },
    ActDoc {
        name: "bad_gzip",
        knobs: &[],
        line: "bids in a gzip body that is cut off, altered, or no gzip at all",
        build: |_| DspAct::BadGzip,
    },
    ActDoc {
        name: "chunked",
        knobs: &["bytes"],
        line: "bids in chunks of `bytes` (1) bytes",
        build: |knobs| DspAct::Chunked { bytes: knobs.bytes.unwrap_or(1) },
    },
    ActDoc {
        name: "redirect",
        knobs: &["status", "location"],
        line: "answers 302 to `location`, or to another path of its own",
        build: |knobs| DspAct::Redirect {
            code: knobs.status.unwrap_or(302),
            to: knobs.location.clone(),
        },
    },
    ActDoc {
        name: "interim",
        knobs: &["status", "times"],
        line: "sends an interim answer (103) `times` times before its own, or without end",
        build: |knobs| DspAct::Interim { code: knobs.status.unwrap_or(103), count: knobs.times },
    },
    ActDoc {
        name: "closing",
        knobs: &["announced"],
        line: "answers as the profile has it and closes, with or without `connection: close`",
        build: |knobs| DspAct::Closing { announced: knobs.announced.unwrap_or(false) },
    },
    ActDoc {
        name: "http2",
        knobs: &["form", "code", "bytes", "every", "times"],
        line: "misuses HTTP/2 in one of eleven forms; answers as the profile has it over HTTP/1.1",
        build: |knobs| DspAct::Http2(knobs.http2_fault()),
    },
];

/// Options of all kinds.
struct Knobs {
    status: Option<u16>,
    body: Option<String>,
    bytes: Option<usize>,
    every: Option<Duration>,
    from: Option<DripFrom>,
    at: Option<Cut>,
    variant: Option<Option<Garble>>,
    size: Option<usize>,
    endless: Option<bool>,
    levels: Option<usize>,
    currency: Option<String>,
    by: Option<Duration>,
    always: Option<bool>,
    location: Option<String>,
    times: Option<u32>,
    announced: Option<bool>,
    form: Option<Http2Form>,
    code: Option<u32>,
}

/// An [`Http2Fault`] without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Http2Form {
    Reset,
    Flood(FloodFrame),
    HpackBomb,
    ZeroWindow,
    WindowOverflow,
    Endless,
    Trailers,
    GoAway,
    UnknownStream,
}

const FORMS: [(&str, Http2Form); 11] = [
    ("reset", Http2Form::Reset),
    ("settings_flood", Http2Form::Flood(FloodFrame::Settings)),
    ("ping_flood", Http2Form::Flood(FloodFrame::Ping)),
    ("continuation_flood", Http2Form::Flood(FloodFrame::Continuation)),
    ("hpack_bomb", Http2Form::HpackBomb),
    ("zero_window", Http2Form::ZeroWindow),
    ("window_overflow", Http2Form::WindowOverflow),
    ("endless", Http2Form::Endless),
    ("trailers", Http2Form::Trailers),
    ("goaway", Http2Form::GoAway),
    ("unknown_stream", Http2Form::UnknownStream),
];

/// Error codes of RFC 9113, section 7, that a server may give.
const CODES: [(&str, u32); 6] = [
    ("no_error", 0x0),
    ("protocol_error", 0x1),
    ("internal_error", 0x2),
    ("refused_stream", 0x7),
    ("cancel", 0x8),
    ("enhance_your_calm", 0xb),
];

/// Frames of a flood unless told otherwise.
const FLOOD_FRAMES: u32 = 10_000;

const _: () = assert!(INTERIM_MAX == FLOOD_MAX, "both are `times`");

const FROM: [(&str, DripFrom); 2] = [("head", DripFrom::Head), ("body", DripFrom::Body)];

const AT: [(&str, Cut); 3] = [("before", Cut::Before), ("head", Cut::Head), ("body", Cut::Body)];

const VARIANTS: [(&str, Option<Garble>); 9] = [
    ("any", None),
    ("empty", Some(Garble::Empty)),
    ("html", Some(Garble::Html)),
    ("truncated", Some(Garble::Truncated)),
    ("trailing", Some(Garble::Trailing)),
    ("encoding", Some(Garble::Encoding)),
    ("types", Some(Garble::Types)),
    ("number", Some(Garble::Number)),
    ("escape", Some(Garble::Escape)),
];

/// Reads the options of one kind; refuses those of others.
pub(super) fn read(s: &mut Section<'_>, act: &ActDoc) -> DspAct {
    let knobs = Knobs::read(s);
    for (knob, is_given) in knobs.given() {
        if is_given && !act.knobs.contains(&knob) {
            let known = match act.knobs {
                [] => "has none".to_owned(),
                knobs => format!("has {}", knobs.join(", ")),
            };
            s.problem(knob, "", format!("is not a key of `{}`, which {known}", act.name));
        }
    }
    (act.build)(&knobs)
}

impl Knobs {
    fn read(s: &mut Section<'_>) -> Self {
        let text = |text: &str| Ok(text.to_owned());
        Self {
            status: s.integer("status", Optional(503), 100..=599, "Status of the answer."),
            body: s.parsed("body", Optional("sorry"), text, "Body of a status."),
            bytes: s.bytes("bytes", Optional("1B"), 1..=1 << 20, "Size of a piece or a chunk."),
            every: s.duration("every", Optional("10ms"), ms(1)..=secs(60), "Pause of a trickle."),
            from: s.one_of("from", Optional("head"), &FROM, "Where a trickle begins."),
            at: s.one_of("at", Optional("body"), &AT, "Where the answer breaks off."),
            variant: s.one_of("variant", Optional("any"), &VARIANTS, "Way of being malformed."),
            size: s.bytes(
                "size",
                Optional("64MiB"),
                0..=BOMB_BYTES_MAX,
                "Size of a huge answer, or of an inflated bomb.",
            ),
            endless: s.boolean("endless", Optional(true), "A huge answer never ends."),
            levels: s.integer("levels", Optional(10_000), 1..=LEVELS_MAX, "Depth of nesting."),
            currency: s.parsed("currency", Optional("XTS"), text, "Currency that is stated."),
            by: s.duration("by", Optional("500ms"), ms(1)..=secs(60), "Time of a late answer."),
            always: s.boolean("always", Optional(true), "Gzip also where it is not accepted."),
            location: s.text("location", Optional("http://127.0.0.1:9/"), "Where to redirect."),
            times: s.integer(
                "times",
                Optional(10),
                0..=INTERIM_MAX,
                "Number of interim answers; absent: without end. Frames of a flood; absent: 10000.",
            ),
            announced: s.boolean("announced", Optional(true), "Says `connection: close`."),
            form: s.one_of("form", Optional("reset"), &FORMS, "How HTTP/2 is misused."),
            code: s.one_of("code", Optional("refused_stream"), &CODES, "Code of a stream's reset."),
        }
    }

    fn http2_fault(&self) -> Http2Fault {
        match self.form.unwrap_or(Http2Form::Reset) {
            Http2Form::Reset => Http2Fault::Reset { code: self.code.unwrap_or(0x7) },
            Http2Form::Flood(frames) => {
                Http2Fault::Flood { frames, times: self.times.unwrap_or(FLOOD_FRAMES) }
            }
            Http2Form::HpackBomb => Http2Fault::HpackBomb,
            Http2Form::ZeroWindow => Http2Fault::ZeroWindow,
            Http2Form::WindowOverflow => Http2Fault::WindowOverflow,
            Http2Form::Endless => Http2Fault::Endless {
                bytes: self.bytes.unwrap_or(1),
                every: self.every.unwrap_or(Duration::from_millis(10)),
            },
            Http2Form::Trailers => Http2Fault::Trailers,
            Http2Form::GoAway => Http2Fault::GoAway,
            Http2Form::UnknownStream => Http2Fault::UnknownStream,
        }
    }

    fn given(&self) -> [(&'static str, bool); 18] {
        [
            ("status", self.status.is_some()),
            ("body", self.body.is_some()),
            ("bytes", self.bytes.is_some()),
            ("every", self.every.is_some()),
            ("from", self.from.is_some()),
            ("at", self.at.is_some()),
            ("variant", self.variant.is_some()),
            ("size", self.size.is_some()),
            ("endless", self.endless.is_some()),
            ("levels", self.levels.is_some()),
            ("currency", self.currency.is_some()),
            ("by", self.by.is_some()),
            ("always", self.always.is_some()),
            ("location", self.location.is_some()),
            ("times", self.times.is_some()),
            ("announced", self.announced.is_some()),
            ("form", self.form.is_some()),
            ("code", self.code.is_some()),
        ]
    }
}
