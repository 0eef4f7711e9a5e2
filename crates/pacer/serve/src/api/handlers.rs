//! Handlers of the routes: each turns a request into a call of the registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use pacer_core::store::StoredKind;
use runtime::admin::{ApiCall, Reply, ReplyResult};
use serde_json::Value;

use super::exchange::ExchangeSlot;
use super::request::{AdminRequest, JSON, MERGE_PATCH};
use super::shown::{self, AccountPage, CampaignPage, PageEnd};
use crate::ledger::handle::DeliveryProgress;
use crate::registry::{
    CampaignRules, ChangeOptions, DefinitionAnswer, DefinitionEdit, Listing, Registry,
};

pub(super) struct BudgetApi<R: CampaignRules> {
    pub(super) registry: Arc<Registry<R>>,
    pub(super) exchange: ExchangeSlot,
}

impl<R: CampaignRules> BudgetApi<R> {
    pub(super) fn list(&self, kind: StoredKind, call: &ApiCall) -> ReplyResult {
        let known: &[&str] = match kind {
            StoredKind::Account => &["after", "most", "removed"],
            StoredKind::Campaign => &["after", "most", "removed", "account", "delivery"],
        };
        let request = AdminRequest::new(call);
        request.only(known)?;
        let listing = Listing {
            after: call.query("after")?,
            most: request.most(100, 1000)?,
            account: call.query("account")?,
            with_removed: request.flag("removed")?,
        };
        let (mut views, is_more) = self.registry.list(kind, &listing);
        if request.flag("delivery")? {
            self.add_deliveries(&mut views);
        }
        let next = views.last().filter(|_| is_more).map(|last| last["id"].clone());
        let end = PageEnd { next, refused_files: self.registry.refused_files() };
        Ok(match kind {
            StoredKind::Account => Reply::json(&AccountPage { accounts: views, end }),
            StoredKind::Campaign => Reply::json(&CampaignPage { campaigns: views, end }),
        })
    }

    /// Adds each campaign's progress, if the ledger answers and the campaign is not removed.
    fn add_deliveries(&self, views: &mut [Value]) {
        let id = |view: &Value| view["id"].as_str().unwrap_or_default().to_owned();
        let ids: Vec<String> = views.iter().map(id).collect();
        let found = self.registry.deliveries(&ids).unwrap_or_default();
        let found: BTreeMap<String, DeliveryProgress> = found.into_iter().collect();
        for (view, id) in views.iter_mut().zip(ids) {
            let currency = self.registry.currency(StoredKind::Campaign, &id);
            let delivery = found.get(&id).map(|delivery| shown::delivery(delivery, currency));
            view["delivery"] =
                serde_json::to_value(delivery).expect("the names of members are text");
        }
    }

    pub(super) fn create(&self, kind: StoredKind, call: &ApiCall) -> ReplyResult {
        let request = AdminRequest::new(call);
        let judge = |body: &_| self.registry.problems(kind, body);
        let (key, body) = (request.key()?, request.body_or_problems(JSON, judge)?);
        let options = ChangeOptions { key, ..request.options(None)? };
        let DefinitionAnswer { version, view } = self.registry.create(kind, &body, &options)?;
        if options.is_dry_run {
            return Ok(Reply::json(&view));
        }
        let id = view["id"].as_str().unwrap_or_default();
        let path = format!("/v1/{}s/{id}", kind.label());
        Ok(Reply::json(&view).created(&path).with_version(version))
    }

    pub(super) fn show(&self, kind: StoredKind, call: &ApiCall) -> ReplyResult {
        let DefinitionAnswer { version, view } = self.registry.show(kind, call.parameter("id"))?;
        Ok(Reply::json(&view).with_version(version))
    }

    pub(super) fn edit(
        &self,
        kind: StoredKind,
        edit: &DefinitionEdit,
        call: &ApiCall,
    ) -> ReplyResult {
        self.edit_version(kind, edit, AdminRequest::new(call).version()?, call)
    }

    fn edit_version(
        &self,
        kind: StoredKind,
        edit: &DefinitionEdit,
        expected: Option<u64>,
        call: &ApiCall,
    ) -> ReplyResult {
        let options = AdminRequest::new(call).options(expected)?;
        let changed = self.registry.edit(kind, call.parameter("id"), edit, &options)?;
        Ok(Reply::json(&changed.view).with_version(changed.version))
    }

    pub(super) fn replace(&self, kind: StoredKind, call: &ApiCall) -> ReplyResult {
        let judge = |body: &_| self.registry.problems(kind, body);
        let body = AdminRequest::new(call).body_or_problems(JSON, judge)?;
        self.edit(kind, &DefinitionEdit::Replace(body), call)
    }

    pub(super) fn merge(&self, kind: StoredKind, call: &ApiCall) -> ReplyResult {
        let patch = AdminRequest::new(call).body(MERGE_PATCH)?;
        self.edit(kind, &DefinitionEdit::Merge(patch), call)
    }

    pub(super) fn budget(&self, kind: StoredKind, call: &ApiCall) -> ReplyResult {
        let request = AdminRequest::new(call);
        let mut body = request.body(JSON)?;
        let expected = request.version_or(body.remove("version"))?;
        self.edit_version(kind, &DefinitionEdit::Budgets(body), expected, call)
    }

    pub(super) fn spend(&self, kind: StoredKind, call: &ApiCall) -> ReplyResult {
        let id = call.parameter("id");
        let spend = self.registry.spend(kind, id)?.ok_or_else(|| shown::not_defined_yet(id))?;
        Ok(Reply::json(&shown::spend(id, &spend)))
    }

    pub(super) fn curve(&self, call: &ApiCall) -> ReplyResult {
        let id = call.parameter("id");
        let curve = self.registry.curve(id)?;
        let currency = self.registry.currency(StoredKind::Campaign, id);
        Ok(Reply::json(&shown::curve(id, currency, curve.as_ref())))
    }

    pub(super) fn why(&self, call: &ApiCall) -> ReplyResult {
        let id = call.parameter("id");
        let standing = self.registry.why(id)?;
        // Without an answer, the cause does not mention the plan.
        let found = self.registry.deliveries(&[id.to_owned()]).unwrap_or_default();
        let delivery = found.first().map(|(_, delivery)| delivery);
        Ok(Reply::json(&super::why::of_campaign(id, &standing, delivery, &self.exchange)))
    }

    pub(super) fn why_account(&self, call: &ApiCall) -> ReplyResult {
        let id = call.parameter("id");
        let standing = self.registry.why_account(id)?;
        Ok(Reply::json(&super::why::of_account(id, &standing, self.exchange.get())))
    }

    pub(super) fn audit(&self, call: &ApiCall) -> ReplyResult {
        let request = AdminRequest::new(call);
        request.only(&["after", "most"])?;
        let (after, most) = (request.audit_key("after")?, request.most(100, 1000)?);
        let entries = self.registry.audit(after, u32::try_from(most).unwrap_or(u32::MAX))?;
        // A page of large entries may end early.
        let behind = entries.last().map(|(last, _)| self.registry.audit(Some(*last), 1));
        let is_more = behind.transpose()?.is_some_and(|behind| !behind.is_empty());
        Ok(Reply::json(&shown::audit(&entries, is_more)))
    }
}
