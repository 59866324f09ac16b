//! Estimates, from the request to the changed object, through the same entry point as in every shell.

mod cases;
mod properties;
mod situation;
