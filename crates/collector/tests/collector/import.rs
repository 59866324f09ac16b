//! Reading files: the meaning of a line, refused files, and files that grow.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use headroom_collector::import::{Import, ImportError, Imported};
use headroom_collector::metrics::CollectorMetrics;
use headroom_collector::store::Store;
use headroom_output::progress::Progress;

use crate::support::*;
use tokio_util::sync::CancellationToken;

const HEADER: &str = "time,namespace,pod,container,image,cpu,memory\n";

fn import(store: &Store, path: &Path) -> Result<Imported, ImportError> {
    let (metrics, progress, stop) = (CollectorMetrics::default(), Progress::hidden(), CancellationToken::new());
    let (step_seconds, latest) = (60, NOW + DAY);
    let import = Import { store, step_seconds, latest, metrics: &metrics, progress: &progress, stop: &stop };
    import.file(path)
}

fn published_of(text: &str) -> String {
    let (folder, store) = new_store();
    let path = folder.path().join("usage");
    fs::write(&path, text).unwrap();
    import(&store, &path).unwrap();
    published(&store, NOW)
}

/// Checks the error for a file with this text, and that it adds nothing.
#[track_caller]
fn check_refused(text: &str, line: u64, expected: &str) {
    let (folder, store) = new_store();
    let path = folder.path().join("usage.csv");
    fs::write(&path, text).unwrap();
    let error = import(&store, &path).unwrap_err().to_string();
    assert_eq!(error, format!("`{}`, line {line}: {expected}", path.display()));
    assert_eq!(published(&store, NOW), "", "a refused file has added something");
}

fn line(minute: i64, pod: &str, cpu: &str, memory: &str) -> String {
    format!("{},shop,{pod},web,nginx:1.27,{cpu},{memory}\n", NOW - DAY + minute * 60)
}

