//! The engine as the page calls it.

mod examples;
mod schema;
mod types;
mod whatif;
