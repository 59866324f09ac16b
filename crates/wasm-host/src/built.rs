//! The wasm built from this workspace, for tests that run it.
//!
//! The Makefile builds it, for another target. This module only finds it, and refuses it if it is older than its
//! sources, so that no test runs an outdated policy.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{access::Access, host::PolicyHost, metadata::Metadata};

use headroom_fixtures::files_below;

pub use headroom_fixtures::workspace_file;

/// The built policy with the access that its metadata declares.
pub fn policy() -> Result<(PolicyHost, Access), String> {
    let wasm = workspace_file("policy.wasm");
    let advice = "run `make policy.wasm`";
    let built = modified(&wasm).map_err(|_| format!("there is no policy.wasm: {advice}"))?;
    if let Some(newer) = newest(&[workspace_file("src"), workspace_file("crates/admission/src")])?
        .filter(|(_, changed)| *changed > built)
    {
        return Err(format!("policy.wasm is older than `{}`: {advice}", newer.0.display()));
    }
    Ok((PolicyHost::load(&wasm)?, access()?))
}

/// The access that the policy's metadata declares.
pub fn access() -> Result<Access, String> {
    let path = workspace_file("policy-metadata.yaml");
    let metadata = fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    Ok(Access::declared(&Metadata::from_yaml(&metadata)?))
}

fn modified(path: &Path) -> Result<SystemTime, String> {
    let metadata = fs::metadata(path).and_then(|metadata| metadata.modified());
    metadata.map_err(|error| format!("cannot look at `{}`: {error}", path.display()))
}

/// The file changed last in some folders.
fn newest(folders: &[PathBuf]) -> Result<Option<(PathBuf, SystemTime)>, String> {
    let mut newest = None;
    for folder in folders {
        for path in files_below(folder)? {
            let changed = modified(&path)?;
            if newest.as_ref().is_none_or(|(_, latest)| changed > *latest) {
                newest = Some((path, changed));
            }
        }
    }
    Ok(newest)
}
