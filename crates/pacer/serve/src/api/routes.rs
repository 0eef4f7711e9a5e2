//! Routes of accounts and campaigns, with their documentation.

use pacer_core::store::StoredKind;
use runtime::admin::{ApiCall, ErrorCode, Method, Operation, ReplyResult, Route, SchemaOf};
use schemars::SchemaGenerator;
use serde_json::json;

use super::handlers::{self, BudgetApi};
use super::shown::{
    AccountPage, AccountView, AuditPage, CampaignPage, CampaignView, CurveView, InvalidDefinition,
    SpendView,
};
use super::why::{AccountWhyView, WhyView};
use super::{definitions, request};
use crate::registry::{CampaignRules, DefinitionEdit};

const ACCOUNT: StoredKind = StoredKind::Account;
const CAMPAIGN: StoredKind = StoredKind::Campaign;

const ETAG: &[(&str, &str)] = &[("etag", "The version.")];

fn route<R: CampaignRules>(
    method: Method,
    path: &'static str,
    answer: fn(&BudgetApi<R>, &ApiCall) -> ReplyResult,
    operation: Operation,
) -> Route<BudgetApi<R>> {
    Route { method, path, answer, operation }
}

/// The routes that change accounts and campaigns alike, and the one that shows them.
macro_rules! definition_routes {
    ($kind:expr, $plural:literal, $name:literal, $one:literal, $view:ty, $body:expr, $patch:expr) => {{
        let of = |id, summary| Operation::new($plural, id, summary);
        let view: SchemaOf = SchemaGenerator::subschema_for::<$view>;
        let one = concat!("/v1/", $plural, "/{id}");
        let pause = concat!("/v1/", $plural, "/{id}/pause");
        vec![
            route(
                Method::Post,
                concat!("/v1/", $plural),
                |of, call| handlers::create(of, $kind, call),
                created(of(concat!("create", $name), concat!("Defines ", $one, ".")), view)
                    .body(request::JSON, $body),
            ),
            route(
                Method::Get,
                one,
                |of, call| handlers::show(of, $kind, call),
                shown(of(concat!("show", $name), concat!("Shows ", $one, ".")), view),
            ),
            route(
                Method::Put,
                one,
                |of, call| handlers::replace(of, $kind, call),
                defined(
                    of(
                        concat!("replace", $name),
                        concat!("Changes ", $one, ": the whole definition."),
                    ),
                    view,
                )
                .body(request::JSON, $body),
            ),
            route(
                Method::Patch,
                one,
                |of, call| handlers::merge(of, $kind, call),
                defined(
                    of(
                        concat!("change", $name),
                        concat!("Changes parts of ", $one, ", by a merge patch (RFC 7396)."),
                    ),
                    view,
                )
                .body(request::MERGE_PATCH, $patch),
            ),
            route(
                Method::Put,
                pause,
                |of, call| handlers::edit(of, $kind, call, &DefinitionEdit::Pause(true)),
                changed(of(concat!("pause", $name), "Stops its spending."), view),
            ),
            route(
                Method::Delete,
                pause,
                |of, call| handlers::edit(of, $kind, call, &DefinitionEdit::Pause(false)),
                changed(of(concat!("resume", $name), "Lets it spend again."), view),
            ),
            route(
                Method::Put,
                concat!("/v1/", $plural, "/{id}/budget"),
                |of, call| handlers::budget(of, $kind, call),
                defined(of(concat!("budget", $name), CHANGES_LIMITS), view)
                    .body(request::JSON, definitions::limits),
            ),
        ]
    }};
}

pub(super) fn routes<R: CampaignRules>() -> Vec<Route<BudgetApi<R>>> {
    let mut all = accounts();
    all.extend(campaigns());
    all.push(route(
        Method::Get,
        "/v1/audit",
        handlers::audit,
        paged(Operation::new("audit", "audit", "Lists what was changed, the oldest first."))
            .json::<AuditPage>(200, "A page of changes.")
            .error(ErrorCode::NotConfigured, UNCONFIGURED)
            .error(ErrorCode::Unavailable, UNAVAILABLE),
    ));
    all
}

fn accounts<R: CampaignRules>() -> Vec<Route<BudgetApi<R>>> {
    let of = |id, summary| Operation::new("accounts", id, summary);
    let mut routes = definition_routes!(
        ACCOUNT,
        "accounts",
        "Account",
        "an account",
        AccountView,
        definitions::account,
        definitions::account_patch
    );
    // The collection comes first: its methods are listed in the order of its routes.
    routes.insert(
        0,
        route(
            Method::Get,
            "/v1/accounts",
            |of, call| handlers::list(of, ACCOUNT, call),
            listed(of("listAccounts", "Lists accounts."))
                .json::<AccountPage>(200, "A page of accounts."),
        ),
    );
    routes.extend([
        route(
            Method::Get,
            "/v1/accounts/{id}/spend",
            |of, call| handlers::spend(of, ACCOUNT, call),
            told(of(
                "spendAccount",
                "Tells what its campaigns and seats have spent together: in this hour, today, and in \
                 all.",
            ))
            .json::<SpendView>(200, "The account's spend."),
        ),
        route(
            Method::Get,
            "/v1/accounts/{id}/why",
            handlers::why_account,
            told(of(
                "whyAccount",
                "Tells why it does not spend as a whole, and how many of its campaigns do.",
            ))
            .json::<AccountWhyView>(200, "The reasons, with the figures behind them."),
        ),
    ]);
    routes
}

