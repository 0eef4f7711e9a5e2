//! Profile files: every key takes effect, every problem is reported, and the shipped files are
//! valid.

use std::time::Duration;

use super::*;
use crate::dsp::{BidFault, DspAct, Garble};
use crate::server::{Cut, DripFrom, FloodFrame, Http2Fault};

fn profiles(text: &str) -> Vec<DspProfile> {
    parse_profiles("test.toml", text).expect("a sound file")
}

/// The act of a phase with these lines.
fn act(lines: &str) -> DspAct {
    let text = format!("[[dsp]]\n[[dsp.phase]]\n{lines}\n");
    profiles(&text)[0].schedule.phases[0].behaviour.act.clone()
}

fn check_problem(text: &str, want: &str) {
    let problems = parse_profiles("test.toml", text).expect_err(want).to_string();
    assert!(problems.contains(want), "{want}\n{problems}");
}

#[test]
fn every_key_of_a_dsp_arrives() {
    let text = r#"
        seed = 7
        [[dsp]]
        count = 2
        seats = ["a", "b"]
        bids = "80%"
        price = "2.50 EUR"
        price_sigma = "10%"
        above_floor = "1%"
        latency = { min = "1ms", median = "2ms", p99 = "3ms" }
        late = "2%"
        late_by = "300ms"
        bid_size = "2KiB"
        chunked = "3%"
        bids_max = 5
        deals = "4%"
        notices = true
        loss_notices = false
        notice = { status = 200, fail_first = 3 }
        markup_on_win = "5%"
        markup_latency = "6ms"
        markup_failures = "7%"
        repeat = true
        [[dsp.phase]]
        lasts = "1s"
        kind = "hang"
        share = "25%"
        [[dsp]]
    "#;
    let ms = Duration::from_millis;
    let want = DspProfile {
        seed: 7,
        seats: vec!["a".to_owned(), "b".to_owned()],
        no_bid_ppm: 200_000,
        price: PriceSpread {
            median_micros: 2_500_000,
            sigma: 0.1,
            min_micros: 83_333,
            max_micros: 67_500_000,
        },
        above_floor_ppm: 10_000,
        currency: "EUR".to_owned(),
        latency: LatencySpread { min: ms(1), median: ms(2), p99: ms(3) },
        late_ppm: 20_000,
        late_by: ms(300),
        bid_bytes: 2048,
        chunked_ppm: 30_000,
        bids_max: 5,
        deal_ppm: 40_000,
        notices: true,
        loss_notices: false,
        notice: NoticeOptions { answer: NoticeAnswer::Status(200), fail_first: 3 },
        markup_on_win_ppm: 50_000,
        markup_latency: ms(6),
        markup_failure_ppm: 70_000,
        schedule: DspSchedule {
            phases: vec![DspPhase {
                lasts: Some(ms(1_000)),
                behaviour: DspBehaviour { act: DspAct::Hang, share_ppm: 250_000 },
            }],
            repeat: true,
        },
    };
    let all = profiles(text);
    assert_eq!(all[..2], [want.clone(), want]);
    // Defaults of the file equal those of the code, except for the price's limits.
    let rest = DspProfile { seed: 7, ..DspProfile::default() };
    let price = PriceSpread { max_micros: 40_500_000, ..rest.price };
    assert_eq!(all[2], DspProfile { price, ..rest });
    assert_eq!(all.len(), 3);
}

#[test]
fn every_kind_has_its_knobs() {
    let ms = Duration::from_millis;
    let check = |lines: &str, want: DspAct| assert_eq!(act(lines), want, "{lines}");
    check(
        "kind = 'status'\nstatus = 500\nbody = 'x'",
        DspAct::Status { code: 500, body: "x".into() },
    );
    check(
        "kind = 'trickle'\nbytes = '3B'\nevery = '7ms'\nfrom = 'body'",
        DspAct::Trickle { bytes: 3, every: ms(7), from: DripFrom::Body },
    );
    check("kind = 'close'\nat = 'head'", DspAct::Close { at: Cut::Head });
    check("kind = 'reset'", DspAct::Reset { at: Cut::Before });
    check("kind = 'malformed'", BidFault::Malformed { how: None }.into());
    check(
        "kind = 'malformed'\nvariant = 'html'",
        BidFault::Malformed { how: Some(Garble::Html) }.into(),
    );
    check("kind = 'huge'\nsize = '1MiB'", BidFault::Huge { bytes: Some(1 << 20) }.into());
    check("kind = 'huge'\nendless = true", BidFault::Huge { bytes: None }.into());
    check("kind = 'deep'\nlevels = 9", BidFault::Deep { levels: 9 }.into());
    check(
        "kind = 'wrong_currency'\ncurrency = 'JPY'",
        BidFault::WrongCurrency { code: "JPY".into() }.into(),
    );
    check("kind = 'late'\nby = '2s'", DspAct::Late { by: ms(2_000) });
    check("kind = 'gzip'\nalways = true", DspAct::Gzip { always: true });
    check("kind = 'gzip_bomb'\nsize = '100MiB'", DspAct::GzipBomb { inflated: 100 << 20 });
    check("kind = 'chunked'\nbytes = '9B'", DspAct::Chunked { bytes: 9 });
    check(
        "kind = 'redirect'\nstatus = 301\nlocation = 'http://x/'",
        DspAct::Redirect { code: 301, to: Some("http://x/".into()) },
    );
    check("kind = 'interim'\nstatus = 100", DspAct::Interim { code: 100, count: None });
    check("kind = 'interim'\ntimes = 5", DspAct::Interim { code: 103, count: Some(5) });
    check("kind = 'closing'\nannounced = true", DspAct::Closing { announced: true });
    check("kind = 'http2'", DspAct::Http2(Http2Fault::Reset { code: 7 }));
    check(
        "kind = 'http2'\nform = 'reset'\ncode = 'cancel'",
        DspAct::Http2(Http2Fault::Reset { code: 8 }),
    );
    let frames = FloodFrame::Ping;
    check(
        "kind = 'http2'\nform = 'ping_flood'\ntimes = 9",
        DspAct::Http2(Http2Fault::Flood { frames, times: 9 }),
    );
    check(
        "kind = 'http2'\nform = 'endless'\nevery = '5ms'",
        DspAct::Http2(Http2Fault::Endless { bytes: 1, every: ms(5) }),
    );
    let mut names: Vec<_> = ACTS.iter().map(|act| act.name).collect();
    names.dedup();
    assert_eq!(names.len(), ACTS.len());
    let bare = ACTS.iter().filter(|act| act.knobs.is_empty()).count();
    assert_eq!(ACTS.len() - bare, 16, "every kind with knobs stands above");
}

