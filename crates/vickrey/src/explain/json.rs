//! Edits and formats JSON text without parsing its values: numbers, order and escapes do not
//! change.

use openrtb::{escaped, members};

/// The object `text` without the members `keys`, and with `more`: keys and JSON text. None if it is
/// not an object.
pub(super) fn with(text: &str, keys: &[&str], more: &[(&str, &str)]) -> Option<String> {
    let members = members(text)?;
    let kept = members.iter().filter(|(key, _)| !keys.contains(&&**key));
    let kept = kept.map(|(key, value)| (&**key, *value));
    let all = more.iter().copied().chain(kept);
    let all: Vec<_> = all.map(|(key, value)| format!("\"{}\":{value}", escaped(key))).collect();
    Some(format!("{{{}}}", all.join(",")))
}

/// Formats JSON with one member or element per line.
pub(super) fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut depth = 0_usize;
    let (mut in_string, mut is_escaped) = (false, false);
    let mut bytes = text.trim().chars().peekable();
    while let Some(char) = bytes.next() {
        let line = lines.last_mut().expect("there is a line");
        if in_string {
            line.push(char);
            (in_string, is_escaped) = (char != '"' || is_escaped, char == '\\' && !is_escaped);
            continue;
        }
        match char {
            '{' | '[' => {
                line.push(char);
                let closing = if char == '{' { '}' } else { ']' };
                while bytes.next_if(char::is_ascii_whitespace).is_some() {}
                if bytes.peek() == Some(&closing) {
                    continue; // Empty: it ends on the same line.
                }
                depth += 1;
                lines.push("  ".repeat(depth));
            }
            '}' | ']' => {
                let is_empty = line.ends_with(['{', '[']);
                if !is_empty {
                    depth = depth.saturating_sub(1);
                    lines.push("  ".repeat(depth));
                }
                lines.last_mut().expect("there is a line").push(char);
            }
            ',' => {
                line.push(char);
                lines.push("  ".repeat(depth));
            }
            ':' => line.push_str(": "),
            '"' => {
                line.push(char);
                in_string = true;
            }
            char if char.is_ascii_whitespace() => (),
            char => line.push(char),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_replaced_and_the_rest_is_left_alone() {
        let text = r#"{"a": 1.50, "test":0, "b\"":[ 1 ], "ext":{"debug":0}}"#;
        let got = with(text, &["test", "ext"], &[("test", "1")]);
        assert_eq!(got.as_deref(), Some(r#"{"test":1,"a":1.50,"b\"":[ 1 ]}"#));
        assert_eq!(with("{}", &[], &[]).as_deref(), Some("{}"));
        assert_eq!(with("[]", &[], &[]), None);
    }

    #[test]
    fn text_is_laid_out_and_not_changed() {
        for (text, want) in [
            ("{}", vec!["{}"]),
            ("[ ]", vec!["[]"]),
            (r#"{"a":1.50,"b":[]}"#, vec!["{", r#"  "a": 1.50,"#, r#"  "b": []"#, "}"]),
            (
                r#"["x,{\"\\",{"y":{}}]"#,
                vec!["[", r#"  "x,{\"\\","#, "  {", r#"    "y": {}"#, "  }", "]"],
            ),
        ] {
            assert_eq!(lines(text), want, "{text}");
        }
    }
}
