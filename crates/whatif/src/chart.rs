//! Draws a spend curve and its target with characters, for a terminal. It must not know colours, so
//! that everyone sees the same.

use crate::curve::{Drawing, SpendCurve, length};

/// Smallest size of the plot area, in characters; smaller requests get this.
const SIZE_MIN: (usize, usize) = (16, 4);

/// Largest size; larger requests get this.
const SIZE_MAX: (usize, usize) = (400, 100);

const TARGET: char = '·';
/// Mark of the target's future part.
const PLAN: char = '-';
/// One per line, repeating.
const MARKS: [char; 6] = ['●', '○', '■', '□', '▲', '△'];

/// Draws a plot area of `width` and `height` characters. Ends with a newline.
pub fn draw(drawing: &Drawing, width: usize, height: usize) -> String {
    let width = width.clamp(SIZE_MIN.0, SIZE_MAX.0);
    let height = height.clamp(SIZE_MIN.1, SIZE_MAX.1);
    let mut field = vec![vec![' '; width]; height];
    if let Some(target) = &drawing.target {
        trace(&mut field, drawing, target, TARGET, Some(PLAN));
    }
    // The first line is the requested one, so it is drawn last, on top.
    for (number, line) in drawing.lines.iter().enumerate().rev() {
        trace(&mut field, drawing, line, MARKS[number % MARKS.len()], None);
    }
    let mut text = format!("{}\n", visible(&drawing.title));
    for (row, cells) in field.iter().enumerate() {
        let label = axis_label(row, height);
        let cells: String = cells.iter().collect();
        text.push_str(format!("{label:>6} ┤{cells}").trim_end());
        text.push('\n');
    }
    text.push_str(&format!("       └{}\n", "─".repeat(width)));
    let (middle, end) = (length(drawing.length_ms() / 2), length(drawing.length_ms()));
    let half = width / 2;
    let left = half.saturating_sub(1 + middle.chars().count() / 2);
    let right = width.saturating_sub(1 + left + middle.chars().count());
    text.push_str(&format!("        0{:left$}{middle}{end:>right$}\n", ""));
    text.push_str(&legend(drawing));
    text
}

/// Labels the rows at each quarter of the budget, once.
fn axis_label(row: usize, height: usize) -> String {
    let quarter = (0..=4).find(|quarter| row == (4 - quarter) * (height - 1) / 4);
    quarter.map_or(String::new(), |quarter| format!("{} %", quarter * 25))
}

/// Draws with `was` until now, and with `coming`, if any, after it.
fn trace(
    field: &mut [Vec<char>],
    drawing: &Drawing,
    curve: &SpendCurve,
    was: char,
    coming: Option<char>,
) {
    if curve.points.is_empty() {
        return;
    }
    let (height, width) = (field.len(), field[0].len());
    let moment = |column: usize| {
        #[expect(clippy::cast_precision_loss, reason = "at most some hundred columns")]
        let share = column as f64 / (width - 1) as f64;
        drawing.moment(share)
    };
    let row = |column: usize| {
        let spent = curve.at(moment(column)).clamp(0.0, 1.0);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of at most a hundred rows"
        )]
        let up = (spent * (height - 1) as f64).round() as usize;
        height - 1 - up
    };
    for (column, row) in (0..width).map(row).enumerate() {
        if drawing.is_unknown(curve, moment(column + 1)) {
            continue;
        }
        let mark = if drawing.is_coming(moment(column)) { coming } else { Some(was) };
        mark.into_iter().for_each(|mark| field[row][column] = mark);
    }
}

fn legend(drawing: &Drawing) -> String {
    let target = drawing.target.iter().map(|curve| (TARGET, curve));
    let lines = MARKS.into_iter().cycle().zip(&drawing.lines);
    let plan = drawing.now_ms.is_some().then(|| format!("{PLAN} plan"));
    let named = |(mark, curve): (char, &SpendCurve)| format!("{mark} {}", visible(&curve.name));
    let names = target.map(named).chain(plan).chain(lines.map(named));
    format!("        {}\n", names.collect::<Vec<_>>().join("   "))
}

/// Replaces control characters: names may come from outside.
fn visible(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

#[cfg(test)]
mod tests;
