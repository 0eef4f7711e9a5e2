//! Limits and retry times of delivery, with defaults.

use std::time::Duration;

/// Limits and retry times. All counts are at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// Pause between the first tries of a notice (7.8: "every 10 seconds").
    pub retry_pause: Duration,
    /// How long that pause applies (7.8: "for the next minute"); then it doubles each time.
    pub retry_steady: Duration,
    /// The longest pause.
    pub retry_pause_max: Duration,
    /// When to give up a billing notice.
    pub billing_horizon: Duration,
    /// Tries of a win or loss notice after the first.
    pub retries_best_effort: u32,
    /// When to give up a win or loss notice.
    pub best_effort_horizon: Duration,
    /// Billing notices owed to one DSP.
    pub billing_max_per_dsp: usize,
    /// Billing notices owed in total.
    pub billing_max: usize,
    /// Win and loss notices waiting for one DSP.
    pub best_effort_max_per_dsp: usize,
    /// Win and loss notices waiting in total.
    pub best_effort_max: usize,
    /// Bytes of URLs and headers of billing notices, and of win and loss notices.
    pub bytes_max: usize,
    /// Remembered tokens, those of owed notices included.
    pub remembered_max: usize,
    /// Calls to one DSP at a time.
    pub in_flight_per_dsp: usize,
    /// Calls at a time. Failing DSPs have at most half of them together.
    pub in_flight_max: usize,
    /// A call without a result after this time has failed. The caller's own timeout is shorter.
    pub answer_timeout: Duration,
    /// Failures in a row after which a DSP is only probed.
    pub failures_to_probe: u32,
    /// DSPs with notices at a time.
    pub dsps_max: usize,
    /// Distance in records from the oldest needed record to the log's end, above which old ones are
    /// rewritten. At least four times the remembered tokens.
    pub journal_span: u64,
    /// Records of the log between checkpoints: the most that a start reads to find the last one.
    pub checkpoint_span: u64,
}

impl Default for DeliveryPolicy {
    fn default() -> Self {
        Self {
            retry_pause: Duration::from_secs(10),
            retry_steady: Duration::from_secs(60),
            retry_pause_max: Duration::from_secs(120),
            billing_horizon: Duration::from_secs(3600),
            retries_best_effort: 2,
            best_effort_horizon: Duration::from_secs(60),
            billing_max_per_dsp: 50_000,
            billing_max: 200_000,
            best_effort_max_per_dsp: 5_000,
            best_effort_max: 50_000,
            bytes_max: 256 << 20,
            remembered_max: 4_000_000,
            in_flight_per_dsp: 16,
            in_flight_max: 1_024,
            answer_timeout: Duration::from_secs(10),
            failures_to_probe: 3,
            dsps_max: 4_096,
            journal_span: 100_000,
            checkpoint_span: 25_000,
        }
    }
}

impl DeliveryPolicy {
    /// Pause after the `failed`th failed try, from 1.
    pub(crate) fn pause(&self, failed: u32) -> Duration {
        let pause_ms = self.retry_pause.as_millis().max(1);
        let steady = self.retry_steady.as_millis() / pause_ms;
        let beyond = u128::from(failed).saturating_sub(steady);
        let factor = 1_u32 << beyond.min(16);
        self.retry_pause.saturating_mul(factor).min(self.retry_pause_max.max(self.retry_pause))
    }
}
