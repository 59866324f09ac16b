//! What has been collected, on disk: summaries by image, namespace and day, and what is still to be read.
//!
//! Decides what one transaction holds, which is the whole of crash safety: summaries are added in the transaction that
//! also notes that they were read. Whatever is killed whenever, a piece of work is either owed or done.
//!
//! The store is a cache of the metrics store. Whoever loses it reads the last 30 days again. It is a single file of
//! [redb](https://docs.rs/redb): pure Rust, so that it cross-compiles and links statically like the rest; transactions
//! that survive a kill or a power cut; a stable file format; a lock against a second process. SQLite would bring a C
//! compiler, and the log-structured stores several threads of their own, for a few thousand small rows an hour.

use std::io;
use std::path::{Path, PathBuf};

use headroom_core::cluster::usage::Shard;
use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    WriteTransaction,
};

use crate::collect::gathered::{Gathered, Place};
use crate::history::DAY;
use crate::history::bytes::Damaged;
use crate::history::observed::Observed;
use crate::source::Window;

/// The version of everything below. A store of another version is not read.
const FORMAT: i64 = 1;
/// The oldest day that is kept is this many before today: 30 whole days and what today has so far.
pub const DAYS_KEPT: u32 = 30;
/// The database's own cache. Rows are read once and written once, so more would only cost memory.
const CACHE_BYTES: usize = 16 << 20;

const FACTS: TableDefinition<&str, i64> = TableDefinition::new("facts");
const FORMAT_FACT: &str = "format";
/// Everything before this moment was read or is owed.
const PLANNED_FACT: &str = "planned";
/// The day of the last expiry.
const EXPIRED_FACT: &str = "expired";

/// Shard, repository, reference, namespace, day, subject. The subject is empty but for what a source has aggregated
/// itself. In this order, because the pooled profiles are read a shard at a time, an image at a time.
type DayKey = (u8, &'static str, &'static str, &'static str, u32, &'static str);
const DAYS: TableDefinition<DayKey, &[u8]> = TableDefinition::new("days");
/// Namespace, repository, reference: where to look for a namespace's own profile.
const PLACES: TableDefinition<(&str, &str, &str), ()> = TableDefinition::new("places");
/// Namespace and subject to the repository, reference and day it was last found at.
const SUBJECTS: TableDefinition<(&str, &str), (&str, &str, u32)> = TableDefinition::new("subjects");
/// Namespace and beginning to end of what is still to be read.
const OWED: TableDefinition<(&str, i64), i64> = TableDefinition::new("owed");
/// A file, by how it begins, to how many of its bytes were read.
const FILES: TableDefinition<&str, u64> = TableDefinition::new("files");

/// What a source of the present told last, as it words that itself.
const MEMORY: TableDefinition<(), &[u8]> = TableDefinition::new("memory");

/// Why the store cannot be used, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the store `{path}` is in use by another collector: stop that one, or choose another with --store")]
    Busy { path: PathBuf },
    #[error(
        "the store `{path}` has format {found}, and this version reads format {FORMAT}: \
         use the version that wrote it, or delete it to read the last 30 days again"
    )]
    Format { path: PathBuf, found: i64 },
    #[error("the store `{path}` is damaged ({reason}): delete it to read the last 30 days again")]
    Damaged { path: PathBuf, reason: String },
    #[error("`{path}` is not a store of this program ({reason}): choose another file with --store")]
    Foreign { path: PathBuf, reason: String },
    #[error(
        "cannot write the store `{path}` ({reason}): make room or choose another place with --store; the next run goes on where this one stopped"
    )]
    Full { path: PathBuf, reason: String },
    #[error("cannot use the store `{path}` ({reason})")]
    Unusable { path: PathBuf, reason: String },
    #[error("`{what}` has already been counted: nothing was added")]
    NotOwed { what: String },
}

/// A namespace's usage in a window that was not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub namespace: String,
    pub window: Window,
}

/// One row, as profiles are built of it.
#[derive(Debug)]
pub struct StoredDay {
    pub place: Place,
    pub day: u32,
    pub observed: Observed,
}

#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Database,
}

