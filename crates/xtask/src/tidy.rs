//! Keeps the promises that ARCHITECTURE.md, STYLE.md and CONTRIBUTING.md make about structure: `make lint` fails where one is
//! broken, and says what to do. Sources are scanned as text, which takes a tenth of a second.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result};
use regex::Regex;

use crate::{Faults, read, run};

/// The entries that a visitor sees before the README.
const MAX_TOP_LEVEL_ENTRIES: usize = 28;
/// The design card: the files by which a Kubewarden policy is known, and the packages that it is made with.
const CARD_FILES: [&str; 6] =
    ["Cargo.toml", "src", "policy-metadata.yaml", "artifacthub-pkg.yml", "e2e.bats", "Makefile"];
const CARD_PACKAGES: [&str; 6] =
    ["wasm-bindgen", "serde", "serde_json", "kubewarden-policy-sdk", "wapc-guest", "k8s-openapi"];

/// Marks of hashes for which anybody finds texts in seconds, and the files that may have them: there no object of one tenant takes
/// the place of another's. Images are spread over 64 roots, whose pages have a key; a code scanner's fingerprints and the
/// number of distinct names are only compared with each other.
const WEAK_HASHES: [&str; 4] = ["cbf2_9ce4_8422_2325", "cbf29ce484222325", "DefaultHasher", "FnvHasher"];
const KEYLESS: [&str; 4] = [
    "crates/admission/src/cluster/usage/profile_layout.rs",
    "crates/output/src/sarif.rs",
    "crates/usage/src/cardinality.rs",
    "crates/xtask/src/tidy.rs",
];

