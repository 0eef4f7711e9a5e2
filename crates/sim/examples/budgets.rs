//! Runs the simulation of budgets by hand: one seed with its trace, or many seeds.

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::process::ExitCode;

use sim::budgets::{BudgetScenario, command, run};

const USAGE: &str = "usage: budgets --seed NUMBER [--trace] | --seeds FROM..TO";

fn number(text: &str) -> Option<u64> {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}

fn one(seed: u64, has_trace: bool) -> bool {
    let options = BudgetScenario::of(seed);
    let outcome = run(&options, has_trace);
    for line in &outcome.lines {
        println!("{line}");
    }
    println!("{options:?}");
    println!("seed {seed:#x}: hash {:016x}", outcome.hash);
    println!("{} reserved, {} won", outcome.reserved, outcome.won);
    if let Some(problem) = &outcome.problem {
        println!("{problem}");
    }
    outcome.problem.is_none()
}

fn many(from: u64, to: u64) -> bool {
    let mut failed = 0u64;
    for seed in from..to {
        if let Some(problem) = run(&BudgetScenario::of(seed), false).problem {
            println!("seed {seed:#x}: {problem}\n  {}", command(seed));
            failed += 1;
        }
    }
    println!("{} runs, {failed} failed", to - from);
    failed == 0
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_well = match texts[..] {
        ["--seed", seed] => number(seed).map(|seed| one(seed, false)),
        ["--seed", seed, "--trace"] => number(seed).map(|seed| one(seed, true)),
        ["--seeds", range] => {
            range.split_once("..").and_then(|(from, to)| Some(many(number(from)?, number(to)?)))
        }
        _ => None,
    };
    match is_well {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            println!("{USAGE}");
            ExitCode::from(64)
        }
    }
}
