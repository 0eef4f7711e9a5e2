//! The URLs in a DSP's bids, with OpenRTB's macros (2.6, 4.4).

use crate::server::http::append;

/// The parameters of every notice. The offer, in micros CPM, follows.
pub(super) const QUERY: &str = "imp=${AUCTION_IMP_ID}&auction=${AUCTION_ID}&price=${AUCTION_PRICE}\
&price64=${AUCTION_PRICE:B64}&cur=${AUCTION_CURRENCY}&loss=${AUCTION_LOSS}\
&min=${AUCTION_MIN_TO_WIN}&multiplier=${AUCTION_MULTIPLIER}&seat=${AUCTION_SEAT_ID}&offer=";

/// Appends `nurl`, `burl` and, `with_loss`, `lurl` of a bid that offers `offer` micros.
pub(super) fn write_notices(origin: &str, offer: u64, with_loss: bool, body: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    let offer = number.format(offer).as_bytes();
    let notices = [("nurl", "/win?"), ("burl", "/bill?"), ("lurl", "/loss?")];
    for (key, path) in &notices[..if with_loss { 3 } else { 2 }] {
        append(body, &[b",\"", key.as_bytes(), b"\":\"", origin.as_bytes(), path.as_bytes()]);
        append(body, &[QUERY.as_bytes(), offer, b"\""]);
    }
}

/// The URL that markup loads when it is shown.
pub(super) fn tracker(origin: &str, offer: u64) -> String {
    format!("{origin}/view?{QUERY}{offer}")
}
