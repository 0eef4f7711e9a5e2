//! A stream of auctions from an exchange's log: those on which a campaign or a seat bid.
//!
//! Owns the flags that select them, and the notes on what the log contains and what was left out.
//! `audit` finds the opportunities.

use std::io::Write;
use std::path::{Path, PathBuf};

use audit::{
    Buyer, ExclusionCounts, Filter, Opportunities, OpportunityError, OpportunityQuery,
    RecordDirectory, ReportColumns, opportunities,
};
use clap::Args;
use diagnostics::nearest;
use exchange_serve::DIRECT_DSP;
use pacer_core::strategy::AuctionPricing;
use serde_json::{Value, json};
use units::{Cpm, Currency, Nanos, Rounding};
use whatif::stream::{self, StreamAuction};

use crate::command::exit::{CommandFailure, Exit};
use crate::log::damage_report::{DamageReport, SegmentProgress};
use crate::log::filter_args::FilterArgs;
use crate::log::line;
use crate::log::source::{cannot_open, cannot_read};

/// DSP ids of direct campaigns: the one in force, and the one in records of earlier builds.
const DIRECT_DSPS: [&str; 2] = [DIRECT_DSP, "house"];

/// Most names that an error suggests.
const NAMES_MAX: usize = 8;

/// The buyer of the opportunities.
#[derive(Debug, Args)]
#[group(id = "buyer", multiple = false)]
struct BuyerArgs {
    /// With --log: the impressions on which this campaign bid (`Bid.cid`)
    #[arg(long, value_name = "ID", requires = "log")]
    campaign: Option<String>,
    /// With --log: the impressions on which any campaign of this account bid
    #[arg(long, value_name = "ID", requires = "log")]
    account: Option<String>,
    /// With --log: the impressions on which this seat of a DSP bid
    #[arg(long, value_name = "[DSP/]SEAT", requires = "log")]
    seat: Option<String>,
}

/// The selection of a log's auctions.
#[derive(Debug, Args)]
pub(super) struct RecordedArgs {
    /// The directory of an exchange's log, with `durable` and `firehose`: the stream consists
    /// of the impressions on which a campaign or a seat bid
    #[arg(long, value_name = "DIR", requires = "buyer")]
    pub(super) log: Option<PathBuf>,
    #[command(flatten)]
    whose: BuyerArgs,
    /// With --log: value of 1000 impressions, as in the campaign's `bid.value`, in the auctions'
    /// currency [default: the price of the bid, which is below the value if pacing reduced it]
    #[arg(long, value_name = "CPM", value_parser = value, requires = "log")]
    value: Option<Cpm>,
    /// With --log: only auctions in this currency
    #[arg(long, value_name = "CODE", value_parser = currency, requires = "log")]
    currency: Option<Currency>,
    #[command(flatten)]
    selection: FilterArgs,
}

fn value(text: &str) -> Result<Cpm, String> {
    Cpm::parse(text, Rounding::Down)
        .map_err(|_| "not a price of 1000 impressions: write it like 2.50".to_owned())
}

fn currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).ok_or_else(|| "not a currency code: write it like USD".to_owned())
}

pub(super) struct RecordedStream {
    pub(super) auctions: Vec<StreamAuction>,
    /// [`Exit::Missed`] if the log is damaged.
    pub(super) exit: Exit,
    who: String,
    currency: Currency,
    is_worth_bids: bool,
    found: Opportunities,
}

impl RecordedArgs {
    /// Refuses a filter: it selects a log's auctions.
    pub(super) fn check_unfiltered(&self) -> anyhow::Result<()> {
        if self.selection.is_all() {
            return Ok(());
        }
        Err(CommandFailure::usage(
            "a filter is of a log's auctions: name the log by --log DIR, or leave it out",
        ))
    }

