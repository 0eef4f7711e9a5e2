//! Every refusal with its cause, and their precedence.

use units::{Currency, Nanos, Ppm, Tick};

use crate::calendar::tests::steady;
use crate::calendar::{Period, QUARTER_MS};
use crate::ledger::settings::LedgerSettings;
use crate::ledger::step::{
    AcceptedDefinition, LedgerInput, LedgerOutbox, LedgerReply, LedgerTime, SettlementRecord,
};
use crate::ledger::{
    AccountId, AccountTerms, BudgetLimits, CAMPAIGNS_MAX, CampaignBudget, CampaignTerms, Daypart,
    DefinitionError, Holdback, Ledger, Money, ZoneId,
};
use crate::messages::{
    BudgetGrant, CampaignIndex, Epoch, RefillRequest, SpendReport, SpendingGate,
};
use crate::refusal::SpendRefusal;
use crate::store::{CommitOutcome, EpochLifetime, Lease, LeaseKey, StoreWriter, UnattributedWin};

/// A Monday.
pub const DAY: u32 = 20_605;
pub const SECOND: u64 = 1_000_000_000;
pub const SLOT: CampaignIndex = CampaignIndex(0);

pub fn usd(amount: u64) -> Option<Money> {
    Some(Money { amount: Nanos::new(amount), currency: Currency::USD })
}

pub fn account() -> AccountTerms {
    AccountTerms {
        id: AccountId(0),
        version: 1,
        currency: Currency::USD,
        zone: ZoneId(0),
        limits: BudgetLimits::default(),
        late_holdback: Holdback::default(),
        is_paused: false,
    }
}

pub fn campaign() -> CampaignTerms {
    CampaignTerms {
        slot: SLOT,
        version: 1,
        account: AccountId(0),
        budget: CampaignBudget {
            limits: BudgetLimits::default(),
            start_unix_ms: 0,
            end_unix_ms: u64::MAX,
            daypart: Daypart::ALWAYS,
            late_holdback: Holdback::default(),
            is_paused: false,
        },
    }
}

/// A ledger driven by hand, with a store that commits at once unless told otherwise.
pub struct Desk {
    pub ledger: Ledger,
    pub outbox: LedgerOutbox,
    pub tick: u64,
    pub unix_ms: u64,
    pub ended: CommitOutcome,
    pub grants: Vec<(u16, BudgetGrant)>,
    pub gates: Vec<(u16, SpendingGate)>,
    pub notices: Vec<LedgerReply>,
    pub batches: u64,
    pub saved: Vec<(LeaseKey, Lease)>,
    pub applied_seq: u64,
    pub strays: Vec<UnattributedWin>,
    said_strays: Vec<UnattributedWin>,
    pub said_most: usize,
    number: Option<u64>,
    pub life: EpochLifetime,
    pub lifetimes_from: Epoch,
    /// Number of batches with only a lifetime.
    pub lives_said: u64,
}

impl Desk {
    pub fn new(shards: u16) -> Self {
        Self::restarted(LedgerSettings::new(1, Epoch(1), shards), Vec::new())
    }

    /// After an empty log.
    pub fn restarted(settings: LedgerSettings, leases: Vec<(LeaseKey, Lease)>) -> Self {
        let mut desk = Self::unready(settings, leases);
        desk.step(vec![LedgerInput::Replayed]);
        desk
    }

    /// Before the log's replay.
    pub fn unready(settings: LedgerSettings, leases: Vec<(LeaseKey, Lease)>) -> Self {
        Self::after(settings, leases, Vec::new())
    }

    /// With earlier lifetimes.
    pub fn after(
        settings: LedgerSettings,
        leases: Vec<(LeaseKey, Lease)>,
        lives: Vec<(StoreWriter, EpochLifetime)>,
    ) -> Self {
        // Half past noon.
        let unix_ms = (u64::from(DAY) * 96 + 50) * QUARTER_MS;
        let now = LedgerTime { tick: Tick::from_nanos(SECOND), unix_ms };
        let mut desk = Self {
            ledger: Ledger::new(settings, now, leases, 0).with_epoch_lifetimes(lives),
            outbox: LedgerOutbox::default(),
            tick: SECOND,
            unix_ms,
            ended: CommitOutcome::Committed,
            grants: Vec::new(),
            gates: Vec::new(),
            notices: Vec::new(),
            batches: 0,
            saved: Vec::new(),
            applied_seq: 0,
            strays: Vec::new(),
            said_strays: Vec::new(),
            said_most: 0,
            number: None,
            life: EpochLifetime::default(),
            lifetimes_from: Epoch(0),
            lives_said: 0,
        };
        desk.step(vec![LedgerInput::Calendar(ZoneId(0), steady(DAY - 2, 9, 0))]);
        desk
    }

