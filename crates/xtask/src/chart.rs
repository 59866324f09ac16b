//! The Helm chart, which is the only deployment: its generated files, its values, and what it renders.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::{Value, json};

use crate::{Faults, Output, documents, items, output, read, run, setup, sorted_files, text, yaml};

pub const CHART: &str = "deploy/charts/headroom";
/// Rendered objects by kind, namespace and name.
pub type Objects = BTreeMap<(String, String, String), Value>;

pub struct Chart {
    helm: String,
}

impl Chart {
    pub fn new() -> Result<Self> {
        Ok(Self { helm: setup(&["helm"])? })
    }

    pub fn template(&self, arguments: &[&str]) -> Result<Output> {
        output(Command::new(&self.helm).args(["template", "headroom", CHART]).args(arguments))
    }

    fn rendered(&self, namespace: &str, arguments: &[&str]) -> Result<String> {
        let rendered = self.template(&[&["-n", namespace], arguments].concat())?;
        ensure!(rendered.is_success, "helm template {}: {}", arguments.join(" "), rendered.err.trim());
        Ok(rendered.out)
    }

    pub fn objects(&self, namespace: &str, arguments: &[&str]) -> Result<Objects> {
        let mut found = Objects::new();
        for document in documents(&self.rendered(namespace, arguments)?)? {
            let metadata = &document["metadata"];
            let key = [&document["kind"], &metadata["namespace"], &metadata["name"]].map(|part| text(part).to_owned());
            let [kind, namespace, name] = &key;
            let place = format!("{kind} {namespace}/{name}");
            ensure!(found.insert(key.into(), document).is_none(), "{place} is rendered twice");
        }
        Ok(found)
    }
}

fn at<'o>(objects: &'o Objects, kind: &str, namespace: &str, name: &str) -> &'o Value {
    objects.get(&(kind.to_owned(), namespace.to_owned(), name.to_owned())).unwrap_or(&Value::Null)
}

/// The template of an object's pods, if it makes pods.
fn pod(object: &Value) -> Option<&Value> {
    object.pointer("/spec/template/spec").or_else(|| object.pointer("/spec/jobTemplate/spec/template/spec"))
}

/// Writes the generated files of the chart, or fails if one is out of date.
pub fn generate(is_written: bool) -> Result<()> {
    let mut generated = vec![readme_with_tables(&Chart::new()?)?];
    if is_written || std::env::var_os("CARGO").is_some() {
        // Of the whole workspace, as the tests are built: for a package alone, its dependencies are built a second time.
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
        run("cargo", &["build", "--quiet", "--locked", "--workspace", "--example", "crd"])?;
        let text = run(&format!("{target}/debug/examples/crd"), &[])?;
        generated.push((format!("{CHART}/files/crd.yaml"), format!("{text}\n")));
    }
    let mut faults = Faults::default();
    for (path, wanted) in generated {
        let is_current = read(&path)? == wanted;
        if is_written && !is_current {
            std::fs::write(&path, wanted)?;
            println!("wrote {path}");
        } else {
            faults.check(is_current, || format!("{path} is out of date: run `cargo xtask codegen`"));
        }
    }
    faults.end("generated files are up to date")
}

fn readme_with_tables(chart: &Chart) -> Result<(String, String)> {
    let path = format!("{CHART}/README.md");
    let with_values = with_table(&read(&path)?, "values", &table_of_values()?)?;
    let text = with_table(&with_values, "permissions", &permissions(chart)?)?;
    Ok((path, text))
}

/// A document with the table of a name anew.
fn with_table(document: &str, name: &str, table: &str) -> Result<String> {
    let [begin, end] = [format!("<!-- {name}: made by `cargo xtask codegen` -->\n"), format!("<!-- end of {name} -->")];
    let missing = || format!("a document has no table of {name}");
    let (before, rest) = document.split_once(&begin).with_context(missing)?;
    let (_, after) = rest.split_once(&end).with_context(missing)?;
    Ok(format!("{before}{begin}\n{table}\n{end}{after}"))
}

fn table_of_values() -> Result<String> {
    let values = yaml(&read(format!("{CHART}/values.yaml"))?)?;
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    for (path, description) in described_values()? {
        let default = in_order(path.iter().fold(&values, |value, key| &value[key])).replace('|', "\\|");
        table += &format!("| `{}` | `{default}` | {description} |\n", path.join("."));
    }
    Ok(table)
}

