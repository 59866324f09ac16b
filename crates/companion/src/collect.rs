//! From a source into the store: which windows are read, how gently, and what one commit holds.
//!
//! Files: [`windows`] reads sources that answer by time, [`import`] reads files, [`pace`] says how much is asked for at
//! once and what is done about failures, and [`rounds`] repeats it all.

pub mod import;
pub mod pace;
pub mod rounds;
pub mod windows;
