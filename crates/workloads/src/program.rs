//! Settings by which programs are told how much CPU and memory they may use: those of the table `program.yaml`, in arguments, variables
//! and ConfigMaps, and variables and files that are made of the container's own requests and limits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use headroom_admission::amount::{Quantity, Requirement};
use headroom_objects::cluster_reader::{ClusterReader, ReadError};
use headroom_objects::kinds::{items, metadata, text};
use headroom_objects::manifest::documents;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// `-Xmx6g`, `maxmemory 4gb (ConfigMap cache)`, `WORKERS from requests.cpu`
    pub text: String,
    pub told: Told,
    /// True if the program may come to use as much memory, however little it has used so far.
    pub grows: bool,
}

impl Setting {
    /// The memory that it lets the program use in a container with this request and limit, as far as that is known.
    pub fn memory(&self, request: Option<&Quantity>, limit: Option<&Quantity>) -> Option<Quantity> {
        match &self.told {
            Told::Memory(amount) => Some(amount.clone()),
            Told::OfLimit(thousandths) => {
                Some(limit?.scaled(*thousandths, 100_000).rounded_up_to_multiple_of(&Quantity::from_bytes(1 << 20)))
            }
            Told::Field(_, resource) if resource != "memory" => None,
            Told::Field(Requirement::Limit, _) => limit.cloned(),
            Told::Field(Requirement::Request, _) => request.cloned(),
            Told::Cpus => None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The amount that a program is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Memory(Quantity),
    /// Thousandths of a percent of the memory limit.
    OfLimit(u64),
    Cpus,
    /// A request or limit, such as `requests.cpu`.
    Field(Requirement, String),
}

/// The texts of ConfigMaps, by namespace and name, then key: whole if they are short, else the settings in them.
#[derive(Debug, Default)]
pub struct ConfigMaps(BTreeMap<[String; 2], BTreeMap<String, String>>);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Row {
    words: Vec<String>,
    of: Kind,
    plain: Option<u64>,
    grows_with: Option<String>,
    huge_with: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Memory,
    PercentOfLimit,
    Cpus,
}

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let rows = documents::parse(include_str!("program.yaml")).ok();
    // OK because a test reads it.
    let mut rows: Vec<Row> = rows.and_then(|rows| serde_json::from_value(rows).ok()).unwrap_or_default();
    rows.iter_mut().flat_map(|row| &mut row.words).for_each(|word| *word = plain(word));
    rows
});

/// Longer texts are files, of which only settings are kept.
const SHORT: usize = 256;
/// The most bytes of ConfigMaps that are looked at for a container, those of variables that are put into texts, and the most settings: a
/// container may name one of a megabyte a thousand times.
const MOST_BYTES: usize = 64 << 10;
const MOST_SETTINGS: usize = 50;
/// The containers of a pod in which settings are looked for.
const MOST_CONTAINERS: usize = 100;

/// A word as the table compares it.
fn plain(word: &str) -> String {
    word.trim_start_matches('-').replace('_', "-").to_ascii_lowercase()
}

impl Row {
    /// The amount in a word or in the one after it, and the text of both.
    fn read(&self, word: &str, next: &str) -> Option<(String, Told)> {
        let found = plain(word);
        let rest = self.words.iter().find_map(|name| found.strip_prefix(name.as_str()))?;
        match rest.trim_start_matches([':', '=']) {
            "" => Some((format!("{word} {next}"), self.told(&next.to_ascii_lowercase())?)),
            value => Some((word.to_owned(), self.told(value)?)),
        }
    }

    fn told(&self, value: &str) -> Option<Told> {
        let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
        let (number, unit) = value.split_at(end);
        let thousandths = u64::try_from(number.parse::<Quantity>().ok()?.milli_value()).ok()?;
        let bytes = match (unit, unit.trim_end_matches("ib").trim_end_matches('b')) {
            ("", _) => self.plain.unwrap_or(1),
            (_, "") => 1,
            (_, "k") => 1 << 10,
            (_, "m") => 1 << 20,
            (_, "g") => 1 << 30,
            (_, "t") => 1 << 40,
            _ => return None,
        };
        match self.of {
            Kind::Memory => Some(Told::Memory(Quantity::from_bytes(thousandths.checked_mul(bytes)? / 1000))),
            Kind::PercentOfLimit => unit.is_empty().then_some(Told::OfLimit(thousandths)),
            Kind::Cpus => unit.is_empty().then_some(Told::Cpus),
        }
    }
}

