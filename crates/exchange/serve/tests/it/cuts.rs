//! A conversation over HTTP/2 between the exchange and a simulated DSP that is disturbed once at each
//! of its bytes or frames. Every call ends at once and exactly once, in the way that the place
//! determines, and the DSP sees a request again only if it is known not to have processed it.

mod relay;

use exchange_core::Fate;
use exchange_core::record::CallOutcome;
use http2::Http2ErrorCode;
use http2::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameType, WINDOW_MAX};
use testbed::dsp::{self, DspProfile, Fleet, PriceSpread};
use testbed::server::ServerOptions;

use self::relay::{Conversation, FramePlace, Relay, RelayFault, SentFrame, ends_stream};
use crate::fixtures::{Caller, Running, Setup, banner, posted};

/// The auctions of a conversation, by their sites. The first two wait together for their answers, the
/// third is asked after them.
const SITES: [&str; 3] = ["first", "second", "third"];
/// Their streams if nothing is repeated.
const STREAMS: [u32; 3] = [1, 3, 5];
/// Of each bid: what the DSP can pad most bids to.
const BID_BYTES: usize = 360;
/// Bytes by which answers differ, because a `bidid` has 18 to 20 digits.
const LENGTH_SPREAD: usize = 2;
const PRICE: &str = "1.5";

/// What becomes of an auction's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExpectedCall {
    outcome: CallOutcome,
    /// How often the DSP sees the whole request.
    seen: usize,
}

impl ExpectedCall {
    const ANSWERED: Self = Self { outcome: CallOutcome::Answered, seen: 1 };
    /// On another stream, because the DSP did not process the first one.
    const REPEATED: Self = Self { outcome: CallOutcome::Answered, seen: 2 };
    /// The DSP may have seen it.
    const RESET: Self = Self { outcome: CallOutcome::Reset, seen: 1 };
}

/// How much of an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerProgress {
    None,
    /// The whole head.
    Head,
    Whole,
}

impl AnswerProgress {
    /// What becomes of the call if the connection is lost now.
    const fn lost(self) -> ExpectedCall {
        match self {
            Self::None => ExpectedCall::RESET,
            Self::Head => ExpectedCall { outcome: CallOutcome::Malformed, seen: 1 },
            Self::Whole => ExpectedCall::ANSWERED,
        }
    }

    /// What becomes of the call on `stream` after a frame of the relay.
    fn after(self, sent: SentFrame, stream: u32) -> ExpectedCall {
        match sent {
            _ if self == Self::Whole => ExpectedCall::ANSWERED,
            SentFrame::Reset { stream: other, .. } if other != stream => ExpectedCall::ANSWERED,
            SentFrame::Reset { code: Http2ErrorCode::REFUSED_STREAM, .. } if self == Self::None => {
                ExpectedCall::REPEATED
            }
            SentFrame::Reset { .. } => ExpectedCall::RESET,
            SentFrame::GoAway { last_stream, .. } if last_stream < stream => ExpectedCall::REPEATED,
            SentFrame::GoAway { is_lost: true, .. } => self.lost(),
            SentFrame::GoAway { .. } => ExpectedCall::ANSWERED,
        }
    }
}

/// Of a conversation that nothing disturbs.
impl Conversation {
    /// Frames until the first two auctions are answered.
    fn frames_of_two(&self) -> usize {
        let ends = |frame: FrameHeader| STREAMS[..2].contains(&frame.stream) && ends_stream(frame);
        self.frames.iter().rposition(|frame| ends(*frame)).expect("they are answered") + 1
    }

