//! `vickrey demo pacer`: a pacer and a bidder in one process, over a real socket. In the end their
//! books must agree to the nano.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use console::style;
use runtime::config::{Loaded, parse_loaded};
use runtime::control::Control;
use runtime::listen::listen;
use runtime::service::{Shell, ShellOptions};
use runtime::shutdown::Shutdown;
use serde_json::json;
use testbed::pacer::{self, PacerLoadOptions, PacerLoadProgress, PacerLoadReport};
use units::Nanos;

use super::args::PacerDemoArgs;
use super::bidder::{self, CLIENT};
use super::format::{decimal, utc};
use super::screen::{Screen, output};
use crate::command::exit::{CommandFailure, Exit};
use crate::config::budgets::{CampaignBudgets, standing};
use crate::config::{read_config, services};
use crate::peers::long_run::stop_on_signal;

/// Interval between pages on a terminal, and between lines otherwise.
const DRAW_EVERY: Duration = Duration::from_millis(500);
const PRINT_EVERY: Duration = Duration::from_secs(2);
/// Widest bar, in characters.
const BAR: u64 = 24;

/// A campaign, and its budget as a share of what its wins could cost, in percent.
struct PacedPlan {
    id: &'static str,
    strategy: &'static str,
    budget_percent: u64,
}

const PLANS: [PacedPlan; 4] = [
    PacedPlan { id: "sprint", strategy: "asap", budget_percent: 40 },
    PacedPlan { id: "steady", strategy: "even", budget_percent: 40 },
    PacedPlan { id: "thrifty", strategy: "adaptive", budget_percent: 25 },
    PacedPlan { id: "ample", strategy: "even", budget_percent: 400 },
];

impl PacedPlan {
    fn budget(&self, args: &PacerDemoArgs) -> Nanos {
        let all = bidder::cost_of_wins(args.duration, args.rate) / PLANS.len() as u64;
        Nanos::new(all / 100 * self.budget_percent)
    }
}

/// The load's state, shared with its thread.
#[derive(Default)]
struct PacerDemoLoad {
    progress: Mutex<Option<PacerLoadProgress>>,
    is_done: AtomicBool,
}

pub(super) fn run(args: &PacerDemoArgs) -> anyhow::Result<Exit> {
    runtime::process::keep_files_private();
    let folder = tempfile::tempdir()?;
    let bidders = listen(([127, 0, 0, 1], 0).into()).map_err(CommandFailure::unavailable)?;
    let address = bidders.local_addr()?;
    let Loaded { value: config, effective, .. } = parse_loaded(
        "the demo's configuration",
        &configuration(folder.path(), &address.to_string()),
        read_config,
    )?;
    runtime::logging::start(config.logging.clone())?;
    std::fs::write(folder.path().join("campaigns.toml"), campaigns(args))?;
    let shutdown = Shutdown::new(config.drain);
    let options = ShellOptions {
        effective,
        file: None,
        folder: folder.path(),
        listeners: vec![bidders],
        shutdown: shutdown.clone(),
        control: Control::start()?,
    };
    let shell = Shell::start(&services(), config, options).map_err(CommandFailure::of_shell)?;
    let budgets = shell.service::<CampaignBudgets>().expect("the demo configures budgets");
    let mut out = output(args.json);
    writeln!(out, "pacer at {address}, {} bid requests/s in batches of 10", args.rate)?;
    let metrics = shell.admin_address();
    writeln!(out, "metrics at http://{metrics}/metrics; Ctrl-C ends the demo with its report\n")?;
    let load = PacerLoadOptions {
        connections: 8,
        depth: 4,
        ..bidder::load(address, args.rate, args.duration, args.seed)
    };
    let report = drive(args, &load, &budgets, &mut *out)?;
    writeln!(out, "{report}\n{}", lines(&budgets, args).join("\n"))?;
    let ids = PLANS.map(|plan| plan.id);
    let spent = bidder::await_books(&budgets, &ids, report.billed_nanos);
    shutdown.begin();
    drop(budgets);
    shell.join().map_err(CommandFailure::of_shell)?;
    let billed = report.billed_nanos;
    if args.json {
        let result = json!({ "load": report, "ledger_nanos": spent });
        writeln!(std::io::stdout(), "{result:#}")?;
    }
    bidder::compare(spent, billed)?;
    writeln!(out, "\nledger and bidder agree to the nano: {billed}")?;
    Ok(Exit::Done)
}

