//! Tests of `ring`: cursors against a list of everything that was pushed.

use proptest::prelude::*;

use super::*;
use crate::feed::PART_LAST;

const MS: Duration = Duration::from_millis(1);
const LIMITS: RingLimits = RingLimits { bytes_max: 100, age_max: Duration::from_millis(50) };

/// A ring with views, and everything that was ever pushed to them.
struct Rig {
    ring: FeedRing,
    views: Vec<ViewId>,
    sequence: u64,
    now: Duration,
}

fn at(sequence: u64) -> FeedPosition {
    FeedPosition { epoch: 1, sequence, part: 0 }
}

impl Rig {
    fn new(limits: RingLimits, views: usize) -> Self {
        let mut ring = FeedRing::new(limits);
        let views: Vec<_> = (0..views).map(|_| ring.add_view(FeedLane::Firehose)).collect();
        let since = FeedPosition::default();
        let opened = views.iter().map(|&view| OpenedView { view, since }).collect();
        ring.push(FeedBatch { opened, ..FeedBatch::default() }, Duration::ZERO);
        Self { ring, views, sequence: 0, now: Duration::ZERO }
    }

    fn reached(&self) -> [FeedPosition; LANES] {
        [FeedPosition { part: PART_LAST, ..at(self.sequence) }, FeedPosition::default()]
    }

    /// Pushes a batch of messages, each for some views, with a key.
    fn push(&mut self, messages: &[(&str, &[usize], u64)], is_restart: bool) {
        let from = self.reached();
        let mut batch = FeedBatch { from, is_restart, ..FeedBatch::default() };
        for (text, views, key) in messages {
            self.sequence += 1;
            let start = u32::try_from(batch.bytes.len()).unwrap();
            batch.bytes.extend_from_slice(text.as_bytes());
            let range = start..u32::try_from(batch.bytes.len()).unwrap();
            batch.entries.extend(views.iter().map(|&view| BatchEntry {
                view: self.views[view],
                range: range.clone(),
                position: at(self.sequence),
                key: *key,
            }));
        }
        batch.reached = self.reached();
        self.ring.push(batch, self.now);
    }

    fn unread(&self, view: usize, cursor: &FeedCursor) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        self.ring.unread(self.views[view], cursor).map(text).collect()
    }
}

#[test]
fn neighbours_are_read_together() {
    let mut rig = Rig::new(LIMITS, 2);
    let cursor = rig.ring.cursor_at_end(rig.views[0]).unwrap();
    rig.push(&[("a", &[0], 0), ("b", &[0, 1], 0), ("c", &[1], 0), ("d", &[0], 0)], false);
    rig.push(&[("e", &[0], 0)], false);
    assert_eq!(rig.unread(0, &cursor), ["ab", "d", "e"]);
    let first = rig.ring.cursor_after(rig.views[1], FeedPosition::default()).unwrap();
    assert_eq!(rig.unread(1, &first), ["bc"]);
}

#[test]
fn a_message_that_was_taken_in_part_leaves_its_rest() {
    let mut rig = Rig::new(LIMITS, 1);
    let view = rig.views[0];
    let mut cursor = rig.ring.cursor_at_end(view).unwrap();
    rig.push(&[("abc", &[0], 0), ("def", &[0], 0)], false);
    assert_eq!(rig.ring.advance(view, &mut cursor, 4), TakenMessages { count: 2, rest: b"ef" });
    assert_eq!((cursor.after(), rig.ring.state(view, &cursor)), (at(2), CursorState::AtEnd));
    let mut cursor = rig.ring.cursor_after(view, FeedPosition::default()).unwrap();
    assert_eq!(rig.ring.advance(view, &mut cursor, 3), TakenMessages { count: 1, rest: b"" });
    assert_eq!((cursor.after(), rig.ring.state(view, &cursor)), (at(1), CursorState::Behind));
    assert_eq!(rig.ring.advance(view, &mut cursor, 0), TakenMessages { count: 0, rest: b"" });
    assert_eq!(rig.unread(0, &cursor), ["def"]);
}

