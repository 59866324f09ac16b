//! Measures the figures of the book.

mod measure;
mod vpa;

mod recommend;
mod replay;
mod resize;
mod sizing;
mod webhook;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Parser)]
enum Bench {
    /// Cost and quality of recommendations from a real Prometheus, for loads that are known minute by minute
    Recommend,
    /// Quality of estimates on recorded usage: ours, or public sets as anybody can download them
    Estimates { traces: PathBuf },
    /// Resizing of running pods on recorded usage
    Resize { traces: PathBuf },
    /// Cost of everything in clusters of so many nodes; without them, of those in the table of the book, which is written
    Sizing {
        #[arg(value_delimiter = ',')]
        nodes: Vec<u64>,
    },
    /// The least that any webhook of quotas costs: it allows every object
    Webhook(webhook::Args),
}

fn main() -> Result<()> {
    match Bench::parse() {
        Bench::Recommend => recommend::run()?,
        Bench::Estimates { traces } => print!("{}", replay::run(&traces)?),
        Bench::Resize { traces } => resize::run(&traces)?,
        Bench::Sizing { nodes } => sizing::run(nodes)?,
        Bench::Webhook(args) => webhook::run(args)?,
    }
    Ok(())
}
