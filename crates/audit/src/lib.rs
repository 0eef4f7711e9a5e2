//! Recorded auctions, read: where records stand, which of them are wanted, what they say, whether
//! they are what their own auctions come to, and what they add up to.
//!
//! Reads only, and works beside whoever writes. Knows neither a command line nor how an answer is
//! shown: what it finds are values.

mod filter;
mod generations;
mod log;
mod moment;
mod names;
mod opportunities;
mod replay;
mod report;
mod row;
mod survey;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use eventlog::lane::{KnownReach, LaneKind};
pub use eventlog::{ChainHash, ChainPoint, Corruption, LogEnd, ReadError, Torn};
pub use events::{Gap, Kind};
pub use exchange_core::record::{AuctionRecord, GenerationRecord};
pub use filter::{FILTER_BYTES_MAX, Filter, FilterError, Window};
pub use generations::{Generations, Lookup, Problems, Put};
pub use log::chain::{Chain, ChainAbsence, LaneEnd};
pub use log::directory::{Directory, OpenError};
pub use log::follow::{Coming, Follow, LogItem, LogRecords};
pub use log::lane::{Damage, Lane, Part, Room, Segment, Walked};
pub use log::place::{Place, Visit};
pub use moment::Moment;
pub use opportunities::{
    Buyer, LeftOut, Opportunities, Opportunity, OpportunityError, Sought, opportunities,
};
pub use replay::{Finding, Progress, Replays, WithoutGeneration, Wrong, replay_all};
pub use report::{
    Apart, BILLED_MAX, Column, ColumnError, Columns, Counts, GROUPS_MAX, Group, Report,
    ReportError, Settlement, Sums, UnrecordedBilling, report,
};
pub use row::{
    AnswerRow, BidRow, CallRow, DealRow, ImpRow, Label, NotAskedRow, Row, SaleRow, SettlementRow,
};
pub use survey::{Depth, Survey, Tally, Unreadable, stat, verify};
