//! One program for all tests with the built policy, which is linked with wasmtime once.

#![expect(clippy::unwrap_used, reason = "a file of the workspace is there, or every test fails")]

mod host;
mod packaging;
