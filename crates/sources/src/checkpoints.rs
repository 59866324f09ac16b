//! Checkpoints of the Vertical Pod Autoscaler, for clusters that have one and no long memory of their own.
//!
//! A checkpoint is a history that the autoscaler keeps up to date, so a newer one replaces an older one. It names a
//! container of an autoscaler; the image is found through the autoscaler's target, in its pod template. What is in
//! the histograms is `histogram`'s to say.

mod histogram;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use headroom_usage::sample::{Batch, Distribution, Resource, Window};
use serde::Deserialize;

use self::histogram::{Status, VERSION};
use super::cluster_id::{self, ClusterId};
use super::http::Http;
use super::{Reach, Sink, Source, SourceError, listing};
use crate::diagnosis::Finding;
use headroom_kube::ApiPath;

const AUTOSCALING: ApiPath = ApiPath::new("/apis/autoscaling.k8s.io/v1");
const NO_AUTOSCALER: &str = "there are no checkpoints: the Vertical Pod Autoscaler is not installed";

/// The autoscaler writes its checkpoints once a minute; a few times an hour is enough for us.
const STEP_SECONDS: u32 = 600;

/// The checkpoints of a cluster.
pub struct Checkpoints {
    http: Http,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Debug, Deserialize)]
struct Checkpoint {
    metadata: Metadata,
    spec: CheckpointSpec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CheckpointSpec {
    #[serde(default)]
    vpa_object_name: String,
    #[serde(default)]
    container_name: String,
}

#[derive(Debug, Deserialize)]
struct Autoscaler {
    metadata: Metadata,
    spec: AutoscalerSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AutoscalerSpec {
    #[serde(default)]
    target_ref: Option<Target>,
}

/// What an autoscaler is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

impl Target {
    /// Where to ask for it; `None` for kinds whose pod template is unknown.
    fn path(&self, namespace: &str) -> Option<ApiPath> {
        let plural = match (self.api_version.as_str(), self.kind.as_str()) {
            ("apps/v1", "Deployment") => "deployments",
            ("apps/v1", "StatefulSet") => "statefulsets",
            ("apps/v1", "DaemonSet") => "daemonsets",
            ("apps/v1", "ReplicaSet") => "replicasets",
            ("batch/v1", "Job") => "jobs",
            ("batch/v1", "CronJob") => "cronjobs",
            ("v1", "ReplicationController") => "replicationcontrollers",
            _ => return None,
        };
        Some(ApiPath::of_version(&self.api_version).collection(Some(namespace), plural).at(&self.name))
    }
}

/// A workload, as far as its containers' images go.
#[derive(Debug, Deserialize)]
struct Workload {
    spec: WorkloadSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadSpec {
    #[serde(default)]
    template: Option<Template>,
    #[serde(default)]
    job_template: Option<JobTemplate>,
}

#[derive(Debug, Deserialize)]
struct JobTemplate {
    spec: JobSpec,
}

#[derive(Debug, Deserialize)]
struct JobSpec {
    template: Template,
}

#[derive(Debug, Deserialize)]
struct Template {
    spec: PodSpec,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[serde(default)]
    containers: Vec<Container>,
    #[serde(default)]
    init_containers: Vec<Container>,
}

#[derive(Debug, Deserialize)]
struct Container {
    name: String,
    #[serde(default)]
    image: String,
}

impl Workload {
    fn image(&self, container: &str) -> Option<&str> {
        let template = match &self.spec.job_template {
            Some(job) => &job.spec.template,
            None => self.spec.template.as_ref()?,
        };
        let mut containers = template.spec.containers.iter().chain(&template.spec.init_containers);
        containers.find(|found| found.name == container).map(|found| found.image.as_str())
    }
}

/// Why a checkpoint tells nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Unusable {
    #[error("has version `{0}`: only `{VERSION}` is understood")]
    Version(String),
    #[error("belongs to autoscaler `{0}`, which is gone or has no target")]
    NoTarget(String),
    #[error("is about {kind} `{name}`, which is gone or of a kind without a known pod template", kind = .0.kind, name = .0.name)]
    NoTemplate(Target),
    #[error("is about container `{container}`, which {kind} `{name}` no longer has", kind = target.kind, name = target.name)]
    NoContainer { target: Target, container: String },
}

/// The distributions of a checkpoint whose version is understood.
fn distributions(checkpoint: &Checkpoint, namespace: &str, image: &str, now: i64) -> Vec<Distribution> {
    let status = &checkpoint.status;
    let last_seen = status.last_sample_start.map_or(now, |time| time.as_second());
    [Resource::Cpu, Resource::Memory]
        .into_iter()
        .map(|resource| Distribution {
            namespace: namespace.to_owned(),
            subject: checkpoint.metadata.name.clone(),
            image: image.to_owned(),
            resource,
            last_seen,
            buckets: status.buckets(resource),
        })
        .filter(|distribution| !distribution.buckets.is_empty())
        .collect()
}

impl Checkpoints {
    pub fn new(http: Http) -> Self {
        Self { http }
    }

