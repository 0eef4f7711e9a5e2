//! The live floor's part of a shard: the ring, the views, and those who read them.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eventlog::lane::FirehoseRing;
use events::{Publication, RecordKind};
use live_core::feed::{FeedRing, SlowPolicy, ViewId};
use live_core::protocol::{LiveError, LiveErrorCode};
use live_core::rights::LiveRights;
use live_core::topic::FeedTopic;
use runtime::metrics::Padded;
use runtime::process::unix_ms;
use runtime::shutdown::Shutdown;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{unconstrained, yield_now};

use crate::access::AccessRules;
use crate::config::LiveConfig;
use crate::counters::LiveCounts;
use crate::feed::ReaderId;
use crate::feed::publisher::{PublisherHandle, ShardInlet, ViewRequest};
use crate::feed::replay::ReplayHandle;
use crate::feed::selection::{Selection, SelectionKey};
use crate::lots::outlet::ClientAnswer;
use crate::lots::thread::LotsHandle;

/// How often readers are checked, and the age of what the ring holds.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Bytes that one read takes.
const SCRATCH_BYTES: usize = 64 << 10;
/// Readers served before other tasks of the shard run.
const READERS_PER_TURN: usize = 32;

/// What all shards share.
pub(crate) struct LiveContext {
    pub config: LiveConfig,
    pub access: AccessRules,
    pub node: u32,
    pub publisher: PublisherHandle,
    pub replay: ReplayHandle,
    /// None without lots.
    pub lots: Option<LotsHandle>,
}

impl LiveContext {
    /// All topics, for a message.
    pub fn topics_shown(&self) -> String {
        let declared = self.config.topics.iter().map(String::as_str);
        let all: Vec<_> = FeedTopic::ALL
            .into_iter()
            .map(|topic| -> &str { topic.label() })
            .chain(declared)
            .collect();
        all.join(", ")
    }
}

/// Somebody who reads the feed on this shard.
pub(crate) trait FeedReader {
    /// There may be more to read.
    fn deliver(&self);

    /// Tells how far each subscription is complete.
    fn beat(&self);

    /// Ends what has no rights any more, or was to end by now.
    fn check(&self, now: Instant);

    /// The process ends.
    fn restart(&self);

    /// The floor has answered a command of this reader.
    fn answer(&self, _answer: &ClientAnswer) {}
}

/// A selection of this shard, with its readers.
pub(crate) struct SharedView {
    pub id: ViewId,
    pub selection: Arc<Selection>,
    readers: RefCell<HashMap<ReaderId, Rc<dyn FeedReader>>>,
    /// Since when nobody reads it.
    unused_since: Cell<Option<Instant>>,
}

/// The live floor's part of a shard.
pub(crate) struct LiveShard {
    pub context: Arc<LiveContext>,
    pub ring: RefCell<FeedRing>,
    pub counts: Arc<Padded<LiveCounts>>,
    pub index: usize,
    views: RefCell<ViewTable>,
    readers: RefCell<HashMap<ReaderId, Rc<dyn FeedReader>>>,
    next_reader: Cell<u64>,
    publications: RefCell<PublicationRing>,
    /// Where all connections read.
    pub scratch: RefCell<Vec<u8>>,
    /// Origin of the ring's times.
    origin: Instant,
}

#[derive(Default)]
struct ViewTable {
    by_key: HashMap<SelectionKey, Rc<SharedView>>,
    by_id: HashMap<ViewId, Rc<SharedView>>,
}

struct PublicationRing {
    firehose: FirehoseRing,
    record: Vec<u8>,
}

impl LiveShard {
    pub fn new(
        index: usize,
        context: Arc<LiveContext>,
        counts: Arc<Padded<LiveCounts>>,
        firehose: FirehoseRing,
    ) -> Self {
        let ring = RefCell::new(FeedRing::new(context.config.ring));
        let publications = RefCell::new(PublicationRing { firehose, record: Vec::new() });
        Self {
            context,
            ring,
            counts,
            index,
            views: RefCell::default(),
            readers: RefCell::default(),
            next_reader: Cell::new(0),
            publications,
            scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
            origin: Instant::now(),
        }
    }

    /// Adds a reader of this shard.
    pub fn add_reader(&self, reader: Rc<dyn FeedReader>) -> ReaderId {
        let id = ReaderId(self.next_reader.get());
        self.next_reader.set(id.0 + 1);
        self.readers.borrow_mut().insert(id, reader);
        id
    }

