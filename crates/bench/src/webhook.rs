//! The least that any webhook of quotas costs, for `make bench-ledger`: the server of the ledger, which allows every
//! object at once, or with `--write` after creating one ConfigMap for each.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use headroom_admission::json::Document;
use headroom_api_server::ApiPath;
use headroom_api_server::api_client::ApiClient;
use headroom_api_server::http_server;
use headroom_api_server::kubeconfig::{self, Chosen};
use headroom_quota_server::{serve, tls};
use http::Response;
use hyper::body::Bytes;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    listen: SocketAddr,
    /// Folder with `tls.crt` and `tls.key`, as for the ledger
    #[arg(long)]
    tls: PathBuf,
    /// Namespace of the ConfigMaps
    #[arg(long)]
    write: Option<String>,
}

#[tokio::main]
pub async fn run(args: Args) -> anyhow::Result<()> {
    let certificate = Arc::new(tls::Certificate::default());
    certificate.read_files(&args.tls.join("tls.crt"), &args.tls.join("tls.key"))?;
    let acceptor = tls::acceptor(certificate, None)?;
    let client = kubeconfig::client(&Chosen::default()).await.map_err(anyhow::Error::msg)?;
    let api = ApiClient::new(client);
    let path = args.write.map(|namespace| ApiPath::new("/api/v1").collection(Some(&namespace), "configmaps"));
    let handshake = move |stream| {
        let acceptor = acceptor.clone();
        async move { acceptor.accept(stream).await.ok() }
    };
    let respond = move |request: http::Request<Bytes>| {
        let (api, path) = (api.clone(), path.clone());
        async move {
            // Without a review in the body, the API server reports a failed call.
            let answer = answer(&api, path.as_ref(), request.body()).await.inspect_err(|error| eprintln!("{error:#}"));
            Response::new(answer.unwrap_or_default().into())
        }
    };
    let listener = TcpListener::bind(args.listen).await?;
    http_server::serve(listener, serve::LIMITS, CancellationToken::new(), handshake, respond).await;
    Ok(())
}

async fn answer(api: &ApiClient, path: Option<&ApiPath>, review: &[u8]) -> anyhow::Result<String> {
    let document = Document::read_bytes(review)?;
    let uid = document.root().at(&["request", "uid"])?.context("no uid")?.str()?;
    if let Some(path) = path {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("claim-{uid}")}});
        api.create(path, &object).await?;
    }
    let response = json!({"uid": uid, "allowed": true});
    Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string())
}