/// The words of each line that is no comment.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
    lines.map(|line| {
        let words = line.split(|c: char| c.is_whitespace() || "\"',;".contains(c));
        words.filter(|word| !word.is_empty() && *word != "=").collect()
    })
}

/// The settings in a text, each with its row.
fn in_text(text: &str) -> Vec<(String, Told, &'static Row)> {
    let read = |word: &str, next: &str| {
        TABLE.iter().find_map(|row| row.read(word, next).map(|(text, told)| (text, told, row)))
    };
    let mut found = Vec::new();
    for words in lines(text) {
        for (at, word) in words.iter().enumerate() {
            let next = words.get(at + 1).copied().unwrap_or_default();
            // A shell sets `NODE_OPTIONS=--max-old-space-size=4096`.
            let set = word.split_once('=').filter(|(name, _)| !name.contains(is_beyond_name));
            found.extend(read(word, next).or_else(|| read(set?.1, "")));
        }
    }
    found
}

fn is_beyond_name(of: char) -> bool {
    !of.is_ascii_alphanumeric() && of != '_'
}

/// Takes the bytes of a text out of those that are left, if they suffice.
fn fits(room: &mut usize, text: &str) -> bool {
    let left = room.checked_sub(text.len() + 1);
    *room = left.unwrap_or(*room);
    left.is_some()
}

/// A text with the variables that Kubernetes (`$(HEAP)`, but not `$$(HEAP)`) or a shell (`$HEAP`, `${HEAP}`) puts into it. Unknown ones stay,
/// and those beyond the room: each may name the one before it many times.
fn expanded(text: &str, variables: &BTreeMap<String, String>, room: &mut usize) -> String {
    let (mut parts, mut is_escaped) = (text.split('$'), false);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let named = match part.strip_prefix(['(', '{']) {
            Some(inner) => inner.split_once([')', '}']),
            None => Some(part.split_at(part.find(is_beyond_name).unwrap_or(part.len()))),
        };
        let found = named.and_then(|(name, rest)| Some((variables.get(name)?, rest)));
        match found.filter(|(value, _)| !is_escaped && fits(room, value)) {
            Some((value, rest)) => made.extend([value, rest]),
            None if is_escaped => made.push_str(part),
            None => made.extend(["$", part]),
        }
        is_escaped = part.is_empty() && !is_escaped;
    }
    made
}

/// A variable as a text with its settings: the name belongs to it if the table has it.
fn assigned(name: &str, value: &str) -> String {
    let (word, whole) = (plain(name), format!("{name}={value}"));
    let is_named = |row: &Row| row.words.contains(&word) || row.grows_with.as_ref() == Some(&whole);
    if TABLE.iter().any(is_named) { whole } else { value.to_owned() }
}

/// The settings in the value of a variable, which is all of it that may be shown to others.
pub fn settings_in(name: &str, value: &str) -> String {
    let (text, before) = (assigned(name, value), format!("{name}="));
    if TABLE.iter().any(|row| row.grows_with.as_ref() == Some(&text)) {
        return value.to_owned();
    }
    let found = in_text(&text).into_iter().map(|(text, ..)| text.trim_start_matches(&before).to_owned());
    found.collect::<Vec<_>>().join(" ")
}

impl ConfigMaps {
    /// Reads those of some namespaces, or for none of all. Who may not read them does without.
    pub fn read(cluster: &mut dyn ClusterReader, namespaces: &[Option<&str>]) -> (Self, Option<ReadError>) {
        let (mut found, mut problem) = (Self::default(), None);
        for namespace in namespaces {
            let read = cluster.visit_configs(*namespace, &mut |object| found.add(&object));
            problem = problem.or(read.err().filter(|error| !error.is_unknown_kind()));
        }
        (found, problem)
    }

    fn add(&mut self, object: &Value) {
        let texts = object.get("data").and_then(Value::as_object).into_iter().flatten();
        let texts = texts.filter_map(|(key, text)| match text.as_str()? {
            text if text.len() <= SHORT => Some((key.clone(), text.to_owned())),
            text => Some((key.clone(), in_text(text).into_iter().map(|(text, ..)| text + "\n").collect())),
        });
        let key = [metadata(object, "namespace"), metadata(object, "name")].map(str::to_owned);
        self.0.insert(key, texts.collect());
    }

