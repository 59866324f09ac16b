//! A store behind a Service, reached by a port-forward: the fake API server implements the necessary part of the
//! WebSocket protocol.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headroom_fixtures::fake_prometheus::{MATRIX, start as store};
use headroom_fixtures::http::{FakeServer, Reply, answer, header};
use headroom_metrics_stores::http::{Authentication, Endpoint};
use headroom_metrics_stores::port_forward::{self, ForwardTarget};
use headroom_metrics_stores::prometheus::{Prometheus, PrometheusOptions};
use headroom_metrics_stores::{Source, SourceError};
use headroom_usage::sample::Window;
use ring::digest;
use serde_json::json;

/// An API server with a Service whose only pod forwards to a port of this machine.
fn api_server(leads_to: u16, is_ready: bool) -> kube::Client {
    client(&FakeServer::start_raw(move |head| serve(head, leads_to, is_ready)).url())
}

fn serve(head: &str, leads_to: u16, is_ready: bool) -> Reply {
    let asked = |path: &str| head.starts_with(&format!("GET /api/v1/namespaces/monitoring/{path}"));
    let object = if asked("services/prometheus ") {
        json!({"spec": {"selector": {"app": "prometheus"}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}]}})
    } else if asked("pods?limit=100&labelSelector=app%3Dprometheus ") {
        let ready = if is_ready { "True" } else { "False" };
        let ports = json!([{"name": "http", "containerPort": 9090}]);
        json!({"items": [{
            "metadata": {"name": "prometheus-0"},
            "spec": {"containers": [{"name": "prometheus", "ports": ports}]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }]})
    } else if asked("pods/prometheus-0/portforward?&ports=9090 ") {
        let head = head.to_owned();
        return Reply::Lead(Box::new(move |stream| lead(stream, &head, leads_to)));
    } else {
        let message = head.lines().next();
        let missing =
            json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": message});
        return answer(404, &missing.to_string());
    };
    answer(200, &object.to_string())
}

/// The channel of a port's data, and that of its errors.
const CHANNELS: [u8; 2] = [0, 1];

fn lead(mut client: TcpStream, head: &str, to: u16) {
    let key = header(head, "sec-websocket-key").unwrap();
    let guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{guid}").as_bytes());
    let protocol = header(head, "sec-websocket-protocol").unwrap().split(',').next().unwrap().trim();
    let accept = STANDARD.encode(hash);
    write!(
        client,
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    )
    .unwrap();
    for channel in CHANNELS {
        send(&mut client, &[&[channel], 9090_u16.to_le_bytes().as_slice()].concat());
    }
    let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut block = [0; 4096];
        while let Ok(read @ 1..) = from_server.read(&mut block) {
            send(&mut to_client, &[&CHANNELS[..1], &block[..read]].concat());
        }
        let _ = to_client.write_all(&[0x88, 0]);
        let _ = to_client.shutdown(Shutdown::Write);
    });
    while let Some(frame) = receive(&mut client) {
        if frame.first() == Some(&CHANNELS[0]) {
            let _ = server.write_all(&frame[1..]);
        }
    }
    let _ = server.shutdown(Shutdown::Write);
}

/// Sends one binary frame of the server.
fn send(stream: &mut TcpStream, payload: &[u8]) {
    let mut frame = vec![0x82];
    match u8::try_from(payload.len()).ok().filter(|length| *length < 126) {
        Some(length) => frame.push(length),
        None => {
            frame.push(126);
            frame.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend(payload);
    let _ = stream.write_all(&frame);
}

/// Receives one frame of the client, unmasked; none at the end.
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut begin = [0; 2];
    stream.read_exact(&mut begin).ok()?;
    let mut length = usize::from(begin[1] & 0x7f);
    if length == 126 {
        let mut long = [0; 2];
        stream.read_exact(&mut long).ok()?;
        length = u16::from_be_bytes(long).into();
    }
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).ok()?;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    let unmasked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    // A close frame ends the stream. Pings are not expected.
    (begin[0] & 0x0f == 2).then_some(unmasked)
}

/// A client of a server without TLS, which asks once.
pub fn client(url: &str) -> kube::Client {
    let mut config = kube::Config::new(url.parse().unwrap());
    config.root_cert = Some(Vec::new());
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

#[tokio::test]
async fn a_store_behind_a_service_gets_our_token() {
    let store = store(|| answer(200, MATRIX));
    let target = ForwardTarget::parse("monitoring/prometheus:web").unwrap();
    let mut endpoint = Endpoint::new("");
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "s3cret").unwrap();
    endpoint.authentication = Authentication::TokenFile(token.path().into());
    endpoint.tenant = Some("team-a".to_owned());
    let http = port_forward::http(api_server(store.port, true), target, &endpoint).await.unwrap();
    assert_eq!(http.name(), "service monitoring/prometheus:web");
    let source = Prometheus::new(http, PrometheusOptions::new(endpoint));
    let mut batches = 0;
    source.read(&["shop"], Window { from: 6000, to: 9600 }, &mut |_| batches += 1).await.unwrap();
    assert!(batches > 0);
    let asked = store.asked_for("GET /api/v1/query");
    assert!(!asked.is_empty());
    for head in asked {
        assert_eq!(header(&head, "authorization"), Some("Bearer s3cret"));
        assert_eq!(header(&head, "x-scope-orgid"), Some("team-a"));
    }
}

#[tokio::test]
async fn errors_of_a_port_forward_are_reported() {
    let check = async |is_ready: bool, target: &str, expected: &str| {
        let target = ForwardTarget::parse(target).unwrap();
        let refused = port_forward::http(api_server(1, is_ready), target, &Endpoint::new("")).await.err();
        let Some(SourceError::Permanent(text) | SourceError::Temporary(text)) = &refused else { panic!("{refused:?}") };
        assert!(text.contains(expected), "{text}");
    };
    check(false, "monitoring/prometheus:web", "no pod behind service monitoring/prometheus is ready").await;
    check(true, "monitoring/prometheus:9090", "service monitoring/prometheus has no port `9090`").await;
    check(true, "monitoring/thanos:web", "service monitoring/thanos cannot be reached").await;
}
