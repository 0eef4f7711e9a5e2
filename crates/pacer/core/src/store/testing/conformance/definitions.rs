//! Definitions and their audit, case by case.

use super::{
    Bench, Case, Checked, DefinitionChange, QueryResult, StoreDenial, StoreQuery, Subject, same,
};
use crate::store::{
    AuditEntry, AuditKey, DefinitionKey, DefinitionPut, ID_BYTES_MAX, StoreWriter,
    StoredDefinition, StoredKind,
};

pub(super) fn cases<S: Subject>() -> [Case<S>; 8] {
    [
        ("the newer definition stands", newer_stands),
        ("a version that was not expected is a conflict", conflict),
        ("a change is applied whole or not at all", whole_or_not),
        ("a change twice is a change", twice),
        ("kinds are apart, and names are in order", kinds_apart),
        ("the audit is in order, in pages", audit_in_pages),
        ("a node's audit is read backwards, in pages", audit_backwards),
        ("what breaks a rule is refused", rules),
    ]
}

fn name(kind: StoredKind, id: &str) -> DefinitionKey {
    DefinitionKey { kind, id: id.to_owned() }
}

fn put(id: &str, expected: Option<u64>, version: u64, body: &str) -> DefinitionPut {
    let definition = StoredDefinition { version, body: body.as_bytes().to_vec() };
    DefinitionPut { key: name(StoredKind::Campaign, id), expected, definition }
}

fn change(number: u64, puts: &[DefinitionPut], audit: &[&str]) -> DefinitionChange {
    let entry = |body: &&str| AuditEntry { at_unix_ms: number, body: body.as_bytes().to_vec() };
    DefinitionChange { number, puts: puts.to_vec(), audit: audit.iter().map(entry).collect() }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|_| "not text".to_owned())
}

fn defined<S: Subject>(bench: &mut Bench<'_, S>, id: &str) -> Result<(u64, String), String> {
    match bench.read(&StoreQuery::Definitions(StoredKind::Campaign))? {
        QueryResult::Definitions(all) => {
            let found = all.into_iter().find(|(key, _)| key.id == id);
            Ok(found.map_or_else(Default::default, |(_, it)| (it.version, text(it.body))))
        }
        other => Err(format!("definitions are {other:?}")),
    }
}

fn audit<S: Subject>(
    bench: &mut Bench<'_, S>,
    after: Option<AuditKey>,
    most: u32,
) -> Result<Vec<(AuditKey, String)>, String> {
    match bench.read(&StoreQuery::Audit(after, most))? {
        QueryResult::Audit(found) => {
            let said = found.into_iter().map(|(key, entry)| (key, text(entry.body)));
            Ok(said.collect())
        }
        other => Err(format!("the audit is {other:?}")),
    }
}

fn audit_backwards<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let (one, two) = (bench.writer(1)?, bench.writer(2)?);
    same("of one", &bench.change(one, &change(1, &[], &["a", "b"]))?, &Ok(()))?;
    same("of two", &bench.change(two, &change(1, &[], &["x"]))?, &Ok(()))?;
    let one = bench.writer(1)?;
    same("later", &bench.change(one, &change(1, &[], &["c"]))?, &Ok(()))?;
    let mut before = None;
    for want in [&["c", "b"][..], &["a"], &[]] {
        let QueryResult::Audit(found) = bench.read(&StoreQuery::AuditBefore(1, before, 2))? else {
            return Err("the audit is something else".to_owned());
        };
        before = found.last().map(|(key, _)| *key).or(before);
        let said: Vec<_> = found.into_iter().map(|(_, entry)| text(entry.body)).collect();
        same("a page", &said, &want.iter().map(|text| (*text).to_owned()).collect())?;
    }
    Ok(())
}

fn texts(audit: Vec<(AuditKey, String)>) -> Vec<String> {
    audit.into_iter().map(|(_, body)| body).collect()
}

fn newer_stands<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    same("nothing", &defined(bench, "a")?, &(0, String::new()))?;
    // version  text      stored afterwards
    let table = [
        (2, "two", (2, "two")),
        (1, "one", (2, "two")),
        (2, "other", (2, "two")),
        (u64::MAX, "last", (u64::MAX, "last")),
        (3, "three", (u64::MAX, "last")),
    ];
    for (number, (version, body, (stands, says))) in table.into_iter().enumerate() {
        let change = change(number as u64, &[put("a", None, version, body)], &[]);
        same("a change", &bench.change(writer, &change)?, &Ok(()))?;
        same("it", &defined(bench, "a")?, &(stands, says.to_owned()))?;
    }
    Ok(())
}

fn conflict<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    // expected  version  text   version stored afterwards, and whether that was a conflict
    let table = [
        (1, 2, "no", 0, true),
        (0, 1, "one", 1, false),
        (0, 1, "other", 1, true),
        (0, 2, "two", 1, true),
        (1, 5, "five", 5, false),
        (1, 5, "five", 5, false),
        (1, 5, "not five", 5, true),
        (4, 6, "six", 5, true),
        (6, 7, "seven", 5, true),
        (5, 6, "six", 6, false),
    ];
    for (number, (expected, version, body, stands, is_conflict)) in table.into_iter().enumerate() {
        let change = change(number as u64, &[put("a", Some(expected), version, body)], &[]);
        let key = name(StoredKind::Campaign, "a");
        let want =
            if is_conflict { Err(StoreDenial::Conflict { key, present: stands }) } else { Ok(()) };
        same(body, &bench.change(writer, &change)?, &want)?;
        same("it stands", &defined(bench, "a")?.0, &stands)?;
    }
    Ok(())
}

