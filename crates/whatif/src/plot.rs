//! Spend curves and their target as an SVG: self-contained, legible on light and dark backgrounds,
//! and without colour, because every line has its own dashes.

use std::fmt::Write as _;

use crate::curve::{Drawing, SpendCurve, length};

const WIDTH: u32 = 960;
const HEIGHT: u32 = 520;
/// The plot area: left, top, right, bottom.
const FIELD: (f64, f64, f64, f64) = (76.0, 56.0, 740.0, 452.0);

/// Most points of a line, about one per pixel.
const POINTS_MAX: usize = 664;

/// Longest name in the legend, in characters.
const NAME_MAX: usize = 22;

/// Colours for all kinds of colour vision (Okabe and Ito, "Color Universal Design", 2008), on light
/// and dark backgrounds, and dashes.
const STYLES: [(&str, &str, &str); 6] = [
    ("#0072b2", "#56b4e9", "none"),
    ("#d55e00", "#e69f00", "8 3"),
    ("#007a5a", "#1fc79b", "2 3"),
    ("#a6457f", "#e59ec6", "12 3 2 3"),
    ("#7a6a00", "#f0e442", "5 5"),
    ("#444444", "#cccccc", "14 5"),
];

/// The whole file.
pub fn svg(drawing: &Drawing) -> String {
    let mut out = String::with_capacity(64 * 1024);
    head(&mut out, drawing);
    axes(&mut out, drawing);
    if let Some(target) = &drawing.target {
        line(&mut out, drawing, target, false, "target");
        if drawing.now_ms.is_some() {
            line(&mut out, drawing, target, true, "plan");
        }
    }
    // The first curve is drawn last, on top.
    for (number, curve) in drawing.lines.iter().enumerate().rev() {
        line(&mut out, drawing, curve, false, &format!("s{}", number % STYLES.len()));
    }
    legend(&mut out, drawing);
    out.push_str("</svg>\n");
    out
}

/// Writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {
        writeln!($out, $($text)*).expect("a String takes all")
    };
}

