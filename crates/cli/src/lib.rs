//! The command lines of both programs: what can be typed, and what is printed.
//!
//! Modules in reading order.

pub mod selector;

pub mod manifest;

pub mod describe;

pub mod command;

pub mod cli;

pub mod controller;
