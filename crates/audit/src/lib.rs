//! Reads recorded auctions: selects them, prints them, recomputes them, and adds them up.
//!
//! Never writes, and works while another process does. Knows neither the command line nor the
//! output formats: its results are values.

mod filter;
mod generations;
mod log;
mod names;
mod opportunities;
mod replay;
mod report;
mod row;
mod survey;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time;

pub use eventlog::lane::{KnownReach, LaneKind};
pub use eventlog::{ChainHash, ChainPoint, Corruption, LogEnd, LogReadError, TornTail};
pub use events::{Gap, Publication, RecordKind};
pub use exchange_core::Fate;
pub use exchange_core::record::{AuctionRecord, BidRecord, GenerationRecord, SaleRecord};
pub use filter::{FILTER_BYTES_MAX, Filter, TimeWindow};
pub use generations::{
    GenerationCache, GenerationIndex, GenerationLookup, GenerationProblems, GenerationStart,
};
pub use log::chain::{Chain, ChainAbsence, LaneEnd};
pub use log::directory::{DirectoryError, RecordDirectory};
pub use log::follow::{FollowEvent, LaneFollower, LogItem, LogRecords};
pub use log::lane::{LaneDamage, LaneSegment, ReadBuffer, RecordedLane, SegmentWalk, SweptSegment};
pub use log::position::{RecordPosition, RecordVisitor};
pub use opportunities::{
    Buyer, ExclusionCounts, Opportunities, Opportunity, OpportunityError, OpportunityQuery,
    opportunities,
};
pub use replay::{
    ReplayFinding, ReplayProblem, ReplayProgress, ReplaySummary, WithoutGeneration, replay_all,
};
pub use report::{
    AuctionReport, BILLED_MAX, BilledBeacon, ColumnError, GROUPS_MAX, ReportColumn, ReportColumns,
    ReportCounts, ReportError, ReportExclusions, ReportGroup, ReportSums, UnrecordedBilling,
    report,
};
pub use row::{
    AnswerRow, AuctionRow, AuctionRows, BidRow, CallRow, DealRow, EnrichmentRow, ImpRow, Label,
    LotRow, NotAskedRow, SaleRow, SettlementRow, WinRow,
};
pub use survey::{LaneSurvey, RecordTally, SurveyDepth, UnreadableRecord, stat, verify};
pub use time::UtcTime;
