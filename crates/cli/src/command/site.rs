//! The files of the page: those built into the program, or of a folder.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// Made by build.rs: the folder that HEADROOM_PAGE named when this was built; none otherwise.
const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The files by name, all in one folder.
pub struct Site(BTreeMap<String, Cow<'static, [u8]>>);

const INDEX: &str = "index.html";
/// Marks the page as one with a live cluster.
const LIVE: (&str, &str) = ("<html lang=\"en\">", "<html lang=\"en\" data-live>");

impl Site {
    /// The page that is built in; or for those who work on it, in a program without one, that of a folder.
    pub fn find() -> anyhow::Result<Self> {
        if !EMBEDDED.is_empty() {
            return Ok(Self::of(EMBEDDED.iter().map(|(name, bytes)| ((*name).to_owned(), Cow::Borrowed(*bytes)))));
        }
        let folder = std::env::var_os("HEADROOM_PAGE").context(
            "this program was built without the page: build it with `make kubectl-headroom`, or name the folder that `make page` \
             makes in HEADROOM_PAGE",
        )?;
        Self::read(Path::new(&folder))
    }

    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let unreadable = || format!("cannot read the page in `{}`", folder.display());
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            if let (Ok(name), true) = (entry.file_name().into_string(), entry.path().is_file()) {
                files.push((name, Cow::Owned(fs::read(entry.path()).with_context(unreadable)?)));
            }
        }
        let site = Self::of(files.into_iter());
        if site.get("").is_none() {
            bail!(
                "`{}` holds no {INDEX}: expected the folder that `make page` makes, such as target/page/site",
                folder.display()
            );
        }
        Ok(site)
    }

    fn of(files: impl Iterator<Item = (String, Cow<'static, [u8]>)>) -> Self {
        let live = |(name, bytes): (String, Cow<'static, [u8]>)| {
            let bytes = match (name.as_str(), std::str::from_utf8(&bytes)) {
                (INDEX, Ok(text)) => Cow::Owned(text.replacen(LIVE.0, LIVE.1, 1).into_bytes()),
                _ => bytes,
            };
            (name, bytes)
        };
        Self(files.map(live).collect())
    }

    /// A file with its type; the index for no name.
    pub fn get(&self, name: &str) -> Option<(&'static str, &[u8])> {
        let name = if name.is_empty() { INDEX } else { name };
        let bytes = self.0.get(name)?;
        let kind = match name.rsplit_once('.')?.1 {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "wasm" => "application/wasm",
            "json" => "application/json",
            "svg" => "image/svg+xml",
            "woff2" => "font/woff2",
            _ => "text/plain; charset=utf-8",
        };
        Some((kind, bytes))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_page_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Site::read(folder.path()).is_err());
        fs::write(folder.path().join(INDEX), "<!doctype html>\n<html lang=\"en\"></html>").unwrap();
        fs::write(folder.path().join("main.js"), "1").unwrap();
        let site = Site::read(folder.path()).unwrap();
        assert_eq!(site.get("").unwrap().1, b"<!doctype html>\n<html lang=\"en\" data-live></html>");
        assert_eq!(site.get("main.js").unwrap().0, "text/javascript; charset=utf-8");
        assert!(site.get("../main.js").is_none() && site.get("main").is_none());
    }
}
