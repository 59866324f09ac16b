//! Files of samples: CSV with a header, or JSON lines. Each line has the usage of one container in one step.
//!
//! ```text
//! time,namespace,pod,container,image,cpu,memory
//! 1763683200,shop,web-0,web,nginx:1.27,0.012,52428800
//! {"time": 1763683200, "namespace": "shop", "pod": "web-0", "container": "web", "image": "nginx:1.27", "cpu": "12m"}
//! ```
//! `time` is in unix seconds or as in RFC 3339. `cpu` (in cores) and `memory` (in bytes) are numbers or quantities; an
//! empty one, `NaN` or `null` is no sample. `oomKilled` says that the container was killed then, at that much memory.
//! CSV columns may have any order. Values need no quotes; quoted ones are read too.
//!
//! This is the fast path for large imports: no allocation a line, and all that is known of a container is looked up
//! once a line by the bytes that name it.

mod diagnose;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;

use headroom_admission::amount::Quantity;
use headroom_admission::timestamp::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::diagnose::diagnose;
use headroom_usage::batch::{Gathered, PlaceId, RowId};
use headroom_usage::observed::Kill;
use headroom_usage::sample::{self, Resource};
use headroom_usage::sketch::Sketch;
use headroom_usage::{cardinality, day_of};

/// Seconds after this are beyond any calendar; milliseconds are.
const LATEST: i64 = 100_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LineError(String);

/// The characters of a file that a message quotes.
const QUOTED: usize = 100;
/// The most bytes of a name. Kubernetes' own are shorter.
const LONGEST_NAME: usize = 1_024;

fn quoted(found: &[u8]) -> String {
    let end = found.len().min(4 * QUOTED);
    String::from_utf8_lossy(found.get(..end).unwrap_or_default()).chars().take(QUOTED).collect()
}

fn expected<T>(column: Column, found: &[u8], expectation: &str) -> Result<T, LineError> {
    Err(LineError(format!("{} is `{}`: expected {expectation}", column.name(), quoted(found))))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Time,
    Namespace,
    Pod,
    Container,
    Image,
    Cpu,
    Memory,
    OomKilled,
}

impl Column {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Time, "time"),
        (Self::Namespace, "namespace"),
        (Self::Pod, "pod"),
        (Self::Container, "container"),
        (Self::Image, "image"),
        (Self::Cpu, "cpu"),
        (Self::Memory, "memory"),
        (Self::OomKilled, "oomKilled"),
    ];
    /// The number of columns that are required: the first ones.
    const REQUIRED: usize = 5;

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(column, _)| *column == self).map_or("", |(_, name)| name)
    }

    /// All names, for messages.
    fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFormat {
    /// The columns in their order.
    Csv(Vec<Column>),
    JsonLines,
}

pub const MAX_LINE_BYTES: usize = 1 << 20;
/// The memory that usage may take before it is stored, or counted and forgotten.
pub const MAX_GATHERED_BYTES: usize = 40 << 20;

impl FileFormat {
    /// Told by the first line.
    pub fn of(first: &[u8]) -> Result<Self, LineError> {
        let first = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first).trim_ascii();
        if first.starts_with(b"{") {
            return Ok(Self::JsonLines);
        }
        let mut columns = Vec::new();
        for name in first.split(|byte| *byte == b',').map(|name| unquoted(name.trim_ascii())) {
            let Some((column, _)) = Column::ALL.into_iter().find(|(_, known)| known.as_bytes() == name) else {
                let (name, names) = (quoted(name), Column::names());
                return Err(LineError(format!("unknown column `{name}`: the header names some of {names}")));
            };
            if columns.contains(&column) {
                return Err(LineError(format!("column `{}` is named twice", column.name())));
            }
            columns.push(column);
        }
        let mut required = Column::ALL.iter().take(Column::REQUIRED);
        match required.find(|(required, _)| !columns.contains(required)) {
            Some((_, name)) => Err(LineError(format!("there is no column `{name}`: a file has {}", Column::names()))),
            None => Ok(Self::Csv(columns)),
        }
    }

    pub fn has_header(&self) -> bool {
        matches!(self, Self::Csv(_))
    }

    /// For people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Csv(_) => "CSV",
            Self::JsonLines => "JSON lines",
        }
    }
}

