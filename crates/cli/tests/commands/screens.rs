//! Screens of the commands at 80, 120 and 200 columns: nothing is wider than the terminal.

use std::path::Path;

use headroom_fixtures::fake_prometheus::{self, MATRIX};
use headroom_fixtures::http::answer;
use serde_json::json;

use crate::cluster::Live;
use crate::describe::here;
use crate::support::{controller, program, root, said, snapshot};

/// Runs a command at each width, and compares what it prints with the kept screens. An empty screen shows nothing, so it fails.
#[track_caller]
fn check(name: &str, folder: &Path, command: &str, code: i32, kept: impl Fn(&str) -> String) {
    for width in [80, 120, 200] {
        let program = if name == "ledger" { controller } else { program };
        let said = said(program(folder).args(command.split_whitespace()).env("COLUMNS", width.to_string()));
        assert_eq!(said.code, code, "{name}: {}{}", said.out, said.err);
        let screen = kept(&said.out);
        assert!(!screen.trim().is_empty(), "{name}: nothing on the screen");
        snapshot(&format!("screens/{name}-{width}.txt"), &screen);
        // A wide table is as wide as it is, and so is kubectl's own.
        let is_wide = ["recommend-wide", "limits"].contains(&name);
        let widest = said.out.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(is_wide || widest <= width, "{name} at {width}: {widest}\n{}", said.out);
    }
}

#[test]
fn commands_that_read_a_cluster_fit_the_terminal() {
    const WORLD: &str = "-n shop --cluster-dir world --cluster-dir profiles --settings settings.yaml";
    for (name, command, code) in [
        ("check", "check -f new.yaml", 1),
        ("why", "why -f new.yaml", 1),
        ("recommend", "recommend", 0),
        ("recommend-wide", "recommend -o wide", 0),
        ("quota", "describe quota", 0),
        ("limits", "describe limits", 0),
        ("image", "recommend image nginx", 0),
        ("tenantquota", "describe quota payments --cluster-dir tenants", 0),
    ] {
        check(name, &here(), &format!("{command} {WORLD}"), code, str::to_owned);
    }
    let command = "check --against-running -f docs/examples/shop/tighter.yaml --cluster-dir docs/examples/shop/cluster";
    check("check-against-running", &root(), command, 1, str::to_owned);
}

#[test]
fn the_other_commands_fit_the_terminal() {
    let version = |out: &str| out.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    check("version", &here(), "--version", 0, version);

    let folder = tempfile::tempdir().unwrap();
    let world = here().join("world");
    let command = format!("snapshot -n shop --cluster-dir {} -o cluster.json", world.display());
    check("snapshot", folder.path(), &command, 0, str::to_owned);

    let quota = |name: &str, spec| json!({"apiVersion": "headroom.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": name}, "spec": spec});
    let hard = json!({"hard": {"pods": "4"}});
    let good = json!({"namespaces": {"selector": {"matchLabels": {"team": "payments"}}}, "quota": hard});
    let live = Live::new([quota("payments", good), quota("invalid", json!({"hard": {"pods": "4"}}))]);
    live.server.serve("headroom.dev/v1alpha1", "QuotaLedger", true);
    check("ledger", live.folder.path(), "check-ledgers --kubeconfig kubeconfig", 1, str::to_owned);

    // Its clock is that of another decade, so the seconds between have ten digits.
    let store = fake_prometheus::start(|| answer(200, MATRIX));
    let constant = |out: &str| {
        let clock = out.find(" s behind this machine").expect(out);
        out.replace(&store.url(), "http://store:9090").replace(&out[clock - 10..clock], "1234567890")
    };
    check("doctor", &here(), &format!("doctor {}", store.url()), 0, constant);
}