    /// Removes a reader. It has left its views before.
    pub fn remove_reader(&self, id: ReaderId) {
        self.readers.borrow_mut().remove(&id);
    }

    /// The view of a selection, for a reader.
    ///
    /// # Errors
    /// The shard has too many.
    pub fn join_view(
        &self,
        selection: Selection,
        reader: ReaderId,
    ) -> Result<Rc<SharedView>, LiveError> {
        let known = self.views.borrow().by_key.get(&selection.key).cloned();
        let view = match known {
            Some(view) => view,
            None => self.open_view(selection)?,
        };
        let own = self.readers.borrow().get(&reader).cloned();
        let own = own.expect("a reader joins views while it is one");
        view.readers.borrow_mut().insert(reader, own);
        view.unused_since.set(None);
        Ok(view)
    }

    fn open_view(&self, selection: Selection) -> Result<Rc<SharedView>, LiveError> {
        let views_max = self.context.config.limits.views;
        let mut views = self.views.borrow_mut();
        if views.by_key.len() >= views_max {
            let message = format!(
                "this server has {views_max} different selections already (`live.limits.views`): \
                 use one that others use"
            );
            return Err(LiveError::new(LiveErrorCode::Limit, message));
        }
        let selection = Arc::new(selection);
        let id = self.ring.borrow_mut().add_view(selection.key.topic.lane());
        let request =
            ViewRequest::Open { shard: self.index, view: id, selection: Arc::clone(&selection) };
        self.context.publisher.ask(request);
        let view = Rc::new(SharedView {
            id,
            selection: Arc::clone(&selection),
            readers: RefCell::default(),
            unused_since: Cell::new(None),
        });
        views.by_key.insert(selection.key.clone(), Rc::clone(&view));
        views.by_id.insert(id, Rc::clone(&view));
        Ok(view)
    }

    /// A reader leaves a view, which stays for a while, for those who reconnect.
    pub fn leave_view(&self, view: &SharedView, reader: ReaderId) {
        let mut readers = view.readers.borrow_mut();
        readers.remove(&reader);
        if readers.is_empty() {
            view.unused_since.set(Some(Instant::now()));
        }
    }

    /// Closes views that nobody has read for as long as the ring remembers.
    fn close_unused_views(&self) {
        let age_max = self.context.config.ring.age_max;
        let mut views = self.views.borrow_mut();
        let is_unused = |view: &Rc<SharedView>| {
            view.unused_since.get().is_some_and(|since| since.elapsed() > age_max)
        };
        let unused: Vec<_> = views.by_id.values().filter(|view| is_unused(view)).cloned().collect();
        for view in unused {
            views.by_key.remove(&view.selection.key);
            views.by_id.remove(&view.id);
            self.ring.borrow_mut().remove_view(view.id);
            let selection = Arc::clone(&view.selection);
            self.context.publisher.ask(ViewRequest::Close {
                shard: self.index,
                view: view.id,
                selection,
            });
        }
        self.counts.views.set(i64::try_from(views.by_id.len()).unwrap_or(i64::MAX));
    }

    /// Records a message for the subscribers of a declared topic.
    ///
    /// # Errors
    /// It may not be published, or not now.
    pub fn publish(
        &self,
        rights: &LiveRights,
        publication: &Publication<'_>,
    ) -> Result<(), LiveError> {
        let Publication { topic, key, .. } = publication;
        if !self.context.config.topics.contains(*topic) {
            let message = "nobody may publish there: topics are declared in `live.topics`";
            return Err(LiveError::field(LiveErrorCode::UnknownTopic, "topic", message));
        }
        if !rights.may_publish(topic) {
            let message = "the token does not grant publishing to this topic";
            return Err(LiveError::field(LiveErrorCode::Forbidden, "topic", message));
        }
        if key.len() > KEY_BYTES_MAX {
            let message = format!("a key has at most {KEY_BYTES_MAX} bytes");
            return Err(LiveError::field(LiveErrorCode::TooLarge, "key", message));
        }
        self.context.publisher.progress().check_lag(self.context.config.limits.lag)?;
        let PublicationRing { firehose, record } = &mut *self.publications.borrow_mut();
        record.clear();
        publication.encode(record);
        let is_taken = firehose.has_room(record.len())
            && firehose.offer(RecordKind::Publication.code(), unix_ms(), record);
        if !is_taken {
            let message = "the log does not keep up: try again later";
            return Err(LiveError::new(LiveErrorCode::Busy, message));
        }
        self.counts.published.increment();
        Ok(())
    }

