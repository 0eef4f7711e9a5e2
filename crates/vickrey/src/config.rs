//! The configuration file as a whole, and the `vickrey config` commands.

pub(crate) mod budgets;
pub(crate) mod enrichments;
mod lots;
mod markup_store;
pub(crate) mod sold_lots;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cache_serve::Cache;
use clap::Subcommand;
use exchange_core::{Dsp, Enrichment};
use exchange_serve::Exchange;
use exchange_serve::campaigns::unknown_seat;
use live_serve::{Live, LiveConfig, SigningKey};
use lookup_serve::{Lookup, check_maps};
use pacer_serve::registry::CheckedFiles;
use pacer_serve::wire::PacerConfig;
use pacer_serve::{Spender, check_files};
use record::RecordService;
use runtime::config::{
    ConfigProblem, Loaded, Section, Sources, default_toml, describe, json_schema, load_tracked,
    reference_markdown,
};
use runtime::service::{Services, ShellConfig};
use serde_json::json;
use units::Currency;

use crate::command::exit::{CommandFailure, Exit};
use budgets::{CampaignBudgets, DirectCampaignRules, Pacer};

pub(crate) fn services() -> Services {
    Services::default()
        .with::<RecordService>()
        .with::<Exchange>()
        .with::<CampaignBudgets>()
        .with::<Pacer>()
        .with::<Live>()
        .with::<Cache>()
        .with::<Lookup>()
        .link::<Exchange>(budgets::link)
        .link::<Exchange>(markup_store::link)
        .link::<Exchange>(enrichments::link)
        .link::<Pacer>(budgets::link_pacer)
        .link::<Live>(lots::link_live)
}

/// The first key of a configuration file, with which tokens for the live floor are signed.
pub(crate) fn signing_key(file: &Path) -> anyhow::Result<SigningKey> {
    let loaded = load_tracked(file, read_config).0.map_err(CommandFailure::usage)?;
    let key = loaded.value.service::<Live>().and_then(|live: &LiveConfig| live.keys.first());
    key.cloned().ok_or_else(|| {
        let file = file.display();
        CommandFailure::usage(format!("{file} has no [[live.key]]: add one, then sign tokens"))
    })
}

