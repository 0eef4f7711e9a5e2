//! The admin API of lots: what an operator does, also in a bidder's name.

use live_core::floor::{FloorAnswer, FloorCommand};
use live_core::lots::LotCommand;
use live_core::protocol::{BidCommand, LiveError, LiveErrorCode};
use live_core::rights::BidderRights;
use runtime::admin::{
    Api, ApiCall, ChangeAllowance, ErrorCode, ErrorField, Method, Operation, Reply, ReplyResult,
    Route,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::commands::{bid_command, check_reason, lot_id, refusal};
use super::terms::TermsText;
use super::thread::LotsHandle;

const JSON: &[&str] = &["application/json"];
/// Terms with as many invited bidders as may be.
const BODY_BYTES_MAX: usize = 256 << 10;
const UNCONFIGURED: &str = "The configuration has no `[live.lots]`.";
const UNKNOWN: &str = "There is no such lot, or the configuration has no `[live.lots]`.";
const WRONG: &str = "A field is wrong.";
const REFUSED: &str = "The lot or the ledger refuses: the message says why.";
const PAUSED: &str = "Nothing can be logged now, or too many commands wait.";

/// A bid in a bidder's name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LotBidBody {
    /// Who bids: `dsp/seat`.
    bidder: String,
    /// The account that pays.
    account: String,
    /// The most that the bidder pays for 1000 impressions: decimal text.
    maximum: String,
    /// The currency of `maximum`.
    currency: String,
    /// Idempotency key, among those of the bidder for this lot.
    key: String,
}

/// A new end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LotExtendBody {
    /// In Unix milliseconds, later than the present end.
    closes_ms: u64,
}

/// Why a lot is cancelled.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LotCancelBody {
    /// Published with the lot.
    reason: String,
}

fn lots_schema(_: &mut SchemaGenerator) -> Schema {
    let lot = lot_view();
    json_schema!({ "type": "object", "required": ["lots", "more"], "properties": {
        "lots": { "type": "array", "items": lot },
        "more": { "type": "boolean", "description": "Whether there are others behind them." },
    }})
}

fn page_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "required": ["lot", "history"], "properties": {
        "lot": lot_view(),
        "history": { "type": "array", "items": { "type": "object" },
            "description": "The latest bids, in order. Empty while they are secret." },
        "offer": { "type": ["object", "null"],
            "description": "What became of the deal. Null unless the lot is sold." },
    }})
}

fn accepted_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "required": ["number", "repeated", "lot"], "properties": {
        "number": { "type": "integer", "description": "Number of the bid." },
        "repeated": { "type": "boolean",
            "description": "It was accepted before, with the same idempotency key." },
        "lot": lot_view(),
        "own": { "type": ["object", "null"], "description": "As its bidder sees it." },
    }})
}

/// A lot, as everyone may see it.
fn lot_view() -> serde_json::Value {
    json!({ "type": "object", "required": ["id", "status", "ends_ms"], "properties": {
        "id": { "type": "string" },
        "status": { "enum": ["scheduled", "open", "closed", "cancelled"] },
        "price": { "type": ["string", "null"] },
        "ends_ms": { "type": "integer" },
    }})
}

fn routes() -> Vec<Route<LotsHandle>> {
    let operation = |id, summary| Operation::new("lots", id, summary);
    let acting = |id, summary| {
        operation(id, summary)
            .json_of(200, "The lot.", page_schema)
            .error(ErrorCode::NotFound, UNKNOWN)
            .error(ErrorCode::Conflict, REFUSED)
            .error(ErrorCode::Unavailable, PAUSED)
    };
    let changing = |id, summary| acting(id, summary).error(ErrorCode::BadRequest, WRONG);
    let text = json!({ "type": "string" });
    let list = operation("listLots", "Lists lots by id.")
        .parameter("query", "after", &text, "Begin behind this lot.")
        .json_of(200, "Lots.", lots_schema)
        .error(ErrorCode::NotConfigured, UNCONFIGURED)
        .error(ErrorCode::Unavailable, PAUSED);
    let show = operation("showLot", "Shows a lot with its latest bids.")
        .json_of(200, "The lot.", page_schema)
        .error(ErrorCode::NotFound, UNKNOWN)
        .error(ErrorCode::Unavailable, PAUSED);
    let create = operation("createLot", "Creates a lot. Again with the same terms, it shows it.")
        .json_of(200, "The lot.", page_schema)
        .error(ErrorCode::BadRequest, WRONG)
        .error(ErrorCode::Conflict, REFUSED)
        .error(ErrorCode::NotConfigured, UNCONFIGURED)
        .error(ErrorCode::Unavailable, PAUSED)
        .body(JSON, SchemaGenerator::subschema_for::<TermsText>);
    let bid = operation("bidForLot", "Bids in a bidder's name; answered once the bid is durable.")
        .body(JSON, SchemaGenerator::subschema_for::<LotBidBody>)
        .json_of(200, "The bid is accepted.", accepted_schema)
        .error(ErrorCode::NotFound, UNKNOWN)
        .error(ErrorCode::BadRequest, WRONG)
        .error(ErrorCode::Conflict, REFUSED)
        .error(ErrorCode::Unavailable, PAUSED);
    let extend = changing("extendLot", "Postpones its end.")
        .body(JSON, SchemaGenerator::subschema_for::<LotExtendBody>);
    let cancel = changing("cancelLot", "Ends it without a sale; all money on hold is released.")
        .body(JSON, SchemaGenerator::subschema_for::<LotCancelBody>);
    let open = acting("openLot", "Opens it before its time.");
    let close = acting("closeLot", "Closes it before its time: the result is final.");
    vec![
        Route { method: Method::Get, path: "/v1/lots", answer: list_lots, operation: list },
        Route { method: Method::Post, path: "/v1/lots", answer: create_lot, operation: create },
        Route { method: Method::Get, path: "/v1/lots/{id}", answer: show_lot, operation: show },
        Route { method: Method::Post, path: "/v1/lots/{id}/bids", answer: bid_for, operation: bid },
        post("/v1/lots/{id}/open", |lots, call| command(lots, call, LotCommand::Open), open),
        post("/v1/lots/{id}/extend", extend_lot, extend),
        post("/v1/lots/{id}/close", |lots, call| command(lots, call, LotCommand::Close), close),
        post("/v1/lots/{id}/cancel", cancel_lot, cancel),
    ]
}

