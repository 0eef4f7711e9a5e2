//! `vickrey campaign`, `vickrey account` and `vickrey audit`: the API of a running exchange, for
//! people.
//!
//! Owns the command line and the requests. A module per response shows it.

mod apply;
mod audit;
mod curve;
mod file;
mod kind;
mod show;
mod why;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use crate::command::args::ApiArgs;
use crate::command::client::{ApiClient, ApiRefusal, encoded};
use crate::command::exit::{CommandFailure, Exit};
use crate::command::table::print_json;
use apply::{ApplyArgs, UpdateArgs};
pub(crate) use audit::{AuditArgs, run as run_audit};
use kind::{DefinitionKind, PAGE, ask_one, refused};

#[derive(Debug, Subcommand)]
pub(crate) enum CampaignCommand {
    /// List all campaigns, or those of an account
    List {
        /// List only the campaigns of this account
        #[arg(long, value_name = "ID")]
        account: Option<String>,
        /// Include removed ones
        #[arg(long)]
        removed: bool,
        #[command(flatten)]
        asking: ApiArgs,
    },
    /// Show a campaign and its spend
    Show(OneArgs),
    /// Create the definitions in a file, in TOML or JSON
    Create(CreateArgs),
    /// Change keys of it, and print the changes
    Update(UpdateArgs),
    /// Create it, or change it to match a file, and print the changes
    Apply(ApplyArgs),
    /// Set limits; amounts are absolute
    Budget(BudgetArgs),
    /// Pause its spending
    Pause(ChangeArgs),
    /// Resume its spending
    Resume(ChangeArgs),
    /// Remove it; what it has spent still counts
    Remove(ChangeArgs),
    /// Explain why it does not spend, and how it bids
    Why(OneArgs),
    /// Show its spend: in this hour, today by hour, and in total
    Spend(OneArgs),
    /// Show who changed which keys of campaigns, each before and after
    Audit(AuditArgs),
    /// Plot its spend and its target
    Curve {
        #[command(flatten)]
        one: OneArgs,
        /// Write an SVG file instead of plotting in the terminal
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// List all accounts
    List {
        /// Include removed ones
        #[arg(long)]
        removed: bool,
        #[command(flatten)]
        asking: ApiArgs,
    },
    /// Show an account
    Show(OneArgs),
    /// Create the definitions in a file, in TOML or JSON
    Create(CreateArgs),
    /// Change keys of it, and print the changes
    Update(UpdateArgs),
    /// Create it, or change it to match a file, and print the changes
    Apply(ApplyArgs),
    /// Set limits; amounts are absolute
    Budget(BudgetArgs),
    /// Pause the spending of all its campaigns
    Pause(ChangeArgs),
    /// Resume their spending
    Resume(ChangeArgs),
    /// Explain why it does not spend as a whole, and count the campaigns that do
    Why(OneArgs),
    /// Show the spend of all its campaigns and seats together: in this hour, today by hour, and in
    /// total
    Spend(OneArgs),
    /// Show who changed which keys of accounts, each before and after
    Audit(AuditArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// Id of the campaign or account
    id: String,
    #[command(flatten)]
    asking: ApiArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// File with definitions; - reads stdin
    file: PathBuf,
    /// Idempotency key: a request sent twice with the same key takes effect once
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    #[command(flatten)]
    asking: ApiArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Change it only if this is its version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct LimitArgs {
    /// Limit on total spend; `none` removes it
    #[arg(long, value_name = "AMOUNT")]
    budget: Option<String>,
    /// Limit on spend per day
    #[arg(long, value_name = "AMOUNT")]
    daily: Option<String>,
    /// Limit on spend per hour
    #[arg(long, value_name = "AMOUNT")]
    hourly: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(crate) fn run(command: &CampaignCommand) -> anyhow::Result<Exit> {
    const KIND: DefinitionKind = DefinitionKind::Campaign;
    let mut out = io::stdout().lock();
    match command {
        CampaignCommand::List { account, removed, asking } => {
            list(KIND, account.as_deref(), *removed, asking, &mut out)
        }
        CampaignCommand::Show(one) => show(KIND, one, &mut out),
        CampaignCommand::Create(args) => create(KIND, args, &mut out),
        CampaignCommand::Update(args) => apply::update(KIND, args, &mut out),
        CampaignCommand::Apply(args) => apply::apply(KIND, args, &mut out),
        CampaignCommand::Audit(args) => audit::run(Some(KIND), args),
        CampaignCommand::Budget(args) => budget(KIND, args, &mut out),
        CampaignCommand::Pause(args) => send(KIND, &ChangeRequest::PAUSE, args, &mut out),
        CampaignCommand::Resume(args) => send(KIND, &ChangeRequest::RESUME, args, &mut out),
        CampaignCommand::Remove(args) => send(KIND, &ChangeRequest::REMOVE, args, &mut out),
        CampaignCommand::Why(one) => show_part(KIND, one, "/why", why::why, &mut out),
        CampaignCommand::Spend(one) => show_part(KIND, one, "/spend", show::spend, &mut out),
        CampaignCommand::Curve { one, svg } => {
            let answer = ask_one(&ApiClient::new(&one.asking)?, KIND, &one.id, "/curve")?;
            match svg {
                _ if one.asking.json => print_json(&answer, &mut out),
                Some(file) => curve::plot(&answer, file, &mut out),
                None => curve::draw(&answer, &mut out),
            }
        }
    }
}

pub(crate) fn run_account(command: &AccountCommand) -> anyhow::Result<Exit> {
    const KIND: DefinitionKind = DefinitionKind::Account;
    let mut out = io::stdout().lock();
    match command {
        AccountCommand::List { removed, asking } => list(KIND, None, *removed, asking, &mut out),
        AccountCommand::Show(one) => show(KIND, one, &mut out),
        AccountCommand::Create(args) => create(KIND, args, &mut out),
        AccountCommand::Update(args) => apply::update(KIND, args, &mut out),
        AccountCommand::Apply(args) => apply::apply(KIND, args, &mut out),
        AccountCommand::Audit(args) => audit::run(Some(KIND), args),
        AccountCommand::Budget(args) => budget(KIND, args, &mut out),
        AccountCommand::Pause(args) => send(KIND, &ChangeRequest::PAUSE, args, &mut out),
        AccountCommand::Resume(args) => send(KIND, &ChangeRequest::RESUME, args, &mut out),
        AccountCommand::Why(one) => show_part(KIND, one, "/why", why::why_account, &mut out),
        AccountCommand::Spend(one) => show_part(KIND, one, "/spend", show::spend, &mut out),
    }
}

fn list(
    kind: DefinitionKind,
    account: Option<&str>,
    removed: bool,
    asking: &ApiArgs,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let client = ApiClient::new(asking)?;
    let account_query = account.map(|id| format!("&account={}", encoded(id)));
    let removed_query = removed.then(|| "&removed=true".to_owned());
    let query: String = account_query.into_iter().chain(removed_query).collect();
    let delivery = if kind == DefinitionKind::Campaign { "&delivery=true" } else { "" };
    let (mut all, mut after) = (Vec::new(), String::new());
    let refused = loop {
        let path = format!("{}?most={PAGE}{delivery}{query}{after}", kind.path());
        let mut page = client.get(&path)?;
        if let Value::Array(views) = page[kind.plural()].take() {
            all.extend(views);
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={}", encoded(next)),
            None => break page["refused_files"].take(),
        }
    };
    if asking.json {
        return print_json(&Value::from(all), out);
    }
    if let (Some(id), true) = (account, all.is_empty()) {
        writeln!(out, "account `{id}` has no campaigns")?;
    } else {
        show::list(kind, &all, out)?;
    }
    show::refused_files(&refused, out)?;
    Ok(Exit::Done)
}

fn show(kind: DefinitionKind, one: &OneArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let client = ApiClient::new(&one.asking)?;
    let view = ask_one(&client, kind, &one.id, "")?;
    if one.asking.json {
        return print_json(&view, out);
    }
    // Without a response of the ledger there is nothing to add.
    let spend = client.ask("GET", &kind.of(&one.id, "/spend"), &[], None)?;
    show::one(kind, &view, spend.ok().as_ref(), out)?;
    if kind == DefinitionKind::Campaign {
        let asked = client.ask("GET", &kind.of(&one.id, "/why"), &[], None)?;
        if let Ok(answer) = asked {
            why::funnel(&answer, out)?;
        }
    }
    Ok(Exit::Done)
}

fn create(kind: DefinitionKind, args: &CreateArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let client = ApiClient::new(&args.asking)?;
    let definitions = file::read(kind, &args.file)?;
    if let (Some(_), [_, _, ..]) = (&args.key, &definitions[..]) {
        let message = "--key names one request, but the file defines several: leave it out";
        return Err(CommandFailure::usage(message));
    }
    let key = args.key.as_deref().map(|key| ("idempotency-key", key.to_owned()));
    let headers: Vec<_> = key.into_iter().collect();
    for definition in definitions {
        let view = client
            .ask("POST", kind.path(), &headers, Some(&definition.into()))?
            .map_err(ApiRefusal::into_failure)?;
        show_change(kind, &args.asking, &view, out)?;
    }
    Ok(Exit::Done)
}

fn budget(kind: DefinitionKind, args: &BudgetArgs, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let LimitArgs { budget, daily, hourly } = &args.limits;
    let given = [("budget", budget), ("daily_budget", daily), ("hourly_budget", hourly)];
    let amount = |amount: &String| match amount.as_str() {
        "none" => Value::Null,
        amount => amount.into(),
    };
    let given =
        given.into_iter().filter_map(|(key, it)| Some((key.to_owned(), amount(it.as_ref()?))));
    let body: Map<String, Value> = given.collect();
    let request = ChangeRequest { method: "PUT", part: "/budget", body: Some(body.into()) };
    send(kind, &request, &args.change, out)
}

/// A request that changes an account or a campaign.
struct ChangeRequest {
    method: &'static str,
    part: &'static str,
    body: Option<Value>,
}

impl ChangeRequest {
    const PAUSE: Self = Self { method: "PUT", part: "/pause", body: None };
    const RESUME: Self = Self { method: "DELETE", part: "/pause", body: None };
    const REMOVE: Self = Self { method: "DELETE", part: "", body: None };
}

fn send(
    kind: DefinitionKind,
    request: &ChangeRequest,
    args: &ChangeArgs,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let OneArgs { id, asking } = &args.one;
    let version = args.if_version.map(|version| ("if-match", format!("\"{version}\"")));
    let headers: Vec<_> = version.into_iter().collect();
    let client = ApiClient::new(asking)?;
    let view = client
        .ask(request.method, &kind.of(id, request.part), &headers, request.body.as_ref())?
        .map_err(|refusal| refused(kind, id, refusal))?;
    show_change(kind, asking, &view, out)
}

fn show_change(
    kind: DefinitionKind,
    asking: &ApiArgs,
    view: &Value,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    if asking.json {
        return print_json(view, out);
    }
    show::changed(kind, view, out)?;
    Ok(Exit::Done)
}

/// Requests one part of an account or a campaign, and shows it.
fn show_part(
    kind: DefinitionKind,
    one: &OneArgs,
    part: &str,
    show: fn(&Value, &mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let answer = ask_one(&ApiClient::new(&one.asking)?, kind, &one.id, part)?;
    if one.asking.json {
        return print_json(&answer, out);
    }
    show(&answer, out)?;
    Ok(Exit::Done)
}
