//! Decimal text (a JSON number, a configured rate) read exactly, without floating point.

/// Most digits before and after the point together, without leading zeros.
const DIGITS_MAX: usize = 30;

/// A non-negative decimal number: `digits × 10^-scale`, exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: u128,
    scale: i32,
}

/// Why text is not a usable number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalError {
    /// Not a JSON number.
    Malformed,
    /// Below zero.
    Negative,
    /// More digits, or a larger value, than any price or rate has.
    TooLarge,
}

impl std::fmt::Display for DecimalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not a number",
            Self::Negative => "negative",
            Self::TooLarge => "too large",
        })
    }
}

impl std::error::Error for DecimalError {}

impl Decimal {
    /// Reads the grammar of a JSON number (RFC 8259, section 6), exponents included.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return Err(DecimalError::Malformed),
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
            return Err(DecimalError::Malformed);
        }
        // Trailing zeros of the fraction would only use up digits.
        let fraction = fraction.trim_end_matches('0');
        let digits = parse_digits(whole, fraction)?;
        if negative && digits != 0 {
            return Err(DecimalError::Negative);
        }
        let fraction_len = i32::try_from(fraction.len()).map_err(|_| DecimalError::TooLarge)?;
        Ok(Self { digits, scale: fraction_len - exponent })
    }

    /// `self × 10^places` without its fraction, and whether there was one. None if it does not fit
    /// 64 bits.
    pub fn scaled(self, places: i32) -> Option<(u64, bool)> {
        if self.digits == 0 {
            return Some((0, false));
        }
        let shift = places.checked_sub(self.scale)?;
        if shift >= 0 {
            let factor = pow10(shift.unsigned_abs())?;
            let value = self.digits.checked_mul(factor)?;
            return Some((u64::try_from(value).ok()?, false));
        }
        // Beyond 10^38 every digit is dropped.
        let Some(divisor) = pow10(shift.unsigned_abs()) else { return Some((0, true)) };
        let value = u64::try_from(self.digits / divisor).ok()?;
        Some((value, !self.digits.is_multiple_of(divisor)))
    }

    /// As a fraction `(numerator, denominator)`; `None` when either passes `10^30`.
    pub(crate) fn fraction(self) -> Option<(u128, u128)> {
        let bound = 10u128.pow(30);
        let power = pow10(self.scale.unsigned_abs()).filter(|power| *power <= bound)?;
        if self.scale >= 0 {
            Some((self.digits, power))
        } else {
            let digits = self.digits.checked_mul(power).filter(|digits| *digits <= bound)?;
            Some((digits, 1))
        }
    }
}

fn parse_exponent(text: &str) -> Result<i32, DecimalError> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DecimalError::Malformed);
    }
    // Five digits exceed every price; the sign decides between zero and too large.
    let value = digits.parse::<i32>().unwrap_or(99_999).min(99_999);
    Ok(if negative { -value } else { value })
}

fn parse_digits(whole: &str, fraction: &str) -> Result<u128, DecimalError> {
    let mut value = 0u128;
    let mut significant = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        if !byte.is_ascii_digit() {
            return Err(DecimalError::Malformed);
        }
        if value != 0 {
            significant += 1;
        }
        if significant >= DIGITS_MAX {
            return Err(DecimalError::TooLarge);
        }
        value = value * 10 + u128::from(byte - b'0');
    }
    Ok(value)
}

fn pow10(exponent: u32) -> Option<u128> {
    10u128.checked_pow(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<(u64, bool), DecimalError>) {
        let got = Decimal::parse(text)
            .and_then(|decimal| decimal.scaled(6).ok_or(DecimalError::TooLarge));
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn reads_json_numbers_in_micros() {
        //     text                  micros, something dropped
        check("0", Ok((0, false)));
        check("-0.0", Ok((0, false)));
        check("0.03", Ok((30_000, false)));
        check("9.43", Ok((9_430_000, false)));
        check("3.00", Ok((3_000_000, false)));
        check("1e2", Ok((100_000_000, false)));
        check("1.5E-3", Ok((1_500, false)));
        check("2.5e+1", Ok((25_000_000, false)));
        check("0.0000019", Ok((1, true)));
        check("1e-99999999999", Ok((0, true)));
        check("0e99999", Ok((0, false)));
        check("1.50000000000000000000000000000000000000", Ok((1_500_000, false)));
    }

    #[test]
    fn refuses_what_is_no_price() {
        for text in
            ["", "-", ".5", "1.", "01", "1e", "1e+", "0x10", "NaN", "1 ", "+1", "1.2.3", "1e1.5"]
        {
            check(text, Err(DecimalError::Malformed));
        }
        check("-0.01", Err(DecimalError::Negative));
        check("1e30", Err(DecimalError::TooLarge));
        check("1e99999", Err(DecimalError::TooLarge));
        check("18446744073709551616", Err(DecimalError::TooLarge));
        check("1234567890123456789012345678901234567890", Err(DecimalError::TooLarge));
    }
}
