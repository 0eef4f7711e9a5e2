//! Handlers of the routes: each turns a request into a call of the registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use pacer_core::store::StoredKind;
use runtime::admin::{ApiCall, Reply, ReplyResult};
use serde_json::Value;

use super::exchange::ExchangeSlot;
use super::request::{self, AdminRequest};
use super::shown::{self, AccountPage, CampaignPage, PageEnd};
use crate::ledger::handle::DeliveryProgress;
use crate::registry::{
    CampaignRules, ChangeOptions, DefinitionAnswer, DefinitionEdit, Listing, Registry,
};

pub(super) struct BudgetApi<R: CampaignRules> {
    pub(super) registry: Arc<Registry<R>>,
    pub(super) exchange: ExchangeSlot,
}

pub(super) fn list<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> ReplyResult {
    let known: &[&str] = match kind {
        StoredKind::Account => &["after", "most", "removed"],
        StoredKind::Campaign => &["after", "most", "removed", "account", "delivery"],
    };
    let asked = AdminRequest::new(call);
    asked.only(known)?;
    let listing = Listing {
        after: call.query("after")?,
        most: asked.most(100, 1000)?,
        account: call.query("account")?,
        with_removed: asked.flag("removed")?,
    };
    let (mut views, is_more) = of.registry.list(kind, &listing);
    if asked.flag("delivery")? {
        add_deliveries(of, &mut views);
    }
    let next = views.last().filter(|_| is_more).map(|last| last["id"].clone());
    let end = PageEnd { next, refused_files: of.registry.refused_files() };
    Ok(match kind {
        StoredKind::Account => Reply::json(&AccountPage { accounts: views, end }),
        StoredKind::Campaign => Reply::json(&CampaignPage { campaigns: views, end }),
    })
}

/// Adds each campaign's progress, if the ledger answers and the campaign is not removed.
fn add_deliveries<R: CampaignRules>(of: &BudgetApi<R>, views: &mut [Value]) {
    let id = |view: &Value| view["id"].as_str().unwrap_or_default().to_owned();
    let ids: Vec<String> = views.iter().map(id).collect();
    let found = of.registry.deliveries(&ids).unwrap_or_default();
    let found: BTreeMap<String, DeliveryProgress> = found.into_iter().collect();
    for (view, id) in views.iter_mut().zip(ids) {
        let currency = of.registry.currency(StoredKind::Campaign, &id);
        let delivery = found.get(&id).map(|delivery| shown::delivery(delivery, currency));
        view["delivery"] = serde_json::to_value(delivery).expect("the names of members are text");
    }
}

pub(super) fn create<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> ReplyResult {
    let asked = AdminRequest::new(call);
    let judge = |body: &_| of.registry.problems(kind, body);
    let (key, body) = (asked.key()?, asked.judged_body(request::JSON, judge)?);
    let options = ChangeOptions { key, ..asked.options(None)? };
    let DefinitionAnswer { version, view } = of.registry.create(kind, &body, &options)?;
    if options.is_dry_run {
        return Ok(Reply::json(&view));
    }
    let id = view["id"].as_str().unwrap_or_default();
    let path = format!("/v1/{}s/{id}", kind.label());
    Ok(Reply::json(&view).created(&path).with_version(version))
}

pub(super) fn show<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> ReplyResult {
    let DefinitionAnswer { version, view } = of.registry.show(kind, call.parameter("id"))?;
    Ok(Reply::json(&view).with_version(version))
}

pub(super) fn edit<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
    edit: &DefinitionEdit,
) -> ReplyResult {
    edit_version(of, kind, call, edit, AdminRequest::new(call).version()?)
}

fn edit_version<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
    edit: &DefinitionEdit,
    expected: Option<u64>,
) -> ReplyResult {
    let options = AdminRequest::new(call).options(expected)?;
    let changed = of.registry.edit(kind, call.parameter("id"), edit, &options)?;
    Ok(Reply::json(&changed.view).with_version(changed.version))
}

pub(super) fn replace<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> ReplyResult {
    let judge = |body: &_| of.registry.problems(kind, body);
    let body = AdminRequest::new(call).judged_body(request::JSON, judge)?;
    edit(of, kind, call, &DefinitionEdit::Replace(body))
}

pub(super) fn merge<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> ReplyResult {
    let patch = AdminRequest::new(call).body(request::MERGE_PATCH)?;
    edit(of, kind, call, &DefinitionEdit::Merge(patch))
}

pub(super) fn budget<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> ReplyResult {
    let asked = AdminRequest::new(call);
    let mut body = asked.body(request::JSON)?;
    let expected = asked.version_or(body.remove("version"))?;
    edit_version(of, kind, call, &DefinitionEdit::Budgets(body), expected)
}

pub(super) fn spend<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> ReplyResult {
    let id = call.parameter("id");
    let spend = of.registry.spend(kind, id)?.ok_or_else(|| shown::not_told(id))?;
    Ok(Reply::json(&shown::spend(id, &spend)))
}

pub(super) fn curve<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> ReplyResult {
    let id = call.parameter("id");
    let curve = of.registry.curve(id)?;
    let currency = of.registry.currency(StoredKind::Campaign, id);
    Ok(Reply::json(&shown::curve(id, currency, curve.as_ref())))
}

pub(super) fn why<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> ReplyResult {
    let id = call.parameter("id");
    let standing = of.registry.why(id)?;
    // Without an answer, the cause does not mention the plan.
    let found = of.registry.deliveries(&[id.to_owned()]).unwrap_or_default();
    let delivery = found.first().map(|(_, delivery)| delivery);
    Ok(Reply::json(&super::why::of_campaign(id, &standing, delivery, of.exchange.get())))
}

pub(super) fn why_account<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> ReplyResult {
    let id = call.parameter("id");
    let standing = of.registry.why_account(id)?;
    Ok(Reply::json(&super::why::of_account(id, &standing, of.exchange.get())))
}

pub(super) fn audit<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> ReplyResult {
    let asked = AdminRequest::new(call);
    asked.only(&["after", "most"])?;
    let (after, most) = (asked.audit_key("after")?, asked.most(100, 1000)?);
    let entries = of.registry.audit(after, u32::try_from(most).unwrap_or(u32::MAX))?;
    // A page of large entries may end early.
    let behind = entries.last().map(|(last, _)| of.registry.audit(Some(*last), 1));
    let is_more = behind.transpose()?.is_some_and(|behind| !behind.is_empty());
    Ok(Reply::json(&shown::audit(&entries, is_more)))
}
