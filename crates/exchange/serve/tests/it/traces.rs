//! Completed auctions are traced, even those without calls. The traces' own tests check their
//! format.

use runtime::control::Control;
use runtime::metrics::Exposition;
use runtime::traces::{Tracer, TracingOptions};

use crate::fixtures::{Dsp, Running, Setup, banner, until};

/// Finished spans, whether or not they were exported.
fn spans(tracer: &Tracer) -> u64 {
    let mut page = Exposition::default();
    tracer.expose(&mut page);
    let lines = page.text();
    let counts = lines.lines().filter(|line| line.starts_with("vickrey_tracing_spans"));
    counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

#[test]
fn an_auction_is_traced_whether_or_not_anybody_is_asked() {
    let text = "endpoint = \"http://127.0.0.1:1/v1/traces\"\nsample = \"100%\"";
    let options = runtime::config::parse("t.toml", text, TracingOptions::read).expect("good keys");
    let control = Control::start().expect("a thread");
    let (tracer, exporting) = runtime::traces::start(options, &control);
    let dsp = Dsp::bidding("1.00");
    let dsps = [(dsp.address, "publishers_allowed = [\"p\"]")];
    let setup = Setup { dsps: &dsps, tracer: Some(&tracer), ..Setup::default() };
    let exchange = Running::start(&setup);
    assert_eq!(exchange.auction(&banner(r#","site":{"publisher":{"id":"p"}}"#)).price(), "1");
    // The auction, its six phases, and the call.
    until("it is traced", || spans(&tracer) == 8);
    assert_eq!(exchange.auction(&banner("")).status, 204, "nobody may be asked");
    // The auction, and three phases.
    until("it is traced", || spans(&tracer) == 12);
    assert_eq!(exchange.auction("{}").status, 400);
    assert_eq!(spans(&tracer), 12, "it was none");
    exporting.stop();
}