#[test]
fn the_ring_forgets_by_bytes_and_by_age_and_says_so() {
    let mut rig = Rig::new(LIMITS, 1);
    let view = rig.views[0];
    let slow = rig.ring.cursor_at_end(view).unwrap();
    rig.push(&[("x".repeat(60).as_str(), &[0], 0)], false);
    rig.push(&[("y".repeat(40).as_str(), &[0], 0)], false);
    assert_eq!(rig.ring.state(view, &slow), CursorState::Behind, "exactly what fits");
    rig.push(&[("z", &[0], 0)], false);
    assert_eq!(rig.ring.state(view, &slow), CursorState::FellBehind { missed: 1 });
    assert_eq!((rig.ring.bytes(), rig.ring.horizon(view)), (41, Some(at(1))));
    assert!(rig.ring.cursor_after(view, FeedPosition::default()).is_none());
    let resumed = rig.ring.cursor_after(view, at(1)).unwrap();
    rig.now += MS * 50;
    rig.ring.expire(rig.now);
    assert_eq!(rig.ring.state(view, &resumed), CursorState::Behind, "as old as allowed");
    rig.ring.expire(rig.now + MS);
    assert_eq!(rig.ring.state(view, &resumed), CursorState::FellBehind { missed: 2 });
    assert_eq!(rig.ring.bytes(), 0);
}

#[test]
fn a_restart_sends_every_cursor_to_the_log() {
    let mut rig = Rig::new(LIMITS, 1);
    let view = rig.views[0];
    rig.push(&[("a", &[0], 0)], false);
    let before = rig.ring.cursor_at_end(view).unwrap();
    // Two records are lost on the way to this shard.
    rig.sequence += 2;
    rig.push(&[("d", &[0], 0)], true);
    assert_eq!(rig.ring.state(view, &before), CursorState::Restarted);
    assert_eq!(rig.ring.horizon(view), Some(FeedPosition { part: PART_LAST, ..at(3) }));
    assert!(rig.ring.cursor_after(view, before.after()).is_none());
    let resumed = rig.ring.cursor_after(view, FeedPosition::behind(1, 3)).unwrap();
    assert_eq!(rig.unread(0, &resumed), ["d"]);
}

#[test]
fn views_are_used_only_once_they_are_opened_and_never_again() {
    let mut ring = FeedRing::new(LIMITS);
    let view = ring.add_view(FeedLane::Durable);
    assert!(ring.cursor_at_end(view).is_none() && ring.horizon(view).is_none());
    ring.remove_view(view);
    ring.remove_view(view);
    let other = ring.add_view(FeedLane::Durable);
    assert!(view != other && ring.views() == 1);
    let opened = OpenedView { view, since: FeedPosition::default() };
    ring.push(FeedBatch { opened: vec![opened], ..FeedBatch::default() }, MS);
    assert!(ring.cursor_at_end(view).is_none() && ring.cursor_at_end(other).is_none());
}

#[test]
fn conflating_keeps_the_latest_of_each_key_and_counts_the_others() {
    #[track_caller]
    fn check(bytes_max: usize, want: &[(&str, u64)]) {
        let mut rig = Rig::new(LIMITS, 1);
        let view = rig.views[0];
        let mut cursor = rig.ring.cursor_at_end(view).unwrap();
        let messages: [(&str, &[usize], u64); 6] = [
            ("a1", &[0], 1),
            ("b1", &[0], 2),
            ("a2", &[0], 1),
            ("c1", &[0], 3),
            ("a3", &[0], 1),
            ("b2", &[0], 2),
        ];
        rig.push(&messages, false);
        for (text, skipped) in want {
            let taken = rig.ring.conflate(view, &mut cursor, bytes_max);
            let bytes = text.as_bytes().to_vec();
            let messages = bytes.len() as u64 / 2;
            assert_eq!(taken, Conflation { skipped: *skipped, messages, bytes });
        }
        assert_eq!(rig.ring.state(view, &cursor), CursorState::AtEnd);
        assert_eq!(cursor.after(), at(6));
    }
    check(100, &[("c1a3b2", 3)]);
    check(4, &[("c1a3", 3), ("b2", 0)]);
    check(0, &[("c1", 3), ("a3", 0), ("b2", 0)]);
}