/// Sends the load until the time is up or Ctrl-C, and shows progress.
fn drive(
    args: &PacerDemoArgs,
    options: &PacerLoadOptions,
    budgets: &CampaignBudgets,
    out: &mut dyn Write,
) -> anyhow::Result<PacerLoadReport> {
    let stop = Arc::new(AtomicBool::new(false));
    let _signals = stop_on_signal(Arc::clone(&stop))?;
    let load = PacerDemoLoad::default();
    std::thread::scope(|scope| {
        let bidder = scope.spawn(|| {
            let report = pacer::run(options, &stop, &mut |now| {
                *load.progress.lock().expect("nothing panics while it holds the progress") =
                    Some(*now);
            });
            load.is_done.store(true, Ordering::Relaxed);
            report
        });
        let watched = watch(args, &load, budgets, out);
        if watched.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let report = bidder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        watched?;
        report.map_err(CommandFailure::unavailable)
    })
}

fn watch(
    args: &PacerDemoArgs,
    load: &PacerDemoLoad,
    budgets: &CampaignBudgets,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut screen = if args.json { None } else { Screen::open()? };
    let every = if screen.is_some() { DRAW_EVERY } else { PRINT_EVERY };
    let (mut last, mut due) = (None::<PacerLoadProgress>, Instant::now() + every);
    while !load.is_done.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(50));
        let now = *load.progress.lock().expect("nothing panics while it holds the progress");
        let Some(now) = now.filter(|_| due <= Instant::now()) else { continue };
        due += every;
        let head = bidder::brief(&now, last.as_ref());
        last = Some(now);
        match &mut screen {
            Some(screen) => {
                let size = screen.size();
                let title = style("vickrey demo pacer").bold();
                let left = args.duration.saturating_sub(now.elapsed).as_secs();
                let lines = lines(budgets, args).join("\n");
                let page = format!("{title} {left} s left; Ctrl-C ends it\n\n{head}\n\n{lines}\n");
                screen.draw(&page, size)?;
            }
            None => writeln!(out, "{:>3} s  {head}", now.elapsed.as_secs())?,
        }
    }
    Ok(())
}

/// A heading, and a line for each campaign with its spend, target and budget.
fn lines(budgets: &CampaignBudgets, args: &PacerDemoArgs) -> Vec<String> {
    let heading =
        format!("{:<20} {:>10} {:>10} {:>10}", "campaigns (USD)", "spent", "target", "budget");
    let mut lines = vec![style(heading).bold().to_string()];
    for plan in &PLANS {
        let budget = plan.budget(args).get();
        let (spent, target) = standing(budgets, plan.id);
        let spent = spent.unwrap_or(Nanos::ZERO).get();
        let target = target.map_or_else(|| "–".to_owned(), |target| decimal(target.get(), 9));
        let width = spent.saturating_mul(BAR).checked_div(budget).unwrap_or(0).min(BAR);
        let bar = style("█".repeat(usize::try_from(width).unwrap_or(0))).green();
        let (spent, budget) = (decimal(spent, 9), decimal(budget, 9));
        let name = format!("{} ({})", plan.id, plan.strategy);
        lines.push(format!("  {name:<18} {spent:>10} {target:>10} {budget:>10}  {bar}"));
    }
    lines
}

fn configuration(folder: &Path, bidders: &str) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    format!(
        "[runtime]\nshards = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\nfilter = \"warn\"\n\
         [record]\ndirectory = {:?}\n\
         [budgets]\ndirectory = {:?}\ncampaigns = \"campaigns.toml\"\nslot = \"1s\"\n\
         [pacer]\nlisten = \"{bidders}\"\n[[pacer.client]]\nid = \"{CLIENT}\"\nsecret = \"{CLIENT}\"\n",
        at("record"),
        at("budgets")
    )
}

fn campaigns(args: &PacerDemoArgs) -> String {
    let now = SystemTime::now();
    let (start, end) = (utc(now), utc(now + args.duration + Duration::from_secs(2)));
    let mut text = String::from("[[account]]\nid = \"acme\"\ncurrency = \"USD\"\n");
    for plan in &PLANS {
        let (id, strategy, budget) = (plan.id, plan.strategy, decimal(plan.budget(args).get(), 9));
        let _ = write!(
            text,
            "[[campaign]]\nid = \"{id}\"\naccount = \"acme\"\nstart = \"{start}\"\nend = \"{end}\"\n\
             budget = \"{budget}\"\nstrategy = {{ name = \"{strategy}\" }}\n"
        );
    }
    text
}
