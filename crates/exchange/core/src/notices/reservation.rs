//! The reservation in a beacon. The shard that made its token also verifies it.

use pacer_core::shard::token::{TOKEN_BYTES, TokenText};
use units::Currency;

const CURRENCY_BYTES: usize = 3;

/// A reservation in a beacon's token, recorded in the log when settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Identifies it, and contains its amount.
    pub token: TokenText,
    /// The account's currency.
    pub currency: Currency,
}

impl Reservation {
    pub(crate) const BYTES: usize = TOKEN_BYTES + CURRENCY_BYTES;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (token, currency) = bytes.split_at_mut(TOKEN_BYTES);
        token.copy_from_slice(&self.token.to_bytes());
        currency.copy_from_slice(self.currency.code().as_bytes());
        bytes
    }

    /// The inverse of `to_bytes`. None if the currency is invalid.
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (token, currency) = bytes.split_first_chunk().expect("the token is a part");
        let currency = Currency::parse(std::str::from_utf8(currency).ok()?)?;
        Some(Self { token: TokenText::from_bytes(token), currency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_and_its_bytes_are_one() {
        let token = TokenText::from_bytes(&[7; TOKEN_BYTES]);
        let reservation = Reservation { token, currency: Currency::USD };
        let bytes = reservation.to_bytes();
        assert_eq!(bytes, *[&[7; TOKEN_BYTES][..], b"USD"].concat());
        assert_eq!(Reservation::from_bytes(&bytes), Some(reservation));
        for (at, byte) in [(TOKEN_BYTES, b'u'), (TOKEN_BYTES + 2, 0xff)] {
            let mut bytes = bytes;
            bytes[at] = byte;
            assert_eq!(Reservation::from_bytes(&bytes), None);
        }
    }
}