pub fn check() -> Result<()> {
    let listed = run("git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let files: Vec<&str> = listed.lines().filter(|file| Path::new(file).exists()).collect();
    let mut faults = Faults::default();
    let mut top: Vec<&str> = files.iter().filter_map(|file| file.split('/').next()).collect();
    top.sort_unstable();
    top.dedup();
    faults.check(top.len() <= MAX_TOP_LEVEL_ENTRIES, || {
        format!("the top level has {} entries: move one, {MAX_TOP_LEVEL_ENTRIES} are enough", top.len())
    });
    for file in CARD_FILES.iter().filter(|file| !top.contains(file)) {
        faults.0.push(format!("the design card wants `{file}` at the top level: put it back"));
    }
    let ours = files.iter().filter(|file| file.ends_with(".rs"));
    let crates: Vec<&str> = files.iter().filter_map(|file| file.strip_suffix("Cargo.toml")).collect();
    let mut unused = CARD_PACKAGES.to_vec();
    for folder in &crates {
        let sources = ours.clone().filter(|file| file.starts_with(&format!("{folder}src/")));
        let code = sources.map(read).collect::<Result<Vec<_>>>()?.concat();
        let manifest = read(format!("{folder}Cargo.toml"))?;
        unused.retain(|package| !is_used(package, &manifest, &code));
    }
    faults.0.extend(unused.iter().map(|package| {
        format!("the design card wants `{package}` in use: no crate depends on it and names it in `src`")
    }));
    for file in ours.clone() {
        let text = read(file)?;
        let has_hash = WEAK_HASHES.iter().any(|hash| text.contains(hash)) && !KEYLESS.contains(file);
        faults.check(!has_hash, || {
            format!("{file}: a hash without a key, of which anybody finds a second text: use headroom_api_server::derived_name, or name the file in KEYLESS")
        });
        faults.0.extend(doc_comments(&text).into_iter().map(|(line, fault)| format!("{file}:{line}: {fault}")));
        let folder = crates.iter().filter(|folder| file.starts_with(*folder)).max_by_key(|folder| folder.len());
        let paths = text.split("\n#[path = \"").skip(1);
        for path in paths.filter_map(|rest| rest.split('"').next()) {
            let included = normal(&Path::new(file).with_file_name(path));
            faults.check(folder.is_some_and(|folder| included.starts_with(folder)), || {
                format!("{file}: #[path = \"{path}\"] leaves the crate: move what both use to a library, such as headroom-fixtures")
            });
        }
    }
    for root in ours.filter(|file| file.contains("src/") && (file.ends_with("/lib.rs") || file.ends_with("/main.rs"))) {
        let mut modules = Modules::default();
        modules.read(Path::new(root), Path::new(root).parent().context("a folder")?, &[])?;
        faults.0.extend(modules.arrows_up());
    }
    let architecture = read("ARCHITECTURE.md")?;
    let layers = layers(&architecture)?;
    for file in files.iter().filter(|file| file.ends_with("Cargo.toml")) {
        faults.0.extend(forbidden(&layers, file, &read(file)?));
    }
    faults.0.extend(listed_out_of_order(&architecture, &read("crates/admission/src/lib.rs")?)?);
    let path = Regex::new(r"`((?:crates|deploy|docs|playground|scripts|tests)/[\w./-]+)`")?;
    let link = Regex::new(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")?;
    let ignored = read(".gitignore")?;
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        let text = read(file)?;
        let has_conflict = text.lines().any(|line| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> "));
        faults.check(!has_conflict, || format!("{file} has the marks of a conflict: resolve it"));
        for path in path.captures_iter(&text).map(|found| found[1].trim_end_matches('/').to_owned()) {
            let is_made = ignored.lines().any(|line| line == format!("/{path}"));
            let is_there = Path::new(&path).exists() || Path::new(file).with_file_name(&path).exists();
            faults.check(is_made || is_there, || format!("{file}: `{path}` is not there"));
        }
        for found in link.captures_iter(&text).filter(|_| !file.starts_with("docs/src")) {
            let target = normal(&Path::new(file).with_file_name(&found[1]));
            faults.check(target.exists(), || {
                format!("{file}: the link leads to {}, which is not there", target.display())
            });
        }
    }
    faults.end(&format!("tidy: {} files are in order", files.len()))
}

/// True if a crate depends on a package, not only for its tests, and its code names it.
fn is_used(package: &str, manifest: &str, code: &str) -> bool {
    let named = format!("{}::", package.replace('-', "_"));
    let starts_a_path =
        |before: &str| !before.contains("//") && !before.ends_with(|last: char| last.is_alphanumeric() || last == '_');
    dependencies(manifest).any(|line| line.split(['.', ' ', '=']).next() == Some(package))
        && code.lines().any(|line| line.split_once(&named).is_some_and(|(before, _)| starts_a_path(before)))
}

/// Compares the modules that a table of ARCHITECTURE.md lists with those of the core, in order.
fn listed_out_of_order(architecture: &str, lib: &str) -> Result<Option<String>> {
    let table =
        architecture.split("\n## The modules of the core").nth(1).context("a section with the core's modules")?;
    let rows = table.split("\n## ").next().into_iter().flat_map(str::lines).filter(|line| line.starts_with("| `"));
    let listed: Vec<&str> =
        rows.filter_map(|row| row.split('|').nth(1)).flat_map(|names| names.split('`').skip(1).step_by(2)).collect();
    let declared = Regex::new(r"(?m)^(?:pub )?mod (\w+);")?;
    let declared = declared.captures_iter(lib).map(|found| found.extract::<1>().1[0]);
    let declared: Vec<&str> = declared.filter(|name| !name.ends_with("_test")).collect();
    Ok((listed != declared)
        .then(|| format!("ARCHITECTURE.md: list the core's modules in the order of lib.rs: {declared:?}")))
}

/// The path without `..`.
pub fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, part| {
        if part == Component::ParentDir {
            path.pop();
        } else {
            path.push(part);
        }
        path
    })
}

/// Lines of doc comments that begin with a noun clause, and of code that nothing would run.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut is_inside, mut is_code) = (Vec::new(), false, false);
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            (is_inside, is_code) = (false, false);
            continue;
        };
        let first = comment.split_whitespace().next().unwrap_or_default();
        if !is_inside && ["What", "Whether", "Of", "Which", "Who", "Why", "How"].contains(&first) {
            found.push((
                at + 1,
                format!("the comment begins with `{first}`: say in a sentence what the item is or does (STYLE.md)"),
            ));
        }
        if let Some(language) = comment.trim().strip_prefix("```") {
            if !is_code && language.is_empty() {
                found.push((at + 1, "no target runs doc tests: write a test, or mark the block as `text`".to_owned()));
            }
            is_code = !is_code;
        }
        is_inside = true;
    }
    found
}

/// The modules of a crate by their paths, each with its file, its submodules in order, and the items of theirs that it
/// publishes under its own name.
#[derive(Default)]
struct Modules(BTreeMap<Vec<String>, Module>);

struct Module {
    file: String,
    code: String,
    submodules: Vec<String>,
    published: BTreeMap<String, String>,
}

