//! A node: a real kubelet, containerd and runc on User Mode Linux, a kernel that is a process of this machine.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headroom_e2e::certificate;
use headroom_e2e::cluster::{Cluster, api};
use headroom_e2e::process::Process;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::within;

pub const NAME: &str = "node";
/// Both ends of the network that `scripts/e2e-node.sh` makes.
pub const HOST: &str = "192.168.136.1";
pub const ADDRESS: &str = "192.168.136.2";

/// The API server's arguments beside those of a control plane without nodes.
pub const API_SERVER: [&str; 4] = [
    "--bind-address=0.0.0.0",
    "--authorization-mode=Node",
    "--enable-admission-plugins=NodeRestriction",
    "--enable-aggregator-routing=true",
];

pub struct Node {
    process: Process,
    /// The folder that the node sees as `/host`.
    host: TempDir,
}

impl Node {
    /// Switches the node on. It is ready half a minute later.
    pub fn start(cluster: &Cluster) -> Self {
        let folder = PathBuf::from(std::env::var_os("HEADROOM_NODE").unwrap());
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir(host.path().join("kubelet")).unwrap();
        write_kubelet(cluster, host.path(), "100m");
        let [kernel, disk] = ["linux", "root.img"].map(|name| folder.join(name).display().to_string());
        let state = host.path().display();
        let arguments = [
            "TMPDIR=/dev/shm".to_owned(),
            kernel,
            "mem=2048M".to_owned(),
            // The node's writes go to a file of this run, so the disk stays as it is.
            format!("ubd0={state}/disk.cow,{disk}"),
            "root=/dev/ubda rw init=/usr/sbin/init con=null con0=null,fd:1".to_owned(),
            "vec0:transport=tap,ifname=tap0,depth=128,mac=02:00:00:00:13:02".to_owned(),
            format!("node={NAME} address={ADDRESS} gateway={HOST} hostdir={state}"),
        ];
        let arguments: Vec<String> = arguments.iter().flat_map(|text| text.split(' ')).map(str::to_owned).collect();
        let process = Process::start(Path::new("env"), &arguments, host.path()).unwrap();
        Self { process, host }
    }

    pub async fn wait_until_ready(&self, cluster: &Cluster) {
        let nodes = api(&cluster.client().await.unwrap(), "v1", "Node");
        within(600, "the node is ready", async || {
            let node = nodes.get_opt(NAME).await.unwrap();
            let is_ready = node.as_ref().is_some_and(is_ready);
            is_ready.then_some(()).ok_or_else(|| format!("{node:?} {}", self.process.last_words()))
        })
        .await;
    }

    /// Runs a command on the node, and returns what it prints.
    pub fn shell(&self, command: &str) -> String {
        let mut stream = TcpStream::connect((ADDRESS, 2222)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        writeln!(stream, "{command}\nexit").unwrap();
        std::io::read_to_string(stream).unwrap()
    }

    /// A value of the cgroup of a pod's first container.
    pub fn cgroup(&self, pod: &DynamicObject, file: &str) -> String {
        let uid = pod.metadata.uid.as_deref().unwrap();
        let id = pod.data["status"]["containerStatuses"][0]["containerID"].as_str().unwrap();
        let id = id.rsplit('/').next().unwrap();
        self.shell(&format!(
            "cat /sys/fs/cgroup/kubepods/*/pod{uid}/{id}/{file} /sys/fs/cgroup/kubepods/pod{uid}/{id}/{file}"
        ))
        .trim()
        .to_owned()
    }

    /// Says what the pods of a namespace do from now on: how many millicores and Mi they use, and whether they are ready.
    pub fn load(&self, namespace: &str, millicores: u32, mi: u32, is_ready: bool) {
        let folder = self.host.path().join("load").join(namespace);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("load"), format!("{millicores} {mi} {}\n", u8::from(is_ready))).unwrap();
    }

    /// Starts the kubelet again, with this much CPU for others than pods.
    pub fn reserve(&self, cluster: &Cluster, cpu: &str) {
        write_kubelet(cluster, self.host.path(), cpu);
        self.shell("cp /host/kubelet/* /etc/kubernetes/; kill -KILL $(pidof kubelet)");
    }

    pub fn last_words(&self) -> String {
        format!("{}\n{}", self.process.last_words(), self.shell("tail -30 /run/kubelet.log"))
    }
}

pub fn condition(object: &DynamicObject, r#type: &str) -> Option<Value> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == r#type).cloned()
}

pub fn is_ready(object: &DynamicObject) -> bool {
    condition(object, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// Writes the files of the kubelet. It acts as the node by impersonation, so the API server authorizes it as one.
fn write_kubelet(cluster: &Cluster, host: &Path, reserved_cpu: &str) {
    let file = |name: &str, text: &str| std::fs::write(host.join("kubelet").join(name), text).unwrap();
    let made = certificate::for_server(&[ADDRESS]).unwrap();
    file("kubelet.crt", &made.certificate);
    file("kubelet.key", &made.key);
    let mut kubeconfig: Value =
        serde_json::from_slice(&std::fs::read(cluster.kubeconfig_file().unwrap()).unwrap()).unwrap();
    let to = &mut kubeconfig["clusters"][0]["cluster"];
    let authority = std::fs::read_to_string(to["certificate-authority"].as_str().unwrap()).unwrap();
    file("ca.crt", &authority);
    let server = to["server"].as_str().unwrap().replace("127.0.0.1", HOST);
    *to = json!({"server": server, "tls-server-name": "localhost", "certificate-authority": "/etc/kubernetes/ca.crt"});
    let user = &mut kubeconfig["users"][0]["user"];
    user["as"] = json!(format!("system:node:{NAME}"));
    user["as-groups"] = json!(["system:nodes"]);
    file("kubelet.kubeconfig", &kubeconfig.to_string());
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": false}, "webhook": {"enabled": true}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": "/etc/kubernetes/kubelet.crt", "tlsPrivateKeyFile": "/etc/kubernetes/kubelet.key",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs", "failSwapOn": false, "serializeImagePulls": false,
        "systemReserved": {"memory": "300Mi", "cpu": reserved_cpu},
        // The disk is as large as its files, and two images need no cleaning.
        "evictionHard": {"memory.available": "50Mi"}, "imageGCHighThresholdPercent": 100,
    });
    file("kubelet.yaml", &configuration.to_string());
}
