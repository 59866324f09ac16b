//! The artifacts of a registry, as OCI image layouts that are made without a container runtime, and uploaded by skopeo. The
//! same input gives the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::release::{IMAGE_PLATFORMS, METADATA, PROGRAM, created, identity, sbom, spdx_package, tar, version};
use crate::{Output, items, output, read, run, setup, sha256, sorted_files, text, yaml};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const USER: &str = "65532";

pub fn dispatch(arguments: &[&str]) -> Result<()> {
    let digest = match arguments {
        ["image", layout, binaries @ ..] if !binaries.is_empty() => image(layout, binaries)?,
        ["policy", wasm, layout] => policy(wasm, layout)?,
        ["chart", archive, layout] => chart(archive, layout)?,
        ["artifacthub", layout] => {
            let owners = fs::read("deploy/charts/artifacthub-repo.yml")?;
            let config = (Vec::new(), "application/vnd.cncf.artifacthub.config.v1+yaml");
            let layer = (owners, "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml");
            Layout::new(layout)?.artifact(config, layer, &json!({"org.opencontainers.image.created": created()?}))?
        }
        ["push", layout, repository] => push(layout, repository, &format!("v{}", version()?))?,
        ["push", layout, repository, tag] => push(layout, repository, tag)?,
        ["tag", pairs @ ..] if !pairs.is_empty() && pairs.len() % 2 == 0 => return tag(pairs),
        _ => bail!("unknown command: oci {}", arguments.join(" ")),
    };
    println!("{digest}");
    Ok(())
}

/// A folder with blobs by their digests, and an index that names one of them.
struct Layout(String);

impl Layout {
    fn new(folder: &str) -> Result<Self> {
        fs::create_dir_all(format!("{folder}/blobs/sha256"))?;
        fs::write(format!("{folder}/oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(Self(folder.to_owned()))
    }

    fn add(&self, content: &[u8], media_type: &str) -> Result<Value> {
        let digest = sha256(content);
        fs::write(format!("{}/blobs/sha256/{digest}", self.0), content)?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len()}))
    }

    fn add_manifest(&self, config: &Value, layer: &Value, annotations: &Value) -> Result<Value> {
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer], "annotations": annotations,
        });
        self.add(manifest.to_string().as_bytes(), MANIFEST)
    }

    /// Names the artifact by the version's tag, and returns its digest.
    fn tag(&self, mut descriptor: Value) -> Result<String> {
        let digest = text(&descriptor["digest"]).to_owned();
        descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": format!("v{}", version()?)});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]});
        fs::write(format!("{}/index.json", self.0), index.to_string())?;
        Ok(digest)
    }

    /// One file, described by a config, each with its media type.
    fn artifact(&self, config: (Vec<u8>, &str), layer: (Vec<u8>, &str), annotations: &Value) -> Result<String> {
        let (config, layer) = (self.add(&config.0, config.1)?, self.add(&layer.0, layer.1)?);
        self.tag(self.add_manifest(&config, &layer, annotations)?)
    }
}