    /// The keys of one with their texts.
    fn of(&self, namespace: &str, name: &str) -> Option<&BTreeMap<String, String>> {
        self.0.get(&[namespace, name].map(str::to_owned))
    }
}

/// The volumes of a pod with their names, and the parts of those that have several.
fn volumes(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    items(pod, "/volumes").flat_map(|volume| {
        let parts = [volume].into_iter().chain(items(volume, "/projected/sources"));
        parts.map(|part| (text(volume, "/name"), part))
    })
}

/// The settings of a container in the spec of a pod; none in a pod of very many, each of which may have to do with all variables,
/// volumes and ConfigMaps.
pub fn settings(pod: &Value, container: &Value, namespace: &str, configs: &ConfigMaps) -> Vec<Setting> {
    let count = |at: &str| items(pod, at).count();
    if count("/containers") + count("/initContainers") > MOST_CONTAINERS {
        return Vec::new();
    }
    let [mut room, mut room_of_variables] = [MOST_BYTES; 2];
    let own = items(container, "/env").filter_map(|of| {
        let [map, key] = ["name", "key"].map(|at| text(of, &format!("/valueFrom/configMapKeyRef/{at}")));
        let value = match map {
            "" => text(of, "/value"),
            map => configs.of(namespace, map)?.get(key).filter(|value| fits(&mut room, value))?.as_str(),
        };
        Some((text(of, "/name").to_owned(), value, map))
    });
    let own: Vec<(String, &str, &str)> = own.filter(|(_, value, _)| !value.is_empty()).collect();
    let all = items(container, "/envFrom").flat_map(|from| {
        let [prefix, map] = [text(from, "/prefix"), text(from, "/configMapRef/name")];
        let values = configs.of(namespace, map).into_iter().flatten();
        values.map(move |(key, value)| (format!("{prefix}{key}"), value.as_str(), map))
    });
    let all: Vec<(String, &str, &str)> = all.take_while(|(_, value, _)| fits(&mut room, value)).collect();
    let (mut variables, mut texts) = (BTreeMap::new(), Vec::new());
    for (name, value, map) in all.into_iter().chain(own) {
        let value = if map.is_empty() { expanded(value, &variables, &mut room_of_variables) } else { value.to_owned() };
        texts.push((assigned(&name, &value), map));
        variables.insert(name, value);
    }
    let words = items(container, "/command").chain(items(container, "/args")).filter_map(Value::as_str);
    let words = words.collect::<Vec<_>>().join(" ");
    texts.push((expanded(&words, &variables, &mut room_of_variables), ""));
    let mounted: BTreeSet<&str> = items(container, "/volumeMounts").map(|mount| text(mount, "/name")).collect();
    let files = volumes(pod).filter(|(name, _)| mounted.contains(name)).flat_map(|(_, volume)| {
        let map = text(volume, "/configMap/name");
        configs.of(namespace, map).into_iter().flatten().map(move |(_, file)| (file, map))
    });
    let files = files.take_while(|(file, _)| fits(&mut room, file));
    texts.extend(files.map(|(file, map)| (file.clone(), map)));
    let set: BTreeSet<&str> = texts.iter().flat_map(|(text, _)| lines(text).flatten()).collect();
    let mut limits = container.pointer("/resources/limits").and_then(Value::as_object).into_iter().flatten();
    let has_huge_pages = limits.any(|(name, _)| name.starts_with("hugepages-"));
    let is_in_memory =
        |row: &Row| !has_huge_pages || row.huge_with.as_ref().is_none_or(|with| !set.contains(with.as_str()));
    let grows = |row: &Row| {
        let with = row.grows_with.as_ref();
        row.of != Kind::Cpus && with.is_none_or(|with| set.contains(with.as_str()))
    };
    let mut found: Vec<Setting> = Vec::new();
    for (text, map) in &texts {
        let place = if map.is_empty() { String::new() } else { format!(" (ConfigMap {map})") };
        let settings = in_text(text).into_iter().filter(|(.., row)| is_in_memory(row));
        found.extend(settings.map(|(text, told, row)| Setting { text: text + &place, told, grows: grows(row) }));
    }
    let containers = items(pod, "/containers").chain(items(pod, "/initContainers"));
    let variables = containers.flat_map(|of| items(of, "/env").map(move |made| (text(of, "/name"), made)));
    let variables = variables.map(|(of, made)| (of, text(made, "/name"), made.pointer("/valueFrom/resourceFieldRef")));
    let files = volumes(pod).flat_map(|(_, volume)| items(volume, "/downwardAPI/items"));
    let files = files.map(|made| ("", text(made, "/path"), made.get("resourceFieldRef")));
    for (of, name, field) in variables.chain(files) {
        let of_field = |at: &str| field.map_or("", |field| text(field, at));
        let of = if of_field("/containerName").is_empty() { of } else { of_field("/containerName") };
        let is_own = of == text(container, "/name");
        let Some((requirement, resource)) = of_field("/resource").split_once('.').filter(|_| is_own) else { continue };
        let of = if requirement == "limits" { Requirement::Limit } else { Requirement::Request };
        let grows = TABLE.iter().any(|row| row.words.contains(&plain(name)) && grows(row));
        let text = format!("{name} from {requirement}.{resource}");
        found.push(Setting { text, told: Told::Field(of, resource.to_owned()), grows });
    }
    found.sort_by(|a, b| a.text.cmp(&b.text));
    found.dedup();
    found.truncate(MOST_SETTINGS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use headroom_objects::cluster_reader::Folder;
    use serde_json::json;

    #[test]
    fn settings_of_the_table_are_found_wherever_they_stand() {
        let cases = documents::parse(include_str!("program/cases.yaml")).unwrap();
        let mut folder = Folder::with(cases["configMaps"].as_array().unwrap().clone()).unwrap();
        let (configs, problem) = ConfigMaps::read(&mut folder, &[Some("shop")]);
        assert_eq!(problem, None);
        for case in cases["containers"].as_array().unwrap() {
            let pod = json!({"containers": [case], "volumes": cases["volumes"]});
            let shown = |of: &Setting| {
                let grows = if of.grows { ", grows" } else { "" };
                match &of.told {
                    Told::Memory(amount) => format!("{}: {amount}{grows}", of.text),
                    Told::OfLimit(thousandths) => format!("{}: {thousandths}{grows}", of.text),
                    Told::Cpus | Told::Field(..) => format!("{}{grows}", of.text),
                }
            };
            let found: Vec<String> = settings(&pod, case, "shop", &configs).iter().map(shown).collect();
            assert_eq!(json!(found), case["gives"], "{case}");
        }
    }

    #[test]
    fn what_multiplies_in_a_container_is_bounded() {
        let values: BTreeMap<String, String> =
            (0..4_000).map(|number| (format!("k{number}"), format!("-Xmx{number}m{}", " ".repeat(100)))).collect();
        let map = json!({"kind": "ConfigMap", "metadata": {"namespace": "evil", "name": "large"}, "data": values});
        let (configs, _) = ConfigMaps::read(&mut Folder::with([map]).unwrap(), &[Some("evil")]);
        let from = json!({"configMapRef": {"name": "large"}});
        // 4 GB of texts, if it read all.
        let container = json!({"name": "a", "args": ["-Xmx9g"], "envFrom": vec![from.clone(); 10_000]});
        let found = settings(&json!({"containers": [container]}), &container, "evil", &configs);
        assert_eq!(found.len(), MOST_SETTINGS);
        // Each variable names the one before it twice.
        let env = (0..200)
            .map(|at| json!({"name": format!("V{at}"), "value": format!("-Xmx{at}m $(V{0}) ${{V{0}}}", at - 1)}));
        let container = json!({"name": "a", "env": env.collect::<Vec<_>>(), "args": vec!["$(V199)"; 1_000]});
        assert_eq!(settings(&json!({"containers": [container]}), &container, "evil", &configs).len(), MOST_SETTINGS);
        // Nor may all of a pod's do so.
        let of = |number: usize| json!({"name": number.to_string(), "envFrom": [from]});
        let pod = json!({"containers": (0..20_000).map(of).collect::<Vec<_>>()});
        let all = items(&pod, "/containers").map(|container| settings(&pod, container, "evil", &configs).len());
        assert_eq!(all.sum::<usize>(), 0);
    }

    #[test]
    fn of_a_variable_only_settings_are_shown() {
        let check = |name: &str, value: &str, expected: &str| assert_eq!(settings_in(name, value), expected, "{value}");
        check("JAVA_OPTS", "-Xmx6g -Dpassword=s3cret", "-Xmx6g");
        check("GOMEMLIMIT", "3GiB s3cret", "3GiB");
        check("GOMEMLIMIT", "s3cret", "");
        check("GOGC", "off", "off");
        check("PASSWORD", "3GiB", "");
        check("PASSWORD", "off", "");
    }
}
