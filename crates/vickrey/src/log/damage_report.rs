//! The output of commands on stderr: damage and progress.

use std::io::Write;
use std::ops::ControlFlow;

use audit::{Corruption, GenerationProblems, LaneDamage, RecordPosition};
use indicatif::ProgressBar;

use crate::command::exit::Exit;
use crate::peers::long_run::progress_bar;

/// Reports damage of the record on stderr, as it is found.
#[derive(Debug, Default)]
pub(crate) struct DamageReport {
    any: bool,
}

impl DamageReport {
    pub(crate) fn of(damage: &LaneDamage, generations: &GenerationProblems) -> Self {
        let mut report = Self::default();
        damage.corruptions.iter().for_each(|corruption| report.corrupt(corruption));
        report.generations(generations);
        report
    }

    pub(crate) fn corrupt(&mut self, corruption: &Corruption) {
        self.say(&format!("damaged: {corruption}"));
    }

    pub(super) fn unreadable(&mut self, place: &RecordPosition, why: &dyn std::fmt::Display) {
        self.say(&format!("unreadable: {place}: {why}"));
    }

    pub(crate) fn generations(&mut self, problems: &GenerationProblems) {
        problems.corruptions.iter().for_each(|corruption| self.corrupt(corruption));
        for (place, why) in &problems.unreadable {
            self.unreadable(place, why);
        }
    }

    fn say(&mut self, text: &str) {
        self.any = true;
        drop(writeln!(std::io::stderr(), "{text}"));
    }

    pub(crate) const fn exit(&self) -> Exit {
        if self.any { Exit::Missed } else { Exit::Done }
    }
}

pub(crate) struct SegmentProgress(pub(super) ProgressBar);

impl SegmentProgress {
    pub(crate) fn new() -> Self {
        Self(progress_bar(None, "{bar:30} {percent:>3}% of {len} segments, {eta}"))
    }

    pub(crate) fn show(&self, done: usize, of: usize) -> ControlFlow<()> {
        self.0.set_length(of as u64);
        self.0.set_position(done as u64);
        ControlFlow::Continue(())
    }
}
