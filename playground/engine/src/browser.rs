//! The functions that the page's worker calls.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;

use crate::memo::Memo;
use crate::{answer, policy, read, replay, whatif};

thread_local! {
    /// The snapshot that is open. A worker has one thread.
    static CLUSTER: RefCell<Option<whatif::OpenedSnapshot>> = const { RefCell::new(None) };
    static MEMO: RefCell<Memo> = RefCell::default();
}

/// Opens a snapshot in place of the one before: its text in, `Overview` out.
#[wasm_bindgen]
pub fn open(snapshot: &str) -> String {
    answer(whatif::OpenedSnapshot::open(snapshot).map(|(cluster, overview)| {
        CLUSTER.set(Some(cluster));
        overview
    }))
}

/// Evaluates everything in the open snapshot as the panels would have it: `Play` in, `Trial` out.
#[wasm_bindgen]
pub fn simulate(input: &str) -> String {
    answer(read(input).and_then(|play| {
        CLUSTER.with_borrow(|cluster| match cluster {
            Some(cluster) => Ok(MEMO.with_borrow_mut(|memo| cluster.evaluate(&play, memo))),
            None => Err("no snapshot is open".to_owned()),
        })
    }))
}

/// Evaluates what is in the panels: `Play` in, `Outcome` out.
#[wasm_bindgen]
pub fn evaluate(input: &str) -> String {
    answer(read(input).map(|play| MEMO.with_borrow_mut(|memo| play.evaluate(memo))))
}

/// The files by which kwctl decides again what was decided about the first object that is wanted: `Play` in, `Replay` out.
#[wasm_bindgen]
pub fn replay(input: &str) -> String {
    answer(read(input).and_then(|play| replay::files(&play)))
}

/// The policy objects that have the settings of the panel: its text in.
#[wasm_bindgen]
pub fn policy(settings: &str) -> String {
    answer(policy::manifest(settings))
}
