//! README.md and the book: links, commands, Helm values, YAML and quoted messages. Tests in the crates check the
//! arguments of `kubectl headroom` and `headroom-controller`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use headroom_fixtures::words;
use regex::Regex;
use serde_json::Value;

use crate::chart::{CHART, Chart, MANIFESTS, ask};
use crate::tidy::normal;
use crate::{Faults, documents, items, output, read, run, sorted_files, text, yaml};

const LANGUAGES: [&str; 4] = ["console", "sh", "text", "yaml"];

/// A fenced block, with the comment before it.
struct Block {
    place: String,
    language: String,
    kind: String,
    body: String,
}

/// A page: its blocks, and its text without them.
struct Page {
    path: String,
    blocks: Vec<Block>,
    prose: String,
}

pub fn check(host: &str, policy: &str) -> Result<()> {
    let mut faults = Faults::default();
    let mut pages = vec!["README.md".to_owned()];
    pages.extend(sorted_files("docs/src", "md")?);
    let pages: Vec<Page> = pages.into_iter().map(|path| Page::read(path, &mut faults)).collect::<Result<_>>()?;

    let summary = read("docs/src/SUMMARY.md")?;
    for page in &pages {
        let is_listed = match page.path.strip_prefix("docs/src/") {
            None | Some("SUMMARY.md") => true,
            Some(page) => summary.contains(&format!("]({page})")),
        };
        faults.check(is_listed, || format!("docs/src/SUMMARY.md does not list {}", page.path));
    }
    let lines = read("README.md")?.lines().count();
    faults.check(lines < 130, || format!("README.md has {lines} lines; keep it below 130, and move the rest to docs/"));

    let url = regex::escape(&crate::release::identity("URL")?);
    let ours = Regex::new(&format!(r"^{url}/(?:blob|tree)/main/(.+)$"))?;
    let shell = Shell { chart: Chart::new()?, host, policy, makefile: read("Makefile")? };
    let expected = expected_messages()?;
    check_statements(&pages, &expected, &mut faults)?;
    let (mut commands, mut messages) = (0, 0);
    for page in &pages {
        check_links(page, &ours, &mut faults)?;
        for block in &page.blocks {
            let tried = match (block.language.as_str(), block.kind.as_str()) {
                ("sh", _) => {
                    let lines = block.body.replace("\\\n", " ");
                    for command in lines.lines().map(words).filter(|words| !words.is_empty()) {
                        commands += 1;
                        let tried = shell.try_command(&command.iter().map(String::as_str).collect::<Vec<_>>());
                        faults.tried(&block.place, tried);
                    }
                    continue;
                }
                (_, "values") => shell.try_values(&block.body),
                (_, "kustomization") => shell.try_kustomization(&block.body),
                (_, "message") => {
                    messages += 1;
                    let is_expected = expected.contains(block.body.trim());
                    is_expected.then_some(()).context("no scenario and no test expects this message")
                }
                // Another file is included as a whole, and is checked itself.
                ("yaml", kind) if !block.body.starts_with("{{#include") => shell.try_yaml(kind, &block.body),
                _ => continue,
            };
            faults.tried(&block.place, tried);
        }
    }
    let tests = check_tests(&pages, &shell, &mut faults)?;
    faults.end(&format!(
        "docs: {} pages, {commands} commands, {messages} messages, {tests} tests are in order",
        pages.len()
    ))
}

impl Page {
    fn read(path: String, faults: &mut Faults) -> Result<Self> {
        let whole = read(&path)?;
        let fence = Regex::new(r"^( *)```(\w*)$")?;
        let comment = Regex::new(r"^ *<!-- ([\w ]+) -->$")?;
        let (mut blocks, mut prose, mut kind) = (Vec::new(), String::new(), String::new());
        let mut lines = whole.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(opened) = fence.captures(line) else {
                kind = comment.captures(line).map(|found| found[1].to_owned()).unwrap_or_default();
                prose = prose + line + "\n";
                continue;
            };
            let (indent, language) = (opened[1].len(), opened[2].to_owned());
            let place = format!("{path}:{}", number + 1);
            faults.check(LANGUAGES.contains(&language.as_str()), || {
                format!("{place}: the language `{language}` is not known")
            });
            let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
            let body = body.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect();
            blocks.push(Block { place, language, kind: std::mem::take(&mut kind), body });
        }
        Ok(Self { path, blocks, prose })
    }
}

