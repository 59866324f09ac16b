//! `artifacthub`: writes the package file of Artifact Hub. Its creation time is kept until the version changes, so that
//! generating the file again changes nothing.

use std::{fs, path::PathBuf};

use headroom_wasm_host::{artifacthub::package, metadata::Metadata};
use serde_json::Value;

#[derive(clap::Args)]
pub struct Arguments {
    #[arg(short, long, value_name = "PATH", default_value = "metadata.yml")]
    metadata_path: PathBuf,
    #[arg(short, long, value_name = "PATH", default_value = "deploy/questions-ui.yml")]
    questions_path: PathBuf,
    #[arg(short, long, value_name = "PATH", default_value = "artifacthub-pkg.yml")]
    output: PathBuf,
    /// When this version was made, in RFC 3339; only needed for a new version
    #[arg(long, value_name = "TIME")]
    created_at: Option<String>,
}

pub fn artifacthub(arguments: &Arguments) -> Result<(), String> {
    let read =
        |path: &PathBuf| fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()));
    let metadata = Metadata::from_yaml(&read(&arguments.metadata_path)?)?;
    let version = metadata.annotations.get("io.kubewarden.policy.version").cloned().unwrap_or_default();
    let created_at = match (&arguments.created_at, fs::read_to_string(&arguments.output)) {
        (Some(time), _) => time.clone(),
        (None, Ok(existing)) => {
            let existing: Value = serde_yaml::from_str(&existing).map_err(|error| error.to_string())?;
            let text = |key| existing.get(key).and_then(Value::as_str).map(str::to_owned);
            text("createdAt")
                .filter(|_| text("version") == Some(version))
                .ok_or("this is a new version: give its creation time with `--created-at`")?
        }
        (None, Err(_)) => return Err("give the version's creation time with `--created-at`".to_owned()),
    };
    let text = package(&metadata, &created_at, &read(&arguments.questions_path)?)?;
    fs::write(&arguments.output, text)
        .map_err(|error| format!("cannot write `{}`: {error}", arguments.output.display()))
}
