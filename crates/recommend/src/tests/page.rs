//! The page in a real browser: it sorts and filters, needs no network, and runs no scripts from names.

#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{USED, report, report_on};
use crate::output::html;

/// The document after its scripts have run.
fn opened(page: &Path) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=2000"])
        .arg("--allow-file-access-from-files")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap_or_else(|error| panic!("cannot start `chromium`: {error}: run scripts/setup-debian.sh chromium"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn page() -> String {
    html::text(&report(), "25 November 2026, 14:30 UTC")
}

/// The document's title, into which the test's script writes its result.
fn title(document: &str) -> &str {
    document.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).map_or("", |(title, _)| title)
}

#[test]
fn the_page_sorts_and_filters_in_a_browser() {
    let html = page();
    // Nothing is loaded from a network.
    for outside in ["src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(html.matches("href=").count(), html.matches("href=\"#").count());
    // The page's policy allows no other script, so the test removes the policy to click.
    let clicks = r##"<script>
        const names = () => Array.from(document.querySelectorAll("#containers tbody tr"))
            .filter((row) => !row.hidden).map((row) => row.id.split("/").at(-1)).join(" ");
        const header = (at) => document.querySelectorAll("#containers th button")[at];
        const results = [names()];
        header(0).click(); results.push(names());
        header(0).click(); results.push(names());
        header(3).click(); results.push(names());
        const filter = document.getElementById("filter");
        filter.value = "OOM db"; filter.dispatchEvent(new Event("input")); results.push(names());
        document.getElementById("look").click(); results.push(document.documentElement.dataset.theme);
        results.push(document.getElementById("csv").textContent.trim().split("\n")[0].split(",")[0]);
        document.title = results.join("; ");
    </script></body>"##;
    let policy = html.lines().find(|line| line.contains("Content-Security-Policy")).unwrap();
    let clicked = html.replace(policy, "").replace("</body>", clicks);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("clicked.html");
    fs::write(&file, clicked).unwrap();
    assert_eq!(
        title(&opened(&file)),
        "front worker postgres night new canary; night canary new front worker postgres; postgres worker front new canary night; front \
         postgres new night canary worker; postgres; dark; namespace"
    );
}

#[test]
fn the_page_fits_the_window_and_explains_its_flags() {
    let html = page();
    assert!(html.contains("<h2>Flags</h2>") && html.contains("throttled: CPU usage was capped by the limit"), "{html}");
    // Each in place of the browser's own, which is 800 pixels wide.
    let policy = html.lines().find(|line| line.contains("Content-Security-Policy")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner.html");
    fs::write(&inner, html.replace(policy, "")).unwrap();
    let outer = folder.path().join("outer.html");
    let frames =
        "<iframe src=inner.html width=1440 height=400></iframe><iframe src=inner.html width=420 height=400></iframe>\
        <script>onload = () => {
            const widths = Array.from(document.querySelectorAll('iframe')).map(({ contentWindow: page }) => {
                const root = page.document.documentElement;
                return root.scrollWidth - root.clientWidth;
            });
            const page = document.querySelector('iframe').contentWindow;
            const head = page.document.querySelector('#containers thead th');
            page.scrollTo(0, page.scrollY + head.getBoundingClientRect().top + 60);
            document.title = [...widths, head.getBoundingClientRect().top].join(' ');
        }</script>";
    fs::write(&outer, format!("<!doctype html><title>none</title>{frames}")).unwrap();
    assert_eq!(title(&opened(&outer)), "0 0 0", "wider than 1440, than 420, and where the header row is");
}

#[test]
fn the_page_on_paper_keeps_usage_and_evidence() {
    let html = html::text(&report_on(include_str!("world.yaml"), &USED[..4]), "");
    let policy = html.lines().find(|line| line.contains("Content-Security-Policy")).unwrap();
    // The browser dumps only what a screen shows, so what is for paper is made for screens instead.
    let on_paper = html
        .replace(policy, "")
        .replace("@media screen and", "@media speech and")
        .replace("@media print", "@media screen");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("inner.html"), on_paper).unwrap();
    let outer = folder.path().join("outer.html");
    // As wide as US Letter between the margins of the page.
    let frame = "<iframe src=inner.html width=964 height=400></iframe>\
        <script>onload = () => {
            const page = document.querySelector('iframe').contentWindow.document;
            const hidden = (of) => Array.from(page.querySelectorAll(of)).filter((cell) => cell.offsetWidth === 0).length;
            const root = page.documentElement;
            document.title = [hidden('#containers .usage'), hidden('#containers .why'), root.scrollWidth - root.clientWidth].join(' ');
        }</script>";
    fs::write(&outer, format!("<!doctype html><title>none</title>{frame}")).unwrap();
    assert_eq!(title(&opened(&outer)), "0 0 0", "hidden cells of usage, of evidence, and wider than the paper");
}

#[test]
fn names_are_never_run_as_scripts() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = r#"<img src=x onerror="document.title='run'"></td><script>document.title='run'</script>"#;
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": hostile, "image": hostile}]}}}});
    let html = html::text(&report_on(&object.to_string(), &[]), "");
    assert!(html.contains("&lt;img src=x") && !html.contains("<img"));
    let file = folder.path().join("page.html");
    fs::write(&file, &html).unwrap();
    let document = opened(&file);
    assert_eq!(title(&document), "Headroom recommendations");
    assert!(document.contains("onerror=") && !document.contains("<img"), "{document}");
    // Even if it were unescaped, the page's policy would not run it.
    fs::write(&file, html.replace("</body>", &format!("{hostile}</body>"))).unwrap();
    assert_eq!(title(&opened(&file)), "Headroom recommendations");
}

#[test]
fn of_a_large_cluster_only_the_rows_that_are_looked_at_are_made() {
    let mut large = report();
    let few = large.workloads.clone();
    large.workloads = (0..1_000)
        .flat_map(|number| few.iter().map(move |of| (number, of.clone())))
        .map(|(number, mut of)| {
            of.key.name.push_str(&format!("-{number}"));
            of
        })
        .collect();
    let html = html::text(&large, "");
    let looks = r##"<script>
        const made = () => document.querySelectorAll("#containers tbody tr").length;
        const results = [made()];
        const input2 = document.getElementById("filter");
        input2.value = "deployment/web-999"; input2.dispatchEvent(new Event("input"));
        results.push(made(), document.querySelector("#containers tbody tr").id.startsWith("shop/deployment/web-999/"));
        input2.value = ""; input2.dispatchEvent(new Event("input"));
        dispatchEvent(new Event("beforeprint")); results.push(made());
        document.title = results.join("; ");
    </script></body>"##;
    let policy = html.lines().find(|line| line.contains("Content-Security-Policy")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large.html");
    fs::write(&file, html.replace(policy, "").replace("</body>", looks)).unwrap();
    assert_eq!(title(&opened(&file)), "200; 2; true; 6000");
}
