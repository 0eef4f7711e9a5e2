//! Routes of accounts and campaigns, with their documentation.

use pacer_core::store::StoredKind;
use runtime::admin::{ErrorCode, Method, Operation, Route, SchemaOf};
use schemars::SchemaGenerator;
use serde_json::json;

use super::definitions;
use super::handlers::BudgetApi;
use super::request::{JSON, MERGE_PATCH};
use super::shown::{
    AccountPage, AccountView, AuditPage, CampaignPage, CampaignView, CurveView, InvalidDefinition,
    SpendView,
};
use super::why::{AccountWhyView, WhyView};
use crate::registry::{CampaignRules, DefinitionEdit};

const ACCOUNT: StoredKind = StoredKind::Account;
const CAMPAIGN: StoredKind = StoredKind::Campaign;

const ETAG: &[(&str, &str)] = &[("etag", "The version.")];

/// A route whose handler is a method of [`BudgetApi`].
macro_rules! route {
    ($method:ident, $path:expr, $handler:ident($($argument:expr),*), $operation:expr) => {
        Route {
            method: Method::$method,
            path: $path,
            answer: |api: &BudgetApi<R>, call| api.$handler($($argument,)* call),
            operation: $operation,
        }
    };
}

/// The routes that list and change accounts and campaigns alike. That of the list comes first: an
/// `allow` header names methods in the order of their routes.
macro_rules! definition_routes {
    ($kind:expr, $plural:literal, $name:literal, $one:literal, $list:expr, $view:ty, $body:expr, $patch:expr) => {{
        let operation = |id, summary| Operation::new($plural, id, summary);
        let view: SchemaOf = SchemaGenerator::subschema_for::<$view>;
        let one = concat!("/v1/", $plural, "/{id}");
        let pause = concat!("/v1/", $plural, "/{id}/pause");
        let create = operation(concat!("create", $name), concat!("Defines ", $one, "."));
        let show = operation(concat!("show", $name), concat!("Shows ", $one, "."));
        let whole = concat!("Changes ", $one, ": the whole definition.");
        let replace = operation(concat!("replace", $name), whole);
        let parts = concat!("Changes parts of ", $one, ", by a merge patch (RFC 7396).");
        let merge = operation(concat!("change", $name), parts);
        let stop = operation(concat!("pause", $name), "Stops its spending.");
        let resume = operation(concat!("resume", $name), "Lets it spend again.");
        let budget = operation(concat!("budget", $name), CHANGES_LIMITS);
        vec![
            route!(Get, concat!("/v1/", $plural), list($kind), $list),
            route!(
                Post,
                concat!("/v1/", $plural),
                create($kind),
                with_creation(create, view).body(JSON, $body)
            ),
            route!(Get, one, show($kind), with_view(show, view)),
            route!(Put, one, replace($kind), with_definition(replace, view).body(JSON, $body)),
            route!(
                Patch,
                one,
                merge($kind),
                with_definition(merge, view).body(MERGE_PATCH, $patch)
            ),
            route!(
                Put,
                pause,
                edit($kind, &DefinitionEdit::Pause(true)),
                with_if_match(stop, view)
            ),
            route!(
                Delete,
                pause,
                edit($kind, &DefinitionEdit::Pause(false)),
                with_if_match(resume, view)
            ),
            route!(
                Put,
                concat!("/v1/", $plural, "/{id}/budget"),
                budget($kind),
                with_definition(budget, view).body(JSON, definitions::limits)
            ),
        ]
    }};
}

pub(super) fn routes<R: CampaignRules>() -> Vec<Route<BudgetApi<R>>> {
    let audit = Operation::new("audit", "audit", "Lists what was changed, the oldest first.");
    let audit = with_page_parameters(audit)
        .json::<AuditPage>(200, "A page of changes.")
        .error(ErrorCode::NotConfigured, UNCONFIGURED)
        .error(ErrorCode::Unavailable, LEDGER_SILENT);
    let mut all = accounts();
    all.extend(campaigns());
    all.push(route!(Get, "/v1/audit", audit(), audit));
    all
}

fn accounts<R: CampaignRules>() -> Vec<Route<BudgetApi<R>>> {
    let operation = |id, summary| Operation::new("accounts", id, summary);
    let list = with_list_parameters(operation("listAccounts", "Lists accounts."))
        .json::<AccountPage>(200, "A page of accounts.");
    let mut routes = definition_routes!(
        ACCOUNT,
        "accounts",
        "Account",
        "an account",
        list,
        AccountView,
        definitions::account,
        definitions::account_patch
    );
    let spend = operation(
        "spendAccount",
        "Tells what its campaigns and seats have spent together: in this hour, today, and in all.",
    );
    let why = operation(
        "whyAccount",
        "Tells why it does not spend as a whole, and how many of its campaigns do.",
    );
    routes.extend([
        route!(
            Get,
            "/v1/accounts/{id}/spend",
            spend(ACCOUNT),
            with_ledger_errors(spend).json::<SpendView>(200, "The account's spend.")
        ),
        route!(
            Get,
            "/v1/accounts/{id}/why",
            why_account(),
            with_ledger_errors(why).json::<AccountWhyView>(200, WHY)
        ),
    ]);
    routes
}