    async fn checkpoints(
        &self,
        namespace: Option<&str>,
        each: &mut (dyn FnMut(Checkpoint) + Send),
    ) -> Result<(), SourceError> {
        let path = AUTOSCALING.collection(namespace, "verticalpodautoscalercheckpoints");
        listing::list(&self.http, &path, &[("resourceVersion", "0")], NO_AUTOSCALER, each).await
    }

    /// The target of each autoscaler of a namespace.
    async fn targets(&self, namespace: &str) -> Result<BTreeMap<String, Target>, SourceError> {
        let path = AUTOSCALING.collection(Some(namespace), "verticalpodautoscalers");
        let mut targets = BTreeMap::new();
        listing::list(&self.http, &path, &[("resourceVersion", "0")], NO_AUTOSCALER, &mut |found: Autoscaler| {
            targets.extend(found.spec.target_ref.map(|target| (found.metadata.name, target)));
        })
        .await?;
        Ok(targets)
    }

    /// What the namespace's checkpoints say, and which say nothing.
    async fn read_all(
        &self,
        namespace: &str,
        now: i64,
    ) -> Result<(Vec<Distribution>, Vec<(String, Unusable)>), SourceError> {
        let mut checkpoints = Vec::new();
        self.checkpoints(Some(namespace), &mut |checkpoint| checkpoints.push(checkpoint)).await?;
        let targets = self.targets(namespace).await?;
        let mut workloads: BTreeMap<Target, Option<Workload>> = BTreeMap::new();
        let (mut told, mut unusable) = (Vec::new(), Vec::new());
        for checkpoint in checkpoints {
            match self.image(&checkpoint, namespace, &targets, &mut workloads).await? {
                Ok(image) => told.extend(distributions(&checkpoint, namespace, &image, now)),
                Err(reason) => unusable.push((checkpoint.metadata.name, reason)),
            }
        }
        Ok((told, unusable))
    }

    async fn image(
        &self,
        checkpoint: &Checkpoint,
        namespace: &str,
        targets: &BTreeMap<String, Target>,
        workloads: &mut BTreeMap<Target, Option<Workload>>,
    ) -> Result<Result<String, Unusable>, SourceError> {
        let CheckpointSpec { vpa_object_name, container_name } = &checkpoint.spec;
        if checkpoint.status.version != VERSION {
            return Ok(Err(Unusable::Version(checkpoint.status.version.clone())));
        }
        let Some(target) = targets.get(vpa_object_name) else {
            return Ok(Err(Unusable::NoTarget(vpa_object_name.clone())));
        };
        if !workloads.contains_key(target) {
            let found = match target.path(namespace) {
                Some(path) => listing::get(&self.http, &path).await?,
                None => None,
            };
            workloads.insert(target.clone(), found);
        }
        let Some(Some(workload)) = workloads.get(target) else {
            return Ok(Err(Unusable::NoTemplate(target.clone())));
        };
        Ok(workload
            .image(container_name)
            .map(str::to_owned)
            .ok_or_else(|| Unusable::NoContainer { target: target.clone(), container: container_name.clone() }))
    }
}

#[async_trait]
impl Source for Checkpoints {
    async fn cluster(&self) -> Result<ClusterId, SourceError> {
        cluster_id::of_api_server(&self.http).await
    }

    fn is_api_server(&self) -> bool {
        true
    }

    async fn now(&self) -> Result<i64, SourceError> {
        self.http.get("/version", &[]).await?.date()
    }

    async fn namespaces(&self, _window: Window) -> Result<Vec<String>, SourceError> {
        let mut found = BTreeSet::new();
        self.checkpoints(None, &mut |checkpoint| {
            found.insert(checkpoint.metadata.namespace);
        })
        .await?;
        Ok(found.into_iter().collect())
    }