    pub fn step(&mut self, inbox: Vec<LedgerInput>) {
        let now = LedgerTime { tick: Tick::from_nanos(self.tick), unix_ms: self.unix_ms };
        let ended = self.number.take().map(|number| LedgerInput::Ended(number, self.ended));
        let said = std::mem::take(&mut self.said_strays);
        if ended.is_some() && self.ended == CommitOutcome::Committed {
            let last = self.strays.last().map_or(0, |stray| stray.seq);
            self.strays.extend(said.into_iter().filter(|stray| last < stray.seq));
        }
        self.outbox.clear();
        self.ledger.step(now, ended.into_iter().chain(inbox), &mut self.outbox);
        if let Some(batch) = self.outbox.batch.take() {
            self.number = Some(batch.number);
            (self.life, self.lifetimes_from) = (batch.life, batch.lifetimes_from);
            self.lives_said += 1;
            if batch.leases.is_empty()
                && batch.folds.is_empty()
                && batch.strays.is_empty()
                && batch.applied_seq == self.applied_seq
            {
                // A batch with only the epoch's lifetime.
                return self.take_rest();
            }
            self.batches += 1;
            self.applied_seq = batch.applied_seq;
            self.said_most = self.said_most.max(batch.leases.len());
            self.saved = batch.leases;
            self.said_strays = batch.strays;
        }
        self.take_rest();
    }

    fn take_rest(&mut self) {
        self.grants.append(&mut self.outbox.grants);
        self.gates.append(&mut self.outbox.gates);
        self.notices.append(&mut self.outbox.notices);
    }

    /// In steps of half a second.
    pub fn pass(&mut self, seconds: u64) {
        for _ in 0..2 * seconds {
            self.tick += SECOND / 2;
            self.unix_ms += 500;
            self.step(Vec::new());
        }
    }

    pub fn defined(shards: u16, account: AccountTerms, campaign: CampaignTerms) -> Self {
        let mut desk = Self::new(shards);
        desk.step(vec![LedgerInput::Account(account), LedgerInput::Campaign(campaign)]);
        desk
    }

    pub fn want(&mut self, shard: u16, slot: CampaignIndex, amount: u64) {
        self.step(vec![LedgerInput::Refill(
            shard,
            RefillRequest { slot, amount: Nanos::new(amount), refused: Nanos::new(amount) },
        )]);
    }

    pub fn granted(&self, shard: u16, slot: CampaignIndex) -> u64 {
        let of = self.grants.iter().filter(|(to, grant)| *to == shard && grant.slot == slot);
        of.map(|(_, grant)| grant.granted.get()).max().unwrap_or(0)
    }

    pub fn gate(&self, shard: u16, slot: CampaignIndex) -> Option<SpendingGate> {
        let of = self.gates.iter().filter(|(to, gate)| *to == shard && gate.slot == slot);
        of.map(|(_, gate)| *gate).max_by_key(|gate| gate.version)
    }

    pub fn period(&self) -> Period {
        Period(u32::try_from(self.unix_ms / QUARTER_MS / 4 * 4).expect("before 2100"))
    }

    pub fn report(&mut self, shard: u16, slot: CampaignIndex, figures: [u64; 4]) {
        let report = self.reported(slot, figures);
        self.step(vec![LedgerInput::Report(shard, report)]);
    }

    /// Returned, settled, late and over.
    pub fn reported(&self, slot: CampaignIndex, figures: [u64; 4]) -> SpendReport {
        let [returned, settled, late, over] = figures.map(Nanos::new);
        let period = self.period();
        SpendReport {
            slot,
            period,
            returned,
            settled,
            late,
            over,
            reserved: Nanos::ZERO,
            reserved_count: 1,
            won_count: 1,
        }
    }
}

