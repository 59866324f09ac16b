//! The functions that the page's worker calls.

use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;

use crate::memo::Memo;
use crate::{call, play, policy, replay, whatif};

thread_local! {
    /// The snapshot that is open. A worker has one thread.
    static CLUSTER: RefCell<Option<whatif::Cluster>> = const { RefCell::new(None) };
    static MEMO: RefCell<Memo> = RefCell::default();
}

/// Opens a snapshot in place of the one before: `Opening` in, `Overview` out.
#[wasm_bindgen]
pub fn open(input: &str) -> String {
    call(input, |opening: whatif::Opening| {
        let (cluster, overview) = whatif::Cluster::open(&opening)?;
        CLUSTER.set(Some(cluster));
        Ok(overview)
    })
}

/// Evaluates everything in the open snapshot as the panels would have it: `Play` in, `Trial` out.
#[wasm_bindgen]
pub fn simulate(input: &str) -> String {
    call(input, |play: play::Play| {
        CLUSTER.with_borrow(|cluster| match cluster {
            Some(cluster) => Ok(MEMO.with_borrow_mut(|memo| cluster.evaluate(&play, memo))),
            None => Err("no snapshot is open".to_owned()),
        })
    })
}

/// Evaluates what is in the panels: `Play` in, `Outcome` out.
#[wasm_bindgen]
pub fn evaluate(input: &str) -> String {
    call(input, |play: play::Play| Ok(MEMO.with_borrow_mut(|memo| play.evaluate_again(memo))))
}

/// The files by which kwctl decides again what was decided about one of the objects.
#[wasm_bindgen]
pub fn replay(input: &str) -> String {
    call(input, |wanted: replay::Wanted| wanted.files())
}

/// The policy objects that have the settings of the panel.
#[wasm_bindgen]
pub fn policy(input: &str) -> String {
    call(input, |wanted: policy::Wanted| wanted.manifest())
}