/// Declares and reads everything in `vickrey.toml`.
pub(crate) fn read_config(s: &mut Section<'_>) -> ShellConfig {
    let mut config = ShellConfig::read(&services(), s);
    let node = config.service::<RecordService>().map(|record| record.node);
    let exchange = config.service_mut::<Exchange>();
    let is_exchange = exchange.is_some();
    let lifetimes = exchange.and_then(|exchange| {
        exchange.node = node;
        exchange.notices.as_ref().map(|notices| notices.lifetimes)
    });
    if lifetimes.is_some() && node.is_none() {
        let remedy = "needs [record], where what is owed to DSPs is kept";
        s.problem("exchange.notices", "…", remedy);
    }
    let has_remote_pacer =
        config.service::<Exchange>().is_some_and(|exchange| exchange.pacer.is_some());
    if has_remote_pacer && lifetimes.is_none() {
        let remedy = "needs [record] and [exchange.notices]: what is billed is told by beacons";
        s.problem("exchange.pacer", "…", remedy);
    }
    if has_remote_pacer && config.service::<CampaignBudgets>().is_some() {
        let remedy = "an exchange spends its own [budgets] or those of a pacer: remove one of both";
        s.problem("exchange.pacer", "…", remedy);
    }
    match (config.service_mut::<CampaignBudgets>(), lifetimes) {
        (Some(budgets), Some(lifetimes)) => budgets::set_billing_windows(budgets, &lifetimes),
        (Some(_), None) if is_exchange => {
            let remedy = "needs [record] and [exchange.notices]: what is billed is told by beacons";
            s.problem("budgets", "…", remedy);
        }
        _ => (),
    }
    let has_lots = config.service::<Live>().is_some_and(|live| live.lots.is_some());
    if has_lots && config.service::<CampaignBudgets>().is_none() {
        let remedy = "needs [budgets], which holds the money of bids";
        s.problem("live.lots", "…", remedy);
    }
    let enriches = config
        .service::<Exchange>()
        .is_some_and(|exchange| !exchange.market.enrichments.is_empty());
    if enriches && config.service::<Lookup>().is_none() {
        let remedy = "needs [lookup], which knows the providers of the data";
        s.problem("exchange.enrich", "…", remedy);
    }
    let stores_markup =
        config.service::<Exchange>().is_some_and(|exchange| exchange.cache.is_some());
    let has_puts = config.service::<Cache>().is_some_and(|cache| cache.puts.is_some());
    if stores_markup && !has_puts {
        let remedy = "needs [cache.puts], which serves what is stored";
        s.problem("exchange.cache", "…", remedy);
    }
    let bidders = config.service::<Pacer>().map(PacerConfig::lifetimes);
    if let Some((budgets, bidders)) = config.service_mut::<CampaignBudgets>().zip(bidders) {
        budgets.spenders.push(Spender::Pacer(bidders));
    }
    config
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a file, with the account and campaign files that it names, and report every problem;
    /// exits 64 if there are any
    Check {
        /// The configuration file
        file: PathBuf,
        /// Print JSON: a summary with warnings, or the problems
        #[arg(long)]
        json: bool,
    },
    /// Print the configuration in force: every key with its value, including defaults and included
    /// files; secrets are masked
    Show {
        /// The configuration file
        file: PathBuf,
        /// Print JSON, as GET /v1/config
        #[arg(long)]
        json: bool,
    },
    /// Print the differences between two configurations, one key per line: `+` only in the new one,
    /// `-` only in the old one, `~` changed; exits 1 if there are any
    Diff {
        /// The old configuration file
        old: PathBuf,
        /// The new configuration file
        new: PathBuf,
        /// Print a JSON array of objects with `key`, `change`, `old` and `new`
        #[arg(long)]
        json: bool,
    },
    /// Print a commented configuration with every key at its default
    Default,
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print the reference of all keys as Markdown
    Reference {
        /// Of the files that describe providers of look-ups, instead of the configuration
        #[arg(long)]
        maps: bool,
    },
}

pub(crate) fn run(command: &ConfigCommand) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    match command {
        ConfigCommand::Check { file, json: false } => check(file, &mut out)?,
        ConfigCommand::Check { file, json: true } => return check_json(file, &mut out),
        ConfigCommand::Show { file, json } => {
            let effective = loaded(file)?.0.effective;
            if *json {
                writeln!(out, "{}", serde_json::to_string_pretty(&effective.to_json())?)?;
            } else {
                write!(out, "{}", effective.to_toml())?;
            }
        }
        ConfigCommand::Diff { old, new, json } => return diff(old, new, *json, &mut out),
        ConfigCommand::Default => write!(out, "{}", default_toml(&describe(read_config)))?,
        ConfigCommand::Schema => {
            let schema = json_schema(&describe(read_config));
            writeln!(out, "{}", serde_json::to_string_pretty(&schema)?)?;
        }
        ConfigCommand::Reference { maps } => {
            let keys =
                if *maps { describe(lookup_serve::maps::read) } else { describe(read_config) };
            write!(out, "{}", reference_markdown(&keys))?;
        }
    }
    Ok(Exit::Done)
}

fn loaded(file: &Path) -> anyhow::Result<(Loaded<ShellConfig>, Sources)> {
    let (loaded, sources) = load_tracked(file, read_config);
    Ok((loaded.map_err(CommandFailure::usage)?, sources))
}