/// Checks what several places state: the figures of README.md are measured, Kubewarden's version is that of the
/// metadata, and the page on annotations and messages has what the code knows and tests expect.
fn check_statements(pages: &[Page], expected: &str, faults: &mut Faults) -> Result<()> {
    const MEASURED: &str = "docs/src/concepts/benchmarks.md";
    const MESSAGES: &str = "docs/src/reference/annotations-and-messages.md";
    let measured = read(MEASURED)?;
    let figure = Regex::new(r"\b[0-9][0-9.,]*(?:%| (?:seconds|minutes|hours|ms|MB|MiB|GiB|times)\b)")?;
    let version = Regex::new(r"Kubewarden\S* ([0-9.]+) or newer")?;
    let first_cell = Regex::new(r"(?m)^\| (`[^|]+) \|")?;
    let code = Regex::new("`([^`]+)`")?;
    let metadata = yaml(&read("policy-metadata.yaml")?)?;
    let least = text(&metadata["minimumKubewardenVersion"]);
    let chart = Page::read(format!("{CHART}/README.md"), faults)?;
    for page in pages.iter().chain([&chart]) {
        for found in figure.find_iter(&page.prose).filter(|_| page.path == "README.md") {
            faults.check(measured.contains(found.as_str()), || format!("{MEASURED} has no `{}`", found.as_str()));
        }
        for found in version.captures_iter(&page.prose) {
            faults.check(least == format!("{}.0", &found[1]), || format!("{}: not Kubewarden {least}", page.path));
        }
        for cell in first_cell.captures_iter(&page.prose).filter(|_| page.path == MESSAGES) {
            let texts = code.captures_iter(&cell[1]).map(|found| found.extract::<1>().1[0]);
            for part in
                texts.filter(|text| !text.starts_with("headroom.dev/")).flat_map(|text| text.split('…')).map(str::trim)
            {
                faults.check(expected.contains(part), || format!("{MESSAGES}: no test expects `{part}`"));
            }
        }
    }
    let messages = read(MESSAGES)?;
    let annotation = Regex::new(r#"&str = "(headroom\.dev/[a-z-]+)""#)?;
    for file in sorted_files("crates/admission/src", "rs")?.into_iter().chain(sorted_files("crates/resizer/src", "rs")?)
    {
        for found in annotation.captures_iter(&read(&file)?) {
            let is_there = messages.contains(&format!("`{}`", &found[1]));
            faults.check(is_there, || format!("{MESSAGES} does not name {} of {file}", &found[1]));
        }
    }
    Ok(())
}

/// `ours` is the pattern of a link to a file of this repository.
fn check_links(page: &Page, ours: &Regex, faults: &mut Faults) -> Result<()> {
    let link = Regex::new(r"\]\(([^)\s]+)\)")?;
    let include = Regex::new(r"\{\{#include ([^}]+)\}\}")?;
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    for found in link.captures_iter(&page.prose) {
        let (target, anchor) = found[1].split_once('#').unwrap_or((&found[1], ""));
        let path = if let Some(ours) = ours.captures(target) {
            PathBuf::from(&ours[1])
        } else if target.contains(':') {
            continue;
        } else if target.is_empty() {
            PathBuf::from(&page.path)
        } else {
            let path = normal(&folder.join(target));
            let is_inside = page.path == "README.md" || path.starts_with("docs/src");
            faults.check(is_inside, || {
                format!("{}: `{target}` leaves the book, so it would be dead there: write the path as code", page.path)
            });
            path
        };
        if !path.exists() {
            faults.check(false, || format!("{}: `{target}` is not there", page.path));
        } else if !anchor.is_empty() && path.extension().is_some_and(|extension| extension == "md") {
            let has = anchors(&path)?.contains(anchor);
            faults.check(has, || format!("{}: {} has no heading `{anchor}`", page.path, path.display()));
        }
    }
    for block in &page.blocks {
        for included in include.captures_iter(&block.body) {
            let is_there = folder.join(&included[1]).exists();
            faults.check(is_there, || format!("{}: {} is not there", block.place, &included[1]));
        }
    }
    Ok(())
}

fn anchors(path: &Path) -> Result<HashSet<String>> {
    let page = Page::read(path.to_string_lossy().into_owned(), &mut Faults::default())?;
    let heading = Regex::new(r"(?m)^#+ (.+)$")?;
    let linked = Regex::new(r"\[([^]]+)\]\([^)]*\)")?;
    let headings = heading.captures_iter(&page.prose).map(|found| {
        let plain = linked.replace_all(&found[1], "$1").to_lowercase();
        let kept = plain.chars().filter(|letter| letter.is_alphanumeric() || "_- ".contains(*letter));
        kept.collect::<String>().replace(' ', "-")
    });
    Ok(headings.collect())
}

/// Tries the commands of the documentation, as far as that changes nothing.
struct Shell<'a> {
    chart: Chart,
    host: &'a str,
    policy: &'a str,
    makefile: String,
}