/// The table of what each account may write and read, by the roles that the chart binds to it.
fn permissions(chart: &Chart) -> Result<String> {
    let people = r#"people.reader.subjects=[{"kind": "Group", "name": "people"}]"#;
    let enabled = "ledger.enabled=true,resize.enabled=true";
    let objects = chart.objects("headroom", &["--set", enabled, "--set-json", people])?;
    let mut found: BTreeMap<&str, [BTreeMap<&str, BTreeSet<String>>; 2]> = BTreeMap::new();
    for ((kind, namespace, _), binding) in objects.iter().filter(|((kind, ..), _)| kind.ends_with("RoleBinding")) {
        let role = &binding["roleRef"];
        let home = if role["kind"] == "Role" { namespace } else { "" };
        let role = at(&objects, text(&role["kind"]), home, text(&role["name"]));
        for rule in items(&role["rules"]) {
            let (reads, writes): (Vec<&str>, Vec<&str>) =
                items(&rule["verbs"]).iter().map(text).partition(|verb| ["get", "list", "watch"].contains(verb));
            let names: Vec<&str> = items(&rule["resourceNames"]).iter().map(text).collect();
            let named = |resource: &str| match names.as_slice() {
                [] => format!("`{resource}`"),
                names => format!("`{resource}` {}", names.join(", ")),
            };
            for resource in items(&rule["resources"]).iter().map(text) {
                for subject in items(&binding["subjects"]) {
                    let [written, read] = found.entry(text(&subject["name"])).or_default();
                    let place = if kind == "RoleBinding" { namespace } else { "" };
                    if !writes.is_empty() {
                        let written = written.entry(place).or_default();
                        written.insert(format!("{} ({})", named(resource), writes.join(", ")));
                    }
                    if !reads.is_empty() {
                        read.entry(place).or_default().insert(named(resource));
                    }
                }
            }
        }
    }
    let shown = |places: &BTreeMap<&str, BTreeSet<String>>| {
        let parts = places.iter().map(|(place, resources)| {
            let resources = Vec::from_iter(resources.iter().map(String::as_str)).join(", ");
            if place.is_empty() { resources } else { format!("in namespace {place}: {resources}") }
        });
        Some(parts.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty()).unwrap_or("nothing".to_owned())
    };
    let rows = found.iter().map(|(who, [written, read])| format!("| {who} | {} | {} |\n", shown(written), shown(read)));
    Ok(format!("| account | writes | reads |\n|---|---|---|\n{}", rows.collect::<String>()))
}

