//! `vickrey origin`: runs a simulated origin, for a cache to stand in front of.

use std::io::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use testbed::origin::{OriginAct, OriginBehaviour, OriginFault, OriginOptions};
use testbed::server::{Cut, DripFrom, ServerOptions};

use super::long_run::{StopSignal, parse_duration};
use crate::command::exit::{CommandFailure, Exit};

/// Pace of a slow body.
const SLOW_EVERY: Duration = Duration::from_millis(100);
/// Pieces of a slow body, in bytes.
const SLOW_BYTES: usize = 64;

#[derive(Debug, Args)]
#[command(
    after_help = "Every path has a body: lines with the path, again and again. `?bytes=N` sets its size.\n\nExamples:\n  vickrey origin --port 8081\n  vickrey origin --port 8081 --latency 20ms --cache-control 'max-age=5, stale-while-revalidate=60'\n  vickrey origin --port 8081 --fault reset --fault-share 100000"
)]
pub(crate) struct OriginArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port [default: chosen by the system]
    #[arg(long)]
    port: Option<u16>,
    /// Size of bodies whose query does not say it
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// Cache-Control of every answer
    #[arg(long, value_name = "DIRECTIVES", default_value = "max-age=60")]
    cache_control: String,
    /// Send no validators, and answer no conditions
    #[arg(long)]
    unvalidated: bool,
    /// Vary by this field of requests: bodies have its value too
    #[arg(long, value_name = "FIELD")]
    vary: Option<String>,
    /// Divide all paths into so many groups, which Surrogate-Key names group-0 and so on
    #[arg(long, value_name = "N", default_value_t = 0)]
    surrogate_keys: usize,
    /// Time from request to answer
    #[arg(long, default_value = "0ms", value_parser = parse_duration)]
    latency: Duration,
    /// What befalls answers
    #[arg(long, value_enum)]
    fault: Option<FaultKind>,
    /// What share of answers it befalls, in parts per million
    #[arg(long, value_name = "PPM", default_value_t = 1_000_000, requires = "fault")]
    fault_share: u32,
    /// Seed of validators, groups and faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Core of its thread
    #[arg(long)]
    core: Option<usize>,
    /// Print JSON: the URL, and the final counts
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FaultKind {
    /// 503
    Error,
    /// No answer
    Hang,
    /// A body of 64 bytes each 100 ms
    Slow,
    /// The connection closes in the middle of the body, which has a length
    Close,
    /// Likewise, by a reset
    Reset,
    /// Bytes that are not HTTP
    Garbage,
    /// 100 interim answers before the answer
    Interim,
    /// A body shorter than its length
    ShortBody,
    /// A body longer than its length
    LongBody,
    /// Two different lengths
    TwoLengths,
    /// A body without length and end
    Endless,
    /// A head of a megabyte
    HugeHead,
}

impl FaultKind {
    fn act(self) -> OriginAct {
        match self {
            Self::Error => OriginAct::Status { code: 503, body: "unavailable\n".to_owned() },
            Self::Hang => OriginAct::Hang,
            Self::Slow => {
                OriginAct::Trickle { bytes: SLOW_BYTES, every: SLOW_EVERY, from: DripFrom::Body }
            }
            Self::Close => OriginAct::Close { at: Cut::Body },
            Self::Reset => OriginAct::Reset { at: Cut::Body },
            Self::Garbage => OriginAct::Garbage,
            Self::Interim => OriginAct::Interim { code: 103, count: Some(100) },
            Self::ShortBody => OriginAct::Content(OriginFault::ShortBody),
            Self::LongBody => OriginAct::Content(OriginFault::LongBody),
            Self::TwoLengths => OriginAct::Content(OriginFault::TwoLengths),
            Self::Endless => OriginAct::Content(OriginFault::Endless),
            Self::HugeHead => OriginAct::Content(OriginFault::HugeHead),
        }
    }
}

pub(crate) fn run(args: &OriginArgs) -> anyhow::Result<Exit> {
    let options = OriginOptions {
        bytes: args.bytes,
        cache_control: args.cache_control.clone(),
        is_validated: !args.unvalidated,
        vary: args.vary.as_ref().map(|name| name.to_ascii_lowercase()),
        surrogate_keys: args.surrogate_keys,
        latency: args.latency,
        seed: args.seed,
    };
    let behaviour = OriginBehaviour {
        act: args.fault.map_or(OriginAct::Healthy, FaultKind::act),
        share_ppm: args.fault_share,
    };
    let server = ServerOptions {
        listen: args.listen,
        base_port: args.port,
        core: args.core,
        ..ServerOptions::default()
    };
    runtime::process::raise_descriptor_limit();
    let origin = testbed::origin::start(&options, behaviour, &server)
        .map_err(CommandFailure::unavailable)?;
    // The reader of the line with the URL may stop it at once.
    let stop = StopSignal::catch()?;
    let out = &mut std::io::stdout();
    match args.json {
        true => writeln!(out, "{}", json!({ "url": origin.url() }))?,
        false => writeln!(out, "an origin listens at {}; stop with Ctrl-C", origin.url())?,
    }
    stop.wait();
    let stats = origin.stats();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&stats)?)?,
        false => writeln!(
            out,
            "{} requests; {} answered 304, {} answered 206, {} with a fault, {} malformed",
            stats.requests, stats.not_modified, stats.parts, stats.faults, stats.malformed
        )?,
    }
    origin.stop()?;
    Ok(Exit::Done)
}
