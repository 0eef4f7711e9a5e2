//! Reads definitions from files and JSON: every problem at once, with its place and a remedy.
//! Judges each file or body by itself.

mod cores;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diagnostics::nearest;
use pacer_core::store::StoredKind;
use runtime::config::{
    ConfigProblem, ConfigProblems, Section, Sources, load_given, matching, parse_loaded,
};
use serde_json::{Map, Value};

use super::definition::pacing::Pacings;
use super::definition::{AccountFacts, CampaignRules, DefinedAccount, DefinedCampaign};
use super::text::json::{problem, toml_of};
use super::text::packed::{Packed, Packer};
use cores::in_order;

/// Files read at once. Later files know the accounts of earlier ones.
const BATCH_FILES: usize = 32;

/// Options of a registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Folder that `campaigns` is relative to.
    pub folder: PathBuf,
    /// Pattern of the files that define accounts and campaigns, such as `campaigns.d/*.toml`.
    pub campaigns: Option<String>,
    /// Time in milliseconds since 1970.
    pub clock: fn() -> u64,
    /// Warning for accounts with limits but no holdback: wins may come late.
    pub late_wins_warning: Option<String>,
}

#[derive(Debug)]
pub(super) struct LastReading {
    pub(super) is_failed: bool,
    pub(super) succeeded_unix_ms: u64,
    /// Problems of the files, if these are why they are not in force.
    pub(super) problems: Vec<ConfigProblem>,
}

pub(super) type KnownAccounts = BTreeMap<Arc<str>, AccountFacts>;

#[derive(Clone, Debug)]
pub(super) struct FileDefinition<T> {
    pub(super) value: Arc<T>,
    /// As JSON, without defaults.
    pub(super) given: Packed,
    pub(super) file: Arc<Path>,
    pub(super) line: Option<usize>,
    /// Its index among its kind in the file.
    pub(super) index: usize,
}

#[derive(Debug)]
pub(super) struct FileDefinitions<R> {
    pub(super) accounts: Vec<FileDefinition<DefinedAccount>>,
    pub(super) campaigns: Vec<FileDefinition<DefinedCampaign<R>>>,
}

impl<R> FileDefinitions<R> {
    pub(super) fn names(&self) -> Vec<NamedDefinition> {
        let accounts = names_of(StoredKind::Account, &self.accounts, |account| &account.id);
        let campaigns = names_of(StoredKind::Campaign, &self.campaigns, |campaign| &campaign.id);
        accounts.chain(campaigns).collect()
    }
}

struct ReadFile<R> {
    sources: Sources,
    definitions: FileDefinitions<R>,
    /// Other files' accounts as this one was read with.
    foreign_accounts: KnownAccounts,
    /// Unknown accounts that were assumed to exist.
    supposed: BTreeSet<String>,
}

/// Files of a pattern; unchanged ones are kept from the previous reading.
pub(super) struct DefinitionFiles<R> {
    folder: PathBuf,
    pattern: String,
    known: HashMap<PathBuf, ReadFile<R>>,
    sources: Sources,
    /// Whether unknown accounts are assumed to exist.
    is_supposing: bool,
}

struct FileOutcome<R> {
    read: Result<ReadFile<R>, Vec<ConfigProblem>>,
    sources: Sources,
    /// Its accounts, even if the file has problems.
    facts: KnownAccounts,
    is_unresolved: bool,
    /// What it defines, even if the file has problems.
    names: Vec<NamedDefinition>,
}

#[derive(Clone, Debug)]
pub(super) struct NamedDefinition {
    pub(super) kind: StoredKind,
    pub(super) id: String,
    pub(super) file: Arc<Path>,
    pub(super) line: Option<usize>,
    /// Its index among its kind in the file.
    pub(super) index: usize,
}

impl NamedDefinition {
    pub(super) fn key(&self) -> String {
        format!("{}[{}].id", self.kind.label(), self.index)
    }
}

impl<R: CampaignRules> DefinitionFiles<R> {
    /// Files that the options name, if any. In the last part of a pattern `*` stands for any text.
    pub(super) fn of(options: &RegistryOptions) -> Option<Self> {
        let pattern = options.campaigns.clone()?;
        Some(Self {
            folder: options.folder.clone(),
            pattern,
            known: HashMap::new(),
            sources: Sources::default(),
            is_supposing: false,
        })
    }