/// The texts of one line, in the order of [`Column`].
#[derive(Debug, Clone, Copy, Default)]
struct Fields<'a>([&'a [u8]; Column::ALL.len()]);

impl<'a> Fields<'a> {
    fn of(&self, column: Column) -> &'a [u8] {
        self.0.get(column as usize).copied().unwrap_or_default()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow)]
    time: &'a RawValue,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    pod: Cow<'a, str>,
    #[serde(borrow)]
    container: Cow<'a, str>,
    #[serde(borrow)]
    image: Cow<'a, str>,
    #[serde(borrow, default)]
    cpu: Option<&'a RawValue>,
    #[serde(borrow, default)]
    memory: Option<&'a RawValue>,
    #[serde(borrow, default)]
    oom_killed: Option<&'a RawValue>,
}

/// A container that was read before.
#[derive(Debug, Clone)]
struct Met {
    /// None if its image has no readable name.
    place: Option<PlaceId>,
    pod: u32,
    container: u32,
    /// The row that sums up the samples of a day.
    row: Option<(u32, RowId)>,
    /// Its CPU usage on that day, for how busy the pod was.
    cpu: Sketch,
    /// The time of its last sample.
    at: i64,
}

impl Met {
    fn finish_day(&mut self, gathered: &mut Gathered) {
        let cpu = std::mem::take(&mut self.cpu);
        if let Some(observed) = self.row.and_then(|(_, row)| gathered.observed(row)) {
            observed.busy_pods.add(self.pod, &cpu, 0);
        }
    }
}

/// Different distances between samples that are counted.
const MAX_STEPS: usize = 10_000;

/// Reads lines into what is gathered.
#[derive(Debug)]
pub struct LineReader<'a> {
    format: &'a FileFormat,
    step_seconds: u64,
    /// The times that a line may have, in Unix seconds: older lines are ignored, and later ones are errors.
    times: RangeInclusive<i64>,
    /// Lines left out for their age.
    pub too_old: u64,
    met: Vec<Met>,
    /// Containers by the bytes that name them.
    met_as: HashMap<Box<[u8]>, usize, rustc_hash::FxBuildHasher>,
    name: Vec<u8>,
    /// The name in the line before, which is often the same.
    last: (Vec<u8>, usize),
    /// The distances between samples of a container in seconds, each with how often it was met; none if they are not counted.
    steps: Option<HashMap<i64, u64>>,
}

impl<'a> LineReader<'a> {
    pub fn new(format: &'a FileFormat, step_seconds: u32, times: RangeInclusive<i64>) -> Self {
        let step_seconds = step_seconds.into();
        Self {
            format,
            step_seconds,
            times,
            too_old: 0,
            met: Vec::new(),
            met_as: HashMap::default(),
            name: Vec::new(),
            last: Default::default(),
            steps: None,
        }
    }

    /// Adds the CPU usage of the last day, and forgets all containers: their rows are in `gathered`, which is about to be stored.
    pub fn finish(&mut self, gathered: &mut Gathered) {
        self.met.drain(..).for_each(|mut met| met.finish_day(gathered));
        self.met_as.clear();
        self.last.0.clear();
    }

    /// Memory held beside what was gathered, roughly.
    pub fn bytes(&self) -> usize {
        self.met.iter().map(|met| met.cpu.bytes()).sum()
    }

