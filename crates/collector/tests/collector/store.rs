//! The store: files that it refuses to open, deduplication, and expiry.

use std::fs;
use std::path::Path;

use headroom_admission::cluster::usage::Root;
use headroom_collector::store::{Store, StoreError};
use headroom_metrics_stores::paced::UsageSlice;
use headroom_usage::batch::Gathered;
use headroom_usage::observed::Observed;
use headroom_usage::sample::{Resource, Sample, Window};
use redb::{Database, TableDefinition};

use crate::support::*;

const ALWAYS: Window = Window { from: 0, to: i64::MAX };

fn minute(namespace: &str, time: i64) -> Gathered {
    let samples = vec![Sample { time, value: 1 << 20, seconds: 60 }];
    gathered(ALWAYS, [used(namespace, "web-0", "nginx", Resource::Memory, samples)])
}

fn piece(namespace: &str, from: i64, to: i64) -> (String, Window) {
    (namespace.to_owned(), Window { from, to })
}

#[test]
fn errors_for_unusable_stores_have_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    let said = |error: StoreError| error.to_string().replace(&path.display().to_string(), "usage.redb");

    let open = Store::open(&path).unwrap();
    assert_eq!(
        said(Store::open(&path).unwrap_err()),
        "the store `usage.redb` is in use by another collector: stop that one, or choose another with --store"
    );
    drop(open);

    for format in [2, 99] {
        let database = Database::open(&path).unwrap();
        let txn = database.begin_write().unwrap();
        txn.open_table(TableDefinition::<&str, i64>::new("facts")).unwrap().insert("format", format).unwrap();
        txn.commit().unwrap();
        drop(database);
        let expected = format!(
            "the store `usage.redb` has format {format}, and this version reads format 3: use the version that wrote it, or \
             delete it to read the last 30 days again"
        );
        assert_eq!(said(Store::open(&path).unwrap_err()), expected);
    }

    let notes = folder.path().join("notes");
    fs::write(&notes, "not a database").unwrap();
    assert!(matches!(Store::open(&notes), Err(StoreError::Foreign { .. })));
    assert!(matches!(Store::open_or_replace(&notes), Err(StoreError::Foreign { .. })));
    assert_eq!(fs::read_to_string(&notes).unwrap(), "not a database");

    fs::remove_file(&path).unwrap();
    assert_eq!(Store::open(&path).unwrap().planned().unwrap(), None, "a lost store starts empty");
}

#[test]
fn a_store_killed_during_creation_is_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage.redb");
    // The file of a database that was killed before it had written its header.
    fs::write(folder.path().join("usage.redb.begun"), [0; 8192]).unwrap();
    let window = Window { from: NOW - HOUR, to: NOW };
    Store::open(&path).unwrap().plan(window, &["shop".to_owned()]).unwrap();
    assert_eq!(Store::open(&path).unwrap().planned().unwrap(), Some(NOW));
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["usage.redb"]);
}

#[test]
fn a_sources_memory_is_stored_together_with_its_samples_or_not_at_all() {
    let (_folder, store) = new_store();
    assert_eq!(store.memory().unwrap(), None);
    let window = Window { from: NOW, to: NOW + 60 };
    let seen = minute("shop", NOW);
    store.add_present(window, &seen, Some(b"told")).unwrap();
    assert_eq!(store.memory().unwrap().as_deref(), Some(b"told".as_slice()));
    store.add_present(window, &seen, Some(b"told twice")).unwrap_err();
    assert_eq!(store.memory().unwrap().as_deref(), Some(b"told".as_slice()));
}

