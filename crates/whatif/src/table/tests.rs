//! The tables as printed.

use pacer_core::strategy::StrategySettings;
use units::{Cpm, Ppm};

use super::*;
use crate::simulate::{SimulateOptions, SimulatedBudget, simulate};
use crate::stream::StreamAuction;

#[test]
fn a_report_is_aligned() {
    let cpm = |micros| Cpm::new(micros).expect("a price");
    let auction = |time_ms, value, price| StreamAuction {
        time_ms,
        market_price: cpm(price),
        value: cpm(value),
    };
    let auctions = [
        auction(1_000, 10_000_000, 6_000_000),
        auction(1_500, 5_000_000, 6_000_000),
        auction(8_000, 8_000_000, 2_000_000),
    ];
    let options = SimulateOptions {
        strategies: vec![StrategySettings::Asap],
        ..SimulateOptions::new(SimulatedBudget::amount("0.01").unwrap())
    };
    let text = report(&simulate(&auctions, &options).unwrap());
    let want = "\
auctions  3 in 7001 ms, second price
budget    0.01; bidding at value would spend 0.008
optimum   0.019666667 of value in 2 wins for 0.01, known only in hindsight
by hour   1.000 of the optimum, known from hour to hour, along the target
traffic   the target's forecast is that of the stream's own hours, known beforehand

strategy  spent  delivery  wins  value/optimum  RMSE own  RMSE even  exhausted  volatility
asap      0.008   80.00 %     2          0.915   16.96 %    27.77 %     7.14 %       0.000

RMSE: of cumulative spend, as % of the budget, at the end of each slot (1000 ms), beside the strategy's own
curve and beside spend that is even in time. Exhausted: when the first bid did not fit into what was left.
Volatility: root mean square of the change of ln(multiplier) from slot to slot.
";
    assert_eq!(text, want, "\n{text}");
}

#[test]
fn a_quality_table_says_what_is_met() {
    let figures = |strategy, value_of_optimum| Figures {
        strategy,
        bids: 1,
        wins: 1,
        spent_nanos: 1,
        overspent_nanos: 0,
        delivery: 0.9951,
        value_nanos: 1,
        value_of_optimum,
        rmse_target: 0.01234,
        rmse_even: 0.2,
        exhausted_ms: None,
        exhausted_at: None,
        multiplier_volatility: 0.1,
    };
    let row = |is_default, figures| QualityRow {
        profile: "flat",
        share: Ppm::new(31_250).unwrap(),
        is_default,
        figures,
    };
    let rows = [
        row(false, figures("asap", 0.3)),
        row(true, figures("slot_dual", 0.97)),
        row(true, figures("slot_dual", 0.9)),
    ];
    let want = "\
profile  budget  strategy   overspent  value/optimum  RMSE own  delivery  targets
flat     3.125%  asap               0          0.300    0.0123   99.51 %  –
flat     3.125%  slot_dual          0          0.970    0.0123   99.51 %  met
flat     3.125%  slot_dual          0          0.900    0.0123   99.51 %  missed: value
";
    let got = quality(&rows);
    assert_eq!(got, want, "\n{got}");
}
