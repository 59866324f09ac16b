//! Builds the page into the program: the folder that HEADROOM_PAGE names, as `make page` makes it. Without it there is none,
//! and `kubectl headroom ui` wants the folder.

#![expect(clippy::disallowed_methods, reason = "a tool of developers, which writes to the repository")]

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=HEADROOM_PAGE");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if let Some(folder) = env::var_os("HEADROOM_PAGE").map(PathBuf::from) {
        println!("cargo::rerun-if-changed={}", folder.display());
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_file() {
                files.push(path.canonicalize()?);
            }
        }
        files.sort();
    }
    let entries: Vec<String> = files.iter().map(|path| entry(path)).collect();
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(out.join("page.rs"), format!("&[{}]", entries.join(", ")))
}

fn entry(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("({name:?}, include_bytes!({:?}) as &[u8])", path.to_string_lossy())
}