/// Reports a valid configuration with its warnings, or its problems.
fn check_json(file: &Path, out: &mut impl Write) -> anyhow::Result<Exit> {
    let (loaded, sources) = load_tracked(file, read_config);
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(problems) => {
            let problem = |it: &ConfigProblem| {
                let file = it.file.as_deref().unwrap_or(problems.file()).to_owned();
                json!(ConfigProblem { file: Some(file), ..it.clone() })
            };
            let all: Vec<_> = problems.iter().map(problem).collect();
            let found = json!({ "file": problems.file(), "ok": false, "problems": all });
            writeln!(out, "{found:#}")?;
            return Err(CommandFailure::usage(problems));
        }
    };
    let campaigns = checked_campaigns(file, &loaded.value)?;
    let providers = checked_maps(file, &loaded.value)?;
    let exchange = loaded.value.service::<Exchange>();
    let found = json!({
        "file": file.display().to_string(),
        "ok": true,
        "problems": [],
        "dsps": exchange.map(|exchange| exchange.market.dsps.len()),
        "accounts": campaigns.as_ref().map(|checked| checked.accounts),
        "campaigns": campaigns.as_ref().map(|checked| checked.campaigns),
        "providers": providers,
        "sources": sources.paths().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "watch_ms": u64::try_from(loaded.value.watch.as_millis())?,
        "warnings": warnings(&loaded.value, campaigns.as_ref()),
    });
    writeln!(out, "{found:#}")?;
    Ok(Exit::Done)
}

/// Accounts and campaigns in files. None without [budgets].
fn checked_campaigns(file: &Path, config: &ShellConfig) -> anyhow::Result<Option<CheckedFiles>> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let budgets = config.service::<CampaignBudgets>();
    let check = |budgets| {
        check_files::<DirectCampaignRules>(budgets, folder).map_err(CommandFailure::of_service)
    };
    budgets.map(check).transpose()
}

/// How many providers the maps of look-ups describe; checks that they have what enrichments need.
/// None without `[lookup]`.
fn checked_maps(file: &Path, config: &ShellConfig) -> anyhow::Result<Option<usize>> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let check = |lookup| check_maps(lookup, folder).map_err(CommandFailure::usage);
    let maps = config.service::<Lookup>().map(check).transpose()?;
    let exchange = config.service::<Exchange>();
    let enrichments = exchange.map_or(&[][..], |exchange| &exchange.market.enrichments[..]);
    if let Some(maps) = &maps {
        let problem = |enrichment: &Enrichment| {
            let problem = enrichments::rule(enrichment).check(&maps.map).err()?;
            Some(format!("\n  exchange.enrich `{}`: {problem}", enrichment.name))
        };
        let problems: Vec<_> = enrichments.iter().filter_map(problem).collect();
        if !problems.is_empty() {
            let file = file.display();
            let problems = problems.concat();
            return Err(CommandFailure::usage(format!("{file} and its maps disagree:{problems}")));
        }
    }
    Ok(maps.map(|maps| maps.map.providers.len()))
}

