//! The channel between the owner of lots and the ledger: messages about holds one way, answers the
//! other. Neither side waits. The rules answer; this file loses nothing, and bounds what waits.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, OnceLock};

use pacer_core::ledger::{HoldAnswer, HoldInput, LedgerInput};
use pacer_core::store::{AttemptNumber, HoldName};

use super::status::{LedgerWaker, SharedStatus};

/// Most messages that the ledger has not taken, and most attempts without an answer.
pub(crate) const HOLD_MESSAGES_MAX: usize = 4_096;

type WakeCall = Box<dyn Fn() + Send + Sync>;

/// The end of the owner of lots.
pub struct LedgerHoldPort {
    messages: SyncSender<HoldInput>,
    answers: Receiver<HoldAnswer>,
    unanswered: BTreeSet<(HoldName, AttemptNumber)>,
    wake: Arc<OnceLock<WakeCall>>,
    waker: LedgerWaker,
    status: SharedStatus,
}

/// The ledger's end.
pub(crate) struct HoldReceiver {
    messages: Receiver<HoldInput>,
    answers: Sender<HoldAnswer>,
    wake: Arc<OnceLock<WakeCall>>,
}

impl LedgerHoldPort {
    pub(crate) fn new(waker: LedgerWaker, status: SharedStatus) -> (Self, HoldReceiver) {
        let (messages, taken) = sync_channel(HOLD_MESSAGES_MAX);
        let (answers, answered) = channel();
        let wake = Arc::<OnceLock<WakeCall>>::default();
        let receiver = HoldReceiver { messages: taken, answers, wake: Arc::clone(&wake) };
        let unanswered = BTreeSet::new();
        (Self { messages, answers: answered, unanswered, wake, waker, status }, receiver)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Returns it if too many are without an answer, or the ledger has ended. Answers make room.
    pub fn send(&mut self, message: HoldInput) -> Result<(), HoldInput> {
        let attempt = match &message {
            HoldInput::Place(placement) => Some((placement.name.clone(), placement.attempt)),
            HoldInput::End { name, attempt, .. } => Some((name.clone(), *attempt)),
            HoldInput::Standing(_) | HoldInput::Replayed => None,
        };
        let is_new = attempt.as_ref().is_some_and(|attempt| !self.unanswered.contains(attempt));
        if is_new && self.unanswered.len() >= HOLD_MESSAGES_MAX {
            return Err(message);
        }
        match self.messages.try_send(message) {
            Ok(()) => {
                self.unanswered.extend(attempt);
                self.waker.wake();
                Ok(())
            }
            Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) => Err(message),
        }
    }

    /// The next answer. None until one arrives.
    pub fn poll(&mut self) -> Option<HoldAnswer> {
        let answer = self.answers.try_recv().ok()?;
        self.unanswered.remove(&(answer.name.clone(), answer.attempt));
        Some(answer)
    }

    /// Calls `wake` from the ledger's thread when answers have come. The first call counts.
    pub fn wake_with(&mut self, wake: WakeCall) {
        let _set = self.wake.set(wake);
    }

    /// Whether the ledger has ended: no answer will come.
    pub fn is_stopped(&self) -> bool {
        self.status.status().is_over
    }
}

impl fmt::Debug for LedgerHoldPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerHoldPort")
            .field("unanswered", &self.unanswered.len())
            .finish_non_exhaustive()
    }
}

impl HoldReceiver {
    /// Takes the messages that wait, at most as many as the channel holds.
    pub(crate) fn take(&self, inbox: &mut Vec<LedgerInput>) {
        let waiting = self.messages.try_iter().take(HOLD_MESSAGES_MAX);
        inbox.extend(waiting.map(LedgerInput::Hold));
    }

    pub(crate) fn answer(&self, answers: impl ExactSizeIterator<Item = HoldAnswer>) {
        if answers.len() == 0 {
            return;
        }
        for answer in answers {
            // Without an owner of lots nobody hears it.
            let _heard = self.answers.send(answer);
        }
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}
