//! The file is well-formed for any names, contains them, and has styles for light and dark
//! backgrounds.

use super::*;

fn drawing(names: &[&str]) -> Drawing {
    let curve = |name: &str, end: f64| SpendCurve {
        name: name.to_owned(),
        points: vec![(1_000, 0.0), (2_000, end / 2.0), (3_000, end)],
    };
    Drawing {
        title: "A budget of 5 & more".to_owned(),
        start_ms: 1_000,
        end_ms: 3_000,
        target: Some(curve("target", 1.0)),
        lines: names.iter().map(|name| curve(name, 0.9)).collect(),
        now_ms: None,
    }
}

/// Checks XML without declarations: every element is closed in order, every attribute is quoted,
/// every `&` begins an XML entity. Returns the elements' names in document order.
fn elements(xml: &str) -> Result<Vec<String>, String> {
    let (mut open, mut seen, mut rest) = (Vec::new(), Vec::new(), xml);
    while let Some(at) = rest.find('<') {
        text(&rest[..at], open.is_empty())?;
        let end = rest[at..].find('>').ok_or("a tag without end")? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let opened = open.pop();
            if opened.as_deref() != Some(name) {
                return Err(format!("</{name}> closes {opened:?}"));
            }
            continue;
        }
        let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        attributes_of(attributes)?;
        seen.push(name.to_owned());
        if !is_empty {
            open.push(name.to_owned());
        }
    }
    text(rest, true)?;
    if open.is_empty() { Ok(seen) } else { Err(format!("{open:?} are open")) }
}

fn attributes_of(mut rest: &str) -> Result<(), String> {
    let mut names = Vec::new();
    while !rest.trim().is_empty() {
        let (name, after) =
            rest.trim_start().split_once("=\"").ok_or("an attribute without value")?;
        let (value, after) = after.split_once('"').ok_or("a value without end")?;
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == ':';
        if name.is_empty() || !name.chars().all(is_name) || names.contains(&name) {
            return Err(format!("the attribute {name:?}"));
        }
        text(value, false)?;
        names.push(name);
        rest = after;
    }
    Ok(())
}

fn text(text: &str, is_outside: bool) -> Result<(), String> {
    if is_outside && !text.trim().is_empty() {
        return Err(format!("text outside of elements: {text:?}"));
    }
    for after in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
        if !known.iter().any(|entity| after.starts_with(entity)) {
            return Err(format!("&{after}"));
        }
    }
    let is_bad = |char: char| char.is_control() && char != '\n';
    if text.contains(is_bad) { Err(format!("control characters: {text:?}")) } else { Ok(()) }
}

#[test]
fn the_walk_finds_what_is_wrong() {
    assert_eq!(elements(r#"<a b="c"><d/>e &amp; f</a>"#), Ok(vec!["a".to_owned(), "d".to_owned()]));
    for wrong in
        ["<a>", "<a></b>", "<a b=c/>", "<a>&x</a>", "<a/>x", "<a b=\"1\" b=\"2\"/>", "<a>\u{1}</a>"]
    {
        assert!(elements(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn it_is_well_formed_and_names_its_lines() {
    let svg = svg(&drawing(&["slot_dual", "asap", "throttle"]));
    let elements = elements(&svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    let count = |name: &str| elements.iter().filter(|element| *element == name).count();
    assert_eq!(elements[0], "svg");
    assert_eq!((count("polyline"), count("title"), count("desc")), (4, 1, 1));
    for wanted in [
        "<title id=\"title\">A budget of 5 &amp; more</title>",
        ">slot_dual</text>",
        ">asap</text>",
        ">throttle</text>",
        ">target</text>",
        ">share of the budget spent</text>",
        ">time since the start of the flight</text>",
        ">100 %</text>",
        ">2000 ms</text>",
        "prefers-color-scheme: dark",
    ] {
        assert!(svg.contains(wanted), "{wanted}\n{svg}");
    }
}

#[test]
fn names_from_outside_stay_names() {
    let hostile = "</text><script>alert('&')</script>\u{1b}[2J\u{0}\"\u{ffff}";
    let mut drawing = drawing(&[hostile]);
    drawing.title = hostile.to_owned();
    let svg = svg(&drawing);
    let elements = elements(&svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    assert!(!elements.contains(&"script".to_owned()));
}

#[test]
fn points_lie_where_the_spend_is() {
    let svg = svg(&drawing(&["one"]));
    let line =
        svg.lines().find(|line| line.contains("polyline class=\"s0\"")).expect("it is drawn");
    // From the lower left corner to nine tenths of the height at the right.
    assert!(line.contains("points=\"76.0,452.0 "), "{line}");
    assert!(line.trim_end().ends_with(" 740.0,95.6\"/>"), "{line}");
}

#[test]
fn of_what_is_to_come_the_plan_alone_is_drawn() {
    let svg = svg(&Drawing { now_ms: Some(2_000), ..drawing(&["asap"]) });
    let last_x = |class: &str| {
        let from = &svg[svg.find(&format!(r#"<polyline class="{class}" points=""#)).unwrap()..];
        let points = from.split('"').nth(3).unwrap();
        points.rsplit(' ').next().unwrap().split(',').next().unwrap().parse::<f64>().unwrap()
    };
    // The plot area spans 76 to 740; now is in its middle.
    assert!((last_x("s0") - 408.0).abs() < 2.0 && (last_x("target") - 408.0).abs() < 2.0, "{svg}");
    assert!((last_x("plan") - 740.0).abs() < 0.1, "{svg}");
    assert!(svg.contains(">plan</text>") && elements(&svg).is_ok());
}

#[test]
fn many_points_are_thinned_and_none_are_left_out() {
    let points =
        (0..100_000u32).map(|at| (u64::from(at) + 1_000, f64::from(at) / 100_000.0)).collect();
    let many = Drawing {
        end_ms: 101_000,
        lines: vec![SpendCurve { name: "many".to_owned(), points }, SpendCurve::default()],
        ..drawing(&[])
    };
    let svg = svg(&many);
    assert!(svg.len() < 64 * 1024, "{}", svg.len());
    // A curve without spend has a legend entry and no line.
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert!(elements(&svg).is_ok());
}
