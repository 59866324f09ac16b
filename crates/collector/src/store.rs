//! What has been collected, on disk: summaries by image, namespace and day, and what is still to be read.
//!
//! Decides what one transaction holds, which is the whole of crash safety: summaries are added in the transaction that
//! also notes that they were read. Whatever is killed whenever, a piece of work is either owed or done.
//!
//! Files: [`origin`] knows whose usage this is, [`progress`] what was read and what is owed, [`days`] holds the
//! summaries, [`compared`] how good estimates were, and [`expiry`] drops the old ones.
//!
//! The store is a cache of the metrics store. Whoever loses it reads the last 30 days again. It is a single file of
//! [redb](https://docs.rs/redb): pure Rust, so that it cross-compiles and links statically like the rest; transactions
//! that survive a kill or a power cut; a stable file format; a lock against a second process. SQLite would bring a C
//! compiler, and the log-structured stores several threads of their own, for a few thousand small rows an hour.

mod compared;
mod days;
mod expiry;
pub mod origin;
mod progress;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    WriteTransaction,
};

pub use self::days::{Seen, StoredDay, WorkloadDay};
pub use self::origin::Origin;
pub use self::progress::Piece;
use headroom_usage::varint::Damaged;

use headroom_sources::cluster_id::ClusterId;

/// The version of everything below. A store of a later version is not read.
const FORMAT: i64 = 3;
/// The version before, which knew no workloads. What it has is kept.
const FORMAT_WITHOUT_WORKLOADS: i64 = 2;
/// The database's own cache. Rows are read once and written once, so more would only cost memory.
const CACHE_BYTES: usize = 16 << 20;

const FACTS: TableDefinition<&str, i64> = TableDefinition::new("facts");
const FORMAT_FACT: &str = "format";
/// Everything before this moment was read or is owed.
const PLANNED_FACT: &str = "planned";
/// The oldest day that the last expiry left.
const EXPIRED_FACT: &str = "expired";
/// The moment of the newest observation.
const NEWEST_FACT: &str = "newest";
/// When the cluster's kube-system was created.
const CREATED_FACT: &str = "cluster created";

/// Texts about the store as a whole.
const NOTES: TableDefinition<&str, &str> = TableDefinition::new("notes");
const ID_NOTE: &str = "id";
const PAGE_KEY_NOTE: &str = "page key";
const SOURCE_NOTE: &str = "source";
const UID_NOTE: &str = "cluster uid";
const ADDRESS_NOTE: &str = "cluster address";

/// Root, repository, reference, namespace, day. In this order, because profiles are made a root at a time, an image at a time.
type DayKey = (u8, &'static str, &'static str, &'static str, u32);
const DAYS: TableDefinition<DayKey, &[u8]> = TableDefinition::new("days");
/// Root, repository, namespace, workload and container, day.
type WorkloadKey = (u8, &'static str, &'static str, &'static str, u32);
const WORKLOADS: TableDefinition<WorkloadKey, &[u8]> = TableDefinition::new("workloads");
/// Root, repository, namespace, pod, container: what was estimated for it, and what it used.
const COMPARED: TableDefinition<(u8, &str, &str, &str, &str), &[u8]> = TableDefinition::new("compared");
/// Namespace, repository, reference: which namespaces there are.
const PLACES: TableDefinition<(&str, &str, &str), ()> = TableDefinition::new("places");
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
    #[error(
        "the store `{path}` holds usage of cluster {known}, and now that of cluster {found} would be added: \
         choose another file with --store, or the right cluster with --context"
    )]
    OtherCluster { path: PathBuf, known: Box<ClusterId>, found: Box<ClusterId> },
    #[error(
        "the store `{path}` was filled from {known}, and not from {found}: choose another file with --store; or, if \
         both have the usage of the same workloads, go on with --change-source"
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
    /// Opens the store, or begins one.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| worded(path, error.into()))?;
        }
        let database = open_or_begin(path).map_err(|error| worded(path, error.into()))?;
        let (id, page_key) = (String::new(), String::new());
        let mut store = Self { path: path.to_owned(), database, id, page_key };
        let (found, id, page_key) = store.write(|txn| {
            let mut facts = txn.open_table(FACTS)?;
            let found = facts.get(FORMAT_FACT)?.map(|found| found.value());
            let found = found.filter(|found| *found != FORMAT_WITHOUT_WORKLOADS);
            if found.is_none() {
                facts.insert(FORMAT_FACT, FORMAT)?;
            }
            // Tables are created by the first one who writes to them; a reader needs them to be there.
            txn.open_table(DAYS)?;
            txn.open_table(WORKLOADS)?;
            txn.open_table(COMPARED)?;
            txn.open_table(PLACES)?;
            txn.open_table(OWED)?;
            txn.open_table(FILES)?;
            txn.open_table(MEMORY)?;
            let mut notes = txn.open_table(NOTES)?;
            let mut kept = |name| -> Result<String, Trouble> {
                let kept = notes.get(name)?.map(|kept| kept.value().to_owned()).unwrap_or_else(new_id);
                notes.insert(name, kept.as_str())?;
                Ok(kept)
            };
            Ok((found.unwrap_or(FORMAT), kept(ID_NOTE)?, kept(PAGE_KEY_NOTE)?))
        })?;
        (store.id, store.page_key) = (id, page_key);
        match found {
            FORMAT => Ok(store),
            _ => Err(StoreError::Format { path: store.path, found }),
        }
    }

    /// Made up when the store was begun. What is published carries it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Made up when the store was begun. The pages of its profiles are chosen by hashes with this key.
    pub fn page_key(&self) -> &str {
        &self.page_key
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to say of a row that cannot be read.
    pub fn damaged(&self, damaged: Damaged) -> StoreError {
        worded(&self.path, Trouble::Row(damaged))
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

/// 64 random bits; the hasher's keys are random.
fn new_id() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// What the database or a row says, before it is worded.
#[derive(Debug)]
enum Trouble {
    Database(redb::Error),
    Row(Damaged),
    NotOwed(String),
    OtherSource(String, String),
}

/// Not for all that becomes a [`redb::Error`]: the compiler could not tell whether [`Damaged`], a type of another crate, does.
macro_rules! from_database_errors {
    ($($error:ty),+) => {$(
        impl From<$error> for Trouble {
            fn from(error: $error) -> Self {
                Self::Database(error.into())
            }
        }
    )+};
}

from_database_errors!(
    DatabaseError,
    StorageError,
    io::Error,
    redb::CommitError,
    redb::TableError,
    redb::TransactionError
);

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
    // No other process can create one now, because this one is locked; but one may just have been created.
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
        Trouble::OtherSource(known, found) => StoreError::OtherSource { path, known, found },
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