fn campaigns<R: CampaignRules>() -> Vec<Route<BudgetApi<R>>> {
    let of = |id, summary| Operation::new("campaigns", id, summary);
    let flag = json!({ "type": "boolean" });
    let mut routes = definition_routes!(
        CAMPAIGN,
        "campaigns",
        "Campaign",
        "a campaign",
        CampaignView,
        definitions::campaign::<R>,
        definitions::campaign_patch::<R>
    );
    routes.insert(
        0,
        route(
            Method::Get,
            "/v1/campaigns",
            |of, call| handlers::list(of, CAMPAIGN, call),
            listed(of("listCampaigns", "Lists campaigns."))
                .parameter(
                    "query",
                    "account",
                    &json!({ "type": "string" }),
                    "Campaigns of this account.",
                )
                .parameter(
                    "query",
                    "delivery",
                    &flag,
                    "Whether to include each campaign's spend and limit.",
                )
                .json::<CampaignPage>(200, "A page of campaigns."),
        ),
    );
    routes.extend([
        route(
            Method::Delete,
            "/v1/campaigns/{id}",
            |of, call| handlers::edit(of, CAMPAIGN, call, &DefinitionEdit::Remove),
            changed(
                of(
                    "removeCampaign",
                    "Removes a campaign. It stops bidding; what it spent counts on, and its number \
                     stays its own.",
                ),
                SchemaGenerator::subschema_for::<CampaignView>,
            ),
        ),
        route(
            Method::Get,
            "/v1/campaigns/{id}/spend",
            |of, call| handlers::spend(of, CAMPAIGN, call),
            told(of("spendCampaign", "Tells what it has spent: in this hour, today, and in all."))
                .json::<SpendView>(200, "The campaign's spend."),
        ),
        route(
            Method::Get,
            "/v1/campaigns/{id}/curve",
            handlers::curve,
            told(of("curveCampaign", "Tells how it follows its target."))
                .json::<CurveView>(200, "Target and spend over time."),
        ),
        route(
            Method::Get,
            "/v1/campaigns/{id}/why",
            handlers::why,
            told(of("whyCampaign", "Tells why it does not spend, and how it bids."))
                .json::<WhyView>(200, "The reasons, with the figures behind them."),
        ),
    ]);
    routes
}

const CHANGES_LIMITS: &str = "Changes its limits. They are absolute; they hold over those of a file \
                              until the file's change.";
const UNCONFIGURED: &str = "Budgets are not configured (`not_configured`).";
const UNAVAILABLE: &str = "The ledger or its store does not answer, or the body did not come to its \
    end; a change may be done all the same, and asked again is done once.";

fn paged(of: Operation) -> Operation {
    let most = json!({ "type": "integer", "minimum": 1, "maximum": 1000 });
    of.parameter("query", "after", &json!({ "type": "string" }), "Entries after this one.")
        .parameter(
            "query",
            "most",
            &most,
            "Maximum number of entries, 100 if absent; fewer if they are large.",
        )
}

fn listed(of: Operation) -> Operation {
    let doc = "Whether those that were removed are listed too.";
    paged(of)
        .parameter("query", "removed", &json!({ "type": "boolean" }), doc)
        .error(ErrorCode::NotConfigured, UNCONFIGURED)
}

fn known(of: Operation) -> Operation {
    let doc = "No account or campaign has this id (`not_found`).";
    of.error(ErrorCode::NotFound, doc).error(ErrorCode::NotConfigured, UNCONFIGURED)
}

fn shown(of: Operation, view: SchemaOf) -> Operation {
    known(of).json_of(200, "As it is defined.", view).headers(ETAG)
}

fn told(of: Operation) -> Operation {
    known(of).error(ErrorCode::Unavailable, UNAVAILABLE)
}

fn change(of: Operation) -> Operation {
    let dry_run = "Judge the change and answer what it would come to, with status 200; nothing is \
                   changed.";
    let actor = json!({ "type": "string", "pattern": "^[ -~]{1,64}$" });
    of.parameter("query", "dry_run", &json!({ "type": "boolean" }), dry_run)
        .parameter(
            "header",
            "vickrey-actor",
            &actor,
            "Who asks, for the audit; it is not verified.",
        )
        .error(
            ErrorCode::Conflict,
            "Its state does not allow the change: it is changed in a file, exists already, or was \
             removed.",
        )
        .error(ErrorCode::Unavailable, UNAVAILABLE)
}

fn judged(of: Operation) -> Operation {
    let problems = "It has problems; nothing was changed.";
    of.error_with::<InvalidDefinition>(ErrorCode::InvalidDefinition, problems)
}

fn created(of: Operation, view: SchemaOf) -> Operation {
    let key = json!({ "type": "string", "pattern": "^[!-~]{1,128}$" });
    let doc = "Names the request: the same key with the same body is done once, and answered as \
               before, for a day.";
    judged(change(of))
        .parameter("header", "idempotency-key", &key, doc)
        .error(ErrorCode::KeyReused, "Or the key came with another body.")
        .json_of(200, "A dry run: what it would be.", view)
        .json_of(201, "It is created.", view)
        .headers(&[("etag", "The version."), ("location", "Its path.")])
        .error(ErrorCode::NotConfigured, UNCONFIGURED)
}

fn changed(of: Operation, view: SchemaOf) -> Operation {
    let version =
        json!({ "type": "string", "pattern": r#"^(\*|(W/)?("[0-9]{1,19}"|[0-9]{1,19}))$"# });
    let doc = "The version that must be in force, as the etag has it; `*` for any.";
    known(change(of))
        .parameter("header", "if-match", &version, doc)
        .json_of(200, "As it is from now on; it may have been so before.", view)
        .headers(ETAG)
        .error(ErrorCode::PreconditionFailed, "It is at another version.")
}

fn defined(of: Operation, view: SchemaOf) -> Operation {
    judged(changed(of, view))
}