#[test]
fn all_notations_of_a_line_give_the_same_sample() {
    let plain = published_of(&format!("{HEADER}{}", line(0, "web-0", "0.25", "134217728")));
    assert!(plain.contains(r#""cpu":{"samples":1,"peak":"250m","percentiles":["250m","#), "{plain}");
    assert!(plain.contains(r#""memory":{"samples":1,"peak":"128Mi","#), "{plain}");
    let time = NOW - DAY;
    let others = [
        format!("{HEADER}{}", line(0, "web-0", "250m", "128Mi")),
        format!("{HEADER}{}", line(0, "web-0", "2.5e-1", "1.34217728e8")),
        format!("{HEADER}{}", line(0, "web-0", "0.2500000000", "134217728.0")).replace('\n', "\r\n"),
        format!("memory,image,cpu,container,pod,namespace,time\n128Mi,nginx:1.27,.25,web,web-0,shop,{time}.5\n"),
        format!("{HEADER}\"2026-11-20T00:00:00Z\",\"shop\",web-0,web,\"docker.io/nginx:1.27\",0.25,128Mi\n"),
        format!(
            r#"{{"time":{time},"namespace":"shop","pod":"web-0","container":"web","image":"nginx:1.27","cpu":0.25,"memory":"128Mi"}}"#
        ) + "\n",
        r#"{"memory":134217728,"oomKilled":null,"cpu":"250m","image":"nginx:1.27","container":"web","pod":"web-0","namespace":"shop","time":"2026-11-20T00:00:00Z"}"#.to_owned() + "\n\n",
    ];
    for text in others {
        assert_eq!(published_of(&text), plain, "{text}");
    }
}

#[test]
fn missing_values_give_no_samples() {
    let text = published_of(&format!("{HEADER}{}{}", line(0, "web-0", "0.25", ""), line(1, "web-0", "0.25", "NaN")));
    assert!(text.contains(r#""cpu":{"samples":2,"#) && !text.contains("memory\":"), "{text}");
}

#[test]
fn out_of_memory_kills_are_read() {
    let text = published_of(&format!(
        "time,namespace,pod,container,image,oomKilled\n{},shop,web-0,web,nginx,310Mi\n",
        NOW - HOUR
    ));
    assert!(text.contains(r#""oomKills":[{"at":"2026-11-20T23:00:00Z","memory":"310Mi"}]"#), "{text}");
}

#[test]
fn errors_name_the_line() {
    let names = "time, namespace, pod, container, image, cpu, memory, oomKilled";
    check_refused("time,pod\n1,a\n", 1, &format!("there is no column `namespace`: a file has {names}"));
    check_refused("time,when\n1,a\n", 1, &format!("unknown column `when`: the header names some of {names}"));
    check_refused("time,time\n1,a\n", 1, "column `time` is named twice");
    let check = |lines: &str, number, expected: &str| check_refused(&format!("{HEADER}{lines}"), number, expected);
    let good = line(0, "web-0", "1", "1");
    let quantity = "expected a quantity that is not negative, such as `0.25`, `250m` or `512Mi`";
    check(&(good.clone() + &line(1, "web-0", "-1", "1")), 3, &format!("cpu is `-1`: {quantity}"));
    let (nines, long) = ("9".repeat(100_000), "p".repeat(1_025));
    let of_nines = format!("cpu is `{}`: {quantity}", &nines[..100]);
    check(&(good.clone() + &line(1, "web-0", &nines, "1")), 3, &of_nines);
    check(&(good.clone() + &line(1, &long, "1", "1")), 3, &format!("pod is `{}`: expected a name", &long[..100]));
    let milliseconds = "time is `1795219200000`: expected unix seconds, and this looks like milliseconds";
    check(&format!("{good}\n1795219200000,shop,web-0,web,nginx,1,1\n"), 4, milliseconds);
    let moment = "time is `soon`: expected unix seconds, or a moment such as `2026-11-21T00:00:00Z`";
    check("soon,shop,web-0,web,nginx,1,1\n", 2, moment);
    check(&format!("{good}1,shop,web-0\n"), 3, "there is no value for `container`");
    check("1,shop,web-0,web,nginx,1,1,1\n", 2, "there are more values than columns");
    check("1,,web-0,web,nginx,1,1\n", 2, "namespace is ``: expected a name");
    let future = "time is `4102444800`: expected a time that is not in the future";
    check("4102444800,shop,web-0,web,nginx,1,1\n", 2, future);
}

#[test]
fn an_old_file_is_kept_and_does_no_harm() {
    let (folder, store) = new_store();
    let (new, old) = (folder.path().join("new.csv"), folder.path().join("old.csv"));
    let old_line = |days: i64| format!("{},shop,web-0,web,nginx:1.20,0.5,1Mi\n", NOW - days * DAY);
    fs::write(&new, format!("{HEADER}{}", line(0, "web-0", "0.25", "1Mi"))).unwrap();
    fs::write(&old, format!("{HEADER}{}{}", old_line(400), old_line(399))).unwrap();
    import(&store, &new).unwrap();
    let before = published(&store, NOW);
    for _ in 0..2 {
        // The file is not marked as read.
        let imported = import(&store, &old).unwrap();
        assert_eq!((imported.samples, imported.too_old), (0, 2));
        store.expire((NOW / DAY) as u32).unwrap();
        assert_eq!(published(&store, NOW), before);
    }
    // Once it has lines that count, the rest is marked as read too.
    fs::write(&old, format!("{HEADER}{}{}{}", old_line(400), old_line(399), old_line(3))).unwrap();
    let imported = import(&store, &old).unwrap();
    assert_eq!((imported.samples, imported.too_old), (2, 2));
    assert_eq!(import(&store, &old).unwrap(), Imported::default());

    // In an empty store, an old file is an ordinary history as of its end.
    let (folder, alone) = new_store();
    let old = folder.path().join("old.csv");
    fs::write(&old, format!("{HEADER}{}{}", old_line(400), old_line(399))).unwrap();
    assert_eq!(import(&alone, &old).unwrap().samples, 4);
    alone.expire((NOW / DAY) as u32).unwrap();
    assert_eq!(alone.newest().unwrap(), Some(NOW - 399 * DAY));
    assert!(published(&alone, NOW - 399 * DAY).contains(r#""cpu":{"samples":2,"#));
}

#[test]
fn only_new_lines_of_a_growing_file_are_read() {
    let (folder, store) = new_store();
    let path = folder.path().join("usage.csv");
    let mut whole = HEADER.to_owned();
    for minute in 0..6 {
        let new = line(minute, "web-0", &format!("0.{minute}"), "1Mi");
        whole += &new;
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        if minute == 0 {
            file.write_all(HEADER.as_bytes()).unwrap();
        }
        // An incomplete last line is read later.
        let (first, rest) = new.split_at(20);
        file.write_all(first.as_bytes()).unwrap();
        assert_eq!(import(&store, &path).unwrap().samples, 0);
        file.write_all(rest.as_bytes()).unwrap();
        assert_eq!(import(&store, &path).unwrap().samples, 2);
        assert_eq!(import(&store, &path).unwrap().samples, 0);
    }
    assert_eq!(published(&store, NOW), published_of(&whole));
    let moved = folder.path().join("moved.csv");
    fs::rename(&path, &moved).unwrap();
    assert_eq!(import(&store, &moved).unwrap().samples, 0);
    fs::write(&moved, format!("{HEADER}{}", line(0, "web-0", "0.0", "1Mi"))).unwrap();
    assert!(matches!(import(&store, &moved), Err(ImportError::Shrunk { .. })));
}

#[test]
fn invalid_image_names_are_skipped() {
    assert_eq!(published_of(&format!("{HEADER}{},shop,web-0,web,Nginx:1.27,1,1\n", NOW - DAY)), "");
}

#[test]
fn doctor_describes_a_file() {
    use headroom_metrics_stores::diagnosis::SourceVerdict;
    use headroom_metrics_stores::files::diagnose;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("usage");
    let examined = |text: &str| {
        fs::write(&path, text).unwrap();
        let findings = diagnose(&path, 60, NOW);
        findings.into_iter().map(|finding| (finding.verdict, finding.subject, finding.found)).collect::<Vec<_>>()
    };
    let good = |subject, found: &str| (SourceVerdict::Good, subject, found.to_owned());
    let csv = format!("{HEADER}{}{}", line(0, "web-0", "1", "1Mi"), line(1, "web-0", "1", ""));
    let samples = good("samples", "3 samples on 1 days, 2026-11-20T00:00:00Z to 2026-11-20T00:00:00Z");
    let images = good("images", "1 images in 1 namespaces");
    assert_eq!(examined(&csv), [good("format", "CSV"), samples, images, good("step", "60 s")]);
    let unfinished = examined(csv.trim_end());
    assert!(
        unfinished.iter().any(|found| (found.0, found.1) == (SourceVerdict::Doubtful, "last line")),
        "{unfinished:?}"
    );
    let wrong = examined(&format!("{csv}x\n"));
    assert_eq!((wrong[1].0, wrong[1].2.as_str()), (SourceVerdict::Bad, "line 4: there is no value for `namespace`"));
    assert_eq!(examined("what is this\n")[0].0, SourceVerdict::Bad);
    let image = examined(&csv.replace("nginx", "Nginx"));
    assert_eq!((image[1].0, image[2].0), (SourceVerdict::Bad, SourceVerdict::Doubtful));
    assert_eq!(diagnose(&folder.path().join("none"), 60, NOW)[0].verdict, SourceVerdict::Bad);
}
