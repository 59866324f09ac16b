//! Recommendations from UsageProfiles, by running the program.

use serde_json::Value;

use crate::describe::program::here;
use crate::support::{folder, headroom};

#[test]
fn no_sums_are_shown_without_any_recommendation() {
    let deployment = |name: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{selector: {{matchLabels: \
             {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{containers: [{{name: app, image: \
             example.com/app, resources: {{requests: {{cpu: 250m}}}}}}]}}}}}}\n"
        )
    };
    let both = deployment("a") + "---\n" + &deployment("b");
    let folder = folder(&[("cluster/all.yaml", &both)]);
    let said = headroom(folder.path(), &["recommend", "-n", "shop", "--cluster-dir", "cluster"]);
    assert!(said.out.contains("no usage data for 2 of 2 containers"), "{}{}", said.out, said.err);
    assert!(!said.out.contains("TOTAL"), "{}", said.out);
}

#[test]
fn what_admission_sets_is_as_the_policys_own_settings_have_it() {
    let settings = |estimates: &str| format!("estimates: {{replayTime: '2026-11-21T05:00:00Z'{estimates}}}\n");
    let folder = folder(&[("history.yaml", &settings(", namespace: headroom")), ("no-history.yaml", &settings(""))]);
    let cpu = |file: &str| {
        let settings = folder.path().join(file);
        let command = "recommend -f new.yaml -n shop --cluster-dir world --cluster-dir profiles -o json --settings";
        let arguments: Vec<&str> = command.split(' ').chain([settings.to_str().unwrap()]).collect();
        let said = headroom(&here(), &arguments);
        let report: Value = serde_json::from_str(&said.out).expect(&said.err);
        let cpu = &report["workloads"][0]["containers"][0]["resources"][0];
        [&cpu["recommended"], &cpu["request"]["value"], &cpu["request"]["from"]]
            .map(|text| text.as_str().unwrap().to_owned())
    };
    assert_eq!(cpu("history.yaml"), ["155m", "155m", "estimated at admission"]);
    assert_eq!(cpu("no-history.yaml"), ["155m", "100m", "typical for this image, set at admission"]);
}
