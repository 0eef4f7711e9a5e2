//! Weeks are shared while a campaign uses them.

use super::*;

fn of(number: u32) -> Week {
    Week::weighted(&std::array::from_fn(|hour| if hour == 0 { number } else { 1 }))
}

#[test]
fn a_week_is_kept_once_and_as_long_as_a_campaign_has_it() {
    let mut weeks = Weeks::default();
    let first = weeks.share(of(0));
    assert!(first.is_same(&weeks.share(of(0))) && !first.is_same(&of(0)));
    assert_eq!(weeks.share(of(1)), of(1));
    (2..10_000).for_each(|number| drop(weeks.share(of(number))));
    assert!(weeks.known.len() <= WEEKS_MIN, "{} are known", weeks.known.len());
    assert!(first.is_same(&weeks.share(of(0))));
    let many: Vec<_> = (0..1_000).map(|number| weeks.share(of(number))).collect();
    assert!(many.iter().zip(0..).all(|(week, number)| week.is_same(&weeks.share(of(number)))));
}
