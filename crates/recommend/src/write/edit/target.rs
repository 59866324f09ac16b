//! Sets targets of a HorizontalPodAutoscaler where they stand, and leaves every other byte alone.

use headroom_workloads::WorkloadRef;
use headroom_workloads::autoscaler::FIRST_VERSION_TARGET;
use serde_json::Value;

use super::yaml_spans::{self, Content, YamlNode};
use super::{EditError, Splice, find, refuse_shared, spliced, verify};

/// A target that is a share of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetEdit {
    /// With the namespace that the file has.
    pub object: WorkloadRef,
    pub resource: String,
    /// The one container that the target is about; none if it is about all of the pod.
    pub container: Option<String>,
    pub percent: u64,
}

/// The text with the targets in it; none if it says all that already.
pub fn set_targets(text: &str, targets: &[TargetEdit]) -> Result<Option<String>, EditError> {
    let documents = yaml_spans::documents(text).map_err(EditError::Unreadable)?;
    let mut splices = Vec::new();
    for target in targets {
        let found = target.find(find(&target.object, &documents)?)?;
        let Content::Scalar { text: written, .. } = &found.content else { return Err(target.not_certain()) };
        if *written != target.percent.to_string() {
            splices.push(Splice { start: found.start, end: found.end, text: target.percent.to_string() });
        }
    }
    // Read again, the edited text must be the old one with the targets put into its objects.
    let put = |object: &mut Value| {
        let this = WorkloadRef::of(object);
        targets.iter().filter(|target| target.object == this).for_each(|target| target.put(object));
    };
    let wanted = targets.first().map(TargetEdit::wanted).unwrap_or_default();
    spliced(text, splices, |edited| verify::says(text, edited, put), wanted)
}

impl TargetEdit {
    fn find<'n>(&self, object: &'n YamlNode) -> Result<&'n YamlNode, EditError> {
        let child = |node: &'n YamlNode, key: &str| -> Result<&'n YamlNode, EditError> {
            refuse_shared(node, || self.wanted())?;
            let child = node.get(key).ok_or_else(|| self.not_certain())?;
            refuse_shared(child, || self.wanted())?;
            Ok(child)
        };
        let spec = child(object, "spec")?;
        if self.is_of_first_version() && spec.get(FIRST_VERSION_TARGET).is_some() {
            return child(spec, FIRST_VERSION_TARGET);
        }
        let (kind, source) = self.source();
        let text = |node: &YamlNode, key: &str| node.get(key).and_then(YamlNode::text).map(str::to_owned);
        let is_it = |metric: &&'n YamlNode| {
            let of = metric.get(source);
            text(metric, "type").as_deref() == Some(kind)
                && of.and_then(|of| text(of, "name")).as_ref() == Some(&self.resource)
                && of.and_then(|of| text(of, "container")) == self.container
        };
        let metric = child(spec, "metrics")?.items().iter().find(is_it).ok_or_else(|| self.not_certain())?;
        child(child(child(metric, source)?, "target")?, "averageUtilization")
    }

    /// Sets the percentage in an object as it was read.
    fn put(&self, object: &mut Value) {
        let (kind, source) = self.source();
        if self.is_of_first_version()
            && let Some(percent) = object.pointer_mut(&format!("/spec/{FIRST_VERSION_TARGET}"))
        {
            *percent = self.percent.into();
            return;
        }
        let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(str::to_owned);
        let metrics = object.pointer_mut("/spec/metrics").and_then(Value::as_array_mut).into_iter().flatten();
        for metric in metrics.filter(|metric| text(metric, "type").as_deref() == Some(kind)) {
            let Some(of) = metric.get_mut(source) else { continue };
            let is_it = text(of, "name").as_ref() == Some(&self.resource) && text(of, "container") == self.container;
            if let Some(percent) = of.pointer_mut("/target/averageUtilization").filter(|_| is_it) {
                *percent = self.percent.into();
            }
        }
    }

    fn is_of_first_version(&self) -> bool {
        self.resource == "cpu" && self.container.is_none()
    }

    fn source(&self) -> (&'static str, &'static str) {
        match self.container {
            None => ("Resource", "resource"),
            Some(_) => ("ContainerResource", "containerResource"),
        }
    }

    fn wanted(&self) -> String {
        format!("averageUtilization of {}: {}", self.resource, self.percent)
    }

    fn not_certain(&self) -> EditError {
        EditError::NotCertain(self.wanted())
    }
}