impl Shell<'_> {
    fn try_command(&self, command: &[&str]) -> Result<()> {
        match command {
            ["kubectl", "apply", arguments @ ..] => self.try_apply(arguments),
            ["kubectl", "headroom" | "get" | "krew" | "kustomize" | "label" | "logs" | "patch" | "scale", ..] => Ok(()),
            ["make", words @ ..] => words.iter().filter(|word| !word.contains('=')).try_for_each(|target| {
                let rule =
                    Regex::new(&format!(r"(?m)^(?:[\w.-]+ )*{}(?: [\w.-]+)*:(?:[^=]|$)", regex::escape(target)))?;
                ensure!(rule.is_match(&self.makefile), "the Makefile has no target {target}");
                Ok(())
            }),
            ["helm", arguments @ ..] => self.try_helm(arguments),
            ["kwctl", "push", ..] => Ok(()),
            ["kwctl", arguments @ ..] => self.try_host(arguments),
            [program, arguments @ ..] if program.ends_with("headroom-host") => self.try_host(arguments),
            // Their arguments are not checked here.
            ["headroom-controller" | "kubectl-headroom", ..] => Ok(()),
            ["cargo" | "chmod" | "cosign" | "cp" | "curl" | "export" | "git", ..] => Ok(()),
            ["mkdir" | "pre-commit" | "python3" | "source", ..] => Ok(()),
            _ => bail!("nothing checks `{}`: add it to crates/xtask/src/docs.rs", command.join(" ")),
        }
    }

    fn try_apply(&self, arguments: &[&str]) -> Result<()> {
        let Some(["-f", path]) = arguments.windows(2).find(|pair| pair[0] == "-f") else { return Ok(()) };
        let is_rendered = MANIFESTS.iter().any(|(file, _)| path.ends_with(file));
        ensure!(*path == "-" || is_rendered || Path::new(path).exists(), "{path} is not there");
        Ok(())
    }

    /// Renders what is installed: the schema refuses wrong values, and the templates wrong combinations.
    fn try_helm(&self, arguments: &[&str]) -> Result<()> {
        let ["install" | "upgrade" | "template", _, chart, rest @ ..] = arguments else {
            return matches!(arguments, ["uninstall", ..]).then_some(()).context("nothing checks this");
        };
        if chart.starts_with("charts/") {
            return Ok(());
        }
        let is_ours = *chart == CHART || (chart.starts_with("oci://") && chart.ends_with("/headroom"));
        ensure!(is_ours, "{chart} is not the chart");
        // The newest chart may have values that those of an older release lack.
        ensure!(!rest.contains(&"--reuse-values"), "use --reset-then-reuse-values, which adds new default values");
        let rest = rest.iter().filter(|word| !["--create-namespace", "--reset-then-reuse-values"].contains(word));
        self.render(&rest.copied().collect::<Vec<_>>())
    }

    fn render(&self, arguments: &[&str]) -> Result<()> {
        let rendered = self.chart.template(arguments)?;
        rendered.is_success.then_some(()).with_context(|| rendered.err.trim().to_owned())
    }

    fn try_host(&self, arguments: &[&str]) -> Result<()> {
        let arguments = arguments.iter().map(|word| if *word == "annotated-policy.wasm" { self.policy } else { word });
        let answer = output(Command::new(self.host).args(arguments))?;
        let is_answer = answer.is_success && answer.out.contains("\"uid\"");
        is_answer.then_some(()).with_context(|| format!("{}{}", answer.err, answer.out))
    }

    /// YAML is what the comment before it says.
    fn try_yaml(&self, kind: &str, body: &str) -> Result<()> {
        let documents = documents(body)?;
        let [first, ..] = &documents[..] else { bail!("the block is empty") };
        let is_right = match kind {
            "settings" => return self.try_settings(first),
            "policy" => return self.try_settings(&first["spec"]["settings"]),
            "workflow" | "source" => documents.len() == 1 && first.is_object(),
            "object" => {
                let has = |path: &str| first.pointer(path).is_some_and(Value::is_string);
                has("/apiVersion") && has("/kind") && has("/metadata/name")
            }
            "rules" => items(first).iter().all(|rule| {
                let fields = rule.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
                fields.eq(["apiGroups", "apiVersions", "operations", "resources"])
            }),
            "pod makers" => first[0]["kinds"].is_array(),
            _ => bail!("`<!-- {kind} -->` before a block of YAML is not a known kind"),
        };
        is_right.then_some(()).with_context(|| format!("the block is not what `<!-- {kind} -->` says"))
    }

    fn try_settings(&self, settings: &Value) -> Result<()> {
        let answer = ask(self.host, self.policy, &settings.to_string())?;
        answer.is_success.then_some(()).with_context(|| answer.err.trim().to_owned())
    }

    fn try_values(&self, values: &str) -> Result<()> {
        self.render(&["-n", "headroom", "--set-json", &yaml(values)?.to_string()])
    }

    /// An overlay patches what the manifests contain.
    fn try_kustomization(&self, overlay: &str) -> Result<()> {
        let overlay = yaml(overlay)?;
        for resource in items(&overlay["resources"]) {
            self.try_apply(&["-f", text(resource)])?;
        }
        let objects = self.chart.objects("headroom", &[])?;
        for patch in items(&overlay["patches"]) {
            let [kind, name] = ["kind", "name"].map(|key| text(&patch["target"][key]));
            let target = objects.iter().find(|((of, _, named), _)| of == kind && named == name);
            let (_, target) = target.with_context(|| format!("the manifests have no {kind} {name}"))?;
            for operation in items(&yaml(text(&patch["patch"]))?) {
                let path = text(&operation["path"]);
                target.pointer(path).with_context(|| format!("the {kind} has no {path}"))?;
            }
        }
        Ok(())
    }
}

