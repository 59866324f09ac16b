#![expect(clippy::disallowed_methods, reason = "tests write the files that programs read")]

use super::*;

#[test]
fn folders_give_their_manifests_in_name_order() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, object: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {object}}}}}")).unwrap();
    };
    write("b.yaml", "b");
    write("a.yml", "a");
    write("more/c.json", "c");
    write("kustomization.yaml", "no");
    write("notes.txt", "no");
    let names = |recursive| -> Vec<String> {
        let read = ReadOptions::manifests(recursive).read(&[folder.path().to_owned()], &mut io::empty()).unwrap();
        read.iter().map(|manifest| manifest.object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names(false), names(true)), (vec!["a".into(), "b".into()], vec!["a".into(), "b".into(), "c".into()]));
    let empty = tempfile::tempdir().unwrap();
    let error =
        ReadOptions::manifests(false).read(&[empty.path().to_owned()], &mut io::empty()).unwrap_err().to_string();
    assert!(error.ends_with("holds no manifests: expected files that end in .yaml, .yml or .json"), "{error}");
}

#[cfg(unix)]
#[test]
fn links_lead_to_files_only_and_no_file_is_endless() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), "{apiVersion: v1, kind: Pod}").unwrap();
    for (target, link) in [(".", "b"), (".", "c"), (".", "d.yaml"), ("a.yaml", "e.yaml")] {
        symlink(target, folder.path().join(link)).unwrap();
    }
    let read = |longest| {
        let reading = ReadOptions { recursive: true, longest };
        reading.read(&[folder.path().to_owned()], &mut io::empty()).map_err(|error| error.to_string())
    };
    assert_eq!(read(27).unwrap().len(), 2);
    assert!(read(26).unwrap_err().ends_with("a.yaml`: it is larger than 0 MiB"));
    symlink("/dev/zero", folder.path().join("f.yaml")).unwrap();
    assert!(read(27).unwrap_err().ends_with("f.yaml`: it is not a regular file"));
}

#[test]
fn a_folder_may_have_other_yaml_where_a_file_may_not() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("app.yaml", "{apiVersion: v1, kind: Pod}\n---\nreplicas: 3\n");
    write("values.yaml", "image: nginx");
    write("workflow.yaml", "on: [push]");
    write("list.yaml", "- hosts: all");
    let read = |path: PathBuf| {
        let read = ReadOptions::manifests(false).read_all(&[path], &mut io::empty());
        (read.len(), read.iter().filter(|read| read.is_err()).count())
    };
    assert_eq!(read(folder.path().to_owned()), (1, 0));
    assert_eq!(read(folder.path().join("app.yaml")), (2, 1));
    // Half an object is a mistake.
    write("half.yaml", "kind: Pod");
    assert_eq!(read(folder.path().to_owned()), (2, 1));
}
