//! The DSPs' responses, from a file: a JSON object by DSP id.

use diagnostics::{nearest, shortened};
use exchange_core::record::CallOutcome;
use openrtb::{members, string};

use super::json;

/// Placeholder for the auction's id, which the author of the file cannot know.
const ID_MARK: &str = "$AUCTION_ID";

const PROBLEMS_MAX: usize = 50;

/// Response of a DSP that is not in the file.
pub(super) const NO_BID: (CallOutcome, &[u8]) = (CallOutcome::NoBid, b"");

/// By DSP.
#[derive(Debug)]
pub(super) struct Answers(Vec<(String, CallOutcome, String)>);

impl Answers {
    pub(super) fn of(&self, dsp: &str) -> (CallOutcome, &[u8]) {
        let own = self.0.iter().find(|(id, _, _)| id == dsp);
        own.map_or(NO_BID, |(_, outcome, body)| (*outcome, body.as_bytes()))
    }
}

/// Reads `text`: at most one response for each of `dsps`. A bid response whose `id` is the caller's
/// or [`ID_MARK`] gets our auction's id. All problems are reported at once.
pub(super) fn read(
    text: &str,
    dsps: &[&str],
    caller_id: &str,
    auction_id: &str,
) -> Result<Answers, Vec<String>> {
    let Some(members) = members(text) else {
        return Err(vec![not_an_object(text)]);
    };
    let (mut answers, mut problems) = (Vec::new(), Vec::new());
    for (dsp, raw) in &members {
        let known: &Vec<(String, CallOutcome, String)> = &answers;
        if !dsps.contains(&&**dsp) {
            problems.push(unknown(dsp, dsps));
            continue;
        }
        if known.iter().any(|(id, _, _)| **id == **dsp) {
            problems.push(format!("{}: appears twice", &**dsp));
            continue;
        }
        match answer(raw, caller_id, auction_id) {
            Ok((outcome, body)) => answers.push((dsp.to_string(), outcome, body)),
            Err(problem) => problems.push(format!("{}: {problem}", &**dsp)),
        }
    }
    problems.truncate(PROBLEMS_MAX);
    if problems.is_empty() { Ok(Answers(answers)) } else { Err(problems) }
}

fn not_an_object(text: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(text) {
        Err(error) => format!("not JSON: {error}"),
        Ok(_) => "must be an object: DSP ids, and what each answers".to_owned(),
    }
}

fn unknown(dsp: &str, dsps: &[&str]) -> String {
    let shown = shortened(dsp);
    match nearest(dsp, dsps.iter().copied()) {
        Some(nearest) => format!("no [[dsp]] has the id `{shown}`, did you mean `{nearest}`?"),
        None => format!("no [[dsp]] has the id `{shown}`"),
    }
}

fn answer(raw: &str, caller_id: &str, auction_id: &str) -> Result<(CallOutcome, String), String> {
    if raw.starts_with('"') {
        let name = string(raw).unwrap_or_default();
        return Ok((named(&name)?, String::new()));
    }
    let Some(members) = members(raw) else {
        return Err("must be a bid response, a status or an outcome".to_owned());
    };
    let value = |key: &str| members.iter().find(|(own, _)| **own == *key).map(|(_, raw)| *raw);
    match (value("status"), value("seatbid")) {
        (Some(status), None) => with_status(status, value("body")),
        _ => response(raw, value("id"), caller_id, auction_id),
    }
}

fn named(name: &str) -> Result<CallOutcome, String> {
    // Except for outcomes that need a body, or a caller that disconnects.
    let simple =
        |outcome: &CallOutcome| !matches!(outcome, CallOutcome::Answered | CallOutcome::Abandoned);
    let outcomes = CallOutcome::ALL.into_iter().filter(simple);
    outcomes.clone().find(|outcome| outcome.label() == name).ok_or_else(|| {
        let names: Vec<_> = outcomes.map(CallOutcome::label).collect();
        format!("`{}` is not an outcome, expected one of {}", first(name), names.join(", "))
    })
}

fn first(text: &str) -> String {
    text.chars().take(64).collect()
}