/// The image for one or more platforms: a statically linked program, certificate authorities, a user, and a software bill
/// of materials. There is no shell.
fn image(folder: &str, binaries: &[&str]) -> Result<String> {
    let layout = Layout::new(folder)?;
    let (url, name) = (identity("URL")?, PROGRAM.1);
    let labels: BTreeMap<String, String> = [
        ("title", name.to_owned()),
        (
            "description",
            "Collects container usage, enforces TenantQuotas and serves the UI of the Kubewarden policy Headroom"
                .to_owned(),
        ),
        ("authors", identity("AUTHORS")?),
        ("created", created()?),
        ("documentation", format!("{url}/tree/main/docs/src")),
        ("licenses", "Apache-2.0".to_owned()),
        ("revision", run("git", &["rev-parse", "HEAD"])?),
        ("source", url.clone()),
        ("url", url),
        ("version", version()?),
    ]
    .map(|(key, value)| (format!("org.opencontainers.image.{key}"), value))
    .into();
    let labels = json!(labels);
    let mut manifests = Vec::new();
    for binary in binaries {
        let (platform, binary) = binary.split_once('=').context("PLATFORM=BINARY")?;
        let target = IMAGE_PLATFORMS.iter().find(|(known, _)| *known == platform).map(|(_, target)| *target);
        let target = target.with_context(|| format!("{platform} is none of linux-amd64, linux-arm64"))?;
        let architecture = platform.trim_start_matches("linux-");
        check_binary(binary, architecture)?;

        let root = format!("{folder}/root");
        let file = |path: &str, content: &[u8]| {
            let (folder, _) = path.rsplit_once('/').context("a path")?;
            fs::create_dir_all(format!("{root}/{folder}"))?;
            fs::write(format!("{root}/{path}"), content)?;
            run("chmod", &[if path.starts_with("usr/bin/") { "755" } else { "644" }, &format!("{root}/{path}")])
        };
        fs::create_dir_all(format!("{root}/tmp"))?;
        file(&format!("usr/bin/{name}"), &fs::read(binary)?)?;
        file(&format!("usr/share/doc/{name}/LICENSE"), &fs::read("LICENSE")?)?;
        file(&format!("usr/share/doc/{name}/sbom.spdx.json"), format!("{:#}\n", bill(target)?).as_bytes())?;
        file("etc/ssl/certs/ca-certificates.crt", &authorities()?)?;
        let users = format!("root:x:0:0:root:/:/nonexistent\nnonroot:x:{USER}:{USER}:nonroot:/tmp:/nonexistent\n");
        file("etc/passwd", users.as_bytes())?;
        file("etc/group", format!("root:x:0:\nnonroot:x:{USER}:\n").as_bytes())?;
        file("etc/nsswitch.conf", b"hosts: files dns\n")?;
        run("sh", &["-c", &format!("find '{root}' -type d -exec chmod 755 {{}} + && chmod 1777 '{root}/tmp'")])?;
        let archive = format!("{folder}/layer.tar.gz");
        tar(&root, &archive)?;
        fs::remove_dir_all(&root)?;

        let content = Command::new("gzip").args(["-dc", &archive]).output()?.stdout;
        let layer = layout.add(&fs::read(&archive)?, "application/vnd.oci.image.layer.v1.tar+gzip")?;
        fs::remove_file(&archive)?;
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "created": created()?,
            "config": {
                "User": format!("{USER}:{USER}"),
                "Env": ["PATH=/usr/bin", "HOME=/tmp", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
                "Entrypoint": [format!("/usr/bin/{name}")],
                "Cmd": ["--help"],
                "WorkingDir": "/tmp",
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&content))]},
            "history": [{"created": created()?, "created_by": "cargo xtask oci image"}],
        });
        let config = layout.add(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json")?;
        let mut manifest = layout.add_manifest(&config, &layer, &labels)?;
        manifest["platform"] = json!({"architecture": architecture, "os": "linux"});
        if manifests.iter().any(|other: &Value| other["platform"] == manifest["platform"]) {
            bail!("there are two programs for {platform}");
        }
        manifests.push(manifest);
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": labels});
    layout.tag(layout.add(index.to_string().as_bytes(), INDEX)?)
}

/// Fails if the program is for another architecture or needs libraries.
fn check_binary(binary: &str, architecture: &str) -> Result<()> {
    if fs::metadata(binary).is_err() {
        bail!("{binary} is missing: build it first (cargo xtask release build)");
    }
    let header = run("readelf", &["--file-header", "--dynamic", "--wide", binary])?;
    let machine = if architecture == "amd64" { "X86-64" } else { "AArch64" };
    if !header.contains(machine) {
        bail!("{binary} is not built for {machine}");
    }
    if header.contains("(NEEDED)") {
        bail!("{binary} is not linked statically: the image has no libraries");
    }
    Ok(())
}

/// Mozilla's authorities as Debian has them; what this machine trusts besides stays out.
fn authorities() -> Result<Vec<u8>> {
    let files =
        sorted_files("/usr/share/ca-certificates/mozilla", "crt").context("install Debian's ca-certificates")?;
    let texts: Vec<String> = files.into_iter().map(read).collect::<Result<_>>()?;
    Ok(texts.iter().map(|text| format!("{}\n", text.trim_end())).collect::<String>().into_bytes())
}

/// The bill of materials of the image: the crates, and what is of Debian.
fn bill(target: &str) -> Result<Value> {
    let mut document = sbom(PROGRAM.0, target)?;
    for (package, licence) in [("libc6-dev", "LGPL-2.1-or-later"), ("ca-certificates", "MPL-2.0")] {
        let found = run("dpkg-query", &["-W", "-f", "${Version}", package]).context("build the image on Debian")?;
        let entry = spdx_package(package, &found, licence, &format!("pkg:deb/debian/{package}@{found}"));
        let relation = json!({
            "spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": entry["SPDXID"],
        });
        document["relationships"].as_array_mut().context("relationships")?.push(relation);
        document["packages"].as_array_mut().context("packages")?.push(entry);
    }
    Ok(document)
}

