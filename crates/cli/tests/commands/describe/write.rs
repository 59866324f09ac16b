//! Requests written into manifests, by running the program.

use std::fs;
use std::path::Path;

use super::program::{here, program};
use crate::support::{Said, said};

const MANIFEST: &str = "\
# The shop's front
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2   # by night
  template:
    spec:
      containers:
        - name: nginx
          image: nginx:1.27
          resources:
            # measured by hand
            requests:
              cpu: \"1\"
            limits: {memory: 2Gi}
        - name: own
          image: example.com/own:1
---
apiVersion: v1
kind: Service
metadata: {name: web}
";

const WRITTEN: &str = "\
# The shop's front
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2   # by night
  template:
    spec:
      containers:
        - name: nginx
          image: nginx:1.27
          resources:
            # measured by hand
            requests:
              cpu: \"155m\"
              memory: 283Mi
            limits: {memory: 2Gi}
        - name: own
          image: example.com/own:1
---
apiVersion: v1
kind: Service
metadata: {name: web}
";

fn recommend(folder: &Path, arguments: &[&str]) -> Said {
    let here = here();
    let mut command = program();
    command.current_dir(folder).args(["recommend", "-n", "shop", "--write"]).args(arguments);
    command.arg("--settings").arg(here.join("settings.yaml"));
    command.arg("--cluster-dir").arg(here.join("world")).arg("--cluster-dir").arg(here.join("profiles"));
    said(&mut command)
}

#[test]
fn requests_are_written_and_nothing_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    fs::write(&file, MANIFEST).unwrap();
    let first = recommend(folder.path(), &["-f", "web.yaml"]);
    assert_eq!((first.code, first.err.as_str()), (0, "wrote web.yaml\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), WRITTEN);

    let changed = fs::metadata(&file).unwrap().modified().unwrap();
    let again = recommend(folder.path(), &["-f", "."]);
    let expected = "nothing to write: the manifests already have these values; no usage data for 1 of 2 containers\n";
    assert_eq!((again.code, again.err.as_str()), (0, expected));
    assert_eq!(fs::read_to_string(&file).unwrap(), WRITTEN);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), changed, "the unchanged file was written");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left");
}

#[test]
fn nothing_is_written_for_a_stated_reason() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = MANIFEST.replace("nginx:1.27", "example.com/other:1");
    fs::write(folder.path().join("unknown.yaml"), &unknown).unwrap();
    let said = recommend(folder.path(), &["-f", "unknown.yaml"]);
    assert_eq!((said.code, said.err.as_str()), (0, "nothing to write: no usage data for 2 of 2 containers\n"));
    assert_eq!(fs::read_to_string(folder.path().join("unknown.yaml")).unwrap(), unknown);

    fs::write(folder.path().join("service.yaml"), "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n").unwrap();
    let said = recommend(folder.path(), &["service.yaml"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (0, "nothing to write: no workload with a recommendation is in the manifests\n")
    );
}

#[test]
fn a_file_that_cannot_be_written_is_named_and_the_others_are_written() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.yaml", "b.yaml"] {
        fs::write(folder.path().join(name), MANIFEST.replace("name: web,", &format!("name: {}-web,", &name[..1])))
            .unwrap();
    }
    // In the way of the file that replaces it.
    fs::create_dir(folder.path().join("a.headroom-unfinished")).unwrap();
    let said = recommend(folder.path(), &["-f", "a.yaml", "b.yaml"]);
    assert_eq!(said.code, 1);
    assert_eq!(said.err, "error: cannot write `a.yaml`: Is a directory (os error 21)\nwrote b.yaml\n");
}

#[test]
fn a_file_that_cannot_be_edited_is_unchanged_and_the_others_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let shared = MANIFEST.replace("          resources:\n", "          resources: &small\n");
    fs::write(folder.path().join("a.yaml"), &shared).unwrap();
    fs::write(folder.path().join("b.yaml"), MANIFEST.replace("name: web,", "name: other,")).unwrap();
    let said = recommend(folder.path(), &["-f", "a.yaml", "b.yaml"]);
    assert_eq!(said.code, 1);
    assert_eq!(
        said.err,
        "error: `a.yaml` not changed: line 14: has an anchor, so an edit would change other places \
         too: set `resources.requests: {cpu: 155m, memory: 283Mi}` by hand\nwrote b.yaml\n"
    );
    assert_eq!(fs::read_to_string(folder.path().join("a.yaml")).unwrap(), shared);
    assert_eq!(
        fs::read_to_string(folder.path().join("b.yaml")).unwrap(),
        WRITTEN.replace("name: web,", "name: other,")
    );
}

const AUTOSCALER: &str = "---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 9
  metrics:
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}  # as measured
";

#[test]
fn the_target_of_an_autoscaler_is_written_with_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    let alone = |text: &str| text.replace("        - name: own\n          image: example.com/own:1\n", "") + AUTOSCALER;
    fs::write(&file, alone(MANIFEST)).unwrap();
    let said = recommend(folder.path(), &["-f", "web.yaml"]);
    assert_eq!((said.code, said.err.as_str()), (0, "wrote web.yaml\n"));
    assert!(
        said.out.contains("HorizontalPodAutoscaler web scales at 60% of the cpu request: set the target to 388%"),
        "{}",
        said.out
    );
    // 60 % of a core equals 388 % of 155m.
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        alone(WRITTEN).replace("averageUtilization: 60", "averageUtilization: 388")
    );
}

#[test]
fn each_of_two_files_with_the_same_object_gets_its_requests() {
    let folder = tempfile::tempdir().unwrap();
    let other = MANIFEST.replace("        - name: own\n          image: example.com/own:1\n", "");
    fs::write(folder.path().join("a.yaml"), MANIFEST).unwrap();
    fs::write(folder.path().join("b.yaml"), other.replace("nginx:1.27", "nobody/knows:1")).unwrap();
    let said = recommend(folder.path(), &["-f", "."]);
    assert_eq!((said.code, said.err.as_str()), (0, "wrote ./a.yaml\n"), "{}", said.out);
    assert_eq!(fs::read_to_string(folder.path().join("a.yaml")).unwrap(), WRITTEN);
}

#[test]
fn only_files_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let said = recommend(folder.path(), &["-f", "-"]);
    assert_eq!(said.code, 2);
    assert_eq!(said.err, "error: --write needs files, not standard input\n");
    let said = recommend(folder.path(), &[]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("--filename"), "{}", said.err);
}
