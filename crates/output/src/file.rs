//! Files that are written as a whole: a reader sees the old content or the new, also after a crash. And texts that are read to a bound.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, PathPersistError, TempPath};

/// A file that replaces the one at its path when it is complete, and is deleted otherwise.
///
/// It has a random name in the same folder and is created exclusively, so it follows no link that is planted there. A link at
/// the path is replaced, not followed. Devices and pipes are written as they are, by a link only below `/dev`.
#[derive(Debug)]
pub struct WholeFile {
    file: BufWriter<fs::File>,
    /// None for a device or a pipe.
    unfinished: Option<TempPath>,
    path: PathBuf,
}

impl WholeFile {
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, 0o666)
    }

    pub fn create_private(path: &Path) -> io::Result<Self> {
        Self::with_mode(path, 0o600)
    }

    fn with_mode(path: &Path, mode: u32) -> io::Result<Self> {
        let path = path.to_owned();
        // Shells and the system name pipes by links there: `/dev/stdout`, `/dev/fd/63`.
        let there = if path.starts_with("/dev") { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        if there.is_ok_and(|there| !there.is_file() && !there.is_dir() && !there.is_symlink()) {
            #[expect(clippy::disallowed_methods, reason = "a device is neither created nor replaced")]
            let file = BufWriter::new(OpenOptions::new().write(true).open(&path)?);
            return Ok(Self { file, unfinished: None, path });
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (file, unfinished) = new_file(folder, mode)?.into_parts();
        if let Ok(there) = fs::symlink_metadata(&path)
            && there.is_file()
        {
            file.set_permissions(there.permissions())?;
        }
        Ok(Self { file: BufWriter::new(file), unfinished: Some(unfinished), path })
    }

    pub fn finish(self) -> io::Result<()> {
        self.put(TempPath::persist)
    }

    /// Fails if there is a file at the path, or a link.
    pub fn finish_new(self) -> io::Result<()> {
        self.put(TempPath::persist_noclobber)
    }

    fn put(mut self, to: fn(TempPath, PathBuf) -> Result<(), PathPersistError>) -> io::Result<()> {
        self.file.flush()?;
        if let Some(unfinished) = self.unfinished {
            self.file.get_ref().sync_all()?;
            to(unfinished, self.path)?;
        }
        Ok(())
    }
}

/// `tempfile` makes files for their owner alone, unless it is given a mode. The system's mask is taken from it.
#[cfg_attr(not(unix), expect(unused_variables, reason = "only Unix has modes"))]
fn new_file(folder: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".headroom-");
    #[cfg(unix)]
    builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode));
    builder.tempfile_in(folder)
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Settings, tables and the like are not longer.
pub const LONGEST_TEXT: u64 = 16 << 20;

/// Reads a text of at most so many bytes. Whoever may add a link to a repository may let it lead to a device that never ends.
pub fn read_bounded(path: &Path, longest: u64) -> io::Result<String> {
    read_bounded_from(&mut fs::File::open(path)?, longest)
}

/// The same from what is open already.
pub fn read_bounded_from(from: &mut dyn Read, longest: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(longest.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest {
        return Err(io::Error::other(format!("it is larger than {} MiB", longest >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

pub fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.finish()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_with_its_mode_and_not_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| folder.path().join(name));
        write_file(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        drop(WholeFile::create(&path).unwrap().write_all(b"lost"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        write_file(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);

        let private = folder.path().join("private");
        WholeFile::create_private(&private).unwrap().finish().unwrap();
        assert_eq!(fs::metadata(&private).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&private).unwrap();

        symlink(&path, &other).unwrap();
        write_file(&other, "other").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(fs::symlink_metadata(&other).unwrap().is_file());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "an unfinished file is left");
        assert!(write_file(folder.path(), "a folder").is_err());

        let dangling = folder.path().join("c");
        symlink(folder.path().join("d"), &dangling).unwrap();
        for there in [&path, &dangling] {
            assert_eq!(
                WholeFile::create(there).unwrap().finish_new().unwrap_err().kind(),
                io::ErrorKind::AlreadyExists
            );
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[test]
    fn a_device_is_read_to_a_bound() {
        assert_eq!(read_bounded(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string(), "it is larger than 1 MiB");
        assert_eq!(read_bounded(Path::new("/dev/null"), 1).unwrap(), "");
    }

    #[test]
    fn devices_are_not_replaced() {
        write_file(Path::new("/dev/null"), "nothing").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/dev/null", &link).unwrap();
        write_file(&link, "text").unwrap();
        assert_eq!(fs::read_to_string(&link).unwrap(), "text");
    }
}
