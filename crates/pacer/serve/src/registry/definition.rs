//! Accounts and campaigns, and their declaration for files and the API. Owns the problems of a
//! single definition. The exchange reads a campaign's [`CampaignRules`] from the same table.

mod clocks;
pub(super) mod pacing;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::tz::TimeZone;
use pacer_core::definitions::{amounts, hours};
use pacer_core::ledger::{BudgetLimits, CampaignBudget, Daypart, Holdback, Money};
use pacer_core::pacing::PacingPolicy;
use runtime::config::{Optional, Required, RequiredOption, Section};
use units::{Cpm, Currency};

use clocks::LocalInstant;

const SEATS_MAX: usize = 1_000;
/// Longest id. The store takes longer ones.
const ID_LETTERS_MAX: usize = 64;
/// What the ids of a sold lot's definitions begin with. Files and the API cannot define such ids.
pub(super) const LOT_PREFIX: &str = "lot:";

/// What campaigns need of their account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountFacts {
    /// Currency of all its money.
    pub currency: Currency,
    /// Time zone of its days and hours.
    pub zone: TimeZone,
}

impl AccountFacts {
    /// Assumed of an account that is not known yet.
    pub(crate) const fn unknown() -> Self {
        Self { currency: Currency::USD, zone: TimeZone::UTC }
    }
}

/// The exchange's part of a campaign: targeting, creatives and bids.
pub trait CampaignRules: Clone + Send + Sync + Sized + 'static {
    /// Tables of its own that a campaign has all of, or none.
    const TABLES: &'static [&'static str] = &[];

    /// A pool in which the campaigns of one file share equal values.
    type Shared: Default;

    /// Reads its keys of a campaign's table, beside the budget's.
    fn read(s: &mut Section<'_>, account: &AccountFacts) -> Self;

    /// Shares equal values with earlier rules: many campaigns of a file differ little.
    fn share(&mut self, shared: &mut Self::Shared);

    /// Whether strategies may not change its price.
    fn is_fixed_price(&self) -> bool;

    /// Its bid for 1000 impressions before any strategy: its price, or its value. None if it does
    /// not bid in auctions.
    fn amount(&self) -> Option<Cpm>;
}

/// The payer of campaigns.
#[derive(Clone, Debug, PartialEq)]
pub struct DefinedAccount {
    /// Id chosen by operators.
    pub id: String,
    /// Facts for its campaigns. They never change.
    pub facts: AccountFacts,
    /// Name of the zone.
    pub time_zone: String,
    /// Limits of all its campaigns together.
    pub limits: BudgetLimits,
    /// Part of the limits that is held back.
    pub late_holdback: Holdback,
    /// Whether all its campaigns are paused.
    pub is_paused: bool,
    /// DSP and seat of each buyer that wins only what this account authorises.
    pub seats: Vec<(String, String)>,
}

/// A campaign.
#[derive(Clone, Debug)]
pub struct DefinedCampaign<R> {
    /// Id chosen by operators.
    pub id: Arc<str>,
    /// Its account. It never changes.
    pub account: Arc<str>,
    /// What it may spend, and when.
    pub budget: CampaignBudget,
    /// How it spends. Equal pacings of a file are shared.
    pub pacing: Arc<PacingPolicy>,
    /// The exchange's part.
    pub rules: R,
    /// Notes on how it was understood.
    pub notes: Box<[String]>,
}

impl DefinedAccount {
    /// Reads an account's table.
    pub fn read(s: &mut Section<'_>) -> Self {
        let id = s.parsed("id", Required("acme"), id, "Unique ID of the account.");
        let currency =
            s.currency("currency", Required("USD"), "Its currency. It cannot be changed.");
        let (time_zone, zone) = s.parsed(
            "time_zone",
            "UTC",
            |name| clocks::zone(name).map(|zone| (name.to_owned(), zone)),
            "Time zone of its days and hours, a name of the IANA database. It cannot be changed.",
        );
        let limits = limits(s, currency);
        let late_holdback = late_holdback(s, currency);
        let seats = s.texts(
            "seats",
            Optional(&["dsp-3/acme"]),
            seat,
            "Seats of DSPs that pay from this account, each as `dsp/seat`; at most 1,000. They win only \
             while the account has budget.",
        );
        let is_paused = s.boolean("paused", false, "Whether all its spending is paused.");
        let seats = seats.unwrap_or_default();
        let mut known = BTreeSet::new();
        if let Some((dsp, seat)) = seats.iter().find(|seat| !known.insert(*seat)) {
            s.problem("seats", "", format!("names `{dsp}/{seat}` twice, remove one"));
        }
        if seats.len() > SEATS_MAX {
            let remedy =
                format!("names {} seats, {SEATS_MAX} at most: open another account", seats.len());
            s.problem("seats", "", remedy);
        }
        let facts = AccountFacts { currency, zone };
        Self { id, facts, time_zone, limits, late_holdback, is_paused, seats }
    }
}

