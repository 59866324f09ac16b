//! A disk that is full while the collector writes: no sample is lost or counted twice.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use headroom_fixtures::files_below;
use serde_json::Value;

use crate::{DAY, NOW};

const IMAGES: usize = 1_000;

#[test]
fn a_full_disk_is_named_and_overcome() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("csv");
    write_csv(&csv, IMAGES);
    let calm = folder.path().join("calm");
    assert!(import(&csv, &calm).spawn().unwrap().wait().unwrap().success());
    // A file size limit fails like a full disk, in the middle of a write. In units of 1 KiB, or 512 B.
    // One that runs for ever ends, too, since its database would take nothing more, however much room there is.
    for every in [&[][..], &["--every", "1h"]] {
        let mut limited = Command::new("sh");
        limited.arg("-c").arg(r#"trap "" XFSZ; ulimit -f 1200; exec timeout 60 "$0" "$@""#);
        let full = folder.path().join(format!("full-{}", every.len()));
        let inner = import(&csv, &full);
        limited.arg(inner.get_program()).args(inner.get_args()).args(every);
        let output = limited.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot write the store") && said.contains("make room"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        // With enough space, the next run continues.
        assert!(import(&csv, &full).spawn().unwrap().wait().unwrap().success());
        assert!(read_folder(&full) == read_folder(&calm));
    }
}

fn import(csv: &Path, output: &Path) -> Command {
    let mut command = crate::collect(output);
    command.arg("files").args(files_below(csv).unwrap()).stderr(Stdio::null()).stdout(Stdio::null());
    command
}

/// A line for each of ten minutes and of many images, in many files, each of which is committed.
fn write_csv(folder: &Path, images: usize) {
    fs::create_dir(folder).unwrap();
    for (number, images) in (0..images).collect::<Vec<_>>().chunks(20).enumerate() {
        let mut text = String::from("time,namespace,pod,container,image,cpu,memory\n");
        for image in images {
            for minute in 0..10 {
                let time = NOW - DAY + minute as i64 * 60;
                let name = format!("team-{},app-{image},main,shop/app-{}:1.{image}", image % 7, image % 500);
                text += &format!("{time},{name},0.{:03},{}Mi\n", (image * 7 + minute * 13) % 1000, 1 + image % 900);
            }
        }
        fs::write(folder.join(format!("{number:03}.csv")), text).unwrap();
    }
}

/// The histories in the files of a folder by root, repository and owner, because each store spreads them over pages by a key of
/// its own.
fn read_folder(folder: &Path) -> BTreeMap<String, String> {
    let mut histories = BTreeMap::new();
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    for path in files_below(&folder.join("profiles/headroom")).unwrap() {
        let profile: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let root: Vec<_> = path.file_stem().unwrap().to_str().unwrap().splitn(3, '-').take(2).collect();
        for (repository, image) in fields(&profile["spec"]["images"]) {
            let place = format!("{} {repository}", root.join("-"));
            histories.extend(image.get("pool").map(|pool| (place.clone(), pool.to_string())));
            let own = fields(&image["own"]).into_iter();
            histories.extend(own.map(|(owner, own)| (format!("{place} {owner}"), own.to_string())));
        }
    }
    assert!(!histories.is_empty());
    histories
}
