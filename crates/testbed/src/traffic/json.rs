//! Writes JSON in the order of the calls, as on the wire: `id` first, `imp` next. Knows no OpenRTB.

use std::fmt::{Display, Write};

/// JSON text under construction, inside an object or an array.
#[derive(Debug, Default)]
pub(super) struct Json {
    text: String,
    /// Whether the next member or element comes after another.
    follows: bool,
}

impl Json {
    /// A whole object.
    pub(super) fn document(members: impl FnOnce(&mut Self)) -> String {
        let mut json = Self::default();
        json.nest(['{', '}'], members);
        json.text
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// A member whose value is a number or a literal.
    pub(super) fn plain(&mut self, key: &str, value: impl Display) {
        self.key(key);
        write!(self.text, "{value}").expect("a string takes every write");
        self.follows = true;
    }

    /// A member whose value is a string.
    pub(super) fn text(&mut self, key: &str, value: impl AsRef<str>) {
        self.key(key);
        self.string(value.as_ref());
    }

    /// A member whose value is an object.
    pub(super) fn object(&mut self, key: &str, members: impl FnOnce(&mut Self)) {
        self.key(key);
        self.nest(['{', '}'], members);
    }

    /// A member whose value is an array of objects, one per item.
    pub(super) fn objects<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut members: impl FnMut(&mut Self, T),
    ) {
        self.key(key);
        self.nest(['[', ']'], |array| {
            for item in items {
                array.comma();
                array.nest(['{', '}'], |object| members(object, item));
            }
        });
    }

    /// A member whose value is an array of strings.
    pub(super) fn texts<T: AsRef<str>>(&mut self, key: &str, items: impl IntoIterator<Item = T>) {
        self.key(key);
        self.nest(['[', ']'], |array| {
            for item in items {
                array.comma();
                array.string(item.as_ref());
            }
        });
    }

    /// A member whose value is an array of numbers.
    pub(super) fn plains<T: Display>(&mut self, key: &str, items: impl IntoIterator<Item = T>) {
        self.key(key);
        self.nest(['[', ']'], |array| {
            for item in items {
                array.comma();
                write!(array.text, "{item}").expect("a string takes every write");
                array.follows = true;
            }
        });
    }

    fn nest(&mut self, [open, close]: [char; 2], inside: impl FnOnce(&mut Self)) {
        self.text.push(open);
        self.follows = false;
        inside(self);
        self.text.push(close);
        self.follows = true;
    }

    fn comma(&mut self) {
        if self.follows {
            self.text.push(',');
        }
    }

    fn key(&mut self, key: &str) {
        self.comma();
        self.string(key);
        self.text.push(':');
    }

    fn string(&mut self, value: &str) {
        let quoted = serde_json::to_string(value).expect("a string is always JSON");
        self.text.push_str(&quoted);
        self.follows = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_commas() {
        let text = Json::document(|json| {
            json.text("id", "a\"b");
            json.objects("imp", [1, 2], |imp, n| imp.plain("n", n));
            json.object("site", |_| ());
            json.texts("cur", ["USD", "EUR"]);
            json.plains("api", [0_u8; 0]);
            json.plains("battr", [1, 2]);
        });
        let want = r#"{"id":"a\"b","imp":[{"n":1},{"n":2}],"site":{},"cur":["USD","EUR"],"api":[],"battr":[1,2]}"#;
        assert_eq!(text, want);
    }
}
