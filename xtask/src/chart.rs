//! The Helm chart, which is the only deployment: its generated files, its values, and what it renders.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, bail};
use regex::Regex;
use serde_json::{Value, json};

use crate::{Faults, Output, documents, items, output, read, run, setup, sorted_files, text, yaml};

pub const CHART: &str = "deploy/charts/headroom";
const BEGIN: &str = "<!-- values: made by `cargo xtask codegen` -->";
const END: &str = "<!-- end of values -->";

/// Values that must be refused, with what the message names.
const WRONG: &[(&str, &[&str])] = &[
    ("policies.mode=enforce", &["/policies/mode", "'monitor', 'protect'"]),
    ("policies.mod=protect", &["/policies", "'mod' not allowed"]),
    ("polices.enabled=false", &["'polices' not allowed"]),
    ("policies.failurePolicy=fail", &["/policies/failurePolicy", "'Fail', 'Ignore'"]),
    ("policies.timeoutSeconds=31", &["/policies/timeoutSeconds", "30"]),
    ("policies.timeoutSeconds=1", &["/policies/timeoutSeconds", "2"]),
    ("policies.timeoutEvalSeconds=1", &["/policies/timeoutEvalSeconds", "2"]),
    ("policies.timeoutSeconds=4", &["policies.timeoutEvalSeconds is 5, more than policies.timeoutSeconds (4)"]),
    ("policies.module.repository=https://ghcr.io/x", &["/policies/module/repository", "pattern"]),
    ("policies.module.digest=sha256:short", &["/policies/module/digest", "pattern"]),
    ("policies.settings.role=both", &["/policies/settings", "'role' not allowed"]),
    ("policies.settings.limitRange.mode=off", &["/policies/settings", "'limitRange' not allowed"]),
    ("policies.settings.limitRanges.mode=deny", &["/policies/settings/limitRanges/mode", "'enforce', 'warn', 'off'"]),
    ("policies.settings.kubernetesVersion=latest", &["/policies/settings/kubernetesVersion"]),
    ("policies.settings.exempt.serviceAccounts={builder}", &["/policies/settings/exempt/serviceAccounts/0"]),
    ("policies.settings.estimates.percentile=p90 of 5d", &["/policies/settings/estimates/percentile"]),
    ("policies.settings.estimates.pool.minNamespaces=4", &["more than collector.pool.minNamespaces (3)"]),
    ("collector.pool.minNamespaces=0", &["/collector/pool/minNamespaces"]),
    ("collector.kind=DaemonSet", &["/collector/kind", "'Deployment', 'CronJob'"]),
    ("collector.every=hourly", &["/collector/every", "pattern"]),
    ("collector.source.type=graphite", &["/collector/source/type", "'prometheus'"]),
    ("collector.source.url=prometheus:9090", &["/collector/source/url", "pattern"]),
    ("collector.source.service=prometheus:9090", &["/collector/source/service", "pattern"]),
    ("collector.credentialsSecret=reader", &["set collector.source.config", "tokenFile"]),
    ("collector.source.args={-v}", &["/collector/source/args/0", "pattern"]),
    ("collector.kind=CronJob,collector.source.type=metrics-api", &["/collector/source/type"]),
    ("collector.source.type=influxdb,collector.source.url=", &["/collector/source/url"]),
    ("collector.store.size=big", &["/collector/store/size"]),
    ("collector.resources.limits.memory=512MiB", &["/collector/resources/limits/memory"]),
    ("collector.networkPolicy.sourcePort=70000", &["/collector/networkPolicy/sourcePort", "65,535"]),
    ("ledger.replicas=0", &["/ledger/replicas"]),
    ("ledger.args={serve}", &["/ledger/args/0", "pattern"]),
    ("ledger.enabled=true,ledger.args={--resource-quotas}", &["set ledger.resourceQuotas instead"]),
    ("people.reader.subjects[0].kind=Team,people.reader.subjects[0].name=x", &["/people/reader/subjects/0"]),
    ("people.reader.subjects[0].kind=ServiceAccount,people.reader.subjects[0].name=x", &["/people/reader/subjects/0"]),
    ("monitoring.serviceMonitor.enabled=yes please", &["/monitoring/serviceMonitor/enabled", "boolean"]),
];

