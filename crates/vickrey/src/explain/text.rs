//! An explanation for people to read. Every number in it is one of the explanation's own.

use exchange_core::explain::{
    ExplainedBid, ExplainedClearing, ExplainedDeal, ExplainedDsp, ExplainedEnrichment,
    ExplainedFloor, ExplainedImp, ExplainedNotices, ExplainedTerms, Explanation,
};

use super::json;
use super::table::{TablePage, TextStyle};

type TextRow = (TextStyle, Vec<String>);

pub(super) fn render(explanation: &Explanation, colours: bool) -> String {
    let mut page = TablePage::new(colours);
    request(&mut page, explanation);
    enrichments(&mut page, &explanation.enrichments);
    if !explanation.imps.is_empty() {
        page.heading("On sale");
        let currency = currency(explanation);
        explanation.imps.iter().for_each(|one| imp(&mut page, one, currency));
    }
    dsps(&mut page, &explanation.dsps);
    bids(&mut page, explanation);
    clearing(&mut page, explanation);
    if let Some(no_bid) = &explanation.no_bid {
        page.heading("No bid");
        let text = format!("nbr {} ({}): {}", no_bid.nbr, no_bid.reason, no_bid.why);
        page.line(TextStyle::Bad, 2, &text);
    }
    if let Some(response) = &explanation.response {
        page.heading("Response");
        json::lines(response).iter().for_each(|line| page.cut(2, line));
    }
    notices(&mut page, &explanation.notices);
    omitted(&mut page, explanation);
    page.into_text()
}

fn currency(explanation: &Explanation) -> &str {
    explanation.terms.as_ref().map_or("", |terms| &terms.currency)
}

fn cells<const N: usize>(style: TextStyle, cells: [&str; N]) -> TextRow {
    (style, cells.map(str::to_owned).to_vec())
}

fn spaced(label: &str) -> String {
    label.replace('_', " ")
}

fn request(page: &mut TablePage, explanation: &Explanation) {
    let request = &explanation.request;
    page.heading(&format!("Auction {} of request {}", explanation.auction_id, request.id));
    let said = |what: &str, value: &Option<String>| match value {
        Some(value) => format!("{what} {value}"),
        None => format!("no {what}"),
    };
    let tmax = match request.tmax_ms {
        Some(ms) => format!("tmax {ms} ms"),
        None => "no tmax".to_owned(),
    };
    let test = if request.test { ", a test: explained as if it were not" } else { "" };
    let (publisher, country) =
        (said("publisher", &request.publisher), said("country", &request.country));
    let mut rows = vec![cells(
        TextStyle::Plain,
        ["request", &format!("{publisher}, {country}, {tmax}{test}")],
    )];
    if !request.dropped.is_empty() {
        let text = format!("of a wrong type, and not passed on: {}", request.dropped.join(", "));
        rows.push(cells(TextStyle::Plain, ["dropped", &text]));
    }
    rows.extend(explanation.terms.iter().flat_map(terms));
    for rate in &explanation.rates {
        let text = format!("1 {} = {} {}", rate.from, rate.one, rate.to);
        rows.push(cells(TextStyle::Plain, ["rate", &text]));
    }
    page.rows(2, &rows);
}

fn enrichments(page: &mut TablePage, enrichments: &[ExplainedEnrichment]) {
    if enrichments.is_empty() {
        return;
    }
    page.heading("Added for DSPs");
    let row = |it: &ExplainedEnrichment| {
        let style = if it.added.is_some() { TextStyle::Good } else { TextStyle::Plain };
        let age = it.age_ms.map_or_else(String::new, |ms| format!(", {ms} ms old"));
        let added = it.added.as_ref().map_or_else(String::new, |text| format!(": {text}"));
        let place = format!("{} → {}", it.value, it.into);
        let text = format!("{} ({}{age}){added}", spaced(&it.outcome), it.why);
        cells(style, [&it.name, &place, &text])
    };
    page.rows(2, &enrichments.iter().map(row).collect::<Vec<_>>());
}

fn terms(terms: &ExplainedTerms) -> [TextRow; 2] {
    let pricing = format!(
        "{} in {}, increment {}, our fee {}, budgets {}",
        spaced(&terms.auction_type),
        terms.currency,
        terms.increment,
        terms.fee,
        terms.budgets
    );
    let bids = match terms.bids_returned.as_str() {
        "all" => "the winner and bids beside it are returned",
        _ => "the winner alone is returned",
    };
    let notices = format!("{}; {bids}", spaced(&terms.notices));
    [cells(TextStyle::Plain, ["pricing", &pricing]), cells(TextStyle::Plain, ["notices", &notices])]
}

