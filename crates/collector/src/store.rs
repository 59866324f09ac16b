//! Collected usage on disk: summaries by image, namespace and day, and the windows that are still to be read.
//!
//! Crash safety is what one transaction contains: summaries are added in the transaction that also notes that they were read.
//! Whenever the collector is killed, a piece of work is either owed or done.
//!
//! Files: [`progress`] notes what was read and what is owed, and [`days`] holds the summaries.
//!
//! The store is a cache of the metrics store: if it is lost or [`damage`]d, the last 30 days are read again. It is a single file of
//! [redb](https://docs.rs/redb): pure Rust, so that it cross-compiles and links statically like the rest; transactions
//! that survive a kill or a power cut; a stable file format; a lock against a second process. SQLite would bring a C
//! compiler, and the log-structured stores several threads of their own, for a few thousand small rows an hour.

mod damage;
mod days;
mod progress;

use std::io;
use std::path::{Path, PathBuf};

use headroom_api_server::random;
use headroom_metrics_stores::cluster_id::ClusterId;
use headroom_usage::varint::Damaged;
use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    WriteTransaction,
};

/// The version of everything below. A store of another version is not read.
const FORMAT: i64 = 3;
/// The ending of a store's name; of other files it is not known whether they were stores.
const ENDING: &str = "redb";
/// The database's own cache. Rows are read once and written once, so more would only cost memory.
const CACHE_BYTES: usize = 16 << 20;

const FACTS: TableDefinition<&str, i64> = TableDefinition::new("facts");
const FORMAT_FACT: &str = "format";
/// The time before which all usage was read or is owed.
const PLANNED_FACT: &str = "planned";
/// The oldest day that the last expiry left.
const EXPIRED_FACT: &str = "expired";
const NEWEST_FACT: &str = "newest";
const CREATED_FACT: &str = "cluster created";

/// Texts about the store as a whole.
const NOTES: TableDefinition<&str, &str> = TableDefinition::new("notes");
const ID_NOTE: &str = "id";
const PAGE_KEY_NOTE: &str = "page key";
const SOURCE_NOTE: &str = "source";
const UID_NOTE: &str = "cluster uid";
const ADDRESS_NOTE: &str = "cluster address";

/// Root and repository first, because profiles are made a root at a time, an image at a time; the day last.
type DayKey = (u8, &'static str, &'static str, &'static str, u32);
/// Between them, reference and namespace.
const DAYS: TableDefinition<DayKey, &[u8]> = TableDefinition::new("days");
/// Between them, the namespace, and workload and container.
const WORKLOADS: TableDefinition<DayKey, &[u8]> = TableDefinition::new("workloads");
/// The windows that are still to be read: namespace and beginning to end.
const OWED: TableDefinition<(&str, i64), i64> = TableDefinition::new("owed");
/// The bytes that were read of each file, by its beginning.
const FILES: TableDefinition<&str, u64> = TableDefinition::new("files");

/// The state of a source without a past, in its own format.
const MEMORY: TableDefinition<(), &[u8]> = TableDefinition::new("memory");

/// An error of the store, with advice.
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
    #[error(
        "the store `{path}` holds usage of cluster {known}, and now that of cluster {found} would be added: \
         choose another file with --store, or the right cluster with --context"
    )]
    OtherCluster { path: PathBuf, known: Box<ClusterId>, found: Box<ClusterId> },
    #[error(
        "the store `{path}` was filled from {known}, and not from {found}: choose another file with --store; or, if \
         both have the usage of the same workloads, go on with --adopt"
    )]
    OtherSource { path: PathBuf, known: String, found: String },
}

#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Database,
    id: String,
    page_key: String,
}

