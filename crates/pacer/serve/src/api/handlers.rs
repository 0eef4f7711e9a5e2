//! Handlers of the routes: each turns a request into a call of the registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use pacer_core::store::StoredKind;
use runtime::admin::{ApiCall, Reply};
use serde_json::Value;

use super::asked::{self, AdminRequest};
use super::exchange::ExchangeView;
use super::shown::{self, AccountPage, CampaignPage, PageEnd};
use crate::ledger::handle::DeliveryProgress;
use crate::registry::{
    CampaignRules, ChangeOptions, ChangeRefusal, DefinitionAnswer, DefinitionEdit, Listing,
    Registry,
};

pub(super) struct BudgetApi<R: CampaignRules> {
    pub(super) registry: Arc<Registry<R>>,
    pub(super) exchange: Arc<dyn ExchangeView>,
}

fn or_refused(answer: impl FnOnce() -> Result<Reply, Reply>) -> Reply {
    answer().unwrap_or_else(|refusal| refusal)
}

pub(super) fn list<R: CampaignRules>(of: &BudgetApi<R>, kind: StoredKind, call: &ApiCall) -> Reply {
    or_refused(|| {
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
) -> Reply {
    or_refused(|| {
        let asked = AdminRequest::new(call);
        let judge = |body: &_| of.registry.problems(kind, body);
        let (key, body) = (asked.key()?, asked.judged_body(asked::JSON, judge)?);
        let options = ChangeOptions { key, ..asked.options(None)? };
        let DefinitionAnswer { version, view } =
            of.registry.create(kind, &body, &options).map_err(|it| shown::refused(&it))?;
        if options.is_dry_run {
            return Ok(Reply::json(&view));
        }
        let id = view["id"].as_str().unwrap_or_default();
        let path = format!("/v1/{}s/{id}", kind.label());
        Ok(Reply::json(&view).created(&path).with_version(version))
    })
}

pub(super) fn show<R: CampaignRules>(of: &BudgetApi<R>, kind: StoredKind, call: &ApiCall) -> Reply {
    answered(of.registry.show(kind, call.parameter("id")))
}

fn edit<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
    edit: &DefinitionEdit,
) -> Result<Reply, Reply> {
    let asked = AdminRequest::new(call);
    let options = asked.options(asked.version()?)?;
    Ok(answered(of.registry.edit(kind, call.parameter("id"), edit, &options)))
}

pub(super) fn replace<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> Reply {
    or_refused(|| {
        let judge = |body: &_| of.registry.problems(kind, body);
        let body = AdminRequest::new(call).judged_body(asked::JSON, judge)?;
        edit(of, kind, call, &DefinitionEdit::Replace(body))
    })
}

pub(super) fn merge<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> Reply {
    or_refused(|| {
        edit(
            of,
            kind,
            call,
            &DefinitionEdit::Merge(AdminRequest::new(call).body(asked::MERGE_PATCH)?),
        )
    })
}

pub(super) fn remove<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> Reply {
    or_refused(|| edit(of, StoredKind::Campaign, call, &DefinitionEdit::Remove))
}

pub(super) fn pause<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
    is_paused: bool,
) -> Reply {
    or_refused(|| edit(of, kind, call, &DefinitionEdit::Pause(is_paused)))
}

pub(super) fn budget<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> Reply {
    or_refused(|| {
        let asked = AdminRequest::new(call);
        let mut body = asked.body(asked::JSON)?;
        let expected = asked.version_or(body.remove("version"))?;
        let edit = DefinitionEdit::Budgets(body);
        let options = asked.options(expected)?;
        Ok(answered(of.registry.edit(kind, call.parameter("id"), &edit, &options)))
    })
}

fn answered(outcome: Result<DefinitionAnswer, ChangeRefusal>) -> Reply {
    match outcome {
        Ok(DefinitionAnswer { version, view }) => Reply::json(&view).with_version(version),
        Err(refused) => shown::refused(&refused),
    }
}

pub(super) fn spend<R: CampaignRules>(
    of: &BudgetApi<R>,
    kind: StoredKind,
    call: &ApiCall,
) -> Reply {
    let id = call.parameter("id");
    match of.registry.spend(kind, id) {
        Ok(Some(spend)) => Reply::json(&shown::spend(id, &spend)),
        Ok(None) => shown::not_told(id),
        Err(refused) => shown::refused(&refused),
    }
}

pub(super) fn curve<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> Reply {
    let id = call.parameter("id");
    match of.registry.curve(id) {
        Ok(curve) => Reply::json(&shown::curve(
            id,
            of.registry.currency(StoredKind::Campaign, id),
            curve.as_ref(),
        )),
        Err(refused) => shown::refused(&refused),
    }
}

pub(super) fn why<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> Reply {
    let id = call.parameter("id");
    match of.registry.why(id) {
        Ok(standing) => {
            // Without an answer, the cause does not mention the plan.
            let found = of.registry.deliveries(&[id.to_owned()]).unwrap_or_default();
            let delivery = found.first().map(|(_, delivery)| delivery);
            Reply::json(&super::why::of_campaign(id, &standing, delivery, &*of.exchange))
        }
        Err(refused) => shown::refused(&refused),
    }
}

pub(super) fn why_account<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> Reply {
    let id = call.parameter("id");
    match of.registry.why_account(id) {
        Ok(standing) => Reply::json(&super::why::of_account(id, &standing, &*of.exchange)),
        Err(refused) => shown::refused(&refused),
    }
}

pub(super) fn audit<R: CampaignRules>(of: &BudgetApi<R>, call: &ApiCall) -> Reply {
    or_refused(|| {
        let asked = AdminRequest::new(call);
        asked.only(&["after", "most"])?;
        let (after, most) = (asked.audit_key("after")?, asked.most(100, 1000)?);
        let most_entries = u32::try_from(most).unwrap_or(u32::MAX);
        let entries = of.registry.audit(after, most_entries).map_err(|it| shown::refused(&it))?;
        // A page of large entries may end early.
        let behind = entries.last().map(|(last, _)| of.registry.audit(Some(*last), 1));
        let behind = behind.transpose().map_err(|it| shown::refused(&it))?.unwrap_or_default();
        Ok(Reply::json(&shown::audit(&entries, !behind.is_empty())))
    })
}