    /// Reads whole lines. An error says where in the text its line begins; lines before it have been gathered.
    pub fn read(&mut self, text: &[u8], gathered: &mut Gathered) -> Result<(), (usize, LineError)> {
        let mut begin = 0;
        for end in memchr::memchr_iter(b'\n', text) {
            let line = text.get(begin..end).unwrap_or_default().trim_ascii();
            if !line.is_empty() {
                self.line(line, gathered).map_err(|error| (begin, error))?;
            }
            begin = end + 1;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], gathered: &mut Gathered) -> Result<(), LineError> {
        match self.format {
            FileFormat::Csv(columns) => self.sample(split(columns, line)?, gathered),
            FileFormat::JsonLines => {
                let record: Record<'_> = serde_json::from_slice(line).map_err(|error| {
                    LineError(format!("not a sample in JSON ({error}): expected an object with {}", Column::names()))
                })?;
                let fields = Fields([
                    json_text(Some(record.time)),
                    record.namespace.as_bytes(),
                    record.pod.as_bytes(),
                    record.container.as_bytes(),
                    record.image.as_bytes(),
                    json_text(record.cpu),
                    json_text(record.memory),
                    json_text(record.oom_killed),
                ]);
                self.sample(fields, gathered)
            }
        }
    }

    fn sample(&mut self, fields: Fields<'_>, gathered: &mut Gathered) -> Result<(), LineError> {
        let time = read_time(fields.of(Column::Time))?;
        let cpu = read_cpu(fields.of(Column::Cpu))?;
        let memory = read_memory(Column::Memory, fields)?;
        let killed_at = read_memory(Column::OomKilled, fields)?;
        if time > *self.times.end() {
            return expected(Column::Time, fields.of(Column::Time), "a time that is not in the future");
        }
        if time < *self.times.start() {
            self.too_old += 1;
            return Ok(());
        }
        let mut possible = |amount: Option<u64>, resource| {
            amount.filter(|amount| {
                // The names are read for the example only.
                sample::is_possible(*amount, resource) || {
                    let names = [Column::Namespace, Column::Pod, Column::Container];
                    let names = names.map(|column| String::from_utf8_lossy(fields.of(column)));
                    gathered.impossible.check(*amount, resource, names.each_ref().map(|name| &**name))
                }
            })
        };
        let cpu = possible(cpu, Resource::Cpu);
        let [memory, killed_at] = [memory, killed_at].map(|amount| possible(amount, Resource::Memory));
        let met = self.meet(fields, gathered)?;
        self.count(met, time, [cpu, memory, killed_at], gathered);
        Ok(())
    }

    /// Counts the CPU and memory that a container used at a time, and the memory at which it was killed.
    fn count(&mut self, met: usize, time: i64, [cpu, memory, killed_at]: [Option<u64>; 3], gathered: &mut Gathered) {
        let Some(met) = self.met.get_mut(met) else { return };
        let before = std::mem::replace(&mut met.at, time);
        if let Some(steps) = self.steps.as_mut().filter(|steps| before > 0 && time > before && steps.len() < MAX_STEPS)
        {
            *steps.entry(time - before).or_default() += 1;
        }
        let Some(place) = met.place else { return };
        let used = [(Resource::Cpu, cpu), (Resource::Memory, memory)];
        let seconds = self.step_seconds;
        let day = day_of(time);
        let (id, is_new) = match met.row {
            Some((same, id)) if same == day => (id, false),
            _ => {
                met.finish_day(gathered);
                let id = gathered.row(place, day);
                met.row = Some((day, id));
                (id, true)
            }
        };
        if let Some(amount) = cpu {
            met.cpu.add(amount, seconds);
        }
        gathered.samples += used.iter().filter(|(_, amount)| amount.is_some()).count() as u64;
        let Some(observed) = gathered.observed(id) else { return };
        if is_new {
            observed.pods.add(met.pod);
        }
        for (resource, amount) in used {
            if let Some(amount) = amount {
                observed.add(resource, time, amount, seconds);
            }
        }
        if let Some(memory) = killed_at {
            observed.add_kill(Kill { at: time, memory, of: met.container });
        }
    }

    /// The place in `met` of the container that a line is about.
    fn meet(&mut self, fields: Fields<'_>, gathered: &mut Gathered) -> Result<usize, LineError> {
        let names = [Column::Namespace, Column::Pod, Column::Container, Column::Image].map(|column| fields.of(column));
        self.name.clear();
        for part in names {
            self.name.extend_from_slice(part);
            // No name holds it.
            self.name.push(0);
        }
        if self.name == self.last.0 {
            return Ok(self.last.1);
        }
        let met = match self.met_as.get(self.name.as_slice()) {
            Some(met) => *met,
            None => {
                let text = |column| match std::str::from_utf8(fields.of(column)) {
                    Ok(text) if (1..=LONGEST_NAME).contains(&text.len()) => Ok(text),
                    _ => expected(column, fields.of(column), "a name"),
                };
                let (namespace, pod) = (text(Column::Namespace)?, text(Column::Pod)?);
                let container = text(Column::Container)?;
                let place = gathered.place(namespace, text(Column::Image)?);
                let (of, pod) = (cardinality::hash(pod, container), cardinality::hash(namespace, pod));
                self.met.push(Met { place, pod, container: of, row: None, cpu: Sketch::default(), at: 0 });
                self.met_as.insert(self.name.as_slice().into(), self.met.len() - 1);
                self.met.len() - 1
            }
        };
        std::mem::swap(&mut self.name, &mut self.last.0);
        self.last.1 = met;
        Ok(met)
    }
}