impl Store {
    /// Opens the store, or begins one.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| worded(path, error.into()))?;
        }
        let database = open_or_begin(path).map_err(|error| worded(path, error.into()))?;
        let store = Self { path: path.to_owned(), database };
        let found = store.write(|txn| {
            let mut facts = txn.open_table(FACTS)?;
            let found = facts.get(FORMAT_FACT)?.map(|found| found.value());
            if found.is_none() {
                facts.insert(FORMAT_FACT, FORMAT)?;
            }
            // Tables are created by the first one who writes to them; a reader needs them to be there.
            txn.open_table(DAYS)?;
            txn.open_table(PLACES)?;
            txn.open_table(SUBJECTS)?;
            txn.open_table(OWED)?;
            txn.open_table(FILES)?;
            txn.open_table(MEMORY)?;
            Ok(found.unwrap_or(FORMAT))
        })?;
        match found {
            FORMAT => Ok(store),
            _ => Err(StoreError::Format { path: store.path, found }),
        }
    }

    /// Everything before this moment was read or is owed; None if nothing was ever planned.
    pub fn planned(&self) -> Result<Option<i64>, StoreError> {
        self.fact(PLANNED_FACT)
    }

    /// Notes that a window is to be read, for each of these namespaces.
    pub fn plan(&self, window: Window, namespaces: &[String]) -> Result<(), StoreError> {
        self.write(|txn| {
            let mut owed = txn.open_table(OWED)?;
            for namespace in namespaces {
                let namespace = namespace.as_str();
                // What follows on something owed becomes one with it, so that a namespace that cannot be read for a
                // month is one entry and not hundreds.
                let of_namespace = owed.range((namespace, i64::MIN)..=(namespace, i64::MAX))?;
                let touching = of_namespace
                    .filter_map(|entry| match entry {
                        Ok((key, to)) if to.value() == window.from => Some(Ok(key.value().1)),
                        Ok(_) => None,
                        Err(error) => Some(Err(error)),
                    })
                    .next()
                    .transpose()?;
                owed.insert((namespace, touching.unwrap_or(window.from)), window.to)?;
            }
            txn.open_table(FACTS)?.insert(PLANNED_FACT, window.to)?;
            Ok(())
        })
    }

    /// What is still to be read, by namespace, oldest first.
    pub fn owed(&self) -> Result<Vec<Piece>, StoreError> {
        self.read(|txn| {
            let mut pieces = Vec::new();
            for entry in txn.open_table(OWED)?.range::<(&str, i64)>(..)? {
                let (key, to) = entry?;
                let (namespace, from) = key.value();
                pieces.push(Piece { namespace: namespace.to_owned(), window: Window { from, to: to.value() } });
            }
            Ok(pieces)
        })
    }

    /// Adds what was read of a piece up to some moment, and notes that it was.
    pub fn settle(&self, piece: &Piece, up_to: i64, gathered: &Gathered) -> Result<(), StoreError> {
        let Window { from, to } = piece.window;
        let namespace = piece.namespace.as_str();
        self.write(|txn| {
            let mut owed = txn.open_table(OWED)?;
            let known = owed.remove((namespace, from))?.map(|known| known.value());
            if known != Some(to) {
                return Err(Trouble::NotOwed(format!("{namespace} from {from} to {to}")));
            }
            if up_to < to {
                owed.insert((namespace, up_to), to)?;
            }
            add(txn, gathered)
        })
    }

    /// What the source had told when something was last added.
    pub fn memory(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|txn| Ok(txn.open_table(MEMORY)?.get(())?.map(|memory| memory.value().to_vec())))
    }

    /// Adds what was seen in a window that cannot be read again, with what the source has told by now.
    pub fn add_present(&self, window: Window, gathered: &Gathered, memory: Option<&[u8]>) -> Result<(), StoreError> {
        self.write(|txn| {
            let planned = txn.open_table(FACTS)?.insert(PLANNED_FACT, window.to)?.map(|planned| planned.value());
            if planned.is_some_and(|planned| planned > window.from) {
                return Err(Trouble::NotOwed(format!("the window from {}", window.from)));
            }
            if let Some(memory) = memory {
                txn.open_table(MEMORY)?.insert((), memory)?;
            }
            add(txn, gathered)
        })
    }

    /// How many bytes were read of the file that begins so.
    pub fn file_position(&self, beginning: &str) -> Result<u64, StoreError> {
        self.read(|txn| Ok(txn.open_table(FILES)?.get(beginning)?.map_or(0, |position| position.value())))
    }

    /// Adds what was read of a file between two positions, and notes that it was.
    pub fn settle_file(&self, beginning: &str, from: u64, to: u64, gathered: &Gathered) -> Result<(), StoreError> {
        self.write(|txn| {
            let known = txn.open_table(FILES)?.insert(beginning, to)?.map_or(0, |position| position.value());
            if known != from {
                return Err(Trouble::NotOwed(format!("bytes {from} to {to}")));
            }
            add(txn, gathered)
        })
    }

    /// Drops what is older than any window that is published. Looks through the store at most once a day.
    pub fn expire(&self, today: u32) -> Result<(), StoreError> {
        if self.fact(EXPIRED_FACT)? == Some(today.into()) {
            return Ok(());
        }
        let oldest = today.saturating_sub(DAYS_KEPT);
        self.write(|txn| {
            let mut days = txn.open_table(DAYS)?;
            days.retain(|(_, _, _, _, day, _), _| day >= oldest)?;
            txn.open_table(SUBJECTS)?.retain(|_, (_, _, day)| day >= oldest)?;
            txn.open_table(OWED)?.retain(|_, to| to > i64::from(oldest) * DAY)?;
            let mut places = txn.open_table(PLACES)?;
            let mut empty = Vec::new();
            for entry in places.range::<(&str, &str, &str)>(..)? {
                let key = entry?.0;
                let (namespace, repository, reference) = key.value();
                let shard = number_of(repository);
                let range = (shard, repository, reference, namespace, 0, "")
                    ..(shard, repository, reference, namespace, u32::MAX, "");
                if days.range(range)?.next().transpose()?.is_none() {
                    empty.push((namespace.to_owned(), repository.to_owned(), reference.to_owned()));
                }
            }
            for (namespace, repository, reference) in &empty {
                places.remove((namespace.as_str(), repository.as_str(), reference.as_str()))?;
            }
            txn.open_table(FACTS)?.insert(EXPIRED_FACT, i64::from(today))?;
            Ok(())
        })
    }

    /// The namespaces that anything is known of.
    pub fn namespaces(&self) -> Result<Vec<String>, StoreError> {
        self.read(|txn| {
            let mut namespaces: Vec<String> = Vec::new();
            for entry in txn.open_table(PLACES)?.range::<(&str, &str, &str)>(..)? {
                let key = entry?.0;
                let (namespace, ..) = key.value();
                if namespaces.last().is_none_or(|last| last != namespace) {
                    namespaces.push(namespace.to_owned());
                }
            }
            Ok(namespaces)
        })
    }

    /// Visits what is known of a shard's images, a repository after the other.
    pub fn visit_shard(&self, shard: Shard, mut visit: impl FnMut(StoredDay)) -> Result<(), StoreError> {
        let number = Shard::all().position(|known| known == shard).unwrap_or_default() as u8;
        self.read(|txn| visit_days(txn, (number, "", "", "", 0, ""), (number + 1, "", "", "", 0, ""), &mut visit))
    }

    /// Visits what is known of a namespace's images, a repository after the other.
    pub fn visit_namespace(&self, namespace: &str, mut visit: impl FnMut(StoredDay)) -> Result<(), StoreError> {
        self.read(|txn| {
            let places = txn.open_table(PLACES)?;
            for entry in places.range((namespace, "", "")..)? {
                let key = entry?.0;
                let (found, repository, reference) = key.value();
                if found != namespace {
                    break;
                }
                let shard = number_of(repository);
                let from = (shard, repository, reference, namespace, 0, "");
                visit_days(txn, from, (shard, repository, reference, namespace, u32::MAX, ""), &mut visit)?;
            }
            Ok(())
        })
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    fn fact(&self, name: &str) -> Result<Option<i64>, StoreError> {
        self.read(|txn| Ok(txn.open_table(FACTS)?.get(name)?.map(|fact| fact.value())))
    }

    fn read<T>(&self, what: impl FnOnce(&ReadTransaction) -> Result<T, Trouble>) -> Result<T, StoreError> {
        let done = self.database.begin_read().map_err(Trouble::from).and_then(|txn| what(&txn));
        done.map_err(|trouble| worded(&self.path, trouble))
    }

    /// All of `what` is in the store afterwards, on disk, or nothing if it fails: a transaction that is not committed
    /// has never been.
    fn write<T>(&self, what: impl FnOnce(&WriteTransaction) -> Result<T, Trouble>) -> Result<T, StoreError> {
        let done = self.database.begin_write().map_err(Trouble::from).and_then(|txn| {
            let value = what(&txn)?;
            txn.commit()?;
            Ok(value)
        });
        done.map_err(|trouble| worded(&self.path, trouble))
    }
}