    /// Streams that are asked before `place`.
    fn streams_before(&self, place: FramePlace) -> &'static [u32] {
        let two = self.frames_of_two();
        let is_two = place.frames < two || place.frames == two && place.is_idle;
        if is_two { &STREAMS[..2] } else { &STREAMS }
    }

    fn progress(&self, stream: u32, frames: usize) -> AnswerProgress {
        let mut of_stream = self.frames[..frames].iter().filter(|frame| frame.stream == stream);
        if of_stream.clone().any(|frame| ends_stream(*frame)) {
            return AnswerProgress::Whole;
        }
        match of_stream.any(|frame| frame.kind == FrameType::Headers as u8) {
            true => AnswerProgress::Head,
            false => AnswerProgress::None,
        }
    }

    /// What becomes of the call on `stream`. One that has not been asked takes another connection.
    fn expected(&self, fault: RelayFault, stream: u32) -> ExpectedCall {
        match fault {
            RelayFault::None => ExpectedCall::ANSWERED,
            RelayFault::LostAfterBytes(cut) => self.expected_of_cut(cut, stream),
            RelayFault::LostAtFrame { place, .. } | RelayFault::Sent(place, _)
                if !self.streams_before(place).contains(&stream) =>
            {
                ExpectedCall::ANSWERED
            }
            RelayFault::LostAtFrame { place, .. } => self.progress(stream, place.frames).lost(),
            RelayFault::Sent(place, sent) => {
                self.progress(stream, place.frames).after(sent, stream)
            }
        }
    }

    /// The same if the DSP gets only `cut` bytes: the request to which they belong is lost with the one
    /// that waits with it, and later ones take another connection.
    fn expected_of_cut(&self, cut: usize, stream: u32) -> ExpectedCall {
        let lost = self.request_ends.partition_point(|end| *end < cut);
        let call = STREAMS.iter().position(|it| *it == stream).expect("it is one of them");
        let is_whole = cut == self.request_ends[call];
        match (call, lost) {
            (call, lost) if call == lost => {
                ExpectedCall { seen: usize::from(is_whole), ..ExpectedCall::RESET }
            }
            (0, 1) => ExpectedCall::RESET,
            _ => ExpectedCall::ANSWERED,
        }
    }
}

/// An exchange and a DSP with a relay between them.
struct RelayedExchange {
    exchange: Running,
    relay: Relay,
    fleet: Fleet,
    callers: [Caller; 2],
    /// Requests that the DSP got.
    seen: u64,
}

impl RelayedExchange {
    fn start() -> Self {
        let profile = DspProfile {
            seats: vec!["d0".to_owned()],
            no_bid_ppm: 0,
            price: PriceSpread { sigma: 0.0, ..DspProfile::default().price },
            bid_bytes: BID_BYTES,
            ..DspProfile::default()
        };
        let fleet = dsp::start(vec![profile], &ServerOptions::default()).expect("a DSP");
        let relay = Relay::start(fleet.addresses()[0]);
        let dsps = [(relay.address, "http = \"2\"\nbreaker = false")];
        let exchange = Running::start(&Setup { dsps: &dsps, ..Setup::default() });
        let callers = [exchange.caller(), exchange.caller()];
        Self { exchange, relay, fleet, callers, seen: 0 }
    }

    /// Calls by outcome so far, and those that were repeated.
    fn counts(&self) -> Vec<u64> {
        let outcomes = CallOutcome::ALL.iter().map(|outcome| self.exchange.outcomes(0, *outcome));
        outcomes.chain([self.exchange.count_dsp(0, |dsp| dsp.retries.value())]).collect()
    }