/// All texts that scenarios, cases and tests expect.
fn expected_messages() -> Result<String> {
    let paths = ["tests/scenarios", "tests/conformance", "crates/*/tests/*"];
    let listed = run("git", &[&["ls-files", "--cached", "--others", "--exclude-standard"], &paths[..]].concat())?;
    let files = listed.lines().filter(|file| !file.ends_with(".rs") && Path::new(file).exists());
    let texts = files.map(|file| Ok(String::from_utf8_lossy(&std::fs::read(file)?).into_owned()));
    Ok(texts.collect::<Result<Vec<String>>>()?.join("\n"))
}

/// Checks that the tests exist that the page on tenants names in parentheses at the end of each item.
fn check_tests(pages: &[Page], shell: &Shell, faults: &mut Faults) -> Result<usize> {
    const PAGE: &str = "docs/src/concepts/tenants.md";
    let page = pages.iter().find(|page| page.path == PAGE).with_context(|| format!("{PAGE} is not there"))?;
    let listed =
        run("git", &["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "tests/conformance/*.json"])?;
    let (sources, cases): (Vec<&str>, Vec<&str>) =
        listed.lines().filter(|file| Path::new(file).exists()).partition(|file| file.ends_with(".rs"));
    let sources = sources.into_iter().map(read).collect::<Result<Vec<String>>>()?.join("\n");
    let tests = Regex::new(r"(?m)^- .*\(([^()]*)\)$")?;
    let name = Regex::new("`([^`]+)`")?;
    let mut count = 0;
    for item in tests.captures_iter(&page.prose) {
        for name in name.captures_iter(&item[1]).map(|found| found.extract::<1>().1[0]) {
            count += 1;
            let is_case = |case: &&str| match name.strip_suffix("/*.json") {
                Some(folder) => Path::new(case).parent() == Some(Path::new(folder)),
                None => Path::new(case).file_stem().is_some_and(|stem| stem == name),
            };
            let exists = match name.strip_prefix("make ") {
                Some(target) => shell.try_command(&["make", target]).is_ok(),
                None => {
                    // The last two make a scenario of the model.
                    [format!("fn {name}("), format!("scenario(\"{name}\""), format!("one_leader(\"{name}\"")]
                        .iter()
                        .any(|text| sources.contains(text))
                        || cases.iter().any(is_case)
                }
            };
            faults.check(exists, || format!("{PAGE}: no test, scenario or case is called `{name}`"));
        }
    }
    faults.check(count > 0, || format!("{PAGE}: no item names tests"));
    Ok(count)
}
