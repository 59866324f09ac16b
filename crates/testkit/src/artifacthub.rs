//! `artifacthub-pkg.yml`, generated from the metadata and the settings form like `kwctl scaffold artifacthub`, so that
//! Artifact Hub always shows the policy's own metadata.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::metadata::Metadata;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Package<'a> {
    version: &'a str,
    name: &'a str,
    display_name: &'a str,
    created_at: &'a str,
    description: &'a str,
    license: &'a str,
    #[serde(rename = "homeURL")]
    home_url: &'a str,
    containers_images: Vec<Named<'a, Image>>,
    keywords: Vec<&'a str>,
    links: Vec<Named<'a, Link>>,
    install: String,
    maintainers: Vec<Named<'a, Mail<'a>>>,
    provider: Provider,
    recommendations: Vec<Link>,
    annotations: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Named<'a, T> {
    name: &'a str,
    #[serde(flatten)]
    rest: T,
}

#[derive(Serialize)]
struct Image {
    image: String,
}

#[derive(Serialize)]
struct Link {
    url: String,
}

#[derive(Serialize)]
struct Mail<'a> {
    email: &'a str,
}

#[derive(Serialize)]
struct Provider {
    name: &'static str,
}

/// The text of the file; `created_at` is a time in RFC 3339, `questions` the text of `questions-ui.yml`.
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

    let mut annotations = BTreeMap::from([
        ("kubewarden/hidden-ui", annotation("io.kubewarden.hidden-ui")?.to_owned()),
        ("kubewarden/mutation", metadata.mutating.to_string()),
        ("kubewarden/questions-ui", questions.to_owned()),
        ("kubewarden/resources", annotation("io.artifacthub.resources")?.to_owned()),
        ("kubewarden/rules", serde_yaml::to_string(&metadata.rules).map_err(yaml)?),
    ]);
    if !metadata.context_aware_resources.is_empty() {
        let resources = serde_yaml::to_string(&metadata.context_aware_resources).map_err(yaml)?;
        annotations.insert("kubewarden/contextAwareResources", resources);
    }
    let download = format!("{source}/releases/download/v{version}/policy.wasm");
    let package = Package {
        version,
        name: annotation("io.kubewarden.policy.title")?,
        display_name: annotation("io.artifacthub.displayName")?,
        created_at,
        description: annotation("io.kubewarden.policy.description")?,
        license: annotation("io.kubewarden.policy.license")?,
        home_url: annotation("io.kubewarden.policy.url")?,
        keywords: annotation("io.artifacthub.keywords")?.split(',').map(str::trim).collect(),
        links: vec![
            Named { name: "policy", rest: Link { url: download } },
            Named { name: "source", rest: Link { url: source.to_owned() } },
            Named { name: "documentation", rest: Link { url: annotation("dev.headroom.documentation")?.to_owned() } },
            Named { name: "playground", rest: Link { url: annotation("dev.headroom.playground")?.to_owned() } },
        ],
        install: format!(
            "Pull the policy with [`kwctl`](https://github.com/kubewarden/kwctl), and print a manifest to adapt:\n\
             ```console\nkwctl pull {image}\n\
             kwctl scaffold manifest -t ClusterAdmissionPolicy --allow-context-aware registry://{image}\n```\n"
        ),
        containers_images: vec![Named { name: "policy", rest: Image { image } }],
        maintainers: vec![Named { name: maintainer, rest: Mail { email } }],
        provider: Provider { name: "kubewarden" },
        recommendations: vec![Link {
            url: "https://artifacthub.io/packages/helm/kubewarden/admission-controller".to_owned(),
        }],
        annotations,
    };
    let head = "# Generated from policy-metadata.yaml and questions-ui.yml by `make artifacthub-pkg.yml`.\n";
    Ok(head.to_owned() + &serde_yaml::to_string(&package).map_err(yaml)?)
}
