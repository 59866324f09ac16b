//! `artifacthub-pkg.yml`, generated from the metadata and the settings form like `kwctl scaffold artifacthub`, so that
//! Artifact Hub always shows the policy's own metadata.

use serde_json::json;

use crate::metadata::Metadata;

/// The text of the file; `created_at` is a time in RFC 3339, `questions` the text of `deploy/questions-ui.yml`.
pub fn package(metadata: &Metadata, created_at: &str, questions: &str) -> Result<String, String> {
    let annotation = |key: &str| {
        let value = metadata.annotations.get(key).map(String::as_str);
        value.ok_or_else(|| format!("the metadata has no annotation `{key}`"))
    };
    let version = annotation("io.kubewarden.policy.version")?;
    let source = annotation("io.kubewarden.policy.source")?;
    let image = format!("{}:v{version}", annotation("io.kubewarden.policy.ociUrl")?);
    let author = annotation("io.kubewarden.policy.author")?;
    let (maintainer, email) = author
        .strip_suffix('>')
        .and_then(|author| author.split_once(" <"))
        .ok_or_else(|| format!("the author is `{author}`: expected `Name <address>`"))?;
    let yaml = |error: serde_yaml::Error| error.to_string();

    let package = json!({
        "version": version,
        "name": annotation("io.kubewarden.policy.title")?,
        "displayName": annotation("io.artifacthub.displayName")?,
        "createdAt": created_at,
        "description": annotation("io.kubewarden.policy.description")?,
        "license": annotation("io.kubewarden.policy.license")?,
        "homeURL": annotation("io.kubewarden.policy.url")?,
        "containersImages": [{"name": "policy", "image": image}],
        "keywords": annotation("io.artifacthub.keywords")?.split(',').map(str::trim).collect::<Vec<_>>(),
        "links": [
            {"name": "policy", "url": format!("{source}/releases/download/v{version}/policy.wasm")},
            {"name": "source", "url": source},
            {"name": "documentation", "url": annotation("dev.headroom.documentation")?},
            {"name": "playground", "url": annotation("dev.headroom.playground")?},
        ],
        "install": format!(
            "Pull the policy with [`kwctl`](https://github.com/kubewarden/kwctl), and print a manifest to adapt:\n\
             ```console\nkwctl pull {image}\n\
             kwctl scaffold manifest -t ClusterAdmissionPolicy --allow-context-aware registry://{image}\n```\n"
        ),
        "maintainers": [{"name": maintainer, "email": email}],
        "provider": {"name": "kubewarden"},
        "recommendations": [{"url": "https://artifacthub.io/packages/helm/kubewarden/admission-controller"}],
        "annotations": {
            "kubewarden/contextAwareResources":
                serde_yaml::to_string(&metadata.context_aware_resources).map_err(yaml)?,
            "kubewarden/hidden-ui": annotation("io.kubewarden.hidden-ui")?,
            "kubewarden/mutation": metadata.mutating.to_string(),
            "kubewarden/questions-ui": questions,
            "kubewarden/resources": annotation("io.artifacthub.resources")?,
            "kubewarden/rules": serde_yaml::to_string(&metadata.rules).map_err(yaml)?,
        },
    });
    let head = "# Generated from policy-metadata.yaml and deploy/questions-ui.yml by `make artifacthub-pkg.yml`.\n";
    Ok(head.to_owned() + &serde_yaml::to_string(&package).map_err(yaml)?)
}