/// A value as JSON on one line, with sorted keys.
fn in_order(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().map(|(key, value)| (key, in_order(value))).collect();
            format!(
                "{{{}}}",
                fields.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Array(items) => format!("[{}]", items.iter().map(in_order).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Path and description of each value that has a comment above it.
fn described_values() -> Result<Vec<(Vec<String>, String)>> {
    let key = Regex::new(r"^( *)([\w-]+):")?;
    let (mut path, mut comment, mut found) = (Vec::<String>::new(), Vec::new(), Vec::new());
    for line in read(format!("{CHART}/values.yaml"))?.lines() {
        if let Some(part) = line.trim().strip_prefix('#') {
            comment.push(part.trim().to_owned());
            continue;
        }
        if let Some(key) = key.captures(line) {
            path.truncate(key[1].len() / 2);
            path.push(key[2].to_owned());
            if !comment.is_empty() {
                found.push((path.clone(), comment.join(" ")));
            }
        }
        comment.clear();
    }
    Ok(found)
}

/// Checks the chart. The built policy is asked whether it accepts the rendered settings, and the programs whether they
/// understand their arguments.
pub fn check(host: &str, policy: &str, cli: &str) -> Result<()> {
    let chart = Chart::new()?;
    let mut faults = Faults::default();
    let mut by_file = BTreeMap::new();
    for file in sorted_files(&format!("{CHART}/ci"), "yaml")? {
        run(&chart.helm, &["lint", "--quiet", "--strict", CHART, "-f", &file])?;
        for namespace in ["headroom", "other"] {
            by_file.insert((file.clone(), namespace), chart.objects(namespace, &["-f", &file])?);
        }
    }
    let of_file = |name: &str, namespace: &'static str| {
        by_file
            .get(&(format!("{CHART}/ci/{name}.yaml"), namespace))
            .with_context(|| format!("there is no ci/{name}.yaml"))
    };
    let (path, wanted) = readme_with_tables(&chart)?;
    faults.check(read(&path)? == wanted, || format!("{path} is out of date: run `cargo xtask codegen`"));
    check_values(&mut faults)?;
    let rows = check_rows(&chart, &mut faults)?;
    check_manifests(&chart, &mut faults)?;
    check_ledger(&chart, of_file("ledger", "other")?, &mut faults)?;
    check_updates(&chart, &mut faults)?;
    check_monitoring(of_file("everything", "headroom")?, &mut faults)?;
    let kinds = of_file("policies-only", "headroom")?.keys().map(|(kind, ..)| kind.as_str()).collect::<BTreeSet<_>>();
    faults.equal("kinds of the policies alone", kinds, BTreeSet::from(["ClusterAdmissionPolicy"]));
    for ((kind, _, name), object) in by_file.values().flatten() {
        let label = &object["metadata"]["labels"]["app.kubernetes.io/managed-by"];
        faults.check(label == "Helm", || format!("{kind} {name} has no labels"));
    }
    let accepted = check_by_programs(by_file.values(), host, policy, cli, &mut faults)?;
    let described = described_values()?.len();
    faults.end(&format!(
        "chart: {described} values, {rows} rows, {accepted} settings and arguments accepted by the programs"
    ))
}

fn check_values(faults: &mut Faults) -> Result<()> {
    let values = yaml(&read(format!("{CHART}/values.yaml"))?)?;
    let described: BTreeSet<String> = described_values()?.into_iter().map(|(path, _)| path.join(".")).collect();
    let schema: Value = serde_json::from_str(&read(format!("{CHART}/values.schema.json"))?)?;
    let mut waiting = vec![(String::new(), &values, &schema, false)];
    while let Some((path, value, schema, is_described)) = waiting.pop() {
        let is_described = is_described || described.contains(&path);
        let Some(fields) = value.as_object().filter(|fields| !fields.is_empty()) else {
            faults.check(is_described, || format!("values.yaml does not describe {path}"));
            continue;
        };
        let place = |key: &str| format!("{path}.{key}").trim_start_matches('.').to_owned();
        waiting.extend(fields.iter().map(|(key, value)| (place(key), value, &schema["properties"][key], is_described)));
        // What the policy's settings may hold is the policy's to say.
        let is_free = path.starts_with("policies.settings") || path.contains(".resources");
        for key in schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key).filter(|_| !is_free) {
            let is_known = fields.contains_key(key) || place(key) == "global";
            faults.check(is_known, || format!("values.schema.json has {}, values.yaml has not", place(key)));
        }
    }
    Ok(())
}

/// Checks the rows of chart.yaml. Returns how many there are.
fn check_rows(chart: &Chart, faults: &mut Faults) -> Result<usize> {
    let rows = yaml(include_str!("chart.yaml"))?;
    let mut refuse = |arguments: &[&str], parts: &Value| -> Result<()> {
        let rendered = chart.template(arguments)?;
        faults.check(!rendered.is_success, || format!("{arguments:?} is accepted"));
        for part in items(parts).iter().map(text) {
            faults.check(rendered.err.contains(part), || format!("{arguments:?} lacks {part}: {}", rendered.err));
        }
        Ok(())
    };
    let refused = rows["refused"].as_object().context("refused")?;
    refused.iter().try_for_each(|(values, parts)| refuse(&["--set", values], parts))?;
    let together = &rows["refused_together"];
    refuse(&["--set-json", &together["values"].to_string()], &together["message"])?;

    let rendered = items(&rows["rendered"]);
    for row in rendered {
        let file = format!("{CHART}/ci/{}.yaml", text(&row["values"]));
        let set = row["set"].as_str().map(|set| ["--set", set]);
        let objects = chart.objects("other", &[&["-f", &file], set.as_slice().as_flattened()].concat())?;
        let words: Vec<&str> = text(&row["object"]).split(' ').collect();
        let (kind, namespace) = (words[0], if words.len() > 2 { words[1] } else { "" });
        let object = at(&objects, kind, namespace, words[words.len() - 1]);
        let found = object.pointer(text(&row["at"])).unwrap_or(&Value::Null);
        let is_right = row.get("is").is_none_or(|wanted| found == wanted)
            && row.get("has").is_none_or(|wanted| items(found).contains(wanted))
            && row.get("count").is_none_or(|wanted| *wanted == items(found).len());
        faults.check(is_right, || format!("chart.yaml: {row}: found {found}"));
    }
    Ok(refused.len() + 1 + rendered.len())
}

/// The plain manifests need nothing that they do not contain.
fn check_manifests(chart: &Chart, faults: &mut Faults) -> Result<()> {
    for (file, arguments) in MANIFESTS {
        let objects = chart.objects("headroom", arguments)?;
        let has = |kind: &str, namespace: &str, name: &Value| at(&objects, kind, namespace, text(name)).is_object();
        for ((kind, namespace, name), object) in &objects {
            let mut needs = |kind: &str, namespace: &str, needed: &Value| {
                // Every cluster has the namespace `default`.
                let is_there = needed.is_null() || (kind == "Namespace" && needed == "default");
                faults.check(is_there || has(kind, namespace, needed), || {
                    format!("{file}: {name} needs the {kind} {needed}, which is not there")
                });
            };
            if !namespace.is_empty() {
                needs("Namespace", "", &json!(namespace));
            }
            let role = &object["roleRef"];
            needs(text(&role["kind"]), if role["kind"] == "Role" { namespace } else { "" }, &role["name"]);
            let subjects = items(&object["subjects"]).iter().filter(|subject| subject["namespace"] == "headroom");
            subjects.for_each(|subject| needs("ServiceAccount", "headroom", &subject["name"]));
            if let Some(pod) = pod(object) {
                needs("ServiceAccount", namespace, &pod["serviceAccountName"]);
                for volume in items(&pod["volumes"]) {
                    needs("PersistentVolumeClaim", namespace, &volume["persistentVolumeClaim"]["claimName"]);
                    needs("ConfigMap", namespace, &volume["configMap"]["name"]);
                    needs("Secret", namespace, &volume["secret"]["secretName"]);
                }
            }
            if kind == "ClusterAdmissionPolicy" {
                needs("CustomResourceDefinition", "", &json!("usageprofiles.headroom.dev"));
            }
            let is_plain =
                object["metadata"]["annotations"].as_object().is_none_or(|all| !all.contains_key("helm.sh/hook"));
            faults.check(is_plain, || format!("{file}: {name} is a hook of Helm"));
        }
        faults.check(objects.len() >= 15, || format!("{file} has only {} objects", objects.len()));
    }
    Ok(())
}

fn check_ledger(chart: &Chart, objects: &Objects, faults: &mut Faults) -> Result<()> {
    for ((kind, _, name), object) in objects {
        for subject in items(&object["subjects"]) {
            let is_ours = [Value::Null, json!("other"), json!("kubewarden")].contains(&subject["namespace"]);
            faults.check(is_ours, || format!("{kind} {name} is bound elsewhere: {subject}"));
        }
    }
    let without = chart.objects("headroom", &["--set", "ledger.enabled=true"])?;
    // The chart creates what the ledger writes, so the ledger need not; that permission cannot be restricted by name.
    let roles =
        without.iter().filter(|((kind, _, name), _)| kind.ends_with("Role") && name.starts_with("headroom-ledger"));
    let rules = roles
        .flat_map(|(_, role)| items(&role["rules"]))
        .filter(|rule| items(&rule["verbs"]).contains(&json!("create")));
    let created: BTreeSet<&str> = rules.flat_map(|rule| items(&rule["resources"])).map(text).collect();
    faults.equal("what the ledger may create", created, BTreeSet::from(["events", "quotaledgers"]));

    // The resizer changes nothing in other namespaces but the sizes of pods.
    let written = |kind: &str| {
        let roles = objects.iter().filter(move |((of, _, name), _)| of == kind && name == "headroom-resizer");
        let writes = |rule: &&Value| !items(&rule["verbs"]).iter().all(|verb| ["get", "list"].contains(&text(verb)));
        let rules = roles.flat_map(|(_, role)| items(&role["rules"])).filter(writes);
        rules.flat_map(|rule| items(&rule["resources"])).map(text).collect::<BTreeSet<&str>>()
    };
    faults.equal("what the resizer may write", written("ClusterRole"), BTreeSet::from(["events", "pods/resize"]));
    faults.equal("what the resizer may write here", written("Role"), BTreeSet::from(["configmaps", "leases"]));

    // Everything that serves metrics has a ServiceMonitor, which finds a port of its Service.
    let monitors: Vec<_> = objects.iter().filter(|((kind, ..), _)| kind == "ServiceMonitor").collect();
    let names: Vec<&str> = monitors.iter().map(|((_, _, name), _)| name.as_str()).collect();
    faults.equal("ServiceMonitors", names, vec!["headroom-collector", "headroom-ledger", "headroom-resizer"]);
    for ((_, _, name), monitor) in monitors {
        let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().context("a selector")?;
        let services = objects.iter().filter(|((kind, ..), _)| kind == "Service").map(|(_, service)| service);
        let selected =
            services.filter(|service| wanted.iter().all(|(key, value)| &service["metadata"]["labels"][key] == value));
        let ports: Vec<&Value> =
            selected.flat_map(|service| items(&service["spec"]["ports"])).map(|port| &port["name"]).collect();
        let port = &monitor["spec"]["endpoints"][0]["port"];
        faults.check(ports.contains(&port), || {
            format!("ServiceMonitor {name} selects {port}, which is none of {ports:?}")
        });
    }

    // What Artifact Hub shows of the chart: the definitions and the image that it installs.
    let annotations = &yaml(&read(format!("{CHART}/Chart.yaml"))?)?["annotations"];
    let shown = yaml(text(&annotations["artifacthub.io/crds"]))?;
    let shown: BTreeSet<_> =
        items(&shown).iter().map(|crd| (text(&crd["name"]), text(&crd["kind"]), text(&crd["version"]))).collect();
    let crds = objects.iter().filter(|((kind, ..), _)| kind == "CustomResourceDefinition").map(|(_, crd)| crd);
    let made = crds.flat_map(|crd| {
        let (name, kind) = (text(&crd["metadata"]["name"]), text(&crd["spec"]["names"]["kind"]));
        items(&crd["spec"]["versions"]).iter().map(move |version| (name, kind, text(&version["name"])))
    });
    faults.equal("artifacthub.io/crds", shown.clone(), made.collect());
    let images = yaml(text(&annotations["artifacthub.io/images"]))?;
    let collector = &at(objects, "Deployment", "other", "headroom-collector")["spec"]["template"]["spec"];
    faults.equal("artifacthub.io/images", &images[0]["image"], &collector["containers"][0]["image"]);
    Ok(())
}

/// The validating policy checks updates of workloads if it enforces their limits or quotas.
fn check_updates(chart: &Chart, faults: &mut Faults) -> Result<()> {
    let file = format!("{CHART}/ci/everything.yaml");
    for section in ["limitRanges", "quotas"] {
        let choice = format!("policies.settings.{section}.workloadMode=enforce");
        let objects = chart.objects("headroom", &["-f", &file, "--set", &choice])?;
        let [fill, check] =
            ["headroom-fill", "headroom"].map(|name| &at(&objects, "ClusterAdmissionPolicy", "", name)["spec"]);
        let rules = items(&check["rules"]).iter().filter(|rule| items(&rule["operations"]).contains(&json!("UPDATE")));
        let updates: BTreeSet<&str> = rules.flat_map(|rule| items(&rule["resources"])).map(text).collect();
        for workload in ["deployments", "statefulsets", "daemonsets", "cronjobs"] {
            faults.check(updates.contains(workload), || format!("{choice}: updates of {workload} are not checked"));
        }
        let is_unread = |read: &&Value| !items(&check["contextAwareResources"]).contains(*read);
        let unread: Vec<&Value> = items(&fill["contextAwareResources"]).iter().filter(is_unread).collect();
        faults.check(unread.is_empty(), || format!("{choice}: the validating policy cannot read {unread:?}"));
        faults.equal(&choice, &check["settings"]["estimates"], &fill["settings"]["estimates"]);
    }
    Ok(())
}

/// The dashboard and the alerts are those of the chart's files.
fn check_monitoring(objects: &Objects, faults: &mut Faults) -> Result<()> {
    let dashboard = &at(objects, "ConfigMap", "headroom", "headroom-dashboard")["data"]["headroom.json"];
    faults.check(text(dashboard) == read(format!("{CHART}/files/dashboard.json"))?, || {
        "the dashboard is another".to_owned()
    });
    let alerts = yaml(&read(format!("{CHART}/files/alerts.yaml"))?)?;
    faults.equal("the PrometheusRule", &at(objects, "PrometheusRule", "headroom", "headroom")["spec"], &alerts);
    Ok(())
}

/// Asks the built policy about all settings, and the programs about all arguments, that the chart renders.
fn check_by_programs<'o>(
    rendered: impl Iterator<Item = &'o Objects>,
    host: &str,
    policy: &str,
    controller: &str,
    faults: &mut Faults,
) -> Result<usize> {
    let (mut all_settings, mut all_arguments) = (BTreeSet::new(), BTreeSet::new());
    for ((kind, ..), object) in rendered.flatten() {
        if kind == "ClusterAdmissionPolicy" {
            all_settings.insert(object["spec"]["settings"].to_string());
        } else if let Some(pod) = pod(object) {
            let container = &pod["containers"][0];
            let arguments = items(&container["args"]).iter().map(|argument| match text(argument) {
                // It would serve, or read a file that is only there in its pod.
                listen if listen.starts_with("--listen=") => "--listen=127.0.0.1:0".to_owned(),
                settings if settings.starts_with("--settings=/") => "--settings=/dev/null".to_owned(),
                other => other.to_owned(),
            });
            all_arguments.insert(arguments.collect::<Vec<_>>());
        }
    }
    for settings in &all_settings {
        let answer = ask(host, policy, settings)?;
        faults.check(answer.is_success, || format!("{settings}: {}", answer.err.trim()));
    }
    faults.check(!ask(host, policy, r#"{"rool": 1}"#)?.is_success, || "the policy accepts unknown settings".to_owned());
    let run = |arguments: &[String]| output(Command::new(controller).args(arguments).env("KUBECONFIG", "/nowhere"));
    let is_understood =
        |answer: &Output| !answer.err.contains("Usage:") && !answer.err.contains("For more information");
    for arguments in &all_arguments {
        // It finds no cluster, or has no page built in.
        let answer = run(arguments)?;
        faults.check(is_understood(&answer), || format!("{arguments:?}: {}", answer.err.trim()));
    }
    let wrong = run(&["collect", "prometheus", "--evry=1h"].map(str::to_owned))?;
    faults.check(!is_understood(&wrong), || "the collector accepts unknown arguments".to_owned());
    let asked = all_settings.len() + all_arguments.len();
    faults.check(asked > 10, || format!("only {asked} settings and arguments were asked"));
    Ok(asked)
}

/// Asks the built policy about a request with settings, which it refuses if they are not valid.
pub fn ask(host: &str, policy: &str, settings: &str) -> Result<Output> {
    let request = "tests/data/requests/pod-create-plain.json";
    let options = ["run", "--allow-context-aware", "-r", request, "--settings-json", settings];
    output(Command::new(host).args(options).arg(policy))
}

/// The plain manifests of a release, with the arguments of `helm template`.
pub const MANIFESTS: [(&str, &[&str]); 2] = [
    ("manifests.yaml", &["--set=namespace.create=true"]),
    (
        "manifests-ledger.yaml",
        &[
            "--set=namespace.create=true,ledger.enabled=true,policies.enabled=false,collector.enabled=false",
            "--set=people.reader.create=false,people.poolReader.create=false",
        ],
    ),
];

pub fn render_manifests(folder: &str) -> Result<()> {
    let chart = Chart::new()?;
    std::fs::create_dir_all(folder)?;
    for (file, arguments) in MANIFESTS {
        std::fs::write(format!("{folder}/{file}"), chart.rendered("headroom", arguments)?)?;
    }
    Ok(())
}