/// Merges what was gathered into what is there.
fn add(txn: &WriteTransaction, gathered: &Gathered) -> Result<(), Trouble> {
    let mut days = txn.open_table(DAYS)?;
    let mut places = txn.open_table(PLACES)?;
    let mut text = Vec::new();
    for (place, row) in gathered.rows() {
        let Place { repository, reference, namespace } = place;
        let key = (number_of(repository), repository.as_str(), reference.as_str(), namespace.as_str(), row.day, "");
        let known = days.get(key)?.map(|known| Observed::read(known.value())).transpose()?;
        text.clear();
        match known {
            None => row.observed.write(&mut text),
            Some(mut observed) => {
                observed.merge(&row.observed);
                observed.write(&mut text);
            }
        }
        days.insert(key, text.as_slice())?;
        places.insert((namespace.as_str(), repository.as_str(), reference.as_str()), ())?;
    }
    let mut subjects = txn.open_table(SUBJECTS)?;
    for new in &gathered.replacements {
        let Place { repository, reference, namespace } = &new.place;
        let subject = new.subject.as_str();
        let key =
            (number_of(repository), repository.as_str(), reference.as_str(), namespace.as_str(), new.day, subject);
        {
            let before =
                subjects.insert((namespace.as_str(), subject), (repository.as_str(), reference.as_str(), new.day))?;
            if let Some(before) = before {
                let (repository, reference, day) = before.value();
                days.remove((number_of(repository), repository, reference, namespace.as_str(), day, subject))?;
            }
        }
        text.clear();
        new.observed.write(&mut text);
        days.insert(key, text.as_slice())?;
        places.insert((namespace.as_str(), repository.as_str(), reference.as_str()), ())?;
    }
    Ok(())
}

