//! Measures what the load generator costs: CPU time of its thread per request, against one
//! simulated DSP that stands in for an exchange.
//!
//! `cargo run --release -p testbed --example hammer_cost [seconds]`

#![expect(clippy::print_stdout, reason = "a measurement is for reading")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use testbed::dsp::{self, DspProfile, FleetOptions};
use testbed::hammer::{self, HammerOptions, Length, Mode};
use testbed::traffic::Traffic;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(3), |text| text.parse())?;
    let fleet = dsp::start(FleetOptions {
        dsps: vec![DspProfile { no_bid_ppm: 0, ..DspProfile::default() }],
        core: Some(1),
        ..FleetOptions::default()
    })?;
    for mode in [Mode::Closed { in_flight: 32 }, Mode::Open { rate_per_s: 2_000 }] {
        let options = HammerOptions {
            mode,
            length: Length::For(Duration::from_secs(seconds)),
            core: Some(0),
            ..HammerOptions::new(format!("http://{}/openrtb2/auction", fleet.addresses()[0]))
        };
        let stop = Arc::new(AtomicBool::new(false));
        let report = hammer::run(&options, Traffic::reference(), stop, &mut |_| ())?;
        let cpu_us = report.generator_busy_ppm as f64 / report.answers_per_s;
        println!("{report}generator CPU    {cpu_us:.1} µs per request\n");
    }
    Ok(fleet.stop()?)
}
