//! `annotate`: checks and completes the metadata file, and writes it into the custom section of the wasm.

use std::{fs, path::PathBuf};

use headroom_wasm_host::host::PolicyHost;
use headroom_wasm_host::metadata::{Metadata, USAGE};

#[derive(clap::Args)]
pub struct Arguments {
    /// The wasm to annotate
    wasm: PathBuf,
    /// The metadata, as YAML
    #[arg(short, long, value_name = "PATH")]
    metadata_path: PathBuf,
    /// A file that describes how to use the policy, usually the README
    #[arg(short, long, value_name = "PATH")]
    usage_path: Option<PathBuf>,
    /// Where to write the annotated wasm
    #[arg(short, long, value_name = "PATH")]
    output_path: PathBuf,
}

pub fn annotate(arguments: &Arguments) -> Result<(), String> {
    let unreadable = |path: &PathBuf, error| format!("cannot read `{}`: {error}", path.display());
    let read = |path: &PathBuf| fs::read_to_string(path).map_err(|error| unreadable(path, error));
    let wasm = fs::read(&arguments.wasm).map_err(|error| unreadable(&arguments.wasm, error))?;
    let mut metadata = Metadata::from_yaml(&read(&arguments.metadata_path)?)?;
    metadata.protocol_version = Some(PolicyHost::from_bytes(&wasm)?.protocol_version()?);
    if let Some(path) = &arguments.usage_path {
        metadata.annotations.insert(USAGE.to_owned(), read(path)?);
    }
    let output = &arguments.output_path;
    fs::write(output, metadata.annotate(&wasm)?)
        .map_err(|error| format!("cannot write `{}`: {error}", output.display()))
}
