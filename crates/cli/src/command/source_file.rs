//! The file of `--source`: where a metrics store is, the credentials to read it with, and the names of its metrics and labels.
//!
//! `source.yaml` documents each field. `kubectl headroom doctor … -o source` fills it in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use headroom_metrics_stores::cloud_auth::{Cloud, Identity};
use headroom_metrics_stores::http::{Authentication, Endpoint, Url};
use headroom_metrics_stores::prometheus::{Labels, MetricNames, Overrides};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::seconds;

const TEMPLATE: &str = include_str!("source.yaml");

/// `--source`, and the file once it was read.
#[derive(Debug, Clone, Default, Args)]
pub struct SourceFlag {
    /// File with the address, credentials, metrics and labels of the store; `kubectl headroom doctor … -o source` writes it
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    #[arg(skip)]
    read: OnceLock<SourceFile>,
}

impl SourceFlag {
    pub fn is_given(&self) -> bool {
        self.source.is_some()
    }

    /// The file, or one without any field if the flag is not given. It is read once.
    pub fn file(&self) -> anyhow::Result<&SourceFile> {
        if let Some(file) = self.read.get() {
            return Ok(file);
        }
        let file = self.source.as_deref().map(SourceFile::read).transpose()?.unwrap_or_default();
        Ok(self.read.get_or_init(|| file))
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct SourceFile {
    pub url: Option<String>,
    pub service: Option<String>,
    pub matchers: Option<String>,
    pub accept_partial: bool,
    pub ephemeral_storage: bool,
    pub concurrency: Option<u8>,
    step: Option<String>,
    timeout: Option<String>,
    token_file: Option<PathBuf>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    header_files: BTreeMap<String, PathBuf>,
    identity: Option<Cloud>,
    pub tenant: Option<String>,
    ca_file: Option<PathBuf>,
    insecure_skip_tls_verify: bool,
    pub metrics: MetricNames,
    pub labels: Labels,
    pub info_labels: Labels,
    /// The folder of the file.
    #[serde(skip)]
    folder: PathBuf,
}

impl SourceFile {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = headroom_output::read_bounded(path, headroom_output::LONGEST_TEXT)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        let file = Self::parse(&text).with_context(|| format!("`{}`", path.display()))?;
        Ok(Self { folder: path.parent().map(Path::to_owned).unwrap_or_default(), ..file })
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let options = serde_saphyr::options! { with_snippet: false };
        let file: Self = serde_saphyr::from_str_with_options(text, options).map_err(|error| anyhow!("{error}"))?;
        let credentials = [file.token_file.is_some(), file.user.is_some(), file.identity.is_some()];
        if credentials.into_iter().filter(|is_given| *is_given).count() > 1 {
            bail!("`tokenFile`, `user` and `identity` exclude each other");
        }
        if file.user.is_some() != file.password_file.is_some() {
            bail!("`user` and `passwordFile` need each other");
        }
        if file.concurrency.is_some_and(|queries| !(1..=32).contains(&queries)) {
            bail!("`concurrency` is not from 1 to 32");
        }
        if file.url.is_some() && file.service.is_some() {
            bail!("`url` and `service` exclude each other");
        }
        Ok(file)
    }

    /// True if requests carry something that only a trusted store may get.
    pub fn has_credentials(&self) -> bool {
        self.token_file.is_some() || self.user.is_some() || self.identity.is_some() || !self.header_files.is_empty()
    }

    /// The query step, in seconds.
    pub fn step(&self) -> anyhow::Result<Option<i64>> {
        let read = |text: &String| seconds(text).map_err(|expected| anyhow!("step is `{text}`: {expected}"));
        self.step.as_ref().map(read).transpose()
    }

    /// The names that are not detected.
    pub fn names(&self) -> Overrides {
        let Self { metrics, labels, info_labels, .. } = self.clone();
        Overrides { metrics, labels, info_labels }
    }

    /// The way to read the store at this URL. The URL is empty if the store is behind a Service.
    pub fn endpoint(&self, url: &Url) -> anyhow::Result<Endpoint> {
        let cloud = self.identity.or_else(|| Cloud::of(url.as_str()));
        let authentication = match (&self.token_file, &self.user, &self.password_file, cloud) {
            (Some(file), ..) => Authentication::TokenFile(self.folder.join(file)),
            (None, Some(user), Some(file), _) => {
                Authentication::Basic { user: user.clone(), password: self.secret_in(file)?.into() }
            }
            (.., Some(cloud)) => {
                Authentication::Cloud(Arc::new(Identity::new(cloud, url.as_str(), &|name| std::env::var(name).ok())?))
            }
            (.., None) => Authentication::None,
        };
        let headers = self.header_files.iter().map(|(name, file)| Ok((name.clone(), self.secret_in(file)?)));
        let timeout = self.timeout.as_deref().unwrap_or("1m");
        let timeout = seconds(timeout).map_err(|expected| anyhow!("timeout is `{timeout}`: {expected}"))?;
        Ok(Endpoint {
            authentication,
            headers: headers.collect::<anyhow::Result<_>>()?,
            tenant: self.tenant.clone(),
            ca_file: self.ca_file.as_ref().map(|file| self.folder.join(file)),
            accept_invalid_certificates: self.insecure_skip_tls_verify,
            timeout: Duration::from_secs(timeout.unsigned_abs()),
            ..Endpoint::new(url.clone())
        })
    }

    /// The content of a file, without the line break that editors add.
    fn secret_in(&self, file: &Path) -> anyhow::Result<String> {
        let path = self.folder.join(file);
        let text = headroom_output::read_bounded(&path, headroom_output::LONGEST_TEXT)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The template with the fields that are set. The others stay comments.
    pub fn to_yaml(&self) -> anyhow::Result<String> {
        let fields = serde_json::to_value(self)?;
        let (mut section, mut lines) = ("", Vec::new());
        for line in TEMPLATE.lines() {
            let indent = line.len() - line.trim_start().len();
            let field = line.trim_start().strip_prefix('#').and_then(|field| field.split_once(':'));
            let Some((key, example)) = field.filter(|(key, _)| !key.starts_with(' ')) else {
                lines.push(line.to_owned());
                continue;
            };
            let parent = if indent > 0 { fields.get(section) } else { Some(&fields) };
            lines.push(match parent.and_then(|parent| parent.get(key)).unwrap_or(&Value::Null) {
                value if example.is_empty() => {
                    section = key;
                    let is_set = value.as_object().is_some_and(|fields| fields.values().any(is_set));
                    if is_set { format!("{key}:") } else { line.to_owned() }
                }
                value if is_set(value) => format!("{:indent$}{key}: {value}", ""),
                _ => line.to_owned(),
            });
        }
        Ok(lines.join("\n") + "\n")
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_documents_every_field() {
        let uncomment = |line: &str| match line.trim_start().strip_prefix('#') {
            Some(field) if !field.starts_with(' ') => line.replacen('#', "", 1) + "\n",
            _ => line.to_owned() + "\n",
        };
        let written: Value = serde_saphyr::from_str(&TEMPLATE.lines().map(uncomment).collect::<String>()).unwrap();
        let known = serde_json::to_value(SourceFile::default()).unwrap();
        let keys =
            |value: &Value| value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(keys(&written), keys(&known));
        for section in ["metrics", "labels", "infoLabels"] {
            assert_eq!(keys(&written[section]), keys(&known[section]), "{section}");
        }
        assert!(SourceFile::parse(TEMPLATE).is_ok());
    }

    #[test]
    fn what_is_written_reads_as_the_same_file() {
        let check = |text: &str| {
            let file = SourceFile::parse(text).unwrap();
            let again = SourceFile::parse(&file.to_yaml().unwrap()).unwrap();
            assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&file).unwrap(), "{text}");
        };
        check("");
        check("url: http://p:9090\nmatchers: cluster=\"a'b\"\nacceptPartial: true\ntimeout: 90s");
        check("user: u\npasswordFile: p\nheaderFiles: {X-Key: k}\nidentity: null\ntenant: a b\ncaFile: ca.crt");
        check("identity: aws\nmetrics: {cpu: a, cpuIsRate: true}\nlabels: {pod: p}\ninfoLabels: {image: i}");
    }

    #[test]
    fn errors_name_field_and_line() {
        let check = |text: &str, expected: &str| {
            let error =
                SourceFile::parse(text).and_then(|file| file.endpoint(&Url::from("http://p")).map(|_| ())).unwrap_err();
            assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
        };
        check("url: a\ntoken: b", "token");
        check("url: a\ntimeout: soon", "timeout is `soon`: expected a duration");
        check("identity: oracle", "oracle");
        check("labels: {pods: p}", "pods");
        check("user: ann", "`user` and `passwordFile` need each other");
        check("user: ann\npasswordFile: p\ntokenFile: t", "`tokenFile`, `user` and `identity` exclude each other");
        check("url: http://p\nservice: a/b:1", "`url` and `service` exclude each other");
        check("user: ann\npasswordFile: gone", "cannot read `gone`");
    }
}