fn imp(page: &mut TablePage, imp: &ExplainedImp, currency: &str) {
    let private = if imp.private { ", only for deals" } else { "" };
    let multiplier = match imp.multiplier.as_str() {
        "1" => String::new(),
        many => format!(", {many} impressions at a time"),
    };
    page.line(
        TextStyle::Plain,
        2,
        &format!("imp {}: {}{private}{multiplier}", imp.id, imp.formats.join(", ")),
    );
    let mut rows = Vec::new();
    let none = "none in imp.bidfloor".to_owned();
    let floor = imp.floor.as_ref().map_or(none, |own| net_to_gross(own, currency));
    if let Some(why) = &imp.not_sold {
        rows.push(cells(TextStyle::Plain, ["not sold", why]));
    }
    rows.push(cells(TextStyle::Plain, ["floor", &floor]));
    if imp.floors_by_duration {
        rows.push(cells(
            TextStyle::Plain,
            ["floor", "by duration too: see what each bid had to reach"],
        ));
    }
    for rule in &imp.rules {
        let on = if rule.on.is_empty() { String::new() } else { format!("on {}: ", rule.on) };
        let text = format!("{on}{}", net_to_gross(&rule.floor, currency));
        rows.push(cells(TextStyle::Plain, ["[[floor]]", &text]));
    }
    for own in &imp.deals {
        rows.push(cells(TextStyle::Plain, ["deal", &deal(own, currency)]));
    }
    page.rows(4, &rows);
}

fn net_to_gross(floor: &ExplainedFloor, currency: &str) -> String {
    let converted = match floor.currency == currency {
        true => String::new(),
        false => format!(" = {} {currency}", floor.converted),
    };
    format!(
        "{} {} net{converted} → {} {currency} gross, with our fee of {}",
        floor.net, floor.currency, floor.gross, floor.fee
    )
}

fn deal(deal: &ExplainedDeal, currency: &str) -> String {
    let floor = match (&deal.floor, &deal.agreed) {
        (_, Some(agreed)) => format!("agreed at {agreed} {currency}"),
        (Some(own), None) => format!("floor {}", net_to_gross(own, currency)),
        (None, None) => format!("the impression's floor, our fee {}", deal.fee),
    };
    let discount = match deal.discount.as_str() {
        "0%" => String::new(),
        share => format!(", discount {share}"),
    };
    let (id, pricing, class) = (&deal.id, spaced(&deal.auction_type), deal.class);
    let floor = deal.not_sold.as_ref().map_or(floor, |why| format!("not offered: {why}"));
    format!("{id}: {pricing}, class {class}{discount}; {floor}")
}

fn dsps(page: &mut TablePage, dsps: &[ExplainedDsp]) {
    if dsps.is_empty() {
        return;
    }
    page.heading("Who is asked");
    let asked = |dsp: &ExplainedDsp| match (&dsp.asked, &dsp.not_asked) {
        (Some(asked), _) => {
            let deals = match asked.deals.as_slice() {
                [] => String::new(),
                deals => format!(", deal {}", deals.join(" ")),
            };
            let told =
                format!("imp {}{deals}; told tmax {} ms", asked.imps.join(" "), asked.tmax_ms);
            cells(TextStyle::Plain, [&dsp.id, "asked", &told])
        }
        (None, Some(not)) => cells(
            TextStyle::Faint,
            [&dsp.id, "not asked", &format!("{}: {}", spaced(&not.reason), not.why)],
        ),
        (None, None) => cells(TextStyle::Faint, [&dsp.id, "not reached", ""]),
    };
    page.rows(2, &dsps.iter().map(asked).collect::<Vec<_>>());
    let answers: Vec<_> = dsps.iter().filter_map(answer).collect();
    if !answers.is_empty() {
        page.heading("Answers");
        page.rows(2, &answers);
    }
}

fn answer(dsp: &ExplainedDsp) -> Option<TextRow> {
    let answer = dsp.answer.as_ref()?;
    let style = match answer.outcome.as_str() {
        "answered" | "no_bid" => TextStyle::Plain,
        _ => TextStyle::Bad,
    };
    let latency = match answer.latency_us {
        Some(us) => format!(", after {}.{:03} ms", us / 1000, us % 1000),
        None => String::new(),
    };
    let bids = match answer.bids {
        0 => String::new(),
        1 => ": 1 bid".to_owned(),
        many => format!(": {many} bids"),
    };
    let text = format!("{}{bids}{latency}", answer.why);
    Some(cells(style, [&dsp.id, &spaced(&answer.outcome), &text]))
}

fn bids(page: &mut TablePage, explanation: &Explanation) {
    if explanation.bids.is_empty() {
        return;
    }
    let currency = currency(explanation);
    page.heading("Bids");
    let worth = format!("worth {currency}");
    let floor = format!("floor {currency}");
    let head = ["bid", "DSP", "seat", "imp", "deal", "price", &worth, &floor, "fate"];
    let mut rows = vec![cells(TextStyle::Faint, head)];
    rows.extend(explanation.bids.iter().map(bid));
    page.rows(2, &rows);
    page.heading("Why");
    let why = |bid: &ExplainedBid| {
        let discounted = match (&bid.price, &bid.offer) {
            (Some(price), Some(offer)) if price != offer => {
                format!(" (after the deal's discount it offers {offer} {})", bid.currency)
            }
            _ => String::new(),
        };
        let id = bid.id.as_deref().unwrap_or("-");
        let text = format!("{}{discounted}", bid.why);
        cells(style_of(bid), [&format!("bid {}", bid.number), id, &text])
    };
    page.rows(2, &explanation.bids.iter().map(why).collect::<Vec<_>>());
}