    pub(super) fn read(&self, path: &Path) -> anyhow::Result<RecordedStream> {
        let filter = self.selection.filter()?;
        let buyer = self.whose.buyer()?;
        let directory = RecordDirectory::open_written(path).map_err(cannot_open)?;
        let most = stream::StreamOptions::default().rows_max;
        let sought = OpportunityQuery { buyer, value: self.value, currency: self.currency, most };
        let progress = SegmentProgress::new();
        let found = opportunities(&directory, &filter, &sought, |done, of| progress.show(done, of));
        drop(progress);
        let mut found = found.map_err(cannot_make)?;
        let damage = DamageReport::of(&found.damage, &found.generations);
        let Some(currency) = found.currency else {
            return Err(self.nothing(&directory, &sought.buyer, &filter, &found));
        };
        let unreadable = found.left_out.unreadable > 0;
        let auction = |opportunity: audit::Opportunity| StreamAuction {
            time_ms: opportunity.time_us / 1000,
            market_price: opportunity.market_price,
            value: opportunity.value,
        };
        Ok(RecordedStream {
            auctions: std::mem::take(&mut found.list).into_iter().map(auction).collect(),
            exit: if unreadable { Exit::Missed } else { damage.exit() },
            who: named(&sought.buyer),
            currency,
            is_worth_bids: self.value.is_none(),
            found,
        })
    }

    /// The error for an empty stream, with suggestions.
    fn nothing(
        &self,
        directory: &RecordDirectory,
        buyer: &Buyer,
        filter: &Filter,
        found: &Opportunities,
    ) -> anyhow::Error {
        let (who, place) = (named(buyer), directory.path().display());
        if found.bids > 0 {
            let left_out = notes(&found.left_out).join("; ");
            return CommandFailure::usage(format!(
                "{place} has {} of {who}, and not one whose price decided: {left_out}",
                line::count(found.bids, "bid", "bids"),
            ));
        }
        let mut said = format!("{place} has no bid of {who}");
        if !filter.is_empty() {
            said.push_str(" in the auctions that the filter holds for");
        }
        let known = names(directory, buyer);
        let asked = match buyer {
            Buyer::Campaign(name) | Buyer::Seat { seat: name, .. } => name,
        };
        let others = known.iter().filter(|name| *name != asked);
        if let Some(near) = nearest(asked, others.map(String::as_str)) {
            said.push_str(&format!("; did you mean `{}`?", line::visible(near)));
        } else if !known.is_empty() {
            let shown: Vec<_> = known.iter().take(NAMES_MAX).map(line::visible).collect();
            let more = if known.len() > NAMES_MAX { ", …" } else { "" };
            said.push_str(&format!("; there are bids of {}{more}", shown.join(", ")));
        }
        let left_out = notes(&found.left_out);
        if !left_out.is_empty() {
            said.push_str(&format!(" ({})", left_out.join("; ")));
        }
        CommandFailure::usage(said)
    }
}

impl BuyerArgs {
    fn buyer(&self) -> anyhow::Result<Buyer> {
        let seat = |dsps: &[&str], seat: &str| Buyer::Seat {
            dsps: dsps.iter().map(ToString::to_string).collect(),
            seat: seat.to_owned(),
        };
        match (&self.campaign, &self.account, &self.seat) {
            (Some(campaign), ..) => Ok(Buyer::Campaign(campaign.clone())),
            // An account's campaigns bid on the seat of its name.
            (_, Some(account), _) => Ok(seat(&DIRECT_DSPS, account)),
            (.., Some(name)) => Ok(match name.split_once('/') {
                Some((dsp, name)) => seat(&[dsp], name),
                None => seat(&[], name),
            }),
            _ => {
                Err(CommandFailure::usage("name a --campaign, an --account or a --seat of the log"))
            }
        }
    }
}

fn cannot_make(error: OpportunityError) -> anyhow::Error {
    match error {
        OpportunityError::Read(error) => cannot_read(error),
        OpportunityError::Currencies(_) => CommandFailure::usage(format!(
            "{error}, and a stream is in one: choose it by --currency"
        )),
        OpportunityError::TooMany(_) => {
            CommandFailure::usage(format!("{error}: ask for fewer, as by 'time>=-24h'"))
        }
    }
}

fn named(buyer: &Buyer) -> String {
    let text = match buyer {
        Buyer::Campaign(id) => format!("campaign {id}"),
        Buyer::Seat { dsps, seat } => match &dsps[..] {
            [] => format!("seat {seat}"),
            [dsp] => format!("seat {dsp}/{seat}"),
            _ => format!("account {seat}"),
        },
    };
    line::visible(&text)
}

