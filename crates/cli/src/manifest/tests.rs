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
        let read = super::read(&[folder.path().to_owned()], recursive, &mut std::io::empty()).unwrap();
        read.iter().map(|manifest| manifest.object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names(false), names(true)), (vec!["a".into(), "b".into()], vec!["a".into(), "b".into(), "c".into()]));
    let empty = tempfile::tempdir().unwrap();
    let error = super::read(&[empty.path().to_owned()], false, &mut std::io::empty()).unwrap_err().to_string();
    assert!(error.ends_with("holds no manifests: expected files that end in .yaml, .yml or .json"), "{error}");
}

#[test]
fn a_dash_is_standard_input() {
    let mut stdin = "\n{apiVersion: v1, kind: Pod}\n".as_bytes();
    let found = super::read(&[PathBuf::from("-")], false, &mut stdin).unwrap();
    assert_eq!(found[0].origin.to_string(), "standard input:2");
}
