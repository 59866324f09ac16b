//! Remembers which metrics store a person chose for a cluster, so that the question comes once. The file has addresses only, and no
//! secrets; clusters are told apart by their API server, because any kubeconfig may have a context of the same name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

use anyhow::Context as _;
use headroom_api_server::kubeconfig::Chosen;

/// The choice for one cluster: a Service, or empty for none.
pub struct Remembered {
    path: PathBuf,
    server: String,
    stores: BTreeMap<String, String>,
}

impl Remembered {
    /// Reads the stores that were chosen before. Returns none if they cannot be remembered, as in a pod. An unreadable file counts as empty.
    pub fn read(cluster: &Chosen) -> Option<Self> {
        let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || Some(folder("HOME")?.join(".config"));
        let path = folder("XDG_CONFIG_HOME").or_else(home).or_else(|| folder("APPDATA"))?.join("headroom/stores.json");
        let stores = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Some(Self { server: cluster.server()?, path, stores })
    }

    pub fn store(&self) -> Option<&str> {
        self.stores.get(&self.server).map(String::as_str)
    }

    pub fn remember(mut self, store: &str) -> anyhow::Result<PathBuf> {
        let cannot = || format!("cannot write `{}`", self.path.display());
        self.stores.insert(self.server, store.to_owned());
        fs::create_dir_all(self.path.parent().unwrap_or(&self.path)).with_context(cannot)?;
        headroom_output::write_file(&self.path, &headroom_output::json(&self.stores)?).with_context(cannot)?;
        Ok(self.path)
    }
}
