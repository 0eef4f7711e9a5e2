//! Pieces, pauses and ends of scripts.

use super::*;

const EVERY: Duration = Duration::from_millis(3);

fn performed(mut script: Script, cues: usize) -> Vec<(Vec<u8>, ScriptStep)> {
    let mut all = Vec::new();
    for _ in 0..cues {
        let mut out = Vec::new();
        let cue = script.next(&mut out);
        all.push((out, cue));
    }
    all
}

#[test]
fn a_whole_answer_is_one_piece() {
    let script = Script::whole(b"abc".to_vec(), EVERY);
    let want = [(b"abc".to_vec(), ScriptStep::Send), (vec![], ScriptStep::End(ScriptEnd::Next))];
    assert_eq!(performed(script, 2), want);
}

#[test]
fn drops_are_as_large_as_asked_for_and_paused_between() {
    let pieces = |first: usize| {
        let drip = Some(Drip { first, bytes: 2, every: EVERY });
        let script =
            Script { drip, end: ScriptEnd::Reset, ..Script::whole(b"abcde".into(), EVERY) };
        performed(script, 4)
    };
    let wait = ScriptStep::SendThenWait(EVERY);
    let text = |bytes: &[u8]| bytes.to_vec();
    let end = (vec![], ScriptStep::End(ScriptEnd::Reset));
    let want =
        [(text(b"ab"), wait), (text(b"cd"), wait), (text(b"e"), ScriptStep::Send), end.clone()];
    assert_eq!(pieces(0), want);
    let want = [(text(b"abcd"), wait), (text(b"e"), ScriptStep::Send), end.clone(), end];
    assert_eq!(pieces(4), want);
}

#[test]
fn a_flow_ends_at_its_length_and_the_tail_follows() {
    let flow = Some(Flow::new(b"xy", Some(FLOW_BYTES as u64 + 3)));
    let script = Script { flow, tail: b"z", ..Script::whole(b"a".to_vec(), EVERY) };
    let all = performed(script, 6);
    let lengths: Vec<_> = all.iter().map(|(bytes, _)| bytes.len()).collect();
    assert_eq!(lengths, [1, FLOW_BYTES, 3, 1, 0, 0]);
    assert_eq!((all[2].0.as_slice(), all[3].0.as_slice()), (&b"xyx"[..], &b"z"[..]));
    assert_eq!(all[4].1, ScriptStep::End(ScriptEnd::Next));
    let endless = Script { flow: Some(Flow::new(b"xy", None)), ..Script::whole(vec![], EVERY) };
    assert!(performed(endless, 100).iter().all(|(_, cue)| *cue == ScriptStep::Send));
}
