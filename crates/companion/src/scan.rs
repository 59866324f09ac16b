//! A whole cluster looked at in one go: what its containers used by the metrics store that is there, laid over the live
//! LimitRanges and quotas, and what they should ask for instead. Nothing is installed and nothing is kept.
//!
//! `discover` finds the store; `world` reads the workloads and `owners` knows whose pods are whose; `history` reads usage
//! into memory, by workload and container; `advice` asks the policy's own engine, to which `laid` tells that history as if
//! it had been published; `report` is what people and tools read of it, in the forms of `table`, `texts` and `page`.

pub mod advice;
pub mod change;
pub mod discover;
pub mod history;
pub mod laid;
pub mod limits;
pub mod owners;
pub mod page;
pub mod price;
pub mod report;
pub mod table;
pub mod texts;
pub mod world;