    /// From now on, unknown accounts are assumed to exist, in dollars and UTC.
    pub(super) const fn suppose(&mut self) {
        self.is_supposing = true;
    }

    pub(super) fn supposed(&self) -> BTreeSet<String> {
        self.known.values().flat_map(|file| file.supposed.iter().cloned()).collect()
    }

    pub(super) fn sources(&self) -> Sources {
        self.sources.clone()
    }

    /// Reads all files that have changed. `others` are accounts that no file defines.
    ///
    /// # Errors
    /// Every problem of all files.
    pub(super) fn read(
        &mut self,
        others: &KnownAccounts,
    ) -> Result<FileDefinitions<R>, Vec<ConfigProblem>> {
        let (paths, listed) = matching(&self.folder, &self.pattern);
        self.sources = listed;
        let paths = paths.map_err(|remedy| vec![problem(&self.pattern, None, remedy)])?;
        let mut facts = others.clone();
        let mut outcomes: Vec<(PathBuf, FileOutcome<R>)> = Vec::with_capacity(paths.len());
        for batch in paths.chunks(BATCH_FILES) {
            let read = self.read_batch(batch, &facts);
            read.iter().for_each(|outcome| facts.extend(outcome.facts.clone()));
            outcomes.extend(batch.iter().cloned().zip(read));
        }
        // A later file may define an account that an earlier one names.
        let is_to_be_read =
            |(_, it): &&mut (_, FileOutcome<R>)| it.is_unresolved || it.is_outdated(&facts);
        let mut again: Vec<_> = outcomes.iter_mut().filter(is_to_be_read).collect();
        let paths: Vec<&Path> = again.iter().map(|(path, _)| path.as_path()).collect();
        let read = in_order(&paths, |path| read_file(path, &facts, self.is_supposing));
        for ((_, outcome), read) in again.iter_mut().zip(read) {
            *outcome = read;
        }
        self.known.clear();
        let mut set = FileDefinitions { accounts: Vec::new(), campaigns: Vec::new() };
        let (mut problems, mut names) = (Vec::new(), Vec::new());
        for (path, outcome) in outcomes {
            self.sources.merge(outcome.sources);
            names.extend(outcome.names);
            match outcome.read {
                Ok(file) => {
                    set.accounts.extend(file.definitions.accounts.iter().cloned());
                    set.campaigns.extend(file.definitions.campaigns.iter().cloned());
                    self.known.insert(path, file);
                }
                Err(of_file) => problems.extend(of_file),
            }
        }
        if problems.is_empty() {
            return Ok(set);
        }
        problems.extend(named_twice(&names));
        Err(problems)
    }

    /// Reads the changed files of a batch. One does not know the accounts of another.
    fn read_batch(&mut self, paths: &[PathBuf], facts: &KnownAccounts) -> Vec<FileOutcome<R>> {
        let current = |kept: &ReadFile<R>| kept.is_current(facts);
        let kept: Vec<_> =
            paths.iter().map(|path| self.known.remove(path).filter(current)).collect();
        let changed = paths.iter().zip(&kept).filter(|(_, kept)| kept.is_none());
        let changed: Vec<&Path> = changed.map(|(path, _)| path.as_path()).collect();
        let mut read = in_order(&changed, |path| read_file(path, facts, false)).into_iter();
        let mut next = || read.next().expect("all that have changed were read");
        kept.into_iter().map(|kept| kept.map_or_else(&mut next, ReadFile::into_outcome)).collect()
    }
}

impl<R> FileOutcome<R> {
    /// Whether an account that its campaigns were read with is gone, or has changed.
    fn is_outdated(&self, facts: &KnownAccounts) -> bool {
        let told = self.read.iter().flat_map(|file| &file.foreign_accounts);
        told.into_iter().any(|(id, told)| facts.get(id) != Some(told))
    }
}

impl<R> ReadFile<R> {
    /// Whether reading it again would give the same, apart from accounts of later files.
    fn is_current(&self, facts: &KnownAccounts) -> bool {
        self.sources.now() == self.sources
            && self
                .foreign_accounts
                .iter()
                .all(|(id, told)| facts.get(id).is_none_or(|now| now == told))
    }