/// The policy, as `kwctl push` uploads it: with its annotations of one line.
fn policy(wasm: &str, folder: &str) -> Result<String> {
    let module = fs::read(wasm)?;
    let section = b"io.kubewarden.metadata";
    if !module.windows(section.len()).any(|bytes| bytes == section) {
        bail!("{wasm} has no metadata: give the annotated policy");
    }
    let mut annotations = yaml(&read(METADATA)?)?["annotations"].take();
    let source = annotations["io.kubewarden.policy.source"].clone();
    annotations["org.opencontainers.image.source"] = source;
    let config = (b"{}".to_vec(), "application/vnd.wasm.config.v1+json");
    Layout::new(folder)?.artifact(config, (module, "application/vnd.wasm.content.layer.v1+wasm"), &annotations)
}

fn chart(archive: &str, folder: &str) -> Result<String> {
    let described = run("tar", &["-xzOf", archive, "headroom/Chart.yaml"]);
    let described = yaml(&described.with_context(|| format!("{archive} is no packed chart"))?)?;
    let maintainers = items(&described["maintainers"]).iter();
    let maintainers = maintainers.map(|one| format!("{} ({})", text(&one["name"]), text(&one["email"])));
    let mut annotations = described["annotations"].clone();
    for (name, value) in [
        ("title", described["name"].clone()),
        ("version", described["version"].clone()),
        ("description", described["description"].clone()),
        ("url", described["home"].clone()),
        ("source", described["sources"][0].clone()),
        ("authors", json!(maintainers.collect::<Vec<_>>().join(", "))),
        ("created", json!(created()?)),
    ] {
        annotations[format!("org.opencontainers.image.{name}")] = value;
    }
    let config = (described.to_string().into_bytes(), "application/vnd.cncf.helm.config.v1+json");
    let layer = (fs::read(archive)?, "application/vnd.cncf.helm.chart.content.v1.tar+gzip");
    Layout::new(folder)?.artifact(config, layer, &annotations)
}

// --- the registry -------------------------------------------------------------------------------------------

/// The flag for a registry without TLS, on loopback.
fn tls(reference: &str, flag: &str) -> String {
    let is_here = reference.starts_with("localhost") || reference.starts_with("127.0.0.1");
    format!("--{flag}={}", !is_here)
}

fn push(folder: &str, repository: &str, tag: &str) -> Result<String> {
    setup(&["skopeo"])?;
    let index: Value = serde_json::from_str(&read(format!("{folder}/index.json"))?)?;
    let from = format!("oci:{folder}:v{}", version()?);
    copy(&from, repository, tag)?;
    Ok(format!("{repository}@{}", text(&index["manifests"][0]["digest"])))
}

/// skopeo uses the logins of docker and podman.
fn copy(from: &str, repository: &str, tag: &str) -> Result<()> {
    let (from_tls, to_tls) = (tls(repository, "src-tls-verify"), tls(repository, "dest-tls-verify"));
    let to = format!("docker://{repository}:{tag}");
    run("skopeo", &["copy", "--all", "--preserve-digests", "--quiet", &from_tls, &to_tls, from, &to])?;
    Ok(())
}

/// Gives artifacts, REPOSITORY@DIGEST, a further tag each. A release pushes and signs under tags that nobody uses, and gives
/// the versions' tags last, all or none: where a tag is another artifact already, all are refused.
fn tag(pairs: &[&str]) -> Result<()> {
    setup(&["skopeo"])?;
    let inspect = |reference: &str| -> Result<Output> {
        let verify = tls(reference, "tls-verify");
        output(Command::new("skopeo").args(["inspect", "--raw", &verify, &format!("docker://{reference}")]))
    };
    let mut wanted = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let (reference, tag) = (pair[0], pair[1]);
        let (repository, digest) = reference.split_once('@').context("REPOSITORY@DIGEST")?;
        if !inspect(reference)?.is_success {
            bail!("{reference} is not there");
        }
        let place = format!("{repository}:{tag}");
        let present = inspect(&place)?;
        if !present.is_success && !["manifest unknown", "not found"].iter().any(|text| present.err.contains(text)) {
            bail!("{place}: {}", present.err.trim());
        }
        let is_present = present.is_success && format!("sha256:{}", sha256(present.out.as_bytes())) == digest;
        if present.is_success && !is_present {
            bail!("{place} is another artifact already; released versions do not change");
        }
        wanted.push((reference, repository, tag, is_present));
    }
    for (reference, repository, tag, is_present) in wanted {
        if is_present {
            println!("{repository}:{tag} is that artifact already");
            continue;
        }
        copy(&format!("docker://{reference}"), repository, tag)?;
        println!("{repository}:{tag} is {reference}");
    }
    Ok(())
}
