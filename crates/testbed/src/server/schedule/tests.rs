//! Phases follow each other, and invalid schedules are refused.

use super::*;
use crate::dsp::{DspAct, DspBehaviour, DspSchedule};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn schedule(repeat: bool) -> DspSchedule {
    let steps = [(ms(10), DspBehaviour::HEALTHY), (ms(5), DspAct::Hang.into())];
    DspSchedule { repeat, ..DspSchedule::steps(steps) }
}

#[test]
fn phases_follow_each_other_and_the_last_stays_or_the_first_returns() {
    let check = |repeat: bool, at: u64, want: (&DspAct, Option<u64>)| {
        let schedule = schedule(repeat);
        let (behaviour, next) = schedule.at(ms(at));
        assert_eq!((&behaviour.act, next), (want.0, want.1.map(ms)), "{repeat} {at}");
    };
    check(false, 0, (&DspAct::Healthy, Some(10)));
    check(false, 9, (&DspAct::Healthy, Some(10)));
    check(false, 10, (&DspAct::Hang, None));
    check(false, 1_000_000, (&DspAct::Hang, None));
    check(true, 10, (&DspAct::Hang, Some(15)));
    check(true, 14, (&DspAct::Hang, Some(15)));
    check(true, 15, (&DspAct::Healthy, Some(25)));
    check(true, 15_000_012, (&DspAct::Hang, Some(15_000_015)));
    assert_eq!(DspSchedule::default().at(ms(7)), (&DspBehaviour::HEALTHY, None));
    assert_eq!(DspSchedule::always(DspAct::Hang).at(ms(7)), (&DspAct::Hang.into(), None));
}

#[test]
fn senseless_schedules_are_told() {
    let check = |want: Option<&str>, edit: &dyn Fn(&mut DspSchedule)| {
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
