//! A report as an aligned table for people. It must not know where it is printed.

use std::fmt::Write as _;

use pacer_core::strategy::AuctionPricing;
use units::Nanos;

use crate::curve::length;
use crate::figures::Figures;
use crate::quality::QualityRow;
use crate::simulate::SimulationReport;

/// The output of `vickrey simulate pacing`.
pub fn report(report: &SimulationReport) -> String {
    let mut text = String::new();
    let flight = length(report.end_ms - report.start_ms);
    let pricing = match report.pricing {
        AuctionPricing::SecondPrice => "second price",
        AuctionPricing::FirstPrice => "first price",
    };
    let budget = Nanos::new(report.budget_nanos);
    let optimum = &report.optimum;
    line(&mut text, "auctions", &format!("{} in {flight}, {pricing}", report.auctions));
    line(
        &mut text,
        "budget",
        &format!("{budget}; bidding at value would spend {}", money(report.unconstrained_nanos)),
    );
    line(
        &mut text,
        "optimum",
        &format!(
            "{} of value in {} wins for {}, known only in hindsight",
            money(optimum.value_nanos),
            optimum.wins,
            Nanos::new(optimum.spent_nanos)
        ),
    );
    line(
        &mut text,
        "by hour",
        &format!("{:.3} of the optimum, known from hour to hour, along the target", optimum.hourly),
    );
    let ahead = match report.ahead {
        0.0 => String::new(),
        ahead => format!(", and it runs ahead of that by {ahead}"),
    };
    let forecast = forecast(report.forecast);
    line(&mut text, "traffic", &format!("the target's forecast is {forecast}{ahead}"));
    text.push('\n');
    text.push_str(&aligned(&HEADINGS, &report.strategies.iter().map(cells).collect::<Vec<_>>()));
    let note = format!(
        "\nRMSE: of cumulative spend, as % of the budget, at the end of each slot ({}), beside the \
         strategy's own\ncurve and beside spend that is even in time. Exhausted: when the first bid did \
         not fit into what was left.\nVolatility: root mean square of the change of ln(multiplier) from \
         slot to slot.\n",
        length(report.slot_ms)
    );
    text.push_str(&note);
    text
}

/// The quality table.
pub fn quality(rows: &[QualityRow]) -> String {
    let headings = [
        "profile",
        "budget",
        "strategy",
        "overspent",
        "value/optimum",
        "RMSE own",
        "delivery",
        "targets",
    ];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let figures = &row.figures;
            let missed = row.missed();
            let verdict = match (row.is_default, missed.is_empty()) {
                (false, _) => "–".to_owned(),
                (true, true) => "met".to_owned(),
                (true, false) => format!("missed: {}", missed.join(", ")),
            };
            vec![
                row.profile.to_owned(),
                row.share.to_string(),
                figures.strategy.to_owned(),
                money(figures.overspent_nanos),
                format!("{:.3}", figures.value_of_optimum),
                format!("{:.4}", figures.rmse_target),
                percent(figures.delivery),
                verdict,
            ]
        })
        .collect();
    aligned(&headings, &cells)
}

const HEADINGS: [&str; 9] = [
    "strategy",
    "spent",
    "delivery",
    "wins",
    "value/optimum",
    "RMSE own",
    "RMSE even",
    "exhausted",
    "volatility",
];

fn cells(figures: &Figures) -> Vec<String> {
    vec![
        figures.strategy.to_owned(),
        money(figures.spent_nanos),
        percent(figures.delivery),
        figures.wins.to_string(),
        format!("{:.3}", figures.value_of_optimum),
        percent(figures.rmse_target),
        percent(figures.rmse_even),
        figures.exhausted_at.map_or("–".to_owned(), percent),
        format!("{:.3}", figures.multiplier_volatility),
    ]
}

fn line(text: &mut String, name: &str, value: &str) {
    writeln!(text, "{name:<9} {value}").expect("a String takes all");
}

fn forecast(name: &str) -> &'static str {
    match name {
        "uniform" => "uniform",
        "own" => "that of the stream's own hours, known beforehand",
        _ => "learned from another stream",
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn money(nanos: u128) -> String {
    match u64::try_from(nanos) {
        Ok(nanos) => Nanos::new(nanos).to_string(),
        Err(_) => (nanos / 1_000_000_000).to_string(),
    }
}

/// Columns as wide as their content, the first aligned left and the others right.
fn aligned(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let is_text = |column: usize| matches!(headings[column], "profile" | "strategy" | "targets");
    let mut text = String::new();
    let headings: Vec<String> = headings.iter().map(|&heading| heading.to_owned()).collect();
    for row in std::iter::once(&headings).chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
            let put = if is_text(column) {
                write!(line, "{gap}{cell:<width$}")
            } else {
                write!(line, "{gap}{cell:>width$}")
            };
            put.expect("a String takes all");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