fn post(
    path: &'static str,
    answer: fn(&LotsHandle, &ApiCall) -> ReplyResult,
    operation: Operation,
) -> Route<LotsHandle> {
    Route { method: Method::Post, path, answer, operation }
}

/// The API of a floor.
pub(crate) fn api(lots: LotsHandle, changes: &ChangeAllowance) -> Api {
    Api::new(lots, routes()).with_bodies(BODY_BYTES_MAX).limited(changes)
}

/// The API without lots: says how to configure them.
pub(crate) fn unconfigured() -> Api {
    let message = "there are no lots here: add [live.lots] to the configuration file and restart; \
                   it needs [record] and [budgets] too";
    Api::unconfigured(routes(), message)
}

fn list_lots(lots: &LotsHandle, call: &ApiCall) -> ReplyResult {
    let after = call.query("after")?.map(|after| lot_id(&after)).transpose();
    answer(lots, FloorCommand::List { after: after.map_err(|error| refused(&error))? })
}

fn show_lot(lots: &LotsHandle, call: &ApiCall) -> ReplyResult {
    let lot = lot_id(call.parameter("id")).map_err(|error| refused(&error))?;
    answer(lots, FloorCommand::Show { lot, bidder: None })
}

fn create_lot(lots: &LotsHandle, call: &ApiCall) -> ReplyResult {
    let text = std::str::from_utf8(call.body())
        .map_err(|_| Reply::error(ErrorCode::BadRequest, "the body is not UTF-8"))?;
    let terms = TermsText::parse(text).map_err(|error| refused(&error))?;
    answer(lots, FloorCommand::Create(Box::new(terms)))
}

fn bid_for(lots: &LotsHandle, call: &ApiCall) -> ReplyResult {
    let LotBidBody { bidder, account, maximum, currency, key } = body(call)?;
    let bid = BidCommand {
        lot: call.parameter("id").into(),
        maximum: maximum.into(),
        currency: currency.into(),
        key: key.into(),
    };
    let command = bid_command(&BidderRights { bidder, account }, &bid);
    answer(lots, command.map_err(|error| refused(&error))?)
}

fn extend_lot(lots: &LotsHandle, call: &ApiCall) -> ReplyResult {
    let LotExtendBody { closes_ms } = body(call)?;
    command(lots, call, LotCommand::Extend { closes_ms })
}

fn cancel_lot(lots: &LotsHandle, call: &ApiCall) -> ReplyResult {
    let LotCancelBody { reason } = body(call)?;
    check_reason(&reason).map_err(|error| refused(&error))?;
    command(lots, call, LotCommand::Cancel { reason })
}

fn command(lots: &LotsHandle, call: &ApiCall, command: LotCommand) -> ReplyResult {
    let lot = lot_id(call.parameter("id")).map_err(|error| refused(&error))?;
    answer(lots, FloorCommand::Lot(lot, command))
}

fn body<T: DeserializeOwned>(call: &ApiCall) -> Result<T, Reply> {
    serde_json::from_slice(call.body()).map_err(|error| {
        let words = error.to_string();
        let words: String = words.chars().filter(|c| !c.is_control()).take(200).collect();
        Reply::error(ErrorCode::BadRequest, &format!("the body is wrong: {words}"))
    })
}

fn answer(lots: &LotsHandle, command: FloorCommand) -> ReplyResult {
    match lots.call(command) {
        Ok(FloorAnswer::Accepted(bid)) => Ok(Reply::json(&bid)),
        Ok(FloorAnswer::Lot(page)) => Ok(Reply::json(&page)),
        Ok(FloorAnswer::Lots { lots, more }) => {
            Ok(Reply::json(&json!({ "lots": lots, "more": more })))
        }
        Err(by_floor) => Err(refused(&refusal(&by_floor))),
    }
}

fn refused(error: &LiveError) -> Reply {
    let code = match error.code {
        LiveErrorCode::UnknownLot => ErrorCode::NotFound,
        LiveErrorCode::Busy => ErrorCode::Unavailable,
        LiveErrorCode::Refused | LiveErrorCode::Limit => ErrorCode::Conflict,
        _ => ErrorCode::BadRequest,
    };
    match error.field {
        Some(field) => Reply::error_with(code, &error.message, ErrorField::at(field)),
        None => Reply::error(code, &error.message),
    }
}