/// Checks the gate of a campaign that requests ten, after some seconds.
#[track_caller]
fn check(account: AccountTerms, campaign: CampaignTerms, want: Option<SpendRefusal>) {
    let mut desk = Desk::defined(2, account, campaign);
    desk.want(0, SLOT, 10);
    desk.pass(3);
    // The whole budget of ten is at the shard, and settled.
    let granted = desk.granted(0, SLOT).min(10);
    desk.report(0, SLOT, [0, granted, 0, 0]);
    desk.want(0, SLOT, 10);
    desk.pass(3);
    let why = desk.ledger.why(SLOT);
    assert_eq!(why.refusal, want, "{why:?}");
    let gate = desk.gate(0, SLOT).expect("a gate");
    assert_eq!(gate.closed, want);
    assert_eq!(gate.is_recalled, want.is_some_and(|want| want < SpendRefusal::BudgetExhausted));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
fn refusals_in_order_of_precedence() {
    use SpendRefusal::{
        BudgetExhausted, DayExhausted, HourExhausted, OutOfDaypart, OutOfFlight, Paused,
    };
    let noon = u64::from(DAY) * 96 * QUARTER_MS + 48 * QUARTER_MS;
    let (a, c) = (account(), campaign());
    let life = BudgetLimits { life: usd(10), ..BudgetLimits::default() };
    let day = BudgetLimits { day: usd(10), ..BudgetLimits::default() };
    let hour = BudgetLimits { hour: usd(10), ..BudgetLimits::default() };
    let all = BudgetLimits { life: usd(10), day: usd(10), hour: usd(10) };
    let day_and_hour = BudgetLimits { life: None, ..all };
    let paused = CampaignTerms { budget: CampaignBudget { is_paused: true, ..c.budget }, ..c };
    let over = CampaignTerms { budget: CampaignBudget { end_unix_ms: noon, ..c.budget }, ..c };
    let coming = CampaignTerms {
        budget: CampaignBudget { start_unix_ms: noon + 4 * QUARTER_MS, ..c.budget },
        ..c
    };
    let mornings = CampaignTerms {
        budget: CampaignBudget { daypart: Daypart::NEVER.with(11).with(13), ..c.budget },
        ..c
    };
    let at_noon = CampaignTerms {
        budget: CampaignBudget { daypart: Daypart::NEVER.with(12), ..c.budget },
        ..c
    };
    let never =
        CampaignTerms { budget: CampaignBudget { daypart: Daypart::NEVER, ..c.budget }, ..c };
    check(a, c, None);
    check(a, paused, Some(Paused));
    check(AccountTerms { is_paused: true, ..a }, c, Some(Paused));
    check(a, over, Some(OutOfFlight));
    check(a, coming, Some(OutOfFlight));
    check(a, mornings, Some(OutOfDaypart));
    check(a, at_noon, None);
    for limited in [life, day, hour] {
        let want = match limited {
            it if it.life.is_some() => BudgetExhausted,
            it if it.day.is_some() => DayExhausted,
            _ => HourExhausted,
        };
        check(
            a,
            CampaignTerms { budget: CampaignBudget { limits: limited, ..c.budget }, ..c },
            Some(want),
        );
        check(AccountTerms { limits: limited, ..a }, c, Some(want));
    }
    check(
        a,
        CampaignTerms { budget: CampaignBudget { is_paused: true, ..over.budget }, ..over },
        Some(Paused),
    );
    check(
        a,
        CampaignTerms { budget: CampaignBudget { end_unix_ms: noon, ..never.budget }, ..never },
        Some(OutOfFlight),
    );
    check(
        a,
        CampaignTerms { budget: CampaignBudget { limits: all, ..never.budget }, ..never },
        Some(OutOfDaypart),
    );
    check(
        a,
        CampaignTerms { budget: CampaignBudget { limits: all, ..c.budget }, ..c },
        Some(BudgetExhausted),
    );
    check(
        AccountTerms { limits: life, ..a },
        CampaignTerms { budget: CampaignBudget { limits: day, ..c.budget }, ..c },
        Some(BudgetExhausted),
    );
    check(
        a,
        CampaignTerms { budget: CampaignBudget { limits: day_and_hour, ..c.budget }, ..c },
        Some(DayExhausted),
    );
    check(
        AccountTerms { limits: day, ..a },
        CampaignTerms { budget: CampaignBudget { limits: hour, ..c.budget }, ..c },
        Some(DayExhausted),
    );
    check(
        a,
        CampaignTerms {
            budget: CampaignBudget { limits: BudgetLimits { life: usd(0), ..life }, ..c.budget },
            ..c
        },
        Some(BudgetExhausted),
    );
}

#[test]
fn nobody_knows_a_campaign_that_is_not_defined_or_has_no_account() {
    let mut desk = Desk::new(1);
    assert_eq!(desk.ledger.why(SLOT).refusal, Some(SpendRefusal::Unknown));
    desk.step(vec![LedgerInput::Campaign(campaign())]);
    desk.want(0, SLOT, 5);
    desk.pass(3);
    assert_eq!(desk.ledger.why(SLOT).refusal, Some(SpendRefusal::Unknown));
    assert_eq!((desk.gate(0, SLOT), desk.granted(0, SLOT)), (None, 0));
    assert_eq!(desk.ledger.spend(SLOT), None);
    assert_eq!(desk.ledger.next_slot(), CampaignIndex(1));
    desk.step(vec![LedgerInput::Account(account())]);
    desk.want(0, SLOT, 5);
    desk.pass(3);
    assert_eq!(desk.ledger.why(SLOT).refusal, None);
    assert!(desk.granted(0, SLOT) >= 5);
}

#[test]
fn a_store_that_fails_is_told_and_heals_by_itself() {
    for ended in [CommitOutcome::Refused, CommitOutcome::Unknown] {
        let mut desk = Desk::defined(2, account(), campaign());
        desk.ended = ended;
        desk.want(0, SLOT, 10);
        desk.pass(4);
        assert_eq!(desk.granted(0, SLOT), 0, "{ended:?}");
        assert_eq!(desk.ledger.why(SLOT).refusal, Some(SpendRefusal::LedgerUnavailable));
        let gate = desk.gate(0, SLOT).unwrap();
        assert_eq!((gate.closed, gate.is_recalled), (Some(SpendRefusal::LedgerUnavailable), false));
        assert!(desk.batches > 1, "it asks again");
        desk.ended = CommitOutcome::Committed;
        desk.pass(3);
        assert!(desk.granted(0, SLOT) >= 10, "{ended:?}");
        assert_eq!(desk.ledger.why(SLOT).refusal, None);
        assert_eq!(desk.gate(0, SLOT).unwrap().closed, None);
    }
}

#[test]
fn where_the_calendar_ends_nothing_is_granted() {
    let mut desk = Desk::defined(1, account(), campaign());
    desk.unix_ms += 10 * 96 * QUARTER_MS;
    desk.want(0, SLOT, 10);
    desk.pass(3);
    assert_eq!(desk.ledger.why(SLOT).refusal, Some(SpendRefusal::LedgerUnavailable));
    assert_eq!(desk.granted(0, SLOT), 0);
    desk.step(vec![LedgerInput::Calendar(ZoneId(0), steady(DAY - 2, 40, 0))]);
    desk.pass(3);
    assert_eq!(desk.ledger.why(SLOT).refusal, None);
    assert!(desk.granted(0, SLOT) >= 10);
}

#[test]
fn a_definition_that_cannot_hold_is_refused_and_changes_nothing() {
    let eur = Currency::parse("EUR").unwrap();
    let euros = BudgetLimits {
        day: Some(Money { amount: Nanos::new(5), currency: eur }),
        ..BudgetLimits::default()
    };
    let mixed = Err(DefinitionError::MixedCurrency { given: eur, account: Currency::USD });
    let (a, c) = (AccountTerms { version: 9, ..account() }, campaign());
    let c = CampaignTerms { version: 9, ..c };
    let accounts = [
        (AccountTerms { currency: eur, ..a }, Err(DefinitionError::CurrencyChanged(Currency::USD))),
        (AccountTerms { zone: ZoneId(1), ..a }, Err(DefinitionError::UnknownZone(ZoneId(1)))),
        (AccountTerms { zone: ZoneId(2), ..a }, Err(DefinitionError::ZoneChanged)),
        (AccountTerms { limits: euros, ..a }, mixed),
    ];
    let back = Holdback::Amount(Money { amount: Nanos::new(1), currency: eur });
    let campaigns = [
        (CampaignTerms { budget: CampaignBudget { limits: euros, ..c.budget }, ..c }, mixed),
        (CampaignTerms { budget: CampaignBudget { late_holdback: back, ..c.budget }, ..c }, mixed),
        (CampaignTerms { account: AccountId(7), ..c }, Err(DefinitionError::AccountChanged)),
        (
            CampaignTerms {
                budget: CampaignBudget { start_unix_ms: 5, end_unix_ms: 5, ..c.budget },
                ..c
            },
            Err(DefinitionError::EndBeforeStart),
        ),
        (
            CampaignTerms { slot: CampaignIndex(CAMPAIGNS_MAX), ..c },
            Err(DefinitionError::SlotTooLarge(CampaignIndex(CAMPAIGNS_MAX))),
        ),
    ];
    let mut desk = Desk::defined(1, account(), campaign());
    desk.step(vec![LedgerInput::Calendar(ZoneId(2), steady(DAY - 2, 9, 4))]);
    for (definition, want) in accounts {
        desk.notices.clear();
        desk.step(vec![LedgerInput::Account(definition)]);
        assert_eq!(desk.notices, [LedgerReply::Account(definition.id, want)]);
    }
    for (definition, want) in campaigns {
        desk.notices.clear();
        desk.step(vec![LedgerInput::Campaign(definition)]);
        assert_eq!(desk.notices, [LedgerReply::Campaign(definition.slot, want)]);
    }
    desk.want(0, SLOT, 100);
    desk.pass(2);
    assert!(desk.granted(0, SLOT) >= 100, "what was refused does not hold");
    desk.notices.clear();
    desk.step(vec![LedgerInput::Campaign(CampaignTerms { version: 2, ..c })]);
    let taken = AcceptedDefinition { is_newer: true, excess: Nanos::ZERO };
    assert_eq!(desk.notices, [LedgerReply::Campaign(SLOT, Ok(taken))]);
}

#[test]
fn a_campaign_that_waits_for_its_account_is_refused_in_another_currency() {
    let eur = Currency::parse("EUR").unwrap();
    let mut desk = Desk::new(1);
    let limits = BudgetLimits { life: usd(5), ..BudgetLimits::default() };
    desk.step(vec![LedgerInput::Campaign(CampaignTerms {
        budget: CampaignBudget { limits, ..campaign().budget },
        ..campaign()
    })]);
    desk.notices.clear();
    desk.step(vec![LedgerInput::Account(AccountTerms { currency: eur, ..account() })]);
    let mixed = DefinitionError::MixedCurrency { given: Currency::USD, account: eur };
    assert!(desk.notices.contains(&LedgerReply::Campaign(SLOT, Err(mixed))));
    assert_eq!(desk.ledger.why(SLOT).refusal, Some(SpendRefusal::Unknown));
}

#[test]
fn a_settlement_in_another_currency_is_refused() {
    let mut desk = Desk::defined(1, account(), campaign());
    desk.want(0, SLOT, 10);
    desk.pass(2);
    let key = LeaseKey { slot: SLOT, period: desk.period(), node: 1, epoch: Epoch(1) };
    let currency = Currency::parse("EUR").unwrap();
    let (settled, late, over) = (Nanos::new(4), Nanos::ZERO, Nanos::ZERO);
    let win = SettlementRecord { seq: 7, key, settled, late, over, currency };
    desk.step(vec![LedgerInput::Settlement(win)]);
    assert_eq!(desk.notices.last(), Some(&LedgerReply::SettlementMixed(7)));
    assert_eq!(desk.ledger.spend(SLOT).unwrap().life, Nanos::ZERO);
    desk.step(vec![LedgerInput::Settlement(SettlementRecord {
        seq: 8,
        currency: Currency::USD,
        ..win
    })]);
    assert_eq!(desk.ledger.spend(SLOT).unwrap().life, Nanos::new(4));
    // Likewise for a forgotten lease.
    let forgotten = LeaseKey { period: Period(4), ..key };
    desk.step(vec![LedgerInput::Settlement(SettlementRecord { seq: 9, key: forgotten, ..win })]);
    assert_eq!(desk.notices.last(), Some(&LedgerReply::SettlementMixed(9)));
    assert_eq!(desk.ledger.spend(SLOT).unwrap().life, Nanos::new(4));
    let stray = LeaseKey { slot: CampaignIndex(9), ..key };
    let stray = SettlementRecord { seq: 10, key: stray, currency: Currency::USD, ..win };
    desk.step(vec![LedgerInput::Settlement(stray)]);
    assert_eq!((desk.ledger.stats().strays, desk.ledger.stats().stray_nanos), (1, 4));
}

#[test]
fn a_share_held_back_is_rounded_up() {
    let share = |parts| Holdback::Share(Ppm::new(parts).unwrap());
    let amount =
        |nanos| Holdback::Amount(Money { amount: Nanos::new(nanos), currency: Currency::USD });
    for (holdback, limit, want) in [
        (share(0), 1000, 0),
        (share(1), 1000, 1),
        (share(100_000), 1000, 100),
        (share(100_000), 1001, 101),
        (share(1_000_000), 1000, 1000),
        (share(1_000_000), u64::MAX - 1, u64::MAX - 1),
        (share(1_000_000), u64::MAX, 0),
        (amount(7), 1000, 7),
        (amount(7), 5, 5),
        (amount(7), u64::MAX, 0),
    ] {
        assert_eq!(holdback.of(limit), want, "{holdback:?} of {limit}");
    }
}
