//! The tools that apply an object again and again, by the marks that they leave on it.

use std::fmt;

use headroom_admission::truncate::on_one_line;
use headroom_objects::kinds::text;
use serde_json::Value;

/// The labels and annotations by which tools mark what they apply: where, who, and the resource in which the tool keeps it.
const MARKS: [(&str, &str, &str); 6] = [
    ("annotations/argocd.argoproj.io~1tracking-id", "Argo CD application", ""),
    ("labels/argocd.argoproj.io~1instance", "Argo CD application", ""),
    ("labels/kustomize.toolkit.fluxcd.io~1name", "Flux Kustomization", "kustomizations.kustomize.toolkit.fluxcd.io"),
    ("labels/helm.toolkit.fluxcd.io~1name", "Flux HelmRelease", "helmreleases.helm.toolkit.fluxcd.io"),
    ("annotations/meta.helm.sh~1release-name", "Helm release", ""),
    ("annotations/objectset.rio.cattle.io~1id", "Fleet or Rancher object set", ""),
];

/// The advice where a tool applies an object.
pub const CHANGE_SOURCE: &str = "change its source, or the next sync or upgrade reverts what is changed here";

/// Characters of a name.
const LONGEST: usize = 400;

/// A tool that applies an object: `Helm release shop`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applier {
    pub who: &'static str,
    pub name: String,
    /// The resource that the tool reads, and the namespace of that.
    pub place: Option<(&'static str, String)>,
}

impl fmt::Display for Applier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.who, self.name)
    }
}

/// True of an annotation by which a tool marks what it applies.
pub fn is_mark(annotation: &str) -> bool {
    MARKS.iter().any(|(at, ..)| at.strip_prefix("annotations/").is_some_and(|of| of.replace("~1", "/") == annotation))
}

/// The tools that apply an object, each once.
pub fn appliers(object: &Value) -> Vec<Applier> {
    let text = |at: &str| text(object, &format!("/metadata/{at}"));
    let mut found: Vec<Applier> = Vec::new();
    for (at, who, resource) in MARKS {
        let name = on_one_line(text(at).split(':').next().unwrap_or_default(), LONGEST);
        let place = (!resource.is_empty()).then(|| (resource, text(&at.replace("name", "namespace")).to_owned()));
        let applier = Applier { who, name, place };
        if !applier.name.is_empty() && !found.contains(&applier) {
            found.push(applier);
        }
    }
    found
}