impl Modules {
    fn read(&mut self, file: &Path, folder: &Path, path: &[String]) -> Result<()> {
        let module = Module::new(file.display().to_string(), &read(file)?);
        for name in &module.submodules {
            let path = [path, std::slice::from_ref(name)].concat();
            let inside = folder.join(name);
            let found = [inside.with_extension("rs"), inside.join("mod.rs")].into_iter().find(|file| file.exists());
            if let Some(file) = found {
                self.read(&file, &inside, &path)?;
            }
        }
        self.0.insert(path.to_vec(), module);
        Ok(())
    }

    /// Uses of sibling modules that are declared below the module, once each.
    fn arrows_up(&self) -> Vec<String> {
        let mut found = Vec::new();
        // Tests may use anything.
        for (path, module) in self.0.iter().filter(|(path, _)| path.last().is_none_or(|name| name != "tests")) {
            for used in used_paths(&module.code, path) {
                let depth = path.iter().zip(&used).take_while(|(own, used)| own == used).count();
                let (Some(own), Some(used)) = (path.get(depth), used.get(depth)) else { continue };
                let parent = &self.0[&path[..depth]];
                let used = parent.published.get(used).unwrap_or(used);
                let at = |name: &str| parent.submodules.iter().position(|submodule| submodule == name);
                if let (Some(user), Some(target)) = (at(own), at(used))
                    && user < target
                {
                    found.push(format!(
                        "{}: uses `{used}`, which {} declares below `{own}`: reorder the `mod` lines, or move the item",
                        module.file, parent.file
                    ));
                }
            }
        }
        found.dedup();
        found
    }
}

static DECLARED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^(?:pub(?:\([^)]*\))? )?mod (\w+);").expect("a pattern"));
static PUBLISHED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^pub(?:\([^)]*\))? use (?:self::)?(\w+)::").expect("a pattern"));

impl Module {
    fn new(file: String, text: &str) -> Self {
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code: String = lines.flat_map(|line| [line, "\n"]).collect();
        let submodules: Vec<String> = DECLARED.captures_iter(&code).map(|found| found[1].to_owned()).collect();
        let mut published = BTreeMap::new();
        for exported in PUBLISHED.captures_iter(&code) {
            let rest = &code[exported.get(0).map_or(0, |found| found.end())..];
            for path in expand(rest).0 {
                published.extend(path.last().map(|item| (item.clone(), exported[1].to_owned())));
            }
        }
        Self { file, code, submodules, published }
    }
}

/// The paths inside the crate that the code of a module names, without `crate` and `super`.
fn used_paths(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (start, keyword) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let is_start =
            !code[..start].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':');
        if !is_start {
            continue;
        }
        let (mut rest, mut base) = (&code[start..], module);
        if keyword == "crate::" {
            (rest, base) = (&rest[keyword.len()..], &[]);
        }
        while let Some(above) = rest.strip_prefix("super::") {
            (rest, base) = (above, base.split_last().map_or(base, |(_, parent)| parent));
        }
        found.extend(expand(rest).0.into_iter().map(|path| [base, &path].concat()));
    }
    found
}

/// The paths of `a::{b, c::d}`, and the text after it.
fn expand(text: &str) -> (Vec<Vec<String>>, &str) {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut paths = Vec::new();
        while !rest.is_empty() && !rest.starts_with('}') {
            let (inside, after) = expand(rest);
            paths.extend(inside);
            // Also skips `as name`.
            rest = after.trim_start_matches(|letter| letter != ',' && letter != '}');
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        return (paths, rest.strip_prefix('}').unwrap_or(rest));
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (name, rest) = (text[..end].to_owned(), &text[end..]);
    match rest.strip_prefix("::") {
        Some(rest) if !name.is_empty() => {
            let (paths, rest) = expand(rest);
            (paths.into_iter().map(|path| [vec![name.clone()], path].concat()).collect(), rest)
        }
        _ => (vec![vec![name]], rest),
    }
}

/// The line of each crate in the drawing of ARCHITECTURE.md.
fn layers(architecture: &str) -> Result<BTreeMap<String, usize>> {
    let drawing =
        architecture.split("Each crate may use those below it").nth(1).context("ARCHITECTURE.md has no layers")?;
    let lines =
        drawing.lines().skip_while(|line| !line.starts_with("    ")).take_while(|line| line.starts_with("    "));
    let mut found = BTreeMap::new();
    for (at, line) in lines.enumerate() {
        for name in line
            .split('|')
            .map(|cell| cell.split([':', '(']).next().unwrap_or_default())
            .flat_map(str::split_whitespace)
        {
            found.insert(name.trim_start_matches("headroom-").to_owned(), at);
        }
    }
    Ok(found)
}

/// The lines of a manifest that name a dependency, without those of tests and of the workspace.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let sections = manifest.split("\n[").filter(|section| {
        let header = section.lines().next().unwrap_or_default();
        header == "dependencies]" || header.ends_with(".dependencies]") && !header.starts_with("workspace")
    });
    sections.flat_map(str::lines)
}