fn whole_or_not<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let first = change(1, &[put("b", Some(0), 1, "b")], &["first"]);
    same("the first", &bench.change(writer, &first)?, &Ok(()))?;
    let half = [put("a", None, 1, "a"), put("b", Some(7), 8, "b"), put("c", None, 1, "c")];
    let refused = bench.change(writer, &change(2, &half, &["never"]))?;
    let key = name(StoredKind::Campaign, "b");
    same("the second", &refused, &Err(StoreDenial::Conflict { key, present: 1 }))?;
    for (id, version) in [("a", 0), ("b", 1), ("c", 0)] {
        same(id, &defined(bench, id)?.0, &version)?;
    }
    same("the audit", &texts(audit(bench, None, 9)?), &vec!["first".to_owned()])?;
    let old = writer;
    let new = bench.writer(1)?;
    let late = change(3, &[put("a", None, 1, "a")], &["late"]);
    let denied = Err(StoreDenial::Fenced { asked: old.epoch, current: new.epoch });
    same("fenced", &bench.change(old, &late)?, &denied)?;
    same("it", &defined(bench, "a")?.0, &0)?;
    same("the audit then", &audit(bench, None, 9)?.len(), &1)
}

fn twice<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let first = change(1, &[put("a", Some(0), 1, "a"), put("b", None, 3, "b")], &["x", "y"]);
    for _ in 0..3 {
        same("the same", &bench.change(writer, &first)?, &Ok(()))?;
    }
    same("the audit", &texts(audit(bench, None, 9)?), &vec!["x".to_owned(), "y".to_owned()])?;
    same("it", &defined(bench, "a")?, &(1, "a".to_owned()))
}

fn kinds_apart<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let mut puts: Vec<_> = ["b", "a", "é", "ab"].map(|id| put(id, None, 1, id)).to_vec();
    let longest = "z".repeat(ID_BYTES_MAX);
    puts.push(put(&longest, None, 1, ""));
    puts.push(DefinitionPut {
        key: name(StoredKind::Account, "a"),
        ..put("a", None, 2, "an account")
    });
    same("a change", &bench.change(writer, &change(1, &puts, &[]))?, &Ok(()))?;
    for (kind, want) in
        StoredKind::ALL.into_iter().zip([&["a"][..], &["a", "ab", "b", &longest, "é"]])
    {
        let QueryResult::Definitions(found) = bench.read(&StoreQuery::Definitions(kind))? else {
            return Err("definitions are something else".to_owned());
        };
        let ids: Vec<_> = found.iter().map(|(key, _)| (key.kind, key.id.as_str())).collect();
        let want: Vec<_> = want.iter().map(|id| (kind, *id)).collect();
        same("the names", &ids, &want)?;
    }
    same("the campaign", &defined(bench, "a")?, &(1, "a".to_owned()))
}

fn audit_in_pages<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let mut writer = bench.writer(1)?;
    let other = bench.writer(2)?;
    let mut want = Vec::new();
    let mut append = |bench: &mut Bench<'_, S>, writer: StoreWriter, number, bodies: &[&str]| {
        same("a change", &bench.change(writer, &change(number, &[], bodies))?, &Ok(()))?;
        for (index, body) in (0..).zip(bodies) {
            let StoreWriter { node, epoch } = writer;
            want.push((AuditKey { node, epoch, number, index }, (*body).to_owned()));
        }
        Checked::Ok(())
    };
    append(bench, writer, 1, &["a", "b"])?;
    append(bench, writer, 300, &["c"])?;
    writer = bench.writer(1)?;
    append(bench, writer, 1, &["d", "e", "f"])?;
    append(bench, other, 2, &["g"])?;
    same("all", &audit(bench, None, 99)?, &want)?;
    let mut pages = Vec::new();
    loop {
        let page = audit(bench, pages.last().map(|(key, _)| *key), 2)?;
        if page.is_empty() {
            break;
        }
        if page.len() > 2 || pages.len() > want.len() {
            return Err(format!("a page of two behind {} has {}", pages.len(), page.len()));
        }
        pages.extend(page);
    }
    same("pages", &pages, &want)
}

fn rules<S: Subject>(bench: &mut Bench<'_, S>) -> Checked {
    let writer = bench.writer(1)?;
    let broken = [
        change(1, &[put("", None, 1, "")], &[]),
        change(1, &[put(&"z".repeat(ID_BYTES_MAX + 1), None, 1, "")], &[]),
        change(1, &[put("a", None, 0, "")], &[]),
        change(1, &[put("a", Some(3), 3, "")], &[]),
        change(1, &[put("a", None, 1, ""), put("a", None, 2, "")], &[]),
    ];
    for change in &broken {
        let refused = bench.change(writer, change)?;
        if !matches!(refused, Err(StoreDenial::Invalid(_))) {
            return Err(format!("{change:?}: {refused:?}"));
        }
    }
    same("it", &defined(bench, "a")?.0, &0)
}
