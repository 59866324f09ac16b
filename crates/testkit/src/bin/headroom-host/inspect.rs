//! `inspect`: prints the metadata of an annotated policy as YAML.

use std::{fs, path::PathBuf};

use headroom_testkit::metadata::Metadata;

#[derive(clap::Args)]
pub struct Arguments {
    /// The annotated wasm
    wasm: PathBuf,
    /// The format; only YAML is supported
    #[arg(short, long, value_name = "FORMAT", value_parser = ["yaml"], default_value = "yaml")]
    output: String,
}

pub fn inspect(arguments: &Arguments) -> Result<(), String> {
    let path = arguments.wasm.display();
    let wasm = fs::read(&arguments.wasm).map_err(|error| format!("cannot read `{path}`: {error}"))?;
    let metadata = Metadata::from_wasm(&wasm)?.ok_or_else(|| {
        format!("no Kubewarden metadata found inside of `{path}`: policies can be annotated with `annotate`")
    })?;
    print!("{}", serde_yaml::to_string(&metadata).map_err(|error| error.to_string())?);
    Ok(())
}