#[test]
fn everything_wrong_is_told_at_once() {
    let text = "
        sed = 1
        [[dsp]]
        price = '1.50'
        latency = { median = '5ms' }
        late_by = '120'
        [[dsp.phase]]
        kind = 'hnag'
        [[dsp.phase]]
        kind = 'hang'
        every = '1ms'
        [[dsp.phase]]
        kind = 'close'
        status = 1000
        [[dsp.phase]]
        lasts = '1s'
        kind = 'refused'
        share = '50%'
    ";
    let problems = parse_profiles("test.toml", text).expect_err("wrong").to_string();
    for want in [
        "sed = 1: unknown key, did you mean `seed`?",
        "dsp[0].price",
        "dsp[0].latency.p99",
        "dsp[0].late_by = '120': needs a unit",
        "dsp[0].phase[0].kind = 'hnag'",
        "dsp[0].phase[1].every = '1ms': is not a key of `hang`, which has none",
        "dsp[0].phase[2].status = 1000: must be from 100 to 599",
        "dsp[0].phase[3].kind = 'refused': a port refuses all connections or none",
    ] {
        assert!(problems.contains(want), "no `{want}` in\n{problems}");
    }
}

#[test]
fn what_only_shows_together_is_told() {
    check_problem("", "comes to 0 DSPs, must be 1 to 10000");
    check_problem("[[dsp]]\ncount = 9000\n[[dsp]]\ncount = 9000", "comes to 18000 DSPs");
    let phase = |lines: &str| format!("[[dsp]]\n[[dsp.phase]]\n{lines}\n");
    check_problem(&phase("kind = 'hang'\n[[dsp.phase]]\nkind = 'hang'"), "only the last phase");
    check_problem("[[dsp]]\nrepeat = true\n[[dsp.phase]]\nkind = 'hang'", "repeats needs an end");
    check_problem(&phase("kind = 'status'\nstatus = 204\nbody = 'x'"), "204 and 304 have no body");
    check_problem(&phase("kind = 'redirect'\nstatus = 200"), "300 to 399");
    check_problem(&phase("kind = 'wrong_currency'\ncurrency = 'eur'"), "three capital letters");
    check_problem(&phase("kind = 'close'\nbytes = '1B'"), "is not a key of `close`, which has at");
    check_problem(&phase("lasts = '1s'"), "kind");
    check_problem("[[dsp]]\nnotice = { hang = true, redirect = 'http://x/' }", "cannot go with");
    check_problem("[[dsp]]\nseats = ['a\"b']", "visible ASCII");
}

#[test]
fn the_files_shipped_are_sound_and_as_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/testbed");
    let sick = |name: &str| {
        let all = load_profiles(&folder.join(name)).expect(name);
        assert_eq!(all.len(), 50, "{name}");
        all.into_iter().filter(|dsp| !dsp.schedule.phases.is_empty()).collect::<Vec<_>>()
    };
    let hostile = sick("hostile.toml");
    let kinds: Vec<_> = hostile.iter().map(|dsp| &dsp.schedule.phases[0].behaviour.act).collect();
    assert_eq!(kinds.len(), 10);
    for pair in kinds.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
    assert!(matches!(
        [kinds[0], kinds[2], kinds[4], kinds[6], kinds[8]],
        [
            DspAct::Hang,
            DspAct::Trickle { .. },
            DspAct::Reset { .. },
            DspAct::Content(BidFault::Malformed { .. }),
            DspAct::Status { code: 503, .. }
        ]
    ));
    let flapping = sick("flapping.toml");
    assert_eq!(flapping.len(), 10);
    for dsp in flapping {
        let phases = dsp.schedule.phases;
        let ends = [phases.first(), phases.last()];
        let healthy = |phase: Option<&DspPhase>| {
            phase.is_some_and(|phase| phase.behaviour == DspBehaviour::HEALTHY)
        };
        assert!(ends.into_iter().all(healthy) && phases.len() >= 3 && dsp.schedule.repeat);
    }
}

#[test]
fn the_reference_names_every_kind_and_knob() {
    let reference = profiles_reference();
    for act in &ACTS {
        assert!(reference.contains(act.name), "{}", act.name);
        for knob in act.knobs {
            assert!(reference.contains(&format!("`{knob}`")) || reference.contains(knob), "{knob}");
        }
    }
}