fn split<'a>(columns: &[Column], line: &'a [u8]) -> Result<Fields<'a>, LineError> {
    let mut fields = Fields::default();
    let mut begin = 0;
    let ends = memchr::memchr_iter(b',', line).chain([line.len()]);
    let mut columns = columns.iter();
    for end in ends {
        let Some(column) = columns.next() else {
            return Err(LineError("there are more values than columns".to_owned()));
        };
        let mut value = line.get(begin..end).unwrap_or_default();
        if value.first() == Some(&b'"') {
            value = unquoted(value);
        }
        begin = end + 1;
        if let Some(field) = fields.0.get_mut(*column as usize) {
            *field = value;
        }
    }
    match columns.next() {
        None => Ok(fields),
        Some(missing) => Err(LineError(format!("there is no value for `{}`", missing.name()))),
    }
}

/// No value that is read here can hold a quote or a comma, so taking off the outer quotes is all there is to unquote.
fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text)
}

/// A number or a string, as in CSV.
fn json_text(value: Option<&RawValue>) -> &[u8] {
    match value.map_or("null", RawValue::get) {
        "null" => b"",
        text => unquoted(text.as_bytes()),
    }
}

/// A number of at most 18 digits.
fn digits(text: &[u8]) -> Option<u64> {
    if !(1..=18).contains(&text.len()) {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0')))
}

fn read_time(text: &[u8]) -> Result<i64, LineError> {
    let expectation = "unix seconds, or a moment such as `2026-11-21T00:00:00Z`";
    let whole = text.split(|byte| *byte == b'.').next().and_then(digits);
    let seconds = match whole {
        Some(seconds) => i64::try_from(seconds).ok(),
        None => {
            let moment = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Timestamp>().ok());
            moment.map(Timestamp::unix_seconds)
        }
    };
    match seconds {
        Some(seconds) if (0..LATEST).contains(&seconds) => Ok(seconds),
        Some(LATEST..) => expected(Column::Time, text, "unix seconds, and this looks like milliseconds"),
        _ => expected(Column::Time, text, expectation),
    }
}

/// Nanocores.
fn read_cpu(text: &[u8]) -> Result<Option<u64>, LineError> {
    const NANOS: u64 = 1_000_000_000;
    // The ordinary case: `12`, `0.012`, up to nine decimals.
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().and_then(digits);
    let fraction = parts.next();
    let nanos = match fraction {
        None => Some(0),
        Some(fraction) if fraction.len() <= 9 => {
            digits(fraction).map(|number| number * 10_u64.pow(9 - fraction.len() as u32))
        }
        Some(_) => None,
    };
    if let (Some(whole), Some(nanos)) = (whole, nanos)
        && whole < NANOS
    {
        return Ok(Some(whole * NANOS + nanos));
    }
    read_quantity(Column::Cpu, text, NANOS)
}

/// Bytes.
fn read_memory(column: Column, fields: Fields<'_>) -> Result<Option<u64>, LineError> {
    let text = fields.of(column);
    match digits(text) {
        Some(bytes) => Ok(Some(bytes)),
        None => read_quantity(column, text, 1),
    }
}

/// A quantity in parts of a unit, if there is one.
fn read_quantity(column: Column, text: &[u8], parts: u64) -> Result<Option<u64>, LineError> {
    if text.is_empty() || text.eq_ignore_ascii_case(b"nan") {
        return Ok(None);
    }
    let quantity = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Quantity>().ok());
    match quantity.and_then(|quantity| u64::try_from(quantity.times_count(parts).value()).ok()) {
        Some(amount) => Ok(Some(amount)),
        None => expected(column, text, "a quantity that is not negative, such as `0.25`, `250m` or `512Mi`"),
    }
}