    async fn read(&self, namespace: &str, window: Window, sink: Sink<'_>) -> Result<(), SourceError> {
        let (told, unusable) = self.read_all(namespace, window.from).await?;
        for (checkpoint, reason) in unusable {
            tracing::warn!(namespace, "checkpoint `{checkpoint}` {reason}");
        }
        sink(Batch::Distributions(told));
        Ok(())
    }

    fn step_seconds(&self) -> u32 {
        STEP_SECONDS
    }

    fn reach(&self) -> Reach {
        Reach::Present
    }
}

/// Everything `doctor` has to say about the checkpoints.
pub async fn diagnose(http: Http, our_clock: i64) -> Result<Vec<Finding>, SourceError> {
    let source = Checkpoints::new(http);
    let now = source.now().await?;
    let mut findings = vec![crate::diagnosis::clock(our_clock, now)];
    let namespaces = match source.namespaces(Window { from: now, to: now }).await {
        Err(error) if error.is_permanent() => {
            let advice = "install the Vertical Pod Autoscaler, or read from a metrics store";
            findings.push(Finding::bad("checkpoints", error.to_string(), advice));
            return Ok(findings);
        }
        other => other?,
    };
    let (mut usable, mut unusable, mut example) = (BTreeSet::new(), 0, None);
    for namespace in namespaces {
        let (told, refused) = source.read_all(&namespace, now).await?;
        usable.extend(told.into_iter().map(|told| (told.namespace, told.subject)));
        unusable += refused.len();
        example = example
            .or_else(|| refused.first().map(|(checkpoint, reason)| format!("`{namespace}/{checkpoint}` {reason}")));
    }
    let found = format!("{} of {} are usable", usable.len(), usable.len() + unusable);
    findings.push(match example {
        None if usable.is_empty() => {
            Finding::bad("checkpoints", found, "create autoscalers with `updateMode: \"Off\"`")
        }
        None => Finding::good("checkpoints", found),
        Some(example) => Finding::doubtful("checkpoints", found, example),
    });
    findings.push(Finding::doubtful(
        "memory",
        "only the peak of each day is available",
        "to estimate memory from it, ask for few samples; CPU has its full count",
    ));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(api_version: &str, kind: &str) -> Target {
        Target { api_version: api_version.into(), kind: kind.into(), name: "web".into() }
    }

    #[test]
    fn a_target_is_looked_for_where_its_kind_is() {
        let check = |api_version, kind, expected: Option<&str>| {
            assert_eq!(target(api_version, kind).path("shop").as_ref().map(ApiPath::as_str), expected);
        };
        check("apps/v1", "Deployment", Some("/apis/apps/v1/namespaces/shop/deployments/web"));
        check("batch/v1", "CronJob", Some("/apis/batch/v1/namespaces/shop/cronjobs/web"));
        check("v1", "ReplicationController", Some("/api/v1/namespaces/shop/replicationcontrollers/web"));
        let elsewhere = Target { name: "../../secrets/a?b".into(), ..target("apps/v1", "Deployment") };
        assert_eq!(
            elsewhere.path("shop").as_ref().map(ApiPath::as_str),
            Some("/apis/apps/v1/namespaces/shop/deployments/%25")
        );
        check("argoproj.io/v1alpha1", "Rollout", None);
    }

    #[test]
    fn images_are_found_in_all_templates() {
        let check = |text: &str, container: &str, expected: Option<&str>| {
            let workload: Workload = serde_json::from_str(text).unwrap();
            assert_eq!(workload.image(container), expected);
        };
        let pod = r#"{"spec":{"containers":[{"name":"a","image":"nginx:1.27"}],"initContainers":[{"name":"b","image":"envoy:1"}]}}"#;
        let deployment = format!(r#"{{"spec":{{"replicas":2,"template":{pod}}}}}"#);
        check(&deployment, "a", Some("nginx:1.27"));
        check(&deployment, "b", Some("envoy:1"));
        check(&deployment, "c", None);
        let cron = format!(r#"{{"spec":{{"jobTemplate":{{"spec":{{"template":{pod}}}}}}}}}"#);
        check(&cron, "a", Some("nginx:1.27"));
    }

    #[test]
    fn reasons_name_what_to_look_at() {
        let check = |reason: Unusable, expected: &str| assert_eq!(reason.to_string(), expected);
        check(Unusable::Version("v2".into()), "has version `v2`: only `v3` is understood");
        check(
            Unusable::NoContainer { target: target("apps/v1", "Deployment"), container: "c".into() },
            "is about container `c`, which Deployment `web` no longer has",
        );
    }
}