#[test]
fn what_the_ring_forgot_counts_as_skipped() {
    let mut rig = Rig::new(LIMITS, 1);
    let view = rig.views[0];
    let mut cursor = rig.ring.cursor_at_end(view).unwrap();
    rig.push(&[("x".repeat(60).as_str(), &[0], 1)], false);
    rig.push(&[("y".repeat(60).as_str(), &[0], 2)], false);
    let taken = rig.ring.conflate(view, &mut cursor, 100);
    assert_eq!((taken.skipped, taken.bytes.len()), (1, 60));
}

/// What a test does to a ring.
#[derive(Clone, Debug)]
enum Action {
    /// Pushes messages: which views have them.
    Push(Vec<u8>),
    /// A shard misses a batch of this many records.
    Miss(u64),
    /// A subscriber takes so many bytes.
    Read(usize, usize),
    /// Time passes.
    Wait(u32),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => prop::collection::vec(0..8_u8, 0..5).prop_map(Action::Push),
        1 => (0..4_u64).prop_map(Action::Miss),
        6 => (0..3_usize, 0..40_usize).prop_map(|(view, bytes)| Action::Read(view, bytes)),
        1 => (0..30_u32).prop_map(Action::Wait),
    ]
}

proptest! {
    /// Every subscriber takes exactly what was pushed to its view behind its position, as long as
    /// the ring says that it can; otherwise it starts anew from a position that the ring has.
    #[test]
    fn cursors_yield_what_was_pushed(actions in prop::collection::vec(action(), 0..120)) {
        let limits = RingLimits { bytes_max: 60, age_max: MS * 40 };
        let mut rig = Rig::new(limits, 3);
        let mut pushed: Vec<Vec<(FeedPosition, String)>> = vec![Vec::new(); 3];
        let mut cursors: Vec<_> =
            rig.views.iter().map(|&view| rig.ring.cursor_at_end(view).unwrap()).collect();
        let mut missed = false;
        for action in actions {
            match action {
                Action::Wait(ms) => rig.now += MS * ms,
                Action::Miss(records) => {
                    rig.sequence += records;
                    missed = true;
                }
                Action::Push(sets) => {
                    let first = rig.sequence;
                    let of = |set: u8| (0..3).filter(|view| set >> view & 1 == 1).collect();
                    let texts: Vec<(String, Vec<usize>)> = (first + 1..)
                        .zip(&sets)
                        .map(|(sequence, &set)| (format!("<{sequence}>"), of(set)))
                        .collect();
                    let messages: Vec<_> =
                        texts.iter().map(|(text, views)| (&**text, &**views, 0)).collect();
                    rig.push(&messages, std::mem::take(&mut missed));
                    for (sequence, (text, views)) in (first + 1..).zip(&texts) {
                        views.iter().for_each(|&view| {
                            pushed[view].push((at(sequence), text.clone()));
                        });
                    }
                }
                Action::Read(at, bytes) => {
                    let (view, cursor) = (rig.views[at], &mut cursors[at]);
                    let behind = |cursor: &FeedCursor| -> Vec<_> {
                        let all = pushed[at].iter();
                        all.filter(|(place, _)| *place > cursor.after()).cloned().collect()
                    };
                    match rig.ring.state(view, cursor) {
                        CursorState::Behind | CursorState::AtEnd => {
                            let all: String = behind(cursor).into_iter().map(|it| it.1).collect();
                            let read: Vec<u8> =
                                rig.ring.unread(view, cursor).flatten().copied().collect();
                            prop_assert_eq!(&read, all.as_bytes());
                            let taken = bytes.min(read.len());
                            let rest = rig.ring.advance(view, cursor, taken).rest.to_vec();
                            let left: String =
                                behind(cursor).into_iter().map(|it| it.1).collect();
                            prop_assert_eq!(taken + rest.len() + left.len(), read.len());
                            prop_assert_eq!(&read[taken..taken + rest.len()], &rest[..]);
                            rig.ring.cover(view, cursor);
                        }
                        CursorState::FellBehind { .. } | CursorState::Restarted => {
                            let horizon = rig.ring.horizon(view).unwrap();
                            prop_assert!(rig.ring.cursor_after(view, cursor.after()).is_none()
                                || horizon <= cursor.after());
                            *cursor = rig.ring.cursor_after(view, horizon).unwrap();
                        }
                    }
                }
            }
            prop_assert!(rig.ring.bytes() <= limits.bytes_max);
        }
    }
}
