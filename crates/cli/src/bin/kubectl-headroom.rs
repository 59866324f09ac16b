//! Arguments in, exit code out; everything else is in the library.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A cluster is read as millions of small texts. With the C library's allocator `ui -A` took a third more time, and gave less memory back.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    headroom_cli::cli::main()
}