    fn into_outcome(self) -> FileOutcome<R> {
        FileOutcome {
            sources: self.sources.clone(),
            facts: facts_of(&self.definitions.accounts),
            // The accounts that it was read with may come from a later file.
            is_unresolved: false,
            names: self.definitions.names(),
            read: Ok(self),
        }
    }
}

/// Ids that are defined twice.
pub(super) fn named_twice(names: &[NamedDefinition]) -> Vec<ConfigProblem> {
    let mut first: HashMap<(StoredKind, &str), &NamedDefinition> =
        HashMap::with_capacity(names.len());
    let mut problems = Vec::new();
    for named in names {
        let Some(known) = first.get(&(named.kind, &*named.id)) else {
            first.insert((named.kind, &named.id), named);
            continue;
        };
        let line = known.line.map(|line| format!(" line {line}")).unwrap_or_default();
        let place = format!("{}{line}", known.file.display());
        problems.push(ConfigProblem {
            file: Some(named.file.display().to_string()),
            line: named.line,
            column: None,
            key: named.key(),
            value: Some(format!("\"{}\"", named.id)),
            remedy: format!("is defined twice, first in {place}: rename or remove one"),
        });
    }
    problems
}

fn names_of<'f, T>(
    kind: StoredKind,
    all: &'f [FileDefinition<T>],
    id: impl Fn(&'f T) -> &'f str,
) -> impl Iterator<Item = NamedDefinition> {
    all.iter().map(move |found| NamedDefinition {
        kind,
        id: id(&found.value).to_owned(),
        file: Arc::clone(&found.file),
        line: found.line,
        index: found.index,
    })
}

fn facts_of(accounts: &[FileDefinition<DefinedAccount>]) -> KnownAccounts {
    let facts = |found: &FileDefinition<DefinedAccount>| {
        (found.value.id.as_str().into(), found.value.facts.clone())
    };
    accounts.iter().map(facts).collect()
}

/// Has campaigns of an account share its name, and other values that many have in common.
fn share_common<'c, R: CampaignRules>(
    campaigns: impl Iterator<Item = &'c mut DefinedCampaign<R>>,
    accounts: &KnownAccounts,
) {
    let (mut shared, mut pacings) = (R::Shared::default(), Pacings::default());
    for campaign in campaigns {
        campaign.rules.share(&mut shared);
        pacings.share(&mut campaign.pacing);
        if let Some((name, _)) = accounts.get_key_value(&campaign.account) {
            campaign.account = Arc::clone(name);
        }
    }
}

/// The problems, those of the main file with its name too.
fn with_file(problems: &ConfigProblems) -> Vec<ConfigProblem> {
    let placed = |it: &ConfigProblem| ConfigProblem {
        file: Some(it.file.clone().unwrap_or_else(|| problems.file().to_owned())),
        ..it.clone()
    };
    problems.iter().map(placed).collect()
}

