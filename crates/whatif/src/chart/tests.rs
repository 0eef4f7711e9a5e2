//! Charts compared with their text.

use super::*;

fn curve(name: &str, points: &[(u64, f64)]) -> SpendCurve {
    SpendCurve { name: name.to_owned(), points: points.to_vec() }
}

/// A day's drawing, with spend known up to the last point of `spent`.
fn of_a_day(target: &[(u64, f64)], spent: &[(u64, f64)]) -> Drawing {
    Drawing {
        title: "spend".to_owned(),
        start_ms: 0,
        end_ms: 86_400_000,
        target: Some(curve("target", target)),
        lines: vec![curve("asap", spent)],
        now_ms: spent.last().map(|(ms, _)| *ms),
    }
}

#[test]
fn a_line_beside_its_target() {
    let drawing = Drawing {
        title: "spend\u{1b}[2J".to_owned(),
        start_ms: 1_000_000,
        end_ms: 1_000_000 + 86_400_000,
        target: Some(curve("target", &[(1_000_000, 0.0), (87_400_000, 1.0)])),
        lines: vec![curve("asap", &[(1_000_000, 0.0), (22_600_000, 1.0)])],
        now_ms: None,
    };
    let want = "\
spend\u{fffd}[2J
 100 % ┤    ●●●●●●●●●●●●●
  75 % ┤   ●      ····
  50 % ┤  ●   ····
  25 % ┤ ●····
   0 % ┤●·
       └─────────────────
        0     12 h   24 h
        · target   ● asap
";
    let got = draw(&drawing, 17, 5);
    assert_eq!(got, want, "\n{got}");
}

#[test]
fn nothing_is_drawn_of_the_future_but_the_plan() {
    let drawing = of_a_day(&[(0, 0.0), (86_400_000, 1.0)], &[(0, 0.0), (43_200_000, 0.25)]);
    let want = "\
spend
 100 % ┤              ---
  75 % ┤          ----
  50 % ┤      ···-
  25 % ┤  ··●●●●●
   0 % ┤●●●●
       └─────────────────
        0     12 h   24 h
        · target   - plan   ● asap
";
    let got = draw(&drawing, 17, 5);
    assert_eq!(got, want, "\n{got}");
}

#[test]
fn what_was_before_the_first_point_is_not_made_up() {
    let drawing =
        of_a_day(&[(43_200_000, 0.5), (86_400_000, 1.0)], &[(43_200_000, 0.25), (64_800_000, 0.5)]);
    let want = "\
spend
 100 % ┤              ---
  75 % ┤          ···-
  50 % ┤       ···●●●
  25 % ┤       ●●●
   0 % ┤
       └─────────────────
        0     12 h   24 h
        · target   - plan   ● asap
";
    let got = draw(&drawing, 17, 5);
    assert_eq!(got, want, "\n{got}");
}

#[test]
fn sizes_are_held_within_limits() {
    let drawing = Drawing {
        title: String::new(),
        start_ms: 0,
        end_ms: 0,
        target: None,
        lines: vec![curve("none", &[])],
        now_ms: None,
    };
    assert_eq!(draw(&drawing, 0, 0).lines().count(), 4 + 4);
    assert_eq!(draw(&drawing, usize::MAX, usize::MAX).lines().count(), 100 + 4);
}
