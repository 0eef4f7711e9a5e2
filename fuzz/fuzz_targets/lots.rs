//! Any lines as commands of bidders and operators to a floor of lots: each is answered, a lot's log
//! rebuilds it, and money is on hold for the bids that stand alone. And any bytes as a record of a
//! lot: refused, or written again as it was read.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use live_core::floor::{
    FloorAnswer, FloorOutlet, FloorRefusal, FloorSettings, LotFloor, LotRecord,
};
use live_core::lots::Lot;
use live_core::ports::{HoldKey, HoldMessage, HoldReply, SoldLot};
use live_core::rights::{LiveClaims, LiveRights};
use live_serve::testing::{lot_record, lots_command};

const SETTINGS: FloorSettings =
    FloorSettings { lots_max: 4, waiting_max: 8, hold_timeout_ms: 1000, kept_ms: 1000 };

/// A log that takes everything, and a ledger with money for all.
#[derive(Default)]
struct World {
    log: Vec<LotRecord>,
    on_hold: BTreeMap<HoldKey, u64>,
    replies: Vec<HoldReply>,
    answers: usize,
}

impl FloorOutlet<()> for World {
    fn paused(&self) -> Option<String> {
        None
    }

    fn log(&mut self, record: &LotRecord) -> bool {
        self.log.push(record.clone());
        true
    }

    fn hold(&mut self, message: HoldMessage) -> Result<(), HoldMessage> {
        match message {
            HoldMessage::Place(request) => {
                let before = self.on_hold.insert(request.key.clone(), request.amount.get());
                assert_eq!(before, None, "a hold is placed once");
                let (key, attempt) = (request.key, request.attempt);
                self.replies.push(HoldReply::Held { key, attempt });
            }
            HoldMessage::End { key, .. } => {
                assert!(self.on_hold.remove(&key).is_some(), "a hold ends once");
            }
            HoldMessage::Standing(_) | HoldMessage::Replayed => (),
        }
        Ok(())
    }

    fn offer(&mut self, _: SoldLot) {}

    fn answer(&mut self, (): (), _: Result<FloorAnswer, FloorRefusal>) {
        self.answers += 1;
    }
}

fn rights(name: &str) -> LiveRights {
    let claims = match name {
        "desk" => LiveClaims { operator: true, ..LiveClaims::default() },
        name => LiveClaims {
            bidder: Some(format!("dsp/{name}")),
            account: Some(name.to_owned()),
            ..LiveClaims::default()
        },
    };
    LiveRights::of(claims)
}

fuzz_target!(|data: &[u8]| {
    if let Some(again) = lot_record(data) {
        assert_eq!(lot_record(&again).as_ref(), Some(&again));
    }
    let Ok(text) = str::from_utf8(data) else { return };
    let (mut floor, mut world) = (LotFloor::new(SETTINGS, 1), World::default());
    floor.begin(0, &mut world);
    let mut asked = 0;
    for (now_ms, line) in (1..).zip(text.lines()) {
        let (who, command) = line.split_once(' ').unwrap_or(("desk", line));
        let Some(Ok(command)) = lots_command(&rights(who), command) else { continue };
        asked += 1;
        floor.command(now_ms, (), command, &mut world);
        for reply in std::mem::take(&mut world.replies) {
            floor.money(now_ms, reply, &mut world);
        }
        let written = world.log.len() as u64;
        floor.durable(written, written, &mut world);
        floor.tick(now_ms, &mut world);
    }
    let written = world.log.len() as u64;
    floor.durable(written, written, &mut world);
    assert_eq!(world.answers, asked, "each command is answered once");
    let standing = floor.lots().flat_map(Lot::holds).map(|hold| hold.amount.get());
    assert_eq!(standing.sum::<u64>(), world.on_hold.values().sum::<u64>());

    let mut again = LotFloor::<()>::new(SETTINGS, 2);
    for (sequence, record) in (1..).zip(world.log) {
        again.replay(sequence, record).expect("the log rebuilds the lots");
    }
    assert!(again.lots().eq(floor.lots()));
});