fn check(file: &Path, out: &mut impl Write) -> anyhow::Result<()> {
    let (loaded, sources) = loaded(file)?;
    let exchange = loaded.value.service::<Exchange>();
    let campaigns = checked_campaigns(file, &loaded.value)?;
    let providers = checked_maps(file, &loaded.value)?
        .map_or_else(String::new, |count| format!("providers of look-ups: {count}; "));
    let dsps = exchange.map(|exchange| &exchange.market.dsps[..]);
    let exchange = match dsps {
        Some([_]) => "exchange with 1 DSP".to_owned(),
        Some(dsps) => format!("exchange with {} DSPs", dsps.len()),
        None => "no exchange".to_owned(),
    };
    let paths = sources.paths().count();
    let watch = match loaded.value.watch {
        Duration::ZERO => "not watched".to_owned(),
        every => format!("watched every {every:?}"),
    };
    let noun = if paths == 1 { "file" } else { "files and folders" };
    let defined = campaigns.as_ref().map_or_else(
        String::new,
        |CheckedFiles { accounts, campaigns, .. }| {
            format!("accounts: {accounts}, campaigns: {campaigns}; ")
        },
    );
    writeln!(
        out,
        "{}: no problems; {exchange}; {defined}{providers}{paths} {noun}, {watch}",
        file.display()
    )?;
    for warning in warnings(&loaded.value, campaigns.as_ref()) {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(())
}

/// The settings that are valid and probably not intended.
fn warnings(config: &ShellConfig, campaigns: Option<&CheckedFiles>) -> Vec<String> {
    let exchange = config.service::<Exchange>();
    let market = exchange.map(|exchange| &exchange.market);
    let dsps = market.map(|market| &market.dsps[..]);
    let without_dsps = match campaigns.map(|checked| checked.campaigns) {
        None => Some("there is no [[dsp]] and no [budgets]: nobody bids, and nothing is sold"),
        Some(0) => Some(
            "there is no [[dsp]], and no file defines a campaign: nothing is sold until the API \
             defines one",
        ),
        Some(_) => None,
    };
    let without_dsps = without_dsps.filter(|_| dsps.is_some_and(<[Dsp]>::is_empty));
    let mut found: Vec<_> = without_dsps.into_iter().map(str::to_owned).collect();
    if let Some(campaigns) = campaigns {
        found.extend(campaign_warnings(campaigns, dsps));
        let is_unknown = |currency: Currency| {
            market.is_some_and(|market| market.rates.ratio(currency, market.currency).is_none())
        };
        let unknown = campaigns.currencies.iter().filter(|(_, currency)| is_unknown(*currency));
        found.extend(unknown.map(|(account, currency)| {
            format!("account `{account}`: {}", budgets::without_rate(*currency))
        }));
    }
    found.extend(
        config.service::<CampaignBudgets>().and_then(|budgets| budgets.late_wins_warning.clone()),
    );
    let notices = exchange.and_then(|exchange| exchange.notices.as_ref());
    if let Some(base) = notices.map(|notices| &notices.base).filter(|base| !base.is_tls()) {
        found.push(format!(
            "exchange.notices.url = \"{}\" is not https: ads on secure impressions get no beacon, and \
             are billed when they are sold",
            base.as_str()
        ));
    }
    found
}

/// Warnings about files of accounts and campaigns.
fn campaign_warnings(checked: &CheckedFiles, dsps: Option<&[Dsp]>) -> Vec<String> {
    // Without an exchange there are no DSPs to check.
    let seats = checked.seats.iter().filter_map(|named| Some((named, dsps?)));
    let seats = seats.filter_map(|((account, dsp, seat), dsps)| {
        let configured = dsps.iter().find(|known| *known.id == **dsp);
        let why = unknown_seat(configured, dsp, seat)?;
        Some(format!("account `{account}` names the seat `{dsp}/{seat}`: {why}"))
    });
    let notes =
        checked.notes.iter().map(|(campaign, note)| format!("campaign `{campaign}`: {note}"));
    let supposed = checked.supposed.iter().map(|account| {
        format!(
            "no file has the account `{account}`: its campaigns are refused at a start, unless the \
             API has defined it; amounts and times of theirs are not judged here"
        )
    });
    seats.chain(notes).chain(supposed).collect()
}

fn diff(old: &Path, new: &Path, json: bool, out: &mut impl Write) -> anyhow::Result<Exit> {
    // Reports the problems of both files.
    let (old, new) = match (loaded(old), loaded(new)) {
        (Ok((old, _)), Ok((new, _))) => (old.effective, new.effective),
        (Err(old), Err(new)) => return Err(CommandFailure::usage(format!("{old}\nerror: {new}"))),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => return Err(error),
    };
    let differences = old.differences(&new);
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&differences)?)?;
    } else {
        for difference in &differences {
            writeln!(out, "{difference}")?;
        }
    }
    Ok(if differences.is_empty() { Exit::Done } else { Exit::Missed })
}
