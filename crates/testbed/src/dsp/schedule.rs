//! When one behaviour of a DSP follows another: pure in the time since the fleet's start. Knows
//! neither what behaviours do nor any clock.

use std::time::Duration;

use super::behaviour::Behaviour;

/// Most phases of one schedule.
pub const PHASES_MAX: usize = 1000;

/// Behaviours one after another from the fleet's start. Empty: healthy throughout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// In order.
    pub phases: Vec<Phase>,
    /// Begins again after the last phase; otherwise the last one stays.
    pub repeat: bool,
}

/// One behaviour for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// How long; `None`, for the last phase only: to the end.
    pub lasts: Option<Duration>,
    /// What the DSP does meanwhile.
    pub behaviour: Behaviour,
}

impl Schedule {
    /// One behaviour throughout.
    pub fn always(behaviour: impl Into<Behaviour>) -> Self {
        let behaviour = behaviour.into();
        Self { phases: vec![Phase { lasts: None, behaviour }], repeat: false }
    }

    /// Behaviours for a time each, the last of which stays.
    pub fn steps<const N: usize>(steps: [(Duration, Behaviour); N]) -> Self {
        let phase = |(lasts, behaviour)| Phase { lasts: Some(lasts), behaviour };
        Self { phases: steps.map(phase).into(), repeat: false }
    }

    /// What is wrong with this schedule, if anything is.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let (last, others) = self.phases.split_last()?;
        if self.phases.len() > PHASES_MAX {
            Some("a schedule has at most 1000 phases")
        } else if self.phases.iter().any(|phase| phase.lasts.is_some_and(|time| time.is_zero())) {
            Some("a phase must last longer than nothing")
        } else if others.iter().any(|phase| phase.lasts.is_none()) {
            Some("only the last phase may be without an end")
        } else if self.repeat && last.lasts.is_none() {
            Some("a schedule that repeats needs an end of its last phase")
        } else {
            self.phases.iter().find_map(|phase| phase.behaviour.problem())
        }
    }

    /// The behaviour once `elapsed` has passed since the start, and when the next one follows,
    /// also since the start.
    pub(super) fn at(&self, elapsed: Duration) -> (&Behaviour, Option<Duration>) {
        let mut begins = Duration::ZERO;
        if self.repeat {
            let round: Duration = self.phases.iter().filter_map(|phase| phase.lasts).sum();
            let rounds = elapsed.as_nanos().checked_div(round.as_nanos()).unwrap_or(0);
            begins = round.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
        }
        for (index, phase) in self.phases.iter().enumerate() {
            let stays = !self.repeat && index + 1 == self.phases.len();
            let ends = phase.lasts.filter(|_| !stays).map(|lasts| begins.saturating_add(lasts));
            match ends {
                Some(ends) if ends <= elapsed => begins = ends,
                ends => return (&phase.behaviour, ends),
            }
        }
        (&Behaviour::HEALTHY, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsp::Act;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn schedule(repeat: bool) -> Schedule {
        let steps = [(ms(10), Behaviour::HEALTHY), (ms(5), Act::Hang.into())];
        Schedule { repeat, ..Schedule::steps(steps) }
    }

    #[test]
    fn phases_follow_each_other_and_the_last_stays_or_the_first_returns() {
        let check = |repeat: bool, at: u64, want: (&Act, Option<u64>)| {
            let schedule = schedule(repeat);
            let (behaviour, next) = schedule.at(ms(at));
            assert_eq!((&behaviour.act, next), (want.0, want.1.map(ms)), "{repeat} {at}");
        };
        check(false, 0, (&Act::Healthy, Some(10)));
        check(false, 9, (&Act::Healthy, Some(10)));
        check(false, 10, (&Act::Hang, None));
        check(false, 1_000_000, (&Act::Hang, None));
        check(true, 10, (&Act::Hang, Some(15)));
        check(true, 14, (&Act::Hang, Some(15)));
        check(true, 15, (&Act::Healthy, Some(25)));
        check(true, 15_000_012, (&Act::Hang, Some(15_000_015)));
        assert_eq!(Schedule::default().at(ms(7)), (&Behaviour::HEALTHY, None));
        assert_eq!(Schedule::always(Act::Hang).at(ms(7)), (&Act::Hang.into(), None));
    }

    #[test]
    fn senseless_schedules_are_told() {
        let check = |want: Option<&str>, edit: &dyn Fn(&mut Schedule)| {
            let mut schedule = schedule(false);
            edit(&mut schedule);
            let problem = schedule.problem();
            assert_eq!(problem.is_some(), want.is_some(), "{schedule:?}: {problem:?}");
            assert!(problem.unwrap_or_default().contains(want.unwrap_or_default()), "{problem:?}");
        };
        check(None, &|_| ());
        check(None, &|s| s.phases.clear());
        check(None, &|s| s.phases[1].lasts = None);
        check(Some("only the last"), &|s| s.phases[0].lasts = None);
        check(Some("repeats"), &|s| (s.repeat, s.phases[1].lasts) = (true, None));
        check(Some("longer than nothing"), &|s| s.phases[0].lasts = Some(Duration::ZERO));
        check(Some("share"), &|s| s.phases[1].behaviour.share_ppm = 2_000_000);
        check(Some("1000 phases"), &|s| s.phases = vec![s.phases[0].clone(); PHASES_MAX + 1]);
    }
}
