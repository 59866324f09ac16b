//! Starts real metrics stores on loopback, on free ports, with their data in a temporary folder. They stop when
//! dropped. If a server is not installed, the test fails and says how to install it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running server.
pub struct Server {
    pub child: Child,
    folder: TempDir,
    pub port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn start(program: &str, arguments: &[String], folder: TempDir, port: u16, ready: &str) -> Self {
        let log = File::create(folder.path().join("log")).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| missing(program, &error));
        let mut server = Self { child, folder, port };
        let give_up = Instant::now() + Duration::from_secs(60);
        while !server.answers(ready) {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("{program} ended with {status}:\n{}", server.log());
            }
            assert!(Instant::now() < give_up, "{program} is not ready after 60 s:\n{}", server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// With an empty path, an open port is sufficient.
    fn answers(&self, ready: &str) -> bool {
        if ready.is_empty() {
            return TcpStream::connect(("127.0.0.1", self.port)).is_ok();
        }
        matches!(request(self.port, "GET", ready, b""), Ok((200 | 204, _)))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn missing(program: &str, error: &std::io::Error) -> ! {
    panic!(
        "cannot start `{program}`: {error}: run scripts/setup-debian.sh test-servers, which installs it from Debian's packages"
    )
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Sends one plain HTTP request. Returns status and body.
pub fn request(port: u16, method: &str, path: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
}

#[derive(Default)]
pub struct PrometheusServer {
    /// OpenMetrics text to import before the server starts.
    pub history: String,
    /// The same in a file, for large texts.
    pub file: Option<PathBuf>,
    /// Port to scrape each second.
    pub scrape: Option<u16>,
    /// `--web.config.file`, for TLS and basic auth.
    pub web_config: Option<PathBuf>,
    /// Listen not only on loopback, to which no API server connects.
    pub on_all_addresses: bool,
    pub more_arguments: Vec<String>,
}

impl PrometheusServer {
    pub fn start(self) -> Server {
        let folder = tempfile::tempdir().unwrap();
        if !self.history.is_empty() {
            let file = folder.path().join("history.om");
            fs::write(&file, &self.history).unwrap();
            backfill(folder.path(), &file);
        }
        if let Some(file) = &self.file {
            backfill(folder.path(), file);
        }
        let mut config = "global:\n  scrape_interval: 1s\n".to_owned();
        if let Some(port) = self.scrape {
            config.push_str("scrape_configs:\n- job_name: cadvisor\n  honor_labels: true\n  static_configs:\n");
            config.push_str(&format!("  - targets: ['127.0.0.1:{port}']\n"));
        }
        fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let port = free_port();
        let address = if self.on_all_addresses { "0.0.0.0" } else { "127.0.0.1" };
        let mut arguments = vec![
            format!("--config.file={}", folder.path().join("prometheus.yml").display()),
            format!("--storage.tsdb.path={}", folder.path().join("data").display()),
            "--storage.tsdb.retention.time=60d".to_owned(),
            format!("--web.listen-address={address}:{port}"),
            "--log.level=warn".to_owned(),
        ];
        arguments.extend(self.web_config.iter().map(|path| format!("--web.config.file={}", path.display())));
        arguments.extend(self.more_arguments);
        // With TLS and a password, only the open port can be checked.
        let ready = if self.web_config.is_some() { "" } else { "/-/ready" };
        Server::start("prometheus", &arguments, folder, port, ready)
    }
}

fn backfill(folder: &Path, file: &Path) {
    let output = Command::new("promtool")
        .args(["tsdb", "create-blocks-from", "openmetrics", "--quiet"])
        .arg("--max-block-duration=162h") // it reads the whole file for each block
        .arg(file)
        .arg(folder.join("data"))
        .output()
        .unwrap_or_else(|error| missing("promtool", &error));
    assert!(output.status.success(), "promtool: {}", String::from_utf8_lossy(&output.stderr));
}

/// VictoriaMetrics, filled with lines of the Prometheus text format (times in milliseconds).
pub fn victoria_metrics(lines: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let arguments = [
        format!("-storageDataPath={}", folder.path().join("data").display()),
        format!("-httpListenAddr=127.0.0.1:{port}"),
        "-retentionPeriod=3".to_owned(),
        "-memory.allowedBytes=200MB".to_owned(),
    ];
    let server = Server::start("victoria-metrics", &arguments, folder, port, "/health");
    let (status, body) = request(port, "POST", "/api/v1/import/prometheus", lines.as_bytes()).unwrap();
    assert_eq!(status, 204, "{body}");
    request(port, "GET", "/internal/force_flush", b"").unwrap();
    server
}

/// InfluxDB 1.x with a database `k8s`. With `authentication`, its only user is `admin`, password `open sesame`. With
/// `most_steps`, it refuses to group by more steps in one query.
pub fn influxdb(authentication: bool, most_steps: u32) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let (port, backup) = (free_port(), free_port());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let config = format!(
        "reporting-disabled = true\nbind-address = \"127.0.0.1:{backup}\"\n\
         [meta]\ndir = \"{}\"\n[data]\ndir = \"{}\"\nwal-dir = \"{}\"\n\
         [http]\nbind-address = \"127.0.0.1:{port}\"\nauth-enabled = {authentication}\nlog-enabled = false\n\
         [monitor]\nstore-enabled = false\n[coordinator]\nmax-select-buckets = {most_steps}\n",
        path("meta"),
        path("data"),
        path("wal"),
    );
    fs::write(folder.path().join("influxdb.conf"), config).unwrap();
    let arguments = ["-config".to_owned(), path("influxdb.conf")];
    let server = Server::start("influxd", &arguments, folder, port, "/ping");
    let user = if authentication {
        let create = "CREATE+USER+admin+WITH+PASSWORD+'open+sesame'+WITH+ALL+PRIVILEGES";
        assert_eq!(request(port, "POST", &format!("/query?q={create}"), b"").unwrap().0, 200);
        "&u=admin&p=open+sesame"
    } else {
        ""
    };
    let (status, body) = request(port, "POST", &format!("/query?q=CREATE+DATABASE+k8s{user}"), b"").unwrap();
    assert_eq!(status, 200, "{body}");
    server
}