/// Names that have bid, most bids first. Empty if the record cannot be read.
fn names(directory: &RecordDirectory, buyer: &Buyer) -> Vec<String> {
    let column = if matches!(buyer, Buyer::Campaign(_)) { "campaign" } else { "seat" };
    let Ok(columns) = column.parse::<ReportColumns>() else { return Vec::new() };
    let progress = SegmentProgress::new();
    let filter = Filter::default();
    let report = audit::report(directory, &filter, &columns, |done, of| progress.show(done, of));
    let mut groups = report.map(|report| report.groups).unwrap_or_default();
    groups.sort_by_key(|group| std::cmp::Reverse(group.sums.counts.bids));
    let names = groups.into_iter().flat_map(|group| group.key);
    names.filter(|name| !name.is_empty()).collect()
}

/// Notes on what the stream leaves out.
fn notes(left_out: &ExclusionCounts) -> Vec<String> {
    let ExclusionCounts {
        shed,
        unreadable,
        no_generation,
        cut,
        tests,
        other_currency,
        not_admitted,
        agreed,
        in_group,
        outranked,
    } = *left_out;
    line::counts(&[
        (shed, "auction that was not recorded", "auctions that were not recorded"),
        (unreadable, "record that cannot be read", "records that cannot be read"),
        (no_generation, "auction without its generation", "auctions without their generation"),
        (cut, "auction with bids left out", "auctions with bids left out"),
        (tests, "test auction", "test auctions"),
        (other_currency, "auction in another currency", "auctions in other currencies"),
        (not_admitted, "bid refused whatever its price", "bids refused whatever their price"),
        (agreed, "bid at an agreed price", "bids at agreed prices"),
        (in_group, "bid of a group", "bids of groups"),
        (outranked, "bid outranked by a deal or a floor", "bids outranked by a deal or a floor"),
    ])
}

impl RecordedStream {
    /// The pricing that all auctions share.
    pub(super) fn pricing(&self) -> anyhow::Result<AuctionPricing> {
        let first = self.found.first_price;
        match (self.auctions.len() as u64).saturating_sub(first) {
            _ if first == 0 => Ok(AuctionPricing::SecondPrice),
            0 => Ok(AuctionPricing::FirstPrice),
            second => Err(CommandFailure::usage(format!(
                "{first} of the auctions were held at first price and {second} at second: choose by \
                 --auction what a win costs"
            ))),
        }
    }

    pub(super) fn write_heading(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Self { who, currency, found, .. } = self;
        let paid = u64::try_from(found.paid_nanos).map(Nanos::new);
        let paid = paid.map_or_else(|_| "more than can be told".to_owned(), |it| it.to_string());
        let worth = if self.is_worth_bids { "what was bid" } else { "as given" };
        let wins = found.wins;
        writeln!(
            out,
            "log       {who}, in {currency}: won {wins} for {paid}; the value is {worth}"
        )?;
        let left_out = notes(&found.left_out);
        if left_out.is_empty() {
            return Ok(());
        }
        writeln!(out, "left out  {}", left_out.join("; "))
    }

    pub(super) fn as_json(&self) -> Value {
        let Self { who, currency, found, .. } = self;
        let left_out = found.left_out;
        json!({
            "buyer": who,
            "currency": currency.code(),
            "value": if self.is_worth_bids { "bid" } else { "given" },
            "bids": found.bids,
            "wins": found.wins,
            "paid_nanos": u64::try_from(found.paid_nanos).unwrap_or(u64::MAX),
            "left_out": {
                "not_recorded": left_out.shed,
                "unreadable": left_out.unreadable,
                "without_generation": left_out.no_generation,
                "bids_left_out": left_out.cut,
                "tests": left_out.tests,
                "other_currency": left_out.other_currency,
                "not_admitted": left_out.not_admitted,
                "agreed_price": left_out.agreed,
                "in_group": left_out.in_group,
                "outranked": left_out.outranked,
            },
        })
    }
}