type KeyText<'a> = (u8, &'a str, &'a str, &'a str, u32, &'a str);

fn visit_days(
    txn: &ReadTransaction,
    from: KeyText<'_>,
    to: KeyText<'_>,
    visit: &mut impl FnMut(StoredDay),
) -> Result<(), Trouble> {
    for entry in txn.open_table(DAYS)?.range(from..to)? {
        let (key, observed) = entry?;
        let (_, repository, reference, namespace, day, _) = key.value();
        let place = Place {
            repository: repository.to_owned(),
            reference: reference.to_owned(),
            namespace: namespace.to_owned(),
        };
        visit(StoredDay { place, day, observed: Observed::read(observed.value())? });
    }
    Ok(())
}

fn number_of(repository: &str) -> u8 {
    let shard = Shard::of(repository);
    Shard::all().position(|known| known == shard).unwrap_or_default() as u8
}

/// What the database or a row says, before it is worded.
#[derive(Debug)]
enum Trouble {
    Database(redb::Error),
    Row(Damaged),
    NotOwed(String),
}

impl<E: Into<redb::Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

impl From<Damaged> for Trouble {
    fn from(damaged: Damaged) -> Self {
        Self::Row(damaged)
    }
}

/// Opens the database, or begins one under a name of its own, which it gives up when it is whole: what is killed while it
/// begins leaves nothing in the place of the store that no later run could read.
fn open_or_begin(path: &Path) -> Result<Database, DatabaseError> {
    let open = |path: &Path| Database::builder().set_cache_size(CACHE_BYTES).create(path);
    let is_there = || path.try_exists().map_err(|error| DatabaseError::Storage(error.into()));
    if is_there()? {
        return open(path);
    }
    let mut begun_at = path.as_os_str().to_owned();
    begun_at.push(".begun");
    let begun_at = Path::new(&begun_at);
    let begun = match open(begun_at) {
        // An earlier one was killed there.
        Err(DatabaseError::Storage(StorageError::Io(error))) if error.kind() == io::ErrorKind::InvalidData => {
            std::fs::remove_file(begun_at).map_err(|error| DatabaseError::Storage(error.into()))?;
            open(begun_at)?
        }
        begun => begun?,
    };
    // Nobody else begins one now, because this one is locked; but somebody may just have done so.
    if is_there()? {
        return open(path);
    }
    std::fs::rename(begun_at, path).map_err(|error| DatabaseError::Storage(error.into()))?;
    Ok(begun)
}

fn worded(path: &Path, trouble: Trouble) -> StoreError {
    let path = path.to_owned();
    match trouble {
        Trouble::NotOwed(what) => StoreError::NotOwed { what },
        Trouble::Row(damaged) => StoreError::Damaged { path, reason: damaged.to_string() },
        Trouble::Database(redb::Error::DatabaseAlreadyOpen) => StoreError::Busy { path },
        Trouble::Database(redb::Error::Corrupted(reason)) => StoreError::Damaged { path, reason },
        Trouble::Database(redb::Error::Io(error)) => match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                StoreError::Full { path, reason: error.to_string() }
            }
            io::ErrorKind::InvalidData => StoreError::Foreign { path, reason: error.to_string() },
            _ => StoreError::Unusable { path, reason: error.to_string() },
        },
        Trouble::Database(
            error @ (redb::Error::UpgradeRequired(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableDoesNotExist(_)),
        ) => StoreError::Damaged { path, reason: error.to_string() },
        Trouble::Database(error) => StoreError::Unusable { path, reason: error.to_string() },
    }
}
