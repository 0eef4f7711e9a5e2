//! Answers within the client's windows.

use http2::frame::{END_STREAM, FRAME_HEADER_BYTES, FrameHeader, FrameType};

use super::{AnswerFlow, FrameSender};
use crate::server::reactor::multiplexed::translator::AnswerTranslator;

/// Type, payload length and END_STREAM of each frame written; the output is then empty.
fn written(sender: &mut FrameSender) -> Vec<(u8, usize, bool)> {
    let mut frames = Vec::new();
    let mut rest = &sender.output[..];
    while let Some(header) = FrameHeader::read(rest) {
        frames.push((header.kind, header.length, header.flags & END_STREAM != 0));
        rest = &rest[FRAME_HEADER_BYTES + header.length..];
    }
    sender.output.clear();
    frames
}

fn begin(sender: &mut FrameSender, length: usize) -> AnswerFlow {
    let mut flow = sender.flow(1);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    let answer = [head.as_bytes(), &vec![b'x'; length]].concat();
    assert!(sender.translate(&mut flow, &mut AnswerTranslator::new(), &answer));
    flow
}

const DATA: u8 = FrameType::Data as u8;

#[test]
fn data_waits_for_both_windows() {
    let mut sender = FrameSender::new();
    sender.set_stream_window(10);
    let mut flow = begin(&mut sender, 25);
    assert_eq!(written(&mut sender)[1..], [(DATA, 10, false)]);
    assert!(flow.has_unsent() && !sender.has_room(&flow));
    flow.grow(5).expect("it fits");
    sender.resume(&mut flow);
    assert_eq!(written(&mut sender), [(DATA, 5, false)]);
    // A setting can make a window negative.
    flow.grow(-20).expect("it is smaller");
    sender.resume(&mut flow);
    assert_eq!(written(&mut sender), []);
    flow.grow(30).expect("it fits");
    sender.grow(-65_515).expect("it is smaller");
    sender.resume(&mut flow);
    assert_eq!(written(&mut sender), [(DATA, 5, false)]);
    sender.grow(100).expect("it fits");
    sender.resume(&mut flow);
    assert_eq!(written(&mut sender), [(DATA, 5, true)]);
    assert!(flow.is_done() && !flow.has_unsent());
}

#[test]
fn long_answers_come_in_frames_and_short_ones_in_two() {
    let mut sender = FrameSender::new();
    let flow = begin(&mut sender, 40_000);
    assert!(flow.is_done());
    let want = [(DATA, 16_384, false), (DATA, 16_384, false), (DATA, 7_232, true)];
    assert_eq!(written(&mut sender)[1..], want);
    let flow = begin(&mut sender, 0);
    assert!(flow.is_done());
    let frames = written(&mut sender);
    assert_eq!((frames.len(), frames[0].2), (1, true));
}

#[test]
fn windows_that_overflow_are_errors() {
    let mut sender = FrameSender::new();
    let mut flow = sender.flow(1);
    assert!(flow.grow(i64::from(u32::MAX / 2)).is_err());
    assert!(sender.grow(i64::from(u32::MAX / 2)).is_err());
}