impl<R: CampaignRules> DefinedCampaign<R> {
    /// Reads a campaign's table. `facts` returns the account's facts, or a remedy.
    pub fn read(s: &mut Section<'_>, facts: impl Fn(&str) -> Result<AccountFacts, String>) -> Self {
        let id = s.parsed("id", Required("summer"), id, "Unique ID; bids carry it as `cid`.");
        let (account, of) = account(s, facts);
        let (start, end) = flight(s, &of.zone);
        let limits = limits(s, of.currency);
        let late_holdback = late_holdback(s, of.currency);
        let dayparts = s.texts(
            "hours",
            Optional(&["mon-fri 08-20"]),
            hours::hours,
            "Days and hours of the week in which the campaign runs, in the account's time zone. If \
             absent, it always runs.",
        );
        let is_paused = s.boolean("paused", false, "Whether the campaign is paused.");
        let rules = R::read(s, &of);
        let pacing = pacing::read(s, rules.is_fixed_price());
        let always = |parts: Vec<Daypart>| parts.into_iter().reduce(hours::union);
        let noted = |(key, at): (&str, &LocalInstant)| {
            at.note.as_ref().map(|note| format!("{key}: {note}"))
        };
        let budget = CampaignBudget {
            limits,
            start_unix_ms: start.unix_ms,
            end_unix_ms: end.unix_ms,
            daypart: dayparts.and_then(always).unwrap_or(Daypart::ALWAYS),
            late_holdback,
            is_paused,
        };
        Self {
            id: id.into(),
            account: account.into(),
            budget,
            pacing: pacing.into(),
            rules,
            notes: [("start", &start), ("end", &end)].into_iter().filter_map(noted).collect(),
        }
    }
}

fn account(
    s: &mut Section<'_>,
    facts: impl Fn(&str) -> Result<AccountFacts, String>,
) -> (String, AccountFacts) {
    let account = s.parsed(
        "account",
        RequiredOption("acme"),
        account_id,
        "ID of the account that pays. It cannot be changed.",
    );
    let unknown = AccountFacts::unknown();
    let Some(account) = account else { return (String::new(), unknown) };
    match facts(&account) {
        Ok(facts) => (account, facts),
        Err(remedy) => {
            s.problem("account", "", remedy);
            (account, unknown)
        }
    }
}

fn flight(s: &mut Section<'_>, zone: &TimeZone) -> (LocalInstant, LocalInstant) {
    let instant = |text: &str| clocks::instant(text, zone);
    let start = s.parsed(
        "start",
        RequiredOption("2026-11-01T00:00:00"),
        instant,
        "Start of the flight, in the account's time zone unless it has an offset.",
    );
    let end = s.parsed(
        "end",
        RequiredOption("2026-12-01T00:00:00"),
        instant,
        "End of the flight, exclusive, in the account's time zone unless it has an offset.",
    );
    if let (Some(start), Some(end)) = (&start, &end)
        && end.unix_ms <= start.unix_ms
    {
        s.problem("end", "", "is not after `start`: give a later end");
    }
    (start.unwrap_or_default(), end.unwrap_or_default())
}

fn limits(s: &mut Section<'_>, currency: Currency) -> BudgetLimits {
    let mut limit = |key, example, doc| -> Option<Money> {
        s.parsed(key, Optional(example), |text| amounts::money(text, currency), doc)
    };
    BudgetLimits {
        life: limit("budget", "1000.00", "Maximum total spend. No limit if absent."),
        day: limit("daily_budget", "100.00", "Maximum spend per day. No limit if absent."),
        hour: limit("hourly_budget", "10.00", "Maximum spend per hour. No limit if absent."),
    }
}

fn late_holdback(s: &mut Section<'_>, currency: Currency) -> Holdback {
    let holdback = s.parsed(
        "late_holdback",
        Optional("1%"),
        |text| amounts::holdback(text, currency),
        "Part of every limit that is held back for wins that are billed late or above the reserved \
         price: a percentage or an amount.",
    );
    holdback.unwrap_or_default()
}

pub(super) fn id(text: &str) -> Result<String, String> {
    check_id(text).map(|()| text.to_owned())
}

/// An account's id: also one that a sold lot defined.
fn account_id(text: &str) -> Result<String, String> {
    check_id(text.strip_prefix(LOT_PREFIX).unwrap_or(text)).map(|()| text.to_owned())
}

fn check_id(text: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if !(1..=ID_LETTERS_MAX).contains(&text.len()) || !text.bytes().all(fits) {
        return Err(format!("needs 1 to {ID_LETTERS_MAX} letters, digits, `-`, `.` or `_`"));
    }
    // URLs resolve such segments away.
    if text == "." || text == ".." {
        return Err("is no name in a URL: choose another".to_owned());
    }
    Ok(())
}

fn seat(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((dsp, seat)) if !dsp.is_empty() && !seat.is_empty() => {
            Ok((dsp.to_owned(), seat.to_owned()))
        }
        _ => Err("needs the DSP's id and its seat, for example \"dsp-3/acme\"".to_owned()),
    }
}
