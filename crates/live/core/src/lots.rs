//! Lots: what is sold in an open auction, and the rules by which bids win it.
