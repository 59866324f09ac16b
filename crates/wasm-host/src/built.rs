//! The wasm built from this workspace, for tests that run it.
//!
//! The Makefile builds it, for another target. This module only finds it, and refuses it if it is older than its
//! sources, so that no test runs an outdated policy.

use std::{fs, path::Path, time::SystemTime};

use headroom_fixtures::files_below;

use crate::{access::Access, host::PolicyHost, metadata::Metadata};

pub use headroom_fixtures::workspace_file;

/// The built policy with the access that its metadata declares.
pub fn policy() -> Result<(PolicyHost, Access), String> {
    let wasm = workspace_file("policy.wasm");
    let advice = "run `make policy.wasm`";
    let built = modified(&wasm).map_err(|_| format!("there is no policy.wasm: {advice}"))?;
    for folder in ["src", "crates/admission/src"] {
        for path in files_below(&workspace_file(folder))? {
            if modified(&path)? > built {
                return Err(format!("policy.wasm is older than `{}`: {advice}", path.display()));
            }
        }
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