fn campaigns<R: CampaignRules>() -> Vec<Route<BudgetApi<R>>> {
    let operation = |id, summary| Operation::new("campaigns", id, summary);
    let (text, flag) = (json!({ "type": "string" }), json!({ "type": "boolean" }));
    let of_delivery = "Whether to include each campaign's spend and limit.";
    let list = with_list_parameters(operation("listCampaigns", "Lists campaigns."))
        .parameter("query", "account", &text, "Campaigns of this account.")
        .parameter("query", "delivery", &flag, of_delivery)
        .json::<CampaignPage>(200, "A page of campaigns.");
    let mut routes = definition_routes!(
        CAMPAIGN,
        "campaigns",
        "Campaign",
        "a campaign",
        list,
        CampaignView,
        definitions::campaign::<R>,
        definitions::campaign_patch::<R>
    );
    let remove = operation(
        "removeCampaign",
        "Removes a campaign. It stops bidding; what it spent counts on, and its number stays its own.",
    );
    let spend =
        operation("spendCampaign", "Tells what it has spent: in this hour, today, and in all.");
    let curve = operation("curveCampaign", "Tells how it follows its target.");
    let why = operation("whyCampaign", "Tells why it does not spend, and how it bids.");
    routes.extend([
        route!(
            Delete,
            "/v1/campaigns/{id}",
            edit(CAMPAIGN, &DefinitionEdit::Remove),
            with_if_match(remove, SchemaGenerator::subschema_for::<CampaignView>)
        ),
        route!(
            Get,
            "/v1/campaigns/{id}/spend",
            spend(CAMPAIGN),
            with_ledger_errors(spend).json::<SpendView>(200, "The campaign's spend.")
        ),
        route!(
            Get,
            "/v1/campaigns/{id}/curve",
            curve(),
            with_ledger_errors(curve).json::<CurveView>(200, "Target and spend over time.")
        ),
        route!(
            Get,
            "/v1/campaigns/{id}/why",
            why(),
            with_ledger_errors(why).json::<WhyView>(200, WHY)
        ),
    ]);
    routes
}

const WHY: &str = "The reasons, with the figures behind them.";
const CHANGES_LIMITS: &str = "Changes its limits. They are absolute; they hold over those of a file \
                              until the file's change.";
const UNCONFIGURED: &str = "Budgets are not configured (`not_configured`).";
const LEDGER_SILENT: &str = "The ledger or its store does not answer.";
const CHANGE_UNKNOWN: &str = "The ledger or its store does not answer. The change may be done all the \
                              same; sent again, it is done once.";

fn with_page_parameters(operation: Operation) -> Operation {
    let most = json!({ "type": "integer", "minimum": 1, "maximum": 1000 });
    operation
        .parameter("query", "after", &json!({ "type": "string" }), "Entries after this one.")
        .parameter(
            "query",
            "most",
            &most,
            "Maximum number of entries, 100 if absent; fewer if they are large.",
        )
}

fn with_list_parameters(operation: Operation) -> Operation {
    let doc = "Whether those that were removed are listed too.";
    with_page_parameters(operation)
        .parameter("query", "removed", &json!({ "type": "boolean" }), doc)
        .error(ErrorCode::NotConfigured, UNCONFIGURED)
}

fn with_not_found(operation: Operation) -> Operation {
    let doc = "No account or campaign has this id (`not_found`).";
    operation.error(ErrorCode::NotFound, doc).error(ErrorCode::NotConfigured, UNCONFIGURED)
}

fn with_view(operation: Operation, view: SchemaOf) -> Operation {
    with_not_found(operation).json_of(200, "As it is defined.", view).headers(ETAG)
}

fn with_ledger_errors(operation: Operation) -> Operation {
    with_not_found(operation).error(ErrorCode::Unavailable, LEDGER_SILENT)
}

fn with_change_options(operation: Operation) -> Operation {
    let dry_run = "Judge the change and answer what it would come to, with status 200; nothing is \
                   changed.";
    let actor = json!({ "type": "string", "pattern": "^[ -~]{1,64}$" });
    operation
        .parameter("query", "dry_run", &json!({ "type": "boolean" }), dry_run)
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
        .error(ErrorCode::Unavailable, CHANGE_UNKNOWN)
}

fn with_problems(operation: Operation) -> Operation {
    let problems = "It has problems; nothing was changed.";
    operation.error_with::<InvalidDefinition>(ErrorCode::InvalidDefinition, problems)
}

fn with_creation(operation: Operation, view: SchemaOf) -> Operation {
    let key = json!({ "type": "string", "pattern": "^[!-~]{1,128}$" });
    let doc = "Names the request: the same key with the same body is done once, and answered as \
               before, for a day.";
    with_problems(with_change_options(operation))
        .parameter("header", "idempotency-key", &key, doc)
        .error(ErrorCode::KeyReused, "Or the key came with another body.")
        .json_of(200, "A dry run: what it would be.", view)
        .json_of(201, "It is created.", view)
        .headers(&[("etag", "The version."), ("location", "Its path.")])
        .error(ErrorCode::NotConfigured, UNCONFIGURED)
}

fn with_if_match(operation: Operation, view: SchemaOf) -> Operation {
    let version =
        json!({ "type": "string", "pattern": r#"^(\*|(W/)?("[0-9]{1,19}"|[0-9]{1,19}))$"# });
    let doc = "The version that must be in force, as the etag has it; `*` for any.";
    with_not_found(with_change_options(operation))
        .parameter("header", "if-match", &version, doc)
        .json_of(200, "As it is from now on; it may have been so before.", view)
        .headers(ETAG)
        .error(ErrorCode::PreconditionFailed, "It is at another version.")
}

fn with_definition(operation: Operation, view: SchemaOf) -> Operation {
    with_problems(with_if_match(operation, view))
}
