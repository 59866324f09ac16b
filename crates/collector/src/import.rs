//! Imports files of samples in one pass, from the position where the last run stopped.
//!
//! A file is identified by its first two lines, so it may be moved, and may grow: only new lines are read. Usage is summed up, and
//! settled together with the position whenever it takes much memory, and at the end; a kill in between costs time but no sample.
//! Lines that are older than the store keeps are skipped and counted; a file with no other lines is not marked as read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use headroom_api_server::parts::alive;
use headroom_metrics_stores::files::{FileFormat, LineError, LineReader, MAX_GATHERED_BYTES, MAX_LINE_BYTES};
use headroom_output::progress::Progress;
use headroom_usage::DAY;
use headroom_usage::batch::Gathered;
use tokio_util::sync::CancellationToken;

use crate::metrics::CollectorMetrics;
use crate::store::{Store, StoreError};

/// The bytes that are read at a time, which is as long as a line may be.
const BLOCK: usize = MAX_LINE_BYTES;
/// The most bytes that identify a file.
const MAX_BEGINNING: usize = 2048;

pub struct Import<'a> {
    pub store: &'a Store,
    pub step_seconds: u32,
    /// The latest time of a line, in Unix seconds.
    pub latest: i64,
    pub metrics: &'a CollectorMetrics,
    pub progress: &'a Progress,
    pub stop: &'a CancellationToken,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imported {
    pub samples: u64,
    /// Lines that are older than the store keeps.
    pub too_old: u64,
    pub bytes: u64,
    /// Bytes at the end without a line end. They are read once there is one.
    pub unfinished: u64,
    pub stopped: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read `{path}`: {error}")]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("`{path}`, line {line}: {error}")]
    Line { path: PathBuf, line: u64, error: LineError },
    #[error("`{path}`, line {line} is longer than {BLOCK} bytes: expected {format}, with shorter lines")]
    LineTooLong { path: PathBuf, line: u64, format: &'static str },
    #[error(
        "`{path}` is {now} bytes long, but {before} bytes of a file that begins the same were read before: \
         an imported file may only be appended to; put other samples into a file with different first lines"
    )]
    Shrunk { path: PathBuf, now: u64, before: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Import<'_> {
    pub fn file(&self, path: &Path) -> Result<Imported, ImportError> {
        let unreadable = |error| ImportError::Unreadable { path: path.to_owned(), error };
        let mut file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let Some((first, beginning)) = beginning(&mut file).map_err(unreadable)? else {
            return Ok(Imported { unfinished: length, ..Imported::default() });
        };
        let known = self.store.file_position(&beginning)?;
        if known > length {
            return Err(ImportError::Shrunk { path: path.to_owned(), now: length, before: known });
        }
        let line_error = |line, error| ImportError::Line { path: path.to_owned(), line, error };
        let format = FileFormat::of(&first).map_err(|error| line_error(1, error))?;
        // The header of a CSV file is no sample.
        let start = known.max(if format.has_header() { first.len() as u64 } else { 0 });
        file.seek(SeekFrom::Start(start)).map_err(unreadable)?;
        self.progress.begin(length - start, &path.display().to_string());

        let times = i64::from(self.store.oldest_kept()?) * DAY..=self.latest;
        let mut lines = LineReader::new(&format, self.step_seconds, times);
        let mut gathered = Gathered::default();
        let mut imported = Imported::default();
        let (mut settled, mut position) = (known, start);
        let mut block = vec![0; BLOCK];
        let mut held = 0;
        loop {
            if held == block.len() {
                let (path, format) = (path.to_owned(), format.name());
                let line = line_number(&path, position).map_err(unreadable)?;
                return Err(ImportError::LineTooLong { path, line, format });
            }
            let free = block.get_mut(held..).unwrap_or_default();
            let read = file.read(free).map_err(unreadable)?;
            held += read;
            let text = block.get(..held).unwrap_or_default();
            let finished = memchr::memrchr(b'\n', text).map_or(0, |end| end + 1);
            if let Err((offset, error)) = lines.read(text.get(..finished).unwrap_or_default(), &mut gathered) {
                let line = line_number(path, position + offset as u64).map_err(unreadable)?;
                return Err(line_error(line, error));
            }
            block.copy_within(finished..held, 0);
            held -= finished;
            position += finished as u64;
            self.progress.advance(finished as u64);
            alive();
            imported.stopped = self.stop.is_cancelled();
            let is_end = read == 0 || imported.stopped;
            if is_end || gathered.bytes() + lines.bytes() > MAX_GATHERED_BYTES {
                lines.finish(&mut gathered);
                for image in &gathered.unreadable {
                    tracing::warn!(image, "not an image name, so no request can be matched with it: left out");
                }
                // A file with old lines only may be imported into another store.
                if position > settled && (lines.too_old == 0 || settled > 0 || !gathered.is_empty()) {
                    self.metrics.gathered(&gathered);
                    imported.samples += gathered.samples;
                    self.store.settle_file(&beginning, settled, position, &gathered)?;
                    settled = position;
                }
                gathered = Gathered::default();
            }
            if is_end {
                self.progress.end();
                imported.too_old = lines.too_old;
                imported.bytes = position - start;
                imported.unfinished = held as u64;
                return Ok(imported);
            }
        }
    }
}

/// The first line, and the text that identifies the file; none before the first sample is complete.
fn beginning(file: &mut File) -> io::Result<Option<(Vec<u8>, String)>> {
    let mut reader = BufReader::new(file.take(2 * BLOCK as u64));
    let mut first = Vec::new();
    reader.read_until(b'\n', &mut first)?;
    let mut second = Vec::new();
    reader.read_until(b'\n', &mut second)?;
    // Many files have the same header, so a sample is needed.
    let is_long = first.len() + second.len() >= 2 * BLOCK;
    let is_finished = second.ends_with(b"\n") || (first.ends_with(b"\n") && first.starts_with(b"{")) || is_long;
    let rest: &[u8] = if first.starts_with(b"{") { &[] } else { &second };
    let known_by: Vec<u8> = first.iter().chain(rest).take(MAX_BEGINNING).copied().collect();
    Ok(is_finished.then(|| (first, String::from_utf8_lossy(&known_by).into_owned())))
}

/// The number, from 1, of the line that begins at a position. Counted only for an error.
fn line_number(path: &Path, position: u64) -> io::Result<u64> {
    let mut before = BufReader::new(File::open(path)?.take(position));
    let (mut number, mut line) = (1, Vec::new());
    while before.read_until(b'\n', &mut line)? > 0 {
        number += 1;
        line.clear();
    }
    Ok(number)
}