fn style_of(bid: &ExplainedBid) -> TextStyle {
    match bid.fate.as_str() {
        "won" => TextStyle::Good,
        "offered" | "lost_to_higher_bid" | "lost_to_deal" => TextStyle::Plain,
        _ => TextStyle::Bad,
    }
}

fn bid(bid: &ExplainedBid) -> TextRow {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let price = match &bid.price {
        Some(price) => format!("{price} {}", bid.currency),
        None => "-".to_owned(),
    };
    let row = vec![
        bid.number.to_string(),
        bid.dsp.clone(),
        or_dash(&bid.seat),
        or_dash(&bid.imp),
        or_dash(&bid.deal),
        price,
        or_dash(&bid.worth),
        or_dash(&bid.floor),
        format!("{} ({})", spaced(&bid.fate), bid.code),
    ];
    (style_of(bid), row)
}

fn clearing(page: &mut TablePage, explanation: &Explanation) {
    let took_part = |clearing: &&ExplainedClearing| !clearing.ranking.is_empty();
    if !explanation.clearing.iter().any(|clearing| took_part(&clearing)) {
        return;
    }
    page.heading(&format!("Clearing, in {}", currency(explanation)));
    for clearing in explanation.clearing.iter().filter(took_part) {
        page.line(TextStyle::Plain, 2, &format!("imp {}", clearing.imp));
        let mut rows =
            vec![cells(TextStyle::Faint, ["rank", "bid", "class", "counts", "floor", ""])];
        for (rank, ranked) in clearing.ranking.iter().enumerate() {
            let out = ranked.out.as_ref().map(|out| format!("out: {}", spaced(out)));
            rows.push(cells(
                TextStyle::Plain,
                [
                    &(rank + 1).to_string(),
                    &ranked.bid.to_string(),
                    &ranked.class.to_string(),
                    &ranked.price,
                    &ranked.floor,
                    out.as_deref().unwrap_or_default(),
                ],
            ));
        }
        page.rows(4, &rows);
        match &clearing.won {
            None => page.line(TextStyle::Bad, 4, "nobody wins"),
            Some(won) => {
                page.line(TextStyle::Good, 4, &format!("bid {} wins", won.bid));
                won.steps.iter().for_each(|step| page.line(TextStyle::Plain, 6, step));
            }
        }
        for offered in &clearing.offered {
            let (bid, price, net) = (offered.bid, &offered.price, &offered.net);
            let text = format!("bid {bid} is returned beside it: {price} gross, {net} net");
            page.line(TextStyle::Plain, 4, &text);
        }
    }
}

fn notices(page: &mut TablePage, notices: &ExplainedNotices) {
    let mut rows = Vec::new();
    for wanted in &notices.for_markup {
        let what = wanted.url.as_ref().or(wanted.problem.as_ref());
        let bid = format!("bid {}", wanted.bid);
        let text = what.map(String::as_str).unwrap_or_default();
        rows.push(cells(TextStyle::Plain, ["for the ad", "win", &bid, text]));
    }
    for (when, list) in [("now", &notices.now), ("by caller", &notices.callers)] {
        for notice in list {
            rows.push(cells(TextStyle::Plain, [when, &notice.kind, &notice.dsp, &notice.url]));
        }
    }
    for later in &notices.later {
        let url = later.url.as_deref().unwrap_or("nothing is called, it is recorded");
        let relays = if later.relays_markup { ", whose answer is the ad" } else { "" };
        let text = format!("when {} is called: {url}{relays}", later.token);
        rows.push(cells(TextStyle::Plain, ["later", &later.kind, &later.dsp, &text]));
    }
    for unsent in &notices.not_sent {
        rows.push(cells(
            TextStyle::Bad,
            ["not sent", &unsent.kind, &unsent.dsp, &spaced(&unsent.reason)],
        ));
    }
    for unmarked in &notices.unmarked {
        let text = format!("no beacon in the ad: {}", spaced(&unmarked.reason));
        rows.push(cells(TextStyle::Bad, ["never", "billing", &unmarked.dsp, &text]));
    }
    if !rows.is_empty() {
        page.heading("Notices");
        page.rows(2, &rows);
    }
}

fn omitted(page: &mut TablePage, explanation: &Explanation) {
    let omitted = explanation.omitted;
    for (count, what) in [
        (omitted.bids, "bids that lost"),
        (omitted.ranked, "bids in rankings"),
        (omitted.notices, "notices"),
        (usize::from(omitted.response), "response"),
    ] {
        if count > 0 {
            page.line(TextStyle::Faint, 0, &format!("left out: {count} {what}"));
        }
    }
}