/// Creates a store in which the row of nginx cannot be read, though the database can.
pub fn damage_row(path: &Path) {
    let window = Window { from: NOW, to: NOW + 60 };
    Store::open(path).unwrap().add_present(window, &minute("shop", NOW), None).unwrap();
    let database = Database::open(path).unwrap();
    let txn = database.begin_write().unwrap();
    {
        type Key = (u8, &'static str, &'static str, &'static str, u32);
        let mut days = txn.open_table(TableDefinition::<Key, &[u8]>::new("days")).unwrap();
        let day = (NOW / DAY) as u32;
        let root = 0x26;
        let known = days.insert((root, "docker.io/library/nginx", ":latest", "shop", day), [7_u8].as_slice());
        assert!(known.unwrap().is_some(), "the row is not where this function expects it");
    }
    txn.commit().unwrap();
}

fn content(store: &Store) -> Result<Vec<String>, StoreError> {
    let mut rows = vec![format!("{:?} {:?} {:?}", store.planned()?, store.owed()?, store.memory()?)];
    for root in Root::all() {
        store.visit_root(root, Observed::read, |place, days| rows.push(format!("{place:?} {days:?}")))?;
        store.visit_workloads(root, |place, days| rows.push(format!("{place:?} {days:?}")))?;
    }
    Ok(rows)
}

#[tokio::test]
async fn damage_anywhere_is_found_and_the_store_replaced() {
    let (folder, store) = crate::cluster::store().await;
    let whole = content(&store).unwrap();
    let begun = content(&open(tempfile::tempdir().unwrap().path())).unwrap();
    let path = folder.path().join("usage.redb");
    drop(store);
    let good = fs::read(&path).unwrap();
    let (mut found, mut random) = (0, fastrand::Rng::with_seed(47));
    for trial in 0..105 {
        let mut bytes = good.clone();
        let page = |random: &mut fastrand::Rng| random.usize(..good.len() / 4096) * 4096;
        match trial % 7 {
            0 => bytes[random.usize(..good.len())] ^= 1 << random.u8(..8),
            1 => (0..16).for_each(|_| bytes[random.usize(..good.len())] = random.u8(..)),
            2 => bytes[page(&mut random)..][..4096].fill(0),
            3 => bytes.truncate(random.usize(..good.len())),
            4 => bytes.extend((0..random.usize(1..8192)).map(|_| random.u8(..))),
            5 => {
                let (from, to) = (page(&mut random), page(&mut random));
                bytes.copy_within(from..from + 4096, to);
            }
            _ => bytes[random.usize(..400)] = random.u8(..),
        }
        fs::write(&path, &bytes).unwrap();
        match Store::open(&path) {
            // The last transaction may be undone.
            Ok(store) => {
                let there = content(&store).unwrap();
                assert!(there == whole || there == begun, "trial {trial}: other content");
                store.plan(Window { from: NOW, to: NOW + 60 }, &["shop".to_owned()]).unwrap();
            }
            Err(StoreError::Damaged { .. }) => {
                found += 1;
                let (store, is_replaced) = Store::open_or_replace(&path).unwrap();
                assert!(is_replaced && content(&store).unwrap() == begun);
                assert!(folder.path().join("usage.redb.damaged").exists());
            }
            Err(error) => panic!("trial {trial}: {error}"),
        }
    }
    assert!(found > 50, "{found}");
}

#[test]
fn a_piece_is_settled_once_and_in_parts() {
    let (_folder, store) = new_store();
    store.plan(Window { from: 0, to: 3600 }, &["lab".to_owned(), "shop".to_owned()]).unwrap();
    assert_eq!(store.owed().unwrap(), [piece("lab", 0, 3600), piece("shop", 0, 3600)]);
    let some = || minute("shop", NOW);
    let slice =
        |namespace: &str, from, to| UsageSlice { namespaces: vec![namespace.to_owned()], window: Window { from, to } };
    store.settle(&slice("shop", 0, 600), &some()).unwrap();
    let before = published(&store, NOW);
    for settled in [slice("shop", 0, 3600), slice("shop", 0, 600), slice("shop", 600, 3660), slice("other", 0, 3600)] {
        assert!(matches!(store.settle(&settled, &some()), Err(StoreError::NotOwed { .. })));
    }
    assert_eq!(published(&store, NOW), before, "a refused piece added something");
    assert_eq!(store.owed().unwrap(), [piece("lab", 0, 3600), piece("shop", 600, 3600)]);
    // In the middle, as when the source answers the second half of a window first.
    store.settle(&slice("shop", 1200, 1800), &some()).unwrap();
    let rest = [piece("lab", 0, 3600), piece("shop", 600, 1200), piece("shop", 1800, 3600)];
    assert_eq!(store.owed().unwrap(), rest);
    store.settle(&slice("shop", 1800, 3600), &some()).unwrap();
    store.settle(&slice("shop", 600, 1200), &some()).unwrap();
    assert_eq!(store.owed().unwrap(), [piece("lab", 0, 3600)]);
}

#[test]
fn adjacent_planned_windows_of_a_namespace_are_merged() {
    let (_folder, store) = new_store();
    for hour in 0..5 {
        let window = Window { from: hour * HOUR, to: (hour + 1) * HOUR };
        let namespaces = if hour == 3 { vec![] } else { vec!["shop".to_owned()] };
        store.plan(window, &namespaces).unwrap();
    }
    assert_eq!(store.owed().unwrap(), [piece("shop", 0, 3 * HOUR), piece("shop", 4 * HOUR, 5 * HOUR)]);
    assert_eq!(store.planned().unwrap(), Some(5 * HOUR));
}

#[test]
fn days_beyond_the_longest_window_are_forgotten() {
    let (_folder, store) = new_store();
    for (days_ago, namespace) in [(31, "old"), (30, "shop"), (0, "shop")] {
        let time = NOW - days_ago * DAY;
        store.add_present(Window { from: time, to: time + 60 }, &minute(namespace, time), None).unwrap();
    }
    store.plan(Window { from: NOW - 40 * DAY, to: NOW - 35 * DAY }, &["old".to_owned()]).unwrap();
    store.plan(Window { from: NOW, to: NOW + 60 }, &["shop".to_owned()]).unwrap();
    assert_eq!(namespaces(&store), ["old", "shop"]);
    store.expire((NOW / DAY) as u32).unwrap();
    assert_eq!(namespaces(&store), ["shop"]);
    assert_eq!(store.owed().unwrap(), [piece("shop", NOW, NOW + 60)]);
    let days = || {
        let mut days = Vec::new();
        let root = Root::of("docker.io/library/nginx");
        store.visit_root(root, Observed::read, |_, of| days.extend(of.into_keys())).unwrap();
        days
    };
    let kept = [(NOW / DAY) as u32 - 30, (NOW / DAY) as u32];
    assert_eq!(days(), kept);
    // A wrong clock, early or late, drops nothing more.
    for today in [0, 1, (NOW / DAY) as u32 + 365 * 40, u32::MAX] {
        store.expire(today).unwrap();
        assert_eq!(days(), kept);
    }
}
