//! Any bytes as a record of the wins that bidders reported: refused, or read as what is written
//! again.
#![no_main]

use events::{SettlementsReader, SettlementsWriter, WinRecord};
use libfuzzer_sys::fuzz_target;

fn read(record: &[u8]) -> Option<Vec<WinRecord<'_>>> {
    let mut wins = Vec::new();
    SettlementsReader::new(record).ok()?.each(|win| wins.push(win)).ok()?;
    Some(wins)
}

fuzz_target!(|data: &[u8]| {
    let Some(wins) = read(data) else { return };
    let mut again = Vec::new();
    let mut writer = SettlementsWriter::new(&mut again);
    wins.iter().for_each(|win| writer.win(win));
    writer.finish();
    assert_eq!(read(&again).as_ref(), Some(&wins));
});