/// Reads a file. Its own accounts take precedence over `told`.
fn read_file<R: CampaignRules>(
    path: &Path,
    told: &KnownAccounts,
    is_supposing: bool,
) -> FileOutcome<R> {
    let own: RefCell<KnownAccounts> = RefCell::default();
    let asked: RefCell<KnownAccounts> = RefCell::default();
    let supposed: RefCell<BTreeSet<String>> = RefCell::default();
    let is_unresolved = Cell::new(false);
    let names: RefCell<Vec<NamedDefinition>> = RefCell::default();
    let file: Arc<Path> = path.into();
    let name = |kind, (index, (id, line)): (usize, (&str, Option<usize>))| {
        let (id, file) = (id.to_owned(), Arc::clone(&file));
        names.borrow_mut().push(NamedDefinition { kind, id, file, line, index });
    };
    let facts = |id: &str| {
        let own = own.borrow();
        if let Some(facts) = own.get(id) {
            return Ok(facts.clone());
        }
        if let Some(facts) = told.get(id) {
            asked.borrow_mut().insert(id.into(), facts.clone());
            return Ok(facts.clone());
        }
        if is_supposing {
            supposed.borrow_mut().insert(id.to_owned());
            return Ok(AccountFacts::unknown());
        }
        is_unresolved.set(true);
        Err(no_account(id, own.keys().chain(told.keys())))
    };
    let read = |s: &mut Section<'_>| {
        let accounts =
            s.tables("account", "An account, which pays.", |s| (s.line(), DefinedAccount::read(s)));
        let known = |(_, account): &(_, DefinedAccount)| {
            (account.id.as_str().into(), account.facts.clone())
        };
        own.borrow_mut().extend(accounts.iter().map(known));
        let mut campaigns = s.tables("campaign", "A campaign.", |s| {
            (s.line(), DefinedCampaign::<R>::read(s, facts))
        });
        // This may run several times.
        names.borrow_mut().clear();
        let of = accounts.iter().map(|(line, account)| (&*account.id, *line));
        of.enumerate().for_each(|it| name(StoredKind::Account, it));
        let of = campaigns.iter().map(|(line, campaign)| (&*campaign.id, *line));
        of.enumerate().for_each(|it| name(StoredKind::Campaign, it));
        share_common(campaigns.iter_mut().map(|(_, campaign)| campaign), &own.borrow());
        (accounts, campaigns)
    };
    let (loaded, sources) = load_given(path, read);
    let read = match loaded {
        Ok(loaded) => {
            let mut packer = Packer::default();
            let mut packed = |kind: StoredKind| {
                let mut given = Vec::new();
                loaded.effective.given_tables(kind.label(), |text| given.push(packer.pack(text)));
                given
            };
            let (accounts, campaigns) = loaded.value;
            let accounts = placed(accounts, packed(StoredKind::Account), &file);
            let campaigns = placed(campaigns, packed(StoredKind::Campaign), &file);
            Ok(ReadFile {
                sources: sources.clone(),
                definitions: FileDefinitions { accounts, campaigns },
                foreign_accounts: asked.take(),
                supposed: supposed.take(),
            })
        }
        Err(problems) => {
            // An unreadable id was read as the example, which is another's.
            names.borrow_mut().retain(|named| problems.iter().all(|it| it.key != named.key()));
            Err(with_file(&problems))
        }
    };
    let (facts, is_unresolved) = (own.into_inner(), is_unresolved.get());
    FileOutcome { read, sources, facts, is_unresolved, names: names.into_inner() }
}

fn placed<T>(
    read: Vec<(Option<usize>, T)>,
    given: Vec<Packed>,
    file: &Arc<Path>,
) -> Vec<FileDefinition<T>> {
    let found = |(index, ((line, value), given)): (usize, ((Option<usize>, T), Packed))| {
        FileDefinition { value: Arc::new(value), given, file: Arc::clone(file), line, index }
    };
    // Collected in place, the vector would keep the capacity for whole campaigns.
    let mut placed: Vec<_> = read.into_iter().zip(given).enumerate().map(found).collect();
    placed.shrink_to_fit();
    placed
}

fn no_account<'a>(id: &str, known: impl Iterator<Item = &'a Arc<str>>) -> String {
    match nearest(id, known.map(AsRef::as_ref)) {
        Some(meant) => format!("is no account, did you mean \"{meant}\"?"),
        None => "is no account: define it first".to_owned(),
    }
}

/// Reads an account from JSON; also returns the JSON to store.
///
/// # Errors
/// Every problem, by its path.
pub(super) fn account(
    body: &Map<String, Value>,
) -> Result<(DefinedAccount, Arc<str>), Vec<ConfigProblem>> {
    one(body, DefinedAccount::read)
}

/// Reads a campaign from JSON; also returns the JSON to store.
///
/// # Errors
/// Every problem, by its path.
pub(super) fn campaign<R: CampaignRules>(
    body: &Map<String, Value>,
    facts: &KnownAccounts,
) -> Result<(DefinedCampaign<R>, Arc<str>), Vec<ConfigProblem>> {
    let of = |id: &str| facts.get(id).cloned().ok_or_else(|| no_account(id, facts.keys()));
    one(body, |s| DefinedCampaign::read(s, of))
}

pub(super) fn one<T>(
    body: &Map<String, Value>,
    read: impl Fn(&mut Section<'_>) -> T,
) -> Result<(T, Arc<str>), Vec<ConfigProblem>> {
    let loaded = parse_loaded("the definition", &toml_of(body)?, read).map_err(|problems| {
        // Lines are those of an intermediate text that no user has seen.
        let unplaced = |it: &ConfigProblem| problem(&it.key, it.value.clone(), it.remedy.clone());
        problems.iter().map(unplaced).collect::<Vec<_>>()
    })?;
    Ok((loaded.value, loaded.effective.given_json().to_string().into()))
}