    /// Who takes commands about lots.
    ///
    /// # Errors
    /// There are no lots here.
    pub fn lots(&self) -> Result<&LotsHandle, LiveError> {
        self.context.lots.as_ref().ok_or_else(|| {
            let message = "there are no lots here: add [live.lots] to the configuration";
            LiveError::field(LiveErrorCode::UnknownOp, "op", message)
        })
    }

    /// Counts a subscription that begins or ends.
    pub fn count_subscription(&self, policy: SlowPolicy, change: i64) {
        match policy {
            SlowPolicy::Strict => self.counts.strict.change(change),
            SlowPolicy::Conflate => self.counts.conflating.change(change),
        }
    }

    /// Counts a refusal.
    pub fn count_refusal(&self, error: &LiveError) {
        self.counts.refusals[error.code as usize].increment();
    }

    /// Takes batches and serves their readers, until the shard ends.
    pub async fn run(
        self: Rc<Self>,
        mut inlet: ShardInlet,
        mut answers: Option<UnboundedReceiver<ClientAnswer>>,
        shutdown: Shutdown,
    ) {
        let heartbeat = self.context.config.heartbeat;
        let mut beats = tokio::time::interval(heartbeat);
        let mut checks = tokio::time::interval(CHECK_EVERY);
        let mut has_begun_to_end = false;
        loop {
            let bell = Arc::clone(&inlet.bell);
            tokio::select! {
                () = bell.notified() => unconstrained(self.take_batches(&mut inlet)).await,
                Some(answer) = next_answer(&mut answers) => {
                    let reader = self.readers.borrow().get(&answer.reader).cloned();
                    if let Some(reader) = reader {
                        reader.answer(&answer);
                    }
                }
                _ = beats.tick() => unconstrained(self.beat()).await,
                _ = checks.tick() => self.check(),
                _ = shutdown.started(), if !has_begun_to_end => {
                    has_begun_to_end = true;
                    for reader in self.all_readers() {
                        reader.restart();
                    }
                }
            }
        }
    }

    fn all_readers(&self) -> Vec<Rc<dyn FeedReader>> {
        self.readers.borrow().values().cloned().collect()
    }

    async fn take_batches(&self, inlet: &mut ShardInlet) {
        let mut changed = HashSet::new();
        let mut is_restart = false;
        while let Ok(batch) = inlet.batches.pop() {
            changed.extend(batch.entries.iter().map(|entry| entry.view));
            changed.extend(batch.opened.iter().map(|opened| opened.view));
            is_restart |= batch.is_restart;
            self.ring.borrow_mut().push(batch, self.origin.elapsed());
        }
        self.count_ring_bytes();
        let readers: Vec<_> = if is_restart {
            self.all_readers()
        } else {
            let views = self.views.borrow();
            let views = changed.iter().filter_map(|id| views.by_id.get(id));
            views
                .flat_map(|view| view.readers.borrow().values().cloned().collect::<Vec<_>>())
                .collect()
        };
        in_turns(readers, |reader| reader.deliver()).await;
    }

    fn count_ring_bytes(&self) {
        let bytes = self.ring.borrow().bytes();
        self.counts.ring_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn check(&self) {
        self.ring.borrow_mut().expire(self.origin.elapsed());
        self.count_ring_bytes();
        self.close_unused_views();
        let now = Instant::now();
        self.all_readers().iter().for_each(|reader| reader.check(now));
    }

    async fn beat(&self) {
        in_turns(self.all_readers(), |reader| reader.beat()).await;
    }
}

async fn next_answer(
    answers: &mut Option<UnboundedReceiver<ClientAnswer>>,
) -> Option<ClientAnswer> {
    match answers {
        Some(answers) => answers.recv().await,
        None => std::future::pending().await,
    }
}

/// Longest key of a publication, in bytes.
const KEY_BYTES_MAX: usize = 256;

/// Serves readers a few at a time, so that auctions do not wait for all of them.
async fn in_turns(readers: Vec<Rc<dyn FeedReader>>, serve: impl Fn(&dyn FeedReader)) {
    for (at, reader) in readers.iter().enumerate() {
        if at % READERS_PER_TURN == READERS_PER_TURN - 1 {
            yield_now().await;
        }
        serve(&**reader);
    }
}

/// Longest wait for a shard to have read as far as a subscriber claims to have.
pub(crate) const AHEAD_MAX: Duration = Duration::from_secs(1);
