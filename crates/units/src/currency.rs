//! A currency code. Owns its form only: which currencies have a rate is configuration.

use std::fmt;

/// An ISO 4217 alphabetic code, for example `USD`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// What an absent currency means everywhere in OpenRTB 2.6.
    pub const USD: Self = Self(*b"USD");

    /// Three upper-case ASCII letters, or `None`.
    pub const fn parse(code: &str) -> Option<Self> {
        match code.as_bytes() {
            [a @ b'A'..=b'Z', b @ b'A'..=b'Z', c @ b'A'..=b'Z'] => Some(Self([*a, *b, *c])),
            _ => None,
        }
    }

    /// The code itself.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a currency is three ASCII letters")
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_capitals_are_a_code() {
        for (text, known) in [
            ("USD", true),
            ("usd", false),
            ("US", false),
            ("USDT", false),
            ("U$D", false),
            ("", false),
        ] {
            assert_eq!(Currency::parse(text).is_some(), known, "{text}");
        }
        assert_eq!(Currency::USD.to_string(), "USD");
    }
}
