//! One DSP's part of a round.

use std::cell::Cell;
use std::rc::Rc;

use openrtb::{DealMask, ImpMask};
use tokio::time::Instant;

use crate::fanout::pool::DspPool;
use crate::guards::OwnedCallPermit;

/// One DSP's call.
pub struct DspRequest<'q> {
    pub pool: &'q Rc<DspPool>,
    pub imps: ImpMask,
    pub deals: DealMask,
    /// The `tmax` to send, in milliseconds, less the time until the call is sent.
    pub tmax_ms: u32,
    /// The DSP's id of the user, as a JSON string.
    pub buyeruid: Option<&'q str>,
    /// The DSP's id, if the request has bidder parameters for it.
    pub bidder: Option<&'q str>,
    /// Whether user data is withheld for privacy.
    pub is_limited: bool,
    pub wait_until: Instant,
    pub permit: Cell<Option<OwnedCallPermit>>,
}