impl Store {
    /// Opens the store, or creates one.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| worded(path, error.into()))?;
        }
        let database = damage::caught(|| open_or_begin(path)).map_err(|trouble| worded(path, trouble))?;
        let (id, page_key) = (String::new(), String::new());
        let mut store = Self { path: path.to_owned(), database, id, page_key };
        let (found, id, page_key) = store.write(|txn| {
            let mut facts = txn.open_table(FACTS)?;
            let found = facts.get(FORMAT_FACT)?.map_or(FORMAT, |found| found.value());
            facts.insert(FORMAT_FACT, found)?;
            // Readers need all tables, and writing creates them.
            txn.open_table(DAYS)?;
            txn.open_table(WORKLOADS)?;
            txn.open_table(OWED)?;
            txn.open_table(FILES)?;
            txn.open_table(MEMORY)?;
            let mut notes = txn.open_table(NOTES)?;
            let mut kept = |name| -> Result<String, Trouble> {
                let kept = notes.get(name)?.map(|kept| kept.value().to_owned()).unwrap_or_else(random::token);
                notes.insert(name, kept.as_str())?;
                Ok(kept)
            };
            Ok((found, kept(ID_NOTE)?, kept(PAGE_KEY_NOTE)?))
        })?;
        (store.id, store.page_key) = (id, page_key);
        match found {
            FORMAT => Ok(store),
            // No version ever wrote it.
            ..1 | 100.. => Err(worded(path, Trouble::Panicked)),
            _ => Err(StoreError::Format { path: store.path, found }),
        }
    }

    /// A random id, which published profiles carry.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A random key of the hashes that assign histories to pages.
    pub fn page_key(&self) -> &str {
        &self.page_key
    }

    /// The error of an unreadable row.
    pub fn damaged(&self, damaged: Damaged) -> StoreError {
        worded(&self.path, Trouble::Row(damaged))
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// The cluster of the usage, as far as it is known, and the kind and address of its source.
    fn origin(&self) -> Result<(ClusterId, Option<String>), StoreError> {
        let created = self.fact(CREATED_FACT)?;
        self.read(|txn| {
            let notes = txn.open_table(NOTES)?;
            let note = |name| Ok::<_, Trouble>(notes.get(name)?.map(|note| note.value().to_owned()));
            let cluster = ClusterId { address: note(ADDRESS_NOTE)?, uid: note(UID_NOTE)?, created };
            Ok((cluster, note(SOURCE_NOTE)?))
        })
    }

    /// Accepts only usage of this origin from now on, a cluster and the kind and address of a source. Refuses an origin that is
    /// certainly another than the present one; with `allow_source_change`, another source of the same cluster is accepted.
    pub fn claim(&self, of: &ClusterId, source: &str, allow_source_change: bool) -> Result<(), StoreError> {
        let is_empty = self.newest()?.is_none() && self.planned()?.is_none();
        let (mut cluster, known) = if is_empty { Default::default() } else { self.origin()? };
        if cluster.differs_from(of) {
            let (known, found) = (Box::new(cluster), Box::new(of.clone()));
            return Err(StoreError::OtherCluster { path: self.path.clone(), known, found });
        }
        if let Some(known) = known.filter(|known| known != source && !allow_source_change) {
            return Err(StoreError::OtherSource { path: self.path.clone(), known, found: source.to_owned() });
        }
        cluster.add(of);
        self.write(|txn| {
            let mut facts = txn.open_table(FACTS)?;
            let mut notes = txn.open_table(NOTES)?;
            notes.insert(SOURCE_NOTE, source)?;
            for (name, note) in [(UID_NOTE, &cluster.uid), (ADDRESS_NOTE, &cluster.address)] {
                match note {
                    Some(note) => notes.insert(name, note.as_str())?,
                    None => notes.remove(name)?,
                };
            }
            match cluster.created {
                Some(created) => facts.insert(CREATED_FACT, created)?,
                None => facts.remove(CREATED_FACT)?,
            };
            Ok(())
        })
    }

    fn fact(&self, name: &str) -> Result<Option<i64>, StoreError> {
        self.read(|txn| Ok(txn.open_table(FACTS)?.get(name)?.map(|fact| fact.value())))
    }

    fn read<T>(&self, what: impl FnOnce(&ReadTransaction) -> Result<T, Trouble>) -> Result<T, StoreError> {
        let done = damage::caught(|| what(&self.database.begin_read()?));
        done.map_err(|trouble| worded(&self.path, trouble))
    }

    /// Runs a transaction: all of its writes are on disk afterwards, or none if it fails.
    fn write<T>(&self, what: impl FnOnce(&WriteTransaction) -> Result<T, Trouble>) -> Result<T, StoreError> {
        let done = damage::caught(|| {
            let txn = self.database.begin_write()?;
            let value = what(&txn)?;
            txn.commit()?;
            Ok(value)
        });
        done.map_err(|trouble| worded(&self.path, trouble))
    }
}

/// An error without the path of the store.
#[derive(Debug)]
enum Trouble {
    Database(redb::Error),
    Row(Damaged),
    /// redb panicked on what it read.
    Panicked,
    NotOwed(String),
}

impl<E> From<E> for Trouble
where
    redb::Error: From<E>,
{
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

/// Opens the database and verifies it, or creates one under a temporary name and renames it once it is complete, because a
/// process that is killed meanwhile would leave a file that no later run can read.
fn open_or_begin(path: &Path) -> Result<Database, Trouble> {
    let open = |path: &Path| Database::builder().set_cache_size(CACHE_BYTES).create(path);
    let open_known = || {
        let mut database = open(path)?;
        // Damage that cannot be repaired is an error.
        database.check_integrity()?;
        Ok(database)
    };
    if path.try_exists()? {
        return open_known();
    }
    let begun_at = path.with_added_extension("begun");
    let begun = match open(&begun_at) {
        // An earlier process was killed here.
        Err(DatabaseError::Storage(StorageError::Io(error))) if error.kind() == io::ErrorKind::InvalidData => {
            std::fs::remove_file(&begun_at)?;
            open(&begun_at)?
        }
        begun => begun?,
    };
    // No other process can create one now, because the temporary file is locked; but one may have been created before.
    if path.try_exists()? {
        return open_known();
    }
    std::fs::rename(&begun_at, path)?;
    Ok(begun)
}

fn worded(path: &Path, trouble: Trouble) -> StoreError {
    let path = path.to_owned();
    match trouble {
        Trouble::NotOwed(what) => StoreError::NotOwed { what },
        Trouble::Row(damaged) => StoreError::Damaged { path, reason: damaged.to_string() },
        Trouble::Panicked => StoreError::Damaged { path, reason: "a page cannot be read".to_owned() },
        Trouble::Database(redb::Error::DatabaseAlreadyOpen) => StoreError::Busy { path },
        Trouble::Database(redb::Error::Corrupted(reason)) => StoreError::Damaged { path, reason },
        Trouble::Database(redb::Error::Io(error)) => match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                StoreError::Full { path, reason: error.to_string() }
            }
            // A store whose first page is damaged is not redb's either.
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                if path.extension().is_some_and(|ending| ending == ENDING) =>
            {
                StoreError::Damaged { path, reason: error.to_string() }
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