/// A file of values with several faults. Unquoted, YAML takes `off` for false.
const WRONG_FILE: &str =
    "{policies: {mode: strict, settings: {quotas: {mode: off}}}, collector: {kind: Pod, store: {sise: 1Gi}}}";

/// Rendered objects by kind, namespace and name.
pub type Objects = BTreeMap<(String, String, String), Value>;

pub struct Chart {
    helm: String,
}

impl Chart {
    pub fn new() -> Result<Self> {
        Ok(Self { helm: setup(&["helm"])? })
    }

    /// Runs `helm template` on the chart.
    pub fn template(&self, arguments: &[&str]) -> Result<Output> {
        output(Command::new(&self.helm).args(["template", "headroom", CHART]).args(arguments))
    }

    pub fn objects(&self, namespace: &str, arguments: &[&str]) -> Result<Objects> {
        let rendered = self.template(&[&["-n", namespace], arguments].concat())?;
        if !rendered.is_success {
            bail!("helm template {}: {}", arguments.join(" "), rendered.err.trim());
        }
        let mut found = Objects::new();
        for document in documents(&rendered.out)? {
            let metadata = &document["metadata"];
            let key = [&document["kind"], &metadata["namespace"], &metadata["name"]].map(|part| text(part).to_owned());
            let [kind, namespace, name] = key;
            let place = format!("{kind} {namespace}/{name}");
            if found.insert((kind, namespace, name), document).is_some() {
                bail!("{place} is rendered twice");
            }
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

/// The values of the policy's settings.
fn settings<'o>(objects: &'o Objects, policy: &str) -> &'o Value {
    &at(objects, "ClusterAdmissionPolicy", "", policy)["spec"]["settings"]
}

// --- generated files ----------------------------------------------------------------------------------------

/// Writes the generated files of the chart, or fails if one is out of date.
pub fn generate(is_written: bool) -> Result<()> {
    let mut generated = vec![(format!("{CHART}/README.md"), readme()?)];
    if is_written || std::env::var_os("CARGO").is_some() {
        for (package, example, file) in
            [("headroom-usage-profile", "crd", "crd.yaml"), ("headroom-quota-server", "crds", "ledger/crds.yaml")]
        {
            let text = run("cargo", &["run", "--quiet", "--locked", "--package", package, "--example", example])?;
            generated.push((format!("{CHART}/files/{file}"), format!("{text}\n")));
        }
    }
    let mut faults = Faults::default();
    for (path, wanted) in generated {
        if read(&path)? == wanted {
            continue;
        }
        if is_written {
            std::fs::write(&path, wanted)?;
            println!("wrote {path}");
        } else {
            faults.check(false, || format!("{path} is out of date: run `cargo xtask codegen`"));
        }
    }
    faults.end("generated files are up to date")
}

/// The README with a table of the values.
fn readme() -> Result<String> {
    let values = yaml(&read(format!("{CHART}/values.yaml"))?)?;
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    for (path, description) in described_values()? {
        let default = in_order(path.iter().fold(&values, |value, key| &value[key])).replace('|', "\\|");
        table += &format!("| `{}` | `{default}` | {description} |\n", path.join("."));
    }
    let readme = read(format!("{CHART}/README.md"))?;
    let before = readme.split(BEGIN).next().unwrap_or_default();
    let after = readme.split(END).nth(1).with_context(|| format!("{CHART}/README.md has no {END}"))?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
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

// --- checks -------------------------------------------------------------------------------------------------

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
    check_values(&mut faults)?;
    check_refusals(&chart, &mut faults)?;
    check_manifests(&chart, &mut faults)?;
    check_ledger(&chart, of_file("ledger", "other")?, &mut faults)?;
    check_choices(&chart, &mut faults)?;
    check_everything(of_file("everything", "headroom")?, &mut faults)?;
    let kinds = of_file("policies-only", "headroom")?.keys().map(|(kind, ..)| kind.as_str()).collect::<BTreeSet<_>>();
    faults.equal("kinds of the policies alone", kinds, BTreeSet::from(["ClusterAdmissionPolicy"]));
    for ((kind, _, name), object) in by_file.values().flatten() {
        let label = &object["metadata"]["labels"]["app.kubernetes.io/managed-by"];
        faults.check(label == "Helm", || format!("{kind} {name} has no labels"));
    }
    let asked = check_by_programs(by_file.values(), host, policy, cli, &mut faults)?;
    let (described, wrong) = (described_values()?.len(), WRONG.len());
    faults.end(&format!(
        "chart: {described} values, {wrong} wrong ones rejected, {asked} settings and arguments accepted by the programs"
    ))
}

fn check_values(faults: &mut Faults) -> Result<()> {
    let values = yaml(&read(format!("{CHART}/values.yaml"))?)?;
    let described: BTreeSet<String> = described_values()?.into_iter().map(|(path, _)| path.join(".")).collect();
    let schema: Value = serde_json::from_str(&read(format!("{CHART}/values.schema.json"))?)?;
    faults.check(read(format!("{CHART}/README.md"))? == readme()?, || {
        format!("{CHART}/README.md is out of date: run `cargo xtask codegen`")
    });
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

fn check_refusals(chart: &Chart, faults: &mut Faults) -> Result<()> {
    for (wrong, expected) in WRONG {
        let rendered = chart.template(&["--set", wrong])?;
        faults.check(!rendered.is_success, || format!("{wrong} is accepted"));
        for part in *expected {
            faults
                .check(rendered.err.contains(part), || format!("{wrong}: the message lacks {part}: {}", rendered.err));
        }
    }
    let message = chart.template(&["--set-json", &serde_json::to_string(&yaml(WRONG_FILE)?)?])?.err;
    for part in ["/policies/mode", "/policies/settings/quotas/mode", "/collector/kind", "'sise' not allowed"] {
        faults.check(message.contains(part), || format!("of four faults {part} is not named: {message}"));
    }
    Ok(())
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
    for (kind, namespace, name) in [
        ("ValidatingWebhookConfiguration", "", "headroom-ledger"),
        ("Secret", "other", "headroom-ledger-tls"),
        ("Lease", "other", "headroom-ledger"),
    ] {
        let found = at(objects, kind, namespace, name);
        faults.check(found.is_object(), || format!("uninstalling would leave {kind} {name}, which the ledger writes"));
    }
    for ((kind, _, name), object) in objects {
        for subject in items(&object["subjects"]) {
            let is_ours = [Value::Null, json!("other"), json!("kubewarden")].contains(&subject["namespace"]);
            faults.check(is_ours, || format!("{kind} {name} is bound elsewhere: {subject}"));
        }
    }
    let spec = &at(objects, "Deployment", "other", "headroom-ledger")["spec"];
    let arguments = &spec["template"]["spec"]["containers"][0]["args"];
    let is_right = spec["replicas"] == 3 && items(arguments).contains(&json!("--resource-quotas"));
    faults.check(is_right, || format!("the ledger runs as {arguments}"));

    let without = chart.objects("headroom", &["--set", "ledger.enabled=true"])?;
    let writes_quotas = without.keys().any(|(_, _, name)| name == "headroom-ledger-resource-quotas");
    faults.check(!writes_quotas, || "the ledger may write quotas without ledger.resourceQuotas".to_owned());
    // The chart creates what the ledger writes, so the ledger need not; that permission cannot be restricted by name.
    let roles =
        without.iter().filter(|((kind, _, name), _)| kind.ends_with("Role") && name.starts_with("headroom-ledger"));
    let rules = roles
        .flat_map(|(_, role)| items(&role["rules"]))
        .filter(|rule| items(&rule["verbs"]).contains(&json!("create")));
    let created: BTreeSet<&str> = rules.flat_map(|rule| items(&rule["resources"])).map(text).collect();
    faults.equal("what the ledger may create", created, BTreeSet::from(["events", "quotaledgers"]));

    // Everything that serves metrics has a ServiceMonitor, which finds a port of its Service.
    let monitors: Vec<_> = objects.iter().filter(|((kind, ..), _)| kind == "ServiceMonitor").collect();
    let names: Vec<&str> = monitors.iter().map(|((_, _, name), _)| name.as_str()).collect();
    faults.equal("ServiceMonitors", names, vec!["headroom-collector", "headroom-ledger"]);
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

fn check_choices(chart: &Chart, faults: &mut Faults) -> Result<()> {
    let elsewhere = chart.objects("other", &[])?;
    let estimates = &settings(&elsewhere, "headroom-fill")["estimates"];
    faults.equal("estimates beside a collector", estimates, &json!({"namespace": "other"}));
    let collector =
        &at(&elsewhere, "Deployment", "other", "headroom-collector")["spec"]["template"]["spec"]["containers"][0];
    let keeps = items(&collector["args"]).contains(&json!("--profiles-namespace=other"));
    faults.check(keeps, || "the collector does not keep its profiles in its namespace".to_owned());
    let alone = chart.objects("headroom", &["--set", "collector.enabled=false"])?;
    let estimates = &settings(&alone, "headroom-fill")["estimates"];
    faults.equal("estimates without a collector", estimates, &Value::Null);

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
        let is_read = |read: &&Value| !items(&check["contextAwareResources"]).contains(*read);
        let unread: Vec<&Value> = items(&fill["contextAwareResources"]).iter().filter(is_read).collect();
        faults.check(unread.is_empty(), || format!("{choice}: the validating policy cannot read {unread:?}"));
        faults.equal(&choice, &check["settings"]["estimates"], &fill["settings"]["estimates"]);
    }

    let service = "collector.source.service=monitoring/prometheus:9090,collector.credentialsSecret=reader,collector.source.config.tokenFile=token";
    let forwarded = chart.objects("headroom", &["--set", service])?;
    let rules = items(&at(&forwarded, "Role", "monitoring", "headroom-collector-source")["rules"]).to_vec();
    let forward = json!({"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create"]});
    faults.check(rules.contains(&forward), || "a service with credentials cannot be reached".to_owned());
    Ok(())
}

/// Checks the choices of ci/everything.yaml.
fn check_everything(objects: &Objects, faults: &mut Faults) -> Result<()> {
    let check = &at(objects, "ClusterAdmissionPolicy", "", "headroom")["spec"];
    faults.check(check["settings"]["mutateTemplates"].is_null(), || {
        "the validating policy is set to change templates".to_owned()
    });
    let reads_namespaces =
        items(&check["contextAwareResources"]).contains(&json!({"apiVersion": "v1", "kind": "Namespace"}));
    faults.check(reads_namespaces, || {
        "the validating policy cannot read the labels that its settings select by".to_owned()
    });
    let crd = at(objects, "CustomResourceDefinition", "", "usageprofiles.headroom.dev");
    faults.equal("crds.keep", &crd["metadata"]["annotations"]["helm.sh/resource-policy"], &json!("keep"));
    let dashboard = &at(objects, "ConfigMap", "headroom", "headroom-dashboard")["data"]["headroom.json"];
    faults.check(text(dashboard) == read(format!("{CHART}/files/dashboard.json"))?, || {
        "the dashboard is another".to_owned()
    });
    let alerts = yaml(&read(format!("{CHART}/files/alerts.yaml"))?)?;
    faults.equal("the PrometheusRule", &at(objects, "PrometheusRule", "headroom", "headroom")["spec"], &alerts);
    let pod = &at(objects, "Deployment", "headroom", "headroom-collector")["spec"]["template"]["spec"];
    let collector = &pod["containers"][0];
    for argument in ["--pool-min-namespaces=5", "--pool-namespaces=shop,team-*"] {
        faults
            .check(items(&collector["args"]).contains(&json!(argument)), || format!("the collector lacks {argument}"));
    }
    faults.equal("volumes", items(&pod["volumes"]).len(), 2);
    faults.equal("mounted volumes", items(&collector["volumeMounts"]).len(), 2);
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
    let request = "test_data/requests/pod-create-plain.json";
    let ask = |settings: &str| {
        output(Command::new(host).args([
            "run",
            "--allow-context-aware",
            "-r",
            request,
            "--settings-json",
            settings,
            policy,
        ]))
    };
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
        let answer = ask(settings)?;
        faults.check(answer.is_success, || format!("{settings}: {}", answer.err.trim()));
    }
    faults.check(!ask(r#"{"rool": 1}"#)?.is_success, || "the policy accepts unknown settings".to_owned());
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

/// Renders the plain manifests into a folder.
pub fn render_manifests(folder: &str) -> Result<()> {
    let chart = Chart::new()?;
    std::fs::create_dir_all(folder)?;
    for (file, arguments) in MANIFESTS {
        let rendered = chart.template(&[&["-n", "headroom"], arguments].concat())?;
        if !rendered.is_success {
            bail!("{file}: {}", rendered.err);
        }
        std::fs::write(format!("{folder}/{file}"), rendered.out)?;
    }
    Ok(())
}
