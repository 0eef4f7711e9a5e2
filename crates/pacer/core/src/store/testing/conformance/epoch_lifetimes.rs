//! Lifetimes of epochs, case by case.

use super::{
    Batch, Bench, Case, Checked, Epoch, EpochLifetime, QueryResult, StoreQuery, StoreWriter,
    Subject, same,
};

pub(super) fn cases<S: Subject>() -> [Case<S>; 3] {
    [
        ("a life only grows, and outlives the process", grows),
        ("lives of epochs before one are dropped", dropped),
        ("nodes have lives of their own", nodes_apart),
    ]
}

fn saying(number: u64, lasted_ms: u64, horizon_ms: u64) -> Batch {
    Batch { number, life: EpochLifetime { lasted_ms, horizon_ms }, ..Batch::default() }
}

fn lives<S: Subject>(
    bench: &mut Bench<'_, S>,
    node: Option<u32>,
) -> Result<Vec<(StoreWriter, EpochLifetime)>, String> {
    match bench.read(&StoreQuery::EpochLifetimes(node))? {
        QueryResult::EpochLifetimes(lives) => Ok(lives),
        other => Err(format!("lives are {other:?}")),
    }
}

fn grows<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    same("at first", &lives(bench, None)?, &vec![])?;
    let first = bench.writer(1)?;
    let mut want = Vec::new();
    for (number, said, stands) in [
        (1, (0, 7), (0, 7)),
        (2, (500, 7), (500, 7)),
        (3, (400, 9), (500, 9)),
        (4, (u64::MAX, 0), (u64::MAX, 9)),
    ] {
        same("a batch", &bench.submit(first, &saying(number, said.0, said.1))?, &Ok(()))?;
        bench.restart();
        want = vec![(first, EpochLifetime { lasted_ms: stands.0, horizon_ms: stands.1 })];
        same("the life", &lives(bench, Some(1))?, &want)?;
    }
    let second = bench.writer(1)?;
    same("a batch", &bench.submit(second, &saying(1, 3, 4))?, &Ok(()))?;
    want.push((second, EpochLifetime { lasted_ms: 3, horizon_ms: 4 }));
    same("both lives", &lives(bench, Some(1))?, &want)
}

fn dropped<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let mut writers = Vec::new();
    for _ in 0..4 {
        let writer = bench.writer(1)?;
        same("a batch", &bench.submit(writer, &saying(1, 5, 6))?, &Ok(()))?;
        writers.push(writer);
    }
    let last = writers[3];
    let from = |number, lifetimes_from| Batch { lifetimes_from, ..saying(number, 5, 6) };
    for (number, lifetimes_from, left) in
        [(2, Epoch(0), 4), (3, writers[2].epoch, 2), (4, writers[1].epoch, 2), (5, last.epoch, 1)]
    {
        same("a batch", &bench.submit(last, &from(number, lifetimes_from))?, &Ok(()))?;
        bench.restart();
        let known: Vec<_> = lives(bench, None)?.into_iter().map(|(writer, _)| writer).collect();
        same("what is left", &known, &writers[4 - left..].to_vec())?;
    }
    Ok(())
}

fn nodes_apart<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let (one, two) = (bench.writer(1)?, bench.writer(2)?);
    let life = |lasted_ms| EpochLifetime { lasted_ms, horizon_ms: 1 };
    same("of node 1", &bench.submit(one, &saying(1, 10, 1))?, &Ok(()))?;
    let drops = Batch { lifetimes_from: Epoch(u32::MAX), ..saying(1, 20, 1) };
    same("of node 2", &bench.submit(two, &drops)?, &Ok(()))?;
    same("node 1", &lives(bench, Some(1))?, &vec![(one, life(10))])?;
    same("node 2", &lives(bench, Some(2))?, &vec![])?;
    same("all", &lives(bench, None)?, &vec![(one, life(10))])
}