fn with_status(status: &str, body: Option<&str>) -> Result<(CallOutcome, String), String> {
    let body = match body {
        None => String::new(),
        Some(raw) => {
            string(raw).ok_or("`body` must be a string, the text of the body")?.into_owned()
        }
    };
    match status.parse::<u16>() {
        Ok(200) if !body.is_empty() => Ok((CallOutcome::Answered, body)),
        Ok(200 | 204) => Ok((CallOutcome::NoBid, String::new())),
        Ok(100..=599) => Ok((CallOutcome::Status, String::new())),
        _ => Err(format!("`status` must be a status of HTTP, not {}", first(status))),
    }
}

fn response(
    raw: &str,
    id: Option<&str>,
    caller_id: &str,
    auction_id: &str,
) -> Result<(CallOutcome, String), String> {
    let id = id.and_then(string);
    let is_ours = id.is_some_and(|id| id == caller_id || id == ID_MARK);
    if !is_ours {
        return Ok((CallOutcome::Answered, raw.to_owned())); // Judged as written.
    }
    let ours = format!("\"{auction_id}\"");
    let body = json::with(raw, &["id"], &[("id", &ours)]).expect("it is an object");
    Ok((CallOutcome::Answered, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<(&str, &str), &str>) {
        let got = read(&format!(r#"{{"alpha":{text}}}"#), &["alpha", "beta"], "r", "a1");
        let got = got.map(|answers| {
            let (outcome, body) = answers.of("alpha");
            (outcome.label().to_owned(), String::from_utf8(body.to_vec()).expect("text"))
        });
        let want = want.map(|(outcome, body)| (outcome.to_owned(), body.to_owned()));
        assert_eq!(got, want.map_err(|problem| vec![format!("alpha: {problem}")]), "{text}");
    }

    #[test]
    fn answers_are_read_or_refused() {
        check(r#"{"id":"r","x":1.50}"#, Ok(("answered", r#"{"id":"a1","x":1.50}"#)));
        check(r#"{"x":1,"id":"$AUCTION_ID"}"#, Ok(("answered", r#"{"id":"a1","x":1}"#)));
        check(r#"{"id":"other"}"#, Ok(("answered", r#"{"id":"other"}"#)));
        check("{}", Ok(("answered", "{}")));
        check(r#"{"status":1,"seatbid":[]}"#, Ok(("answered", r#"{"status":1,"seatbid":[]}"#)));
        check(r#"{"status":204}"#, Ok(("no_bid", "")));
        check(r#"{"status":200}"#, Ok(("no_bid", "")));
        check(r#"{"status":200,"body":"<no>"}"#, Ok(("answered", "<no>")));
        check(r#"{"status":503,"body":"x"}"#, Ok(("status", "")));
        check(r#""late""#, Ok(("late", "")));
        check(r#""unreachable""#, Ok(("unreachable", "")));
        check(r#"{"status":99}"#, Err("`status` must be a status of HTTP, not 99"));
        check(r#"{"status":200,"body":{}}"#, Err("`body` must be a string, the text of the body"));
        check("7", Err("must be a bid response, a status or an outcome"));
        let outcomes = "no_bid, late, status, malformed, too_large, encoded, trickle, reset, \
                        unreachable, unresolved, saturated, unsent";
        for name in ["lat", "answered", "abandoned"] {
            let problem = format!("`{name}` is not an outcome, expected one of {outcomes}");
            check(&format!("\"{name}\""), Err(&problem));
        }
    }

    #[test]
    fn who_is_not_in_the_file_does_not_bid() {
        let answers = read(r#"{"alpha":"late"}"#, &["alpha", "beta"], "r", "a").unwrap();
        assert_eq!(answers.of("beta").0, CallOutcome::NoBid);
    }

    #[test]
    fn all_problems_are_told() {
        let text = r#"{"alfa":"late","zz":1,"beta":"late","beta":{},"alpha":[]}"#;
        let want = vec![
            "no [[dsp]] has the id `alfa`, did you mean `alpha`?".to_owned(),
            "no [[dsp]] has the id `zz`".to_owned(),
            "beta: appears twice".to_owned(),
            "alpha: must be a bid response, a status or an outcome".to_owned(),
        ];
        assert_eq!(read(text, &["alpha", "beta"], "r", "a").unwrap_err(), want);
        let not_json = read("{", &[], "r", "a").unwrap_err();
        assert!(not_json[0].starts_with("not JSON: EOF"), "{not_json:?}");
        let want = vec!["must be an object: DSP ids, and what each answers".to_owned()];
        assert_eq!(read("[]", &[], "r", "a").unwrap_err(), want);
    }
}
