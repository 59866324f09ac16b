//! The loop and its parts at the fake API server.

mod faults;
mod running;
