//! The floor: the minimum cost of a whole auction on this kernel.
//!
//! Owns the command line, start-up and the final report. The program reads a request, writes one
//! copy to every DSP, scans each answer once, and replies with the largest body. It knows nothing
//! of OpenRTB: no parsing, no rules, no timers. An exchange's cost above this number is the price
//! of being an exchange.

mod client;
mod dsp;
mod floor;
mod head;
mod inflate;
mod link;
mod pipe;
mod slots;
mod tls;

use std::io::{Write as _, stderr, stdout};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use rustls::RootCertStore;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::dsp::{Dsp, Terms};
use crate::floor::{Floor, Tally};

/// The minimum cost of a whole auction: raw epoll, one thread, no parsing, no rules.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Address for bid requests; port 0 lets the kernel choose.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// A DSP as [http://]HOST:PORT[/path], or with https:// over TLS; repeatable.
    #[arg(long)]
    dsp: Vec<String>,
    /// A file of DSPs, one per line; blank lines and lines that begin with # are skipped.
    #[arg(long)]
    dsps: Option<PathBuf>,
    /// Accept answers in gzip, and inflate them.
    #[arg(long)]
    gzip: bool,
    /// Share one HTTP/2 connection to each DSP among all auctions.
    #[arg(long)]
    http2: bool,
    /// PEM certificates of the authorities trusted for DSPs at https.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Pin the process to this core.
    #[arg(long)]
    core: Option<usize>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let dsps = resolve(&arguments)?;
    if let Some(core) = arguments.core {
        pin(core)?;
    }
    raise_descriptor_limit();

    let listener = TcpListener::bind(arguments.listen)
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let address = listener.local_addr()?;
    let mut floor = Floor::new(listener, stop_signal()?, dsps, arguments.http2)?;
    // The parent may read one line and close the pipe: that is no failure.
    let _ = writeln!(stdout(), "listening on {address}");
    floor.run()?;
    report(floor.tally());
    Ok(())
}

/// The DSPs of `--dsp`, then those of the `--dsps` file.
fn resolve(arguments: &Arguments) -> Result<Vec<Dsp>> {
    let mut urls = arguments.dsp.clone();
    if let Some(path) = &arguments.dsps {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the DSP file {}", path.display()))?;
        let lines = text.lines().map(str::trim);
        urls.extend(lines.filter(|l| !l.is_empty() && !l.starts_with('#')).map(String::from));
    }
    ensure!(!urls.is_empty(), "no DSP to ask: give --dsp HOST:PORT or --dsps FILE");
    let terms = Terms { gzip: arguments.gzip, roots: roots(arguments)? };
    let dsps = urls.iter().map(|url| Dsp::resolve(url, &terms)).collect::<Result<Vec<_>>>()?;
    let some_secure = dsps.iter().any(|dsp| dsp.peer.is_some());
    ensure!(some_secure || terms.roots.is_none(), "--ca means nothing without a DSP at https");
    Ok(dsps)
}

/// The authorities of `--ca`.
fn roots(arguments: &Arguments) -> Result<Option<Arc<RootCertStore>>> {
    let Some(path) = &arguments.ca else { return Ok(None) };
    let pem = std::fs::read(path)
        .with_context(|| format!("cannot read the authorities {}", path.display()))?;
    let roots = tls::authorities(&pem);
    roots.map(Some).with_context(|| format!("--ca {}", path.display()))
}

/// Pins the process, which has one thread, to a core.
fn pin(core: usize) -> Result<()> {
    ensure!(core < CpuSet::MAX_CPU, "--core {core}: at most {}", CpuSet::MAX_CPU - 1);
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot pin to core {core}"))
}

/// Every auction in flight uses a connection to every DSP, so this allows all possible descriptors.
fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // If it is refused, the limit is unchanged, which suffices for small runs.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// A socket that becomes readable on SIGTERM or SIGINT.
fn stop_signal() -> Result<UnixStream> {
    let (reader, writer) = UnixStream::pair().context("cannot make the signal pipe")?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)
            .context("cannot install the signal handler")?;
    }
    Ok(reader)
}

/// Prints one line of `name value` pairs on stderr, as every program in `bench` does.
fn report(tally: &Tally) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "a report, far below 2^53")]
    let (cpu_s, auctions) = (cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9, tally.auctions as f64);
    let Tally { auctions: done, calls, failed, retried, opened } = tally;
    let _ = writeln!(
        stderr(),
        "auctions {done} cpu_s {cpu_s:.3} auctions_per_cpu_s {:.0} \
         calls {calls} failed {failed} retried {retried} opened {opened}",
        auctions / cpu_s,
    );
}