fn head(out: &mut String, drawing: &Drawing) {
    let title = escaped(&drawing.title);
    put!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title description">"#
    );
    put!(out, r#"<title id="title">{title}</title>"#);
    let names: Vec<_> = drawing.lines.iter().map(|curve| escaped(&curve.name)).collect();
    put!(
        out,
        r#"<desc id="description">Share of the budget spent over time: {}.</desc>"#,
        names.join(", ")
    );
    put!(out, "<style>");
    put!(out, "text {{ font: 14px system-ui, sans-serif; fill: #222222; }}");
    put!(out, ".ground {{ fill: #ffffff; }} .title {{ font-size: 17px; font-weight: 600; }}");
    put!(out, ".grid {{ stroke: #dddddd; }} .axis {{ stroke: #555555; }}");
    put!(out, "polyline, .key {{ fill: none; stroke-width: 2; stroke-linejoin: round; }}");
    put!(out, ".target {{ stroke: #888888; stroke-width: 4; stroke-opacity: 0.55; }}");
    put!(out, ".plan {{ stroke: #888888; stroke-dasharray: 3 5; }}");
    for (number, (light, _, dashes)) in STYLES.iter().enumerate() {
        put!(out, ".s{number} {{ stroke: {light}; stroke-dasharray: {dashes}; }}");
    }
    put!(out, "@media (prefers-color-scheme: dark) {{");
    put!(out, "text {{ fill: #eeeeee; }} .ground {{ fill: #16181d; }}");
    put!(out, ".grid {{ stroke: #3a3d44; }} .axis {{ stroke: #b0b0b0; }}");
    for (number, (_, dark, _)) in STYLES.iter().enumerate() {
        put!(out, ".s{number} {{ stroke: {dark}; }}");
    }
    put!(out, "}}");
    put!(out, "</style>");
    put!(out, r#"<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>"#);
    put!(out, r#"<text class="title" x="{}" y="32">{title}</text>"#, FIELD.0);
}

fn axes(out: &mut String, drawing: &Drawing) {
    let (left, top, right, bottom) = FIELD;
    for quarter in 0..=4u32 {
        let y = bottom - (bottom - top) * f64::from(quarter) / 4.0;
        put!(out, r#"<line class="grid" x1="{left}" y1="{y:.1}" x2="{right}" y2="{y:.1}"/>"#);
        let (x, y) = (left - 8.0, y + 5.0);
        put!(out, r#"<text x="{x}" y="{y:.1}" text-anchor="end">{} %</text>"#, quarter * 25);
    }
    for quarter in 0..=4u32 {
        let x = left + (right - left) * f64::from(quarter) / 4.0;
        let label = length(drawing.length_ms() * u64::from(quarter) / 4);
        let label = if quarter == 0 { "0" } else { &label };
        put!(
            out,
            r#"<line class="axis" x1="{x:.1}" y1="{bottom}" x2="{x:.1}" y2="{}"/>"#,
            bottom + 5.0
        );
        put!(out, r#"<text x="{x:.1}" y="{}" text-anchor="middle">{label}</text>"#, bottom + 22.0);
    }
    put!(out, r#"<line class="axis" x1="{left}" y1="{bottom}" x2="{right}" y2="{bottom}"/>"#);
    put!(out, r#"<line class="axis" x1="{left}" y1="{top}" x2="{left}" y2="{bottom}"/>"#);
    let (middle_x, middle_y) = ((left + right) / 2.0, (top + bottom) / 2.0);
    put!(
        out,
        r#"<text x="{middle_x}" y="{}" text-anchor="middle">time since the start of the flight</text>"#,
        bottom + 48.0
    );
    put!(
        out,
        r#"<text transform="translate(20 {middle_y}) rotate(-90)" text-anchor="middle">share of the budget spent</text>"#
    );
}

/// Draws the past or the future part of a curve.
fn line(out: &mut String, drawing: &Drawing, curve: &SpendCurve, is_coming: bool, class: &str) {
    let (left, top, right, bottom) = FIELD;
    if curve.points.is_empty() {
        return;
    }
    // A curve that stops in the middle needs points at its end.
    let least = if drawing.now_ms.is_some() { POINTS_MAX } else { 2 };
    let count = curve.points.len().clamp(least, POINTS_MAX);
    let _ = write!(out, r#"<polyline class="{class}" points=""#);
    let mut is_first = true;
    for number in 0..count {
        #[expect(clippy::cast_precision_loss, reason = "at most some hundred points")]
        let share = number as f64 / (count - 1) as f64;
        let time_ms = drawing.moment(share);
        if drawing.is_coming(time_ms) != is_coming || drawing.is_unknown(curve, time_ms) {
            continue;
        }
        let spent = curve.at(drawing.moment(share)).clamp(0.0, 1.0);
        let (x, y) = (left + (right - left) * share, bottom - (bottom - top) * spent);
        let space = if std::mem::take(&mut is_first) { "" } else { " " };
        let _ = write!(out, "{space}{x:.1},{y:.1}");
    }
    put!(out, r#""/>"#);
}

fn legend(out: &mut String, drawing: &Drawing) {
    let x = FIELD.2 + 20.0;
    let mut y = FIELD.1 + 8.0;
    let mut key = |class: &str, name: &str| {
        put!(out, r#"<line class="key {class}" x1="{x}" y1="{y}" x2="{}" y2="{y}"/>"#, x + 32.0);
        put!(out, r#"<text x="{}" y="{}">{}</text>"#, x + 40.0, y + 5.0, escaped(&shortened(name)));
        y += 24.0;
    };
    if let Some(target) = &drawing.target {
        key("target", &target.name);
        if drawing.now_ms.is_some() {
            key("plan", "plan");
        }
    }
    for (number, curve) in drawing.lines.iter().enumerate() {
        key(&format!("s{}", number % STYLES.len()), &curve.name);
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_MAX - 1).collect();
    format!("{kept}…")
}

/// Escapes a name, which may come from outside. Characters that XML 1.0 forbids are replaced.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