    /// Runs a conversation with this fault, and checks what becomes of each auction.
    #[track_caller]
    fn check(&mut self, fault: RelayFault, expected: [ExpectedCall; 3]) {
        let before = self.counts();
        self.relay.arm(fault);
        let request = |site| banner(&format!(r#","site":{{"id":"{site}"}},"tmax":9000"#));
        let [first, second] = &mut self.callers;
        first.send(&posted(&request(SITES[0])));
        self.relay.until_asked();
        second.send(&posted(&request(SITES[1])));
        let replies = [first.reply(), second.reply()];
        self.relay.until_idle();
        let [first, second] = replies;
        let replies = [first, second, self.callers[0].post(&request(SITES[2]))];
        self.relay.until_idle();
        assert!(self.exchange.open(0) <= 1, "{fault:?}");
        self.relay.end_connection();
        self.exchange.until_open(0, 0);

        let seen = self.relay.seen();
        self.seen += seen.len() as u64;
        for ((reply, call), site) in replies.iter().zip(expected).zip(SITES) {
            let is_sold = call.outcome == CallOutcome::Answered;
            let status = if is_sold { 200 } else { 204 };
            assert_eq!(reply.status, status, "{site}, {fault:?}: {reply:?}");
            assert!(!is_sold || reply.price() == PRICE, "{site}, {fault:?}: {reply:?}");
            let of_site = seen.iter().filter(|it| it.site == site).map(|it| &it.id);
            let mut ids: Vec<_> = of_site.collect();
            assert_eq!(ids.len(), call.seen, "requests of {site}, {fault:?}");
            ids.dedup();
            assert!(ids.len() <= 1, "a call is repeated under its id: {site}, {fault:?}");
        }
        let mut counts = before;
        for call in expected {
            let outcome = CallOutcome::ALL.iter().position(|it| *it == call.outcome);
            counts[outcome.expect("it is one of all")] += 1;
            *counts.last_mut().expect("the repeated ones") += u64::from(call.seen == 2);
        }
        let all = CallOutcome::ALL;
        assert_eq!(self.counts(), counts, "{all:?}, then repeated calls: {fault:?}");
    }

    /// Runs one conversation for each of these faults of an undisturbed one.
    fn check_all(mut self, faults: impl Fn(&Conversation) -> Vec<RelayFault>) {
        self.check(RelayFault::None, [ExpectedCall::ANSWERED; 3]);
        let whole = self.relay.conversation();
        for fault in faults(&whole) {
            self.check(fault, STREAMS.map(|stream| whole.expected(fault, stream)));
        }
        self.check(RelayFault::None, [ExpectedCall::ANSWERED; 3]);
        let last = self.relay.conversation();
        let kind = |frame: &FrameHeader| (frame.kind, frame.flags, frame.stream);
        let kinds = |of: &Conversation| of.frames.iter().map(kind).collect::<Vec<_>>();
        assert_eq!(kinds(&last), kinds(&whole), "the places were the same each time");
        assert_eq!(last.request_ends, whole.request_ends);
        assert_eq!(self.exchange.fates(Fate::WrongAuction), 0);
        let stats = self.fleet.stats().total();
        assert_eq!((stats.requests, stats.malformed), (self.seen, 0));
        drop(self.exchange);
        self.fleet.stop().expect("it stops");
    }
}

/// Places between the DSP's frames.
fn places(whole: &Conversation) -> impl Iterator<Item = FramePlace> {
    let place = |frames| FramePlace { frames, is_idle: false };
    let idle = [whole.frames_of_two(), whole.frames.len()];
    let idle = idle.map(|frames| FramePlace { frames, is_idle: true });
    (0..whole.frames.len()).map(place).chain(idle)
}

/// Those where it may send a frame of its own accord: after its SETTINGS.
fn places_after_settings(whole: &Conversation) -> impl Iterator<Item = FramePlace> {
    places(whole).filter(|place| place.frames > 0)
}

#[test]
fn a_connection_lost_after_every_byte_of_the_dsp() {
    RelayedExchange::start().check_all(|whole| {
        let mut faults = Vec::new();
        for place in places(whole) {
            let missing_max = match place.is_idle {
                true => 1,
                false => FRAME_HEADER_BYTES + whole.frames[place.frames].length + LENGTH_SPREAD,
            };
            let lost = |missing| RelayFault::LostAtFrame { place, missing };
            faults.extend((1..=missing_max).map(lost));
        }
        faults
    });
}

/// A request that was sent but not passed on fails, too: the exchange cannot know.
#[test]
fn a_connection_lost_after_every_byte_of_the_exchange() {
    RelayedExchange::start()
        .check_all(|whole| (0..=whole.request_ends[2]).map(RelayFault::LostAfterBytes).collect());
}

#[test]
fn a_reset_of_every_stream_after_every_frame() {
    let codes = [Http2ErrorCode::REFUSED_STREAM, Http2ErrorCode::INTERNAL_ERROR];
    RelayedExchange::start().check_all(|whole| {
        let mut faults = Vec::new();
        for place in places_after_settings(whole) {
            for stream in whole.streams_before(place) {
                let reset = |code| SentFrame::Reset { stream: *stream, code };
                faults.extend(codes.map(|code| RelayFault::Sent(place, reset(code))));
            }
        }
        faults
    });
}

#[test]
fn go_away_after_every_frame_with_every_last_stream() {
    RelayedExchange::start().check_all(|whole| {
        let mut faults = Vec::new();
        for place in places_after_settings(whole) {
            for last_stream in [&[0], whole.streams_before(place), &[WINDOW_MAX]].concat() {
                let go_away = |is_lost| SentFrame::GoAway { last_stream, is_lost };
                faults
                    .extend([false, true].map(|is_lost| RelayFault::Sent(place, go_away(is_lost))));
            }
        }
        faults
    });
}