/// Dependencies of a crate on crates that do not stand below it.
fn forbidden(layers: &BTreeMap<String, usize>, file: &str, manifest: &str) -> Vec<String> {
    let folder = file.trim_end_matches("/Cargo.toml").trim_start_matches("crates/");
    let Some(own) = layers.get(if folder == "Cargo.toml" { "policy" } else { folder }) else { return Vec::new() };
    let used = dependencies(manifest).filter_map(|line| line.strip_prefix("headroom-")?.split(['.', ' ']).next());
    used.filter(|used| layers.get(*used).is_none_or(|line| line <= own))
        .map(|used| {
            format!(
                "{file}: {used} does not stand below this crate in ARCHITECTURE.md: move what is needed, or the crate"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_sentences_and_code_in_them_is_no_test() {
        let check = |text: &str, expected: &[usize]| {
            let lines: Vec<usize> = doc_comments(text).into_iter().map(|(line, _)| line).collect();
            assert_eq!(lines, expected, "{text}");
        };
        check("/// The pods.\nfn a() {}", &[]);
        check("//! Names.\n//!\n//! What follows.\n\n    /// Whether it is.\n", &[5]);
        check("// Which reason\n/// Often.\n/// Of late.", &[]);
        check("/// ```text\n/// a\n/// ```\n\n/// Runs.\n/// ```\n/// b();\n/// ```", &[6]);
    }

    #[test]
    fn modules_use_those_declared_above_them() {
        let module = |name: &str, text: &str| {
            let path: Vec<String> = name.split_terminator("::").map(str::to_owned).collect();
            (path, Module::new(format!("{name}.rs"), text))
        };
        let check = |lib: &str, second: &str, expected: &[&str]| {
            let texts = [("", lib), ("first", "mod inner;"), ("first::inner", second), ("last", "use super::first;")];
            let found = Modules(texts.map(|(name, text)| module(name, text)).into()).arrows_up();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(fault, part)| fault.contains(part)), "{found:?}");
        };
        let lib = "mod first;\npub mod last;\npub use last::{Item as Other, Last};";
        check(lib, "use super::Own;\nuse crate::first;", &[]);
        check(lib, "use super::super::{Own,\n last::a};", &["first::inner.rs: uses `last`"]);
        check(lib, "fn a() -> crate::Last {}", &["uses `last`, which .rs declares below `first`"]);
        check(lib, "// crate::last\n#[cfg(test)]\nmod tests {\n use crate::last::a; }", &[]);
    }

    #[test]
    fn packages_are_used_where_code_names_what_its_crate_depends_on() {
        let check = |section: &str, listed: &str, code: &str, expected: bool| {
            let manifest = format!("[package]\n[{section}]\n{listed} = \"1\"");
            assert_eq!(is_used("a-b", &manifest, code), expected, "{manifest}\n{code}");
        };
        check("dependencies", "a-b", "use a_b::C;", true);
        check("target.x.dependencies", "a-b", "fn d() -> Option<a_b::C> {", true);
        check("dependencies", "a-b", "// a_b::C\nuse a::b::a_b;", false);
        check("dependencies", "a-b", "use x_a_b::C;", false);
        check("dependencies", "a-b-c", "use a_b::C;", false);
        check("dev-dependencies", "a-b", "use a_b::C;", false);
    }

    #[test]
    fn crates_use_those_below_them() {
        let drawing =
            "Each crate may use those below it:\n\n    cli: kubectl  |\n    kube  report  | kube\n    core\n\nEnd";
        let check = |folder: &str, used: &str, is_allowed: bool| {
            let manifest = format!(
                "[package]\n[dependencies]\nheadroom-{used} = \"1\"\n[dev-dependencies]\nheadroom-cli.workspace = true"
            );
            let found = forbidden(&layers(drawing).unwrap(), &format!("crates/{folder}/Cargo.toml"), &manifest);
            assert_eq!(found.is_empty(), is_allowed, "{folder} {used}: {found:?}");
        };
        check("cli", "core", true);
        check("kube", "core", true);
        check("kube", "report", false);
        check("core", "cli", false);
        check("kube", "testkit", false);
        check("testkit", "cli", true);
    }
}
