//! Auctions by what the record has of them.

use std::fmt;

use eventlog::lane::LaneHandle;
use exchange_core::record::RecordedExtent;
use runtime::metrics::MetricsPage;

pub(super) fn expose(firehose: &LaneHandle, page: &mut MetricsPage<'_>) -> fmt::Result {
    let help = "Auctions by the part of their record that is durable, or the reason why none is.";
    let mut auctions = page.counters("exchange_auctions_recorded", help)?;
    let firehose = firehose.counters();
    for kept in RecordedExtent::ALL {
        auctions.value(&[("kept", kept.label())], firehose.by_class[kept as usize])?;
    }
    let shed = firehose.shed.saturating_sub(firehose.too_long) + firehose.refused_state;
    for (why, count) in
        [("shed", shed), ("too_long", firehose.too_long), ("lost", firehose.disk_lost)]
    {
        auctions.value(&[("kept", why)], count)?;
    }
    Ok(())
}
