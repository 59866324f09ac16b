//! `kubectl headroom collect`: wires a source to the pipeline, the store and the publisher.

use clap::Subcommand;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    from: From,
}

/// Where usage is read from. A source's own arguments are declared in its own file.
#[derive(Debug, Subcommand)]
enum From {
    /// Import files: CSV with a header, or JSON lines
    Files {
        /// The files to read; a file that has grown since it was last read is read from there on
        #[arg(required = true)]
        paths: Vec<std::path::PathBuf>,
    },
}

pub fn run(args: Args) -> anyhow::Result<()> {
    match args.from {
        From::Files { paths } => anyhow::bail!("cannot read {} files yet", paths.len()),
    }
}
