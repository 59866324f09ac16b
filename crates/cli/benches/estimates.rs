//! How good estimates are: `make bench-estimates TRACES=folder`.
//!
//! The program collects recorded usage, and recommends requests at moments of the past; what was used afterwards measures
//! them, beside what others would have requested. What a folder of traces has to hold, and what the columns mean, say
//! `tests/commands/replay` and its `accuracy`.

use std::path::Path;

#[path = "../tests/commands/replay/mod.rs"]
mod replay;

fn main() -> replay::Result<()> {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let folder = std::env::var("TRACES").map_err(|_| "which traces? make bench-estimates TRACES=folder")?;
    print!("{}", replay::run(Path::new(&folder))?);
    Ok(())
}
