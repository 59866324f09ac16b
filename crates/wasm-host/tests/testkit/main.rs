//! One program for all tests with the built policy, which is linked with wasmtime once.

mod host;
mod packaging;
