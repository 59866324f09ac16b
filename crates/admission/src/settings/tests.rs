use super::*;
use crate::json::Document;

/// The problems of these settings, one per line.
fn problems(text: &str) -> String {
    let document = Document::read(text).unwrap();
    let read = Settings::read(Some(document.root()));
    read.map_or_else(|error| error.problems.join("\n"), |_| String::new())
}

#[test]
fn nothing_needs_to_be_set() {
    assert_eq!(problems("{}"), "");
    assert_eq!(problems(r#"{"limitRanges":null,"exempt":{}}"#), "");
}

#[test]
fn an_unquoted_off_of_yaml_is_off() {
    let document = Document::read(r#"{"limitRanges":{"mode":false}}"#).unwrap();
    assert_eq!(Settings::read(Some(document.root())).unwrap().limit_ranges.mode, Mode::Off);
}

/// Found by `make fuzz`.
#[test]
fn problems_are_short_lines_for_any_input() {
    assert_eq!(
        problems(r#"{"exempt":{"serviceAccou\nts":[]}}"#),
        "`exempt.serviceAccou ts` is not a setting; did you mean `serviceAccounts`?"
    );
    let unknown = problems(&format!(r#"{{"{}":1}}"#, "limit".repeat(1_000)));
    assert!(
        unknown.starts_with("`limitlimit") && unknown.contains("…` is not a setting; valid names are "),
        "{unknown}"
    );
    let account = "web ".repeat(10_000);
    let problem = problems(&format!(r#"{{"exempt":{{"serviceAccounts":["{account}"]}}}}"#));
    assert!(problem.starts_with("`exempt.serviceAccounts` `web web") && problem.ends_with('…'), "{problem}");
    assert_eq!(problem.chars().count(), 1_001);
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = r#"{
        "limitRange": {},
        "limitRanges": {"mode": "strict", "raiseDefaultLimit": true, "rules": [
            {"limits": [{"type": "Pod", "default": {"cpu": "1"}}], "containers": ["a"]},
            {"name": "x", "limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "one"}}]},
            {"name": "x", "limits": [], "images": ["a b"], "podLabels": {"matchExpressions": [{"operator": "In"}]}}
        ]},
        "mutateTemplates": "yes",
        "exempt": {"serviceAccounts": ["web"], "labels": {"matchExpressions": [{"key": "a"}]}, "namespaceLabels": {}}
    }"#;
    assert_eq!(
        problems(text),
        "`limitRanges.mode` is wrong: expected `enforce`, `warn`, `off`, found `\"strict\"`\n\
         `limitRanges.rules[0].name` is missing: messages refer to rules by name\n\
         limitRanges.rules[0].limits[0].default: may not be specified when `type` is 'Pod'\n\
         `limitRanges.rules[0].limits` may have only items of type `Container` if `containers` or `images` is set\n\
         `limitRanges.rules[1].limits[0].max` is wrong: `one` is not a quantity: expected a number such as `500m` or `1.5Gi`\n\
         `limitRanges.rules[2].limits` is missing: a rule needs at least one LimitRange item\n\
         `limitRanges.rules[2].podLabels.matchExpressions[0].key` is missing\n\
         `limitRanges.rules[2].podLabels.matchExpressions[0].values` is missing: `In` and `NotIn` need at least one value\n\
         `limitRanges.rules[2].images` is wrong: `a b` matches no image: image names are letters, digits and `.:/_-@`, and `*` stands for any of them\n\
         `limitRanges.rules[2].name` `x` is used twice\n\
         `limitRanges.raiseDefaultLimit` is not a setting; did you mean `raiseDefaultLimits`?\n\
         `mutateTemplates` is wrong: expected true or false, found `\"yes\"`\n\
         `exempt.labels.matchExpressions[0].operator` must be one of `In`, `NotIn`, `Exists`, `DoesNotExist`\n\
         `exempt.namespaceLabels` is empty, which selects everything: name the labels to exempt, or remove it\n\
         `exempt.serviceAccounts` `web` must be `namespace/name`, where `*` stands for any text\n\
         `limitRange` is not a setting; did you mean `limitRanges`?"
    );
}

#[test]
fn all_problems_of_quotas_are_reported_at_once() {
    let text = r#"{"quotas": {"mode": "of", "limitedResource": [], "limitedResources": [
        {"matchScopes": [{"scopeName": "Priority", "operator": "Exists", "values": ["a"]}]}, {"resource": "pods"}]}}"#;
    assert_eq!(
        problems(text),
        "`quotas.mode` is wrong: expected `enforce`, `warn`, `off`, found `\"of\"`\n\
         `quotas.limitedResources[0].matchScopes[0].scopeName` must be one of `Terminating`, `NotTerminating`, \
         `BestEffort`, `NotBestEffort`, `PriorityClass`, `CrossNamespacePodAffinity`, `VolumeAttributesClass`\n\
         `quotas.limitedResources[0].matchScopes[0].values` must be absent: `Exists` and `DoesNotExist` take none\n\
         `quotas.limitedResources[0].resource` is missing: name a resource in the plural, such as `pods`\n\
         `quotas.limitedResources[1].matchContains` is missing, and `matchScopes` too: set one of them\n\
         `quotas.limitedResource` is not a setting; did you mean `limitedResources`?"
    );
}

#[test]
fn settings_that_would_never_apply_are_contradictions() {
    let check = |settings: &str, expected: &str| assert_eq!(problems(settings), expected, "{settings}");
    check(
        r#"{"limitRanges":{"mode":"off","rules":[{"name":"a","limits":[{"type":"Container"}]}]}}"#,
        "`limitRanges.mode` is `off`, so `rules` would never apply: remove it or choose `enforce` or `warn`",
    );
    check(
        r#"{"limitRanges":{"mode":"off","workloadMode":"enforce"}}"#,
        "`limitRanges.mode` is `off`, so `workloadMode` would never apply: remove it or choose `enforce` or `warn`",
    );
    check(
        r#"{"limitRanges":{"rules":[{"name":"a","podLabels":{},"limits":[{"type":"PersistentVolumeClaim","max":{"storage":"1"}}]}]}}"#,
        "`limitRanges.rules[0].limits` may have no items of type `PersistentVolumeClaim` if `podLabels` is set",
    );
    check(
        r#"{"quotas":{"mode":"off","freshness":"live","limitedResources":[{"resource":"pods","matchContains":["cpu"]}]}}"#,
        "`quotas.mode` is `off`, so `limitedResources` would never apply: remove it or choose `enforce` or `warn`\n\
         `quotas.mode` is `off`, so `freshness` would never apply: remove it or choose `enforce` or `warn`",
    );
    check(
        r#"{"quotas":{"mode":"off","workloadMode":"warn","tenantQuotas":true},"estimates":{"shrinkToQuota":true}}"#,
        "`quotas.mode` is `off`, so `tenantQuotas` would never apply: remove it or choose `enforce` or `warn`\n\
         `estimates.shrinkToQuota` has no effect, because `quotas.mode` is `off`: remove one of them",
    );
    check(
        r#"{"quotas":{"workloadMode":"off","tenantQuotas":true}}"#,
        "`quotas.tenantQuotas` is `true`, but `workloadMode` is `off`: choose `warn` or `enforce` for it",
    );
    let check = |group: &str, resource: &str, expected: &str| {
        let limited = format!(r#"{{"apiGroup":"{group}","resource":"{resource}","matchContains":["cpu"]}}"#);
        let known = problems(&format!(r#"{{"quotas":{{"limitedResources":[{limited}]}}}}"#));
        assert_eq!(known.trim_start_matches("`quotas.limitedResources[0]."), expected, "{limited}");
    };
    let letters = "matches nothing: it may have only lower-case letters, digits and";
    check("", "pods", "");
    check("apps", "deployments", "");
    check("example.com", "data", "");
    check("", "pod", "resource` must be a resource in the plural, such as `pods`");
    check("", "pods/resize", "resource` must be a resource in the plural, such as `pods`");
    check("", "Pods", &format!("resource` `Pods` {letters} `-`"));
    check("apps", "deployments/scale", &format!("resource` `deployments/scale` {letters} `-`"));
    check("apps/v1", "deployments", &format!("apiGroup` `apps/v1` {letters} `-.`"));
    check("v1", "pods", "apiGroup` must be absent for the core group");
    check("core", "pods", "apiGroup` must be absent for the core group");
    let by_scope = r#"{"quotas":{"limitedResources":[{"resource":"pod","matchScopes":[{"scopeName":"PriorityClass","operator":"Exists"}]}]}}"#;
    assert_eq!(problems(by_scope), "");
    let names = r#"{"limitRanges":{"rules":[{"name":"a","limits":[{"type":"Container"}],"namespaces":["Team-*"],"containers":["web_1"]}]},
        "estimates":{"mode":"always","namespace":"head room","always":{"namespaces":["a,b"]}},
        "exempt":{"namespaces":["kube-*","*","team-?"],"serviceAccounts":["*/ci.bot","ci/Bot"]}}"#;
    assert_eq!(
        problems(names),
        format!(
            "`limitRanges.rules[0].namespaces` `Team-*` {letters} `-*`\n\
             `limitRanges.rules[0].containers` `web_1` {letters} `-*`\n\
             `estimates.always.namespaces` `a,b` {letters} `-*`\n\
             `estimates.namespace` `head room` {letters} `-`\n\
             `exempt.namespaces` `team-?` {letters} `-*`\n\
             `exempt.serviceAccounts` `ci/Bot` {letters} `-./*`"
        )
    );
    let check = |estimates: &str, expected: &str| {
        assert_eq!(problems(&format!(r#"{{"estimates":{{{estimates}}}}}"#)), expected, "{estimates}");
    };
    check(
        r#""mode":"never","dryRun":true"#,
        "`estimates.dryRun` has no effect, because `mode` is `never`: remove one of them",
    );
    check(
        r#""always":{"namespaces":["a"]}"#,
        "`estimates.always.namespaces` has no effect, because `mode` is not `always`: remove one of them",
    );
    check(
        r#""resources":[]"#,
        "`estimates.resources` is empty, so nothing would be estimated: choose `mode: never` instead",
    );
    check(
        r#""namespace":"a","history":[],"wellKnownImages":false"#,
        "`estimates.history` is empty and `wellKnownImages` is off: choose `mode: never` instead",
    );
    check(r#""namespace":"""#, "`estimates.namespace` is empty: name the namespace that the collector runs in");
    check(
        r#""history":[{"window":"7d","match":"tag"}]"#,
        "`estimates.history` has no effect without `namespace`, the namespace that the collector runs in",
    );
    check(
        r#""wellKnownImages":false"#,
        "`estimates.namespace` is not set and `wellKnownImages` is off, so nothing would be estimated: name the namespace \
         that the collector runs in, or choose `mode: never`",
    );
    let tag = r#"{"window":"7d","match":"tag","samples":9}"#;
    check(
        &format!(r#""namespace":"a","history":[{tag},{tag}]"#),
        "`estimates.history[1]` is unreachable: an earlier step already matches with as few samples",
    );
}

#[test]
fn settings_other_than_an_object_are_refused() {
    assert_eq!(problems("[]"), "`settings` is wrong: expected an object, found `[]`");
    assert_eq!(problems(r#"{"exempt":3}"#), "`exempt` is wrong: expected an object, found `3`");
    // Nothing follows from what could not be read.
    let label = "`exempt.labels.team` is not a setting; valid names are `matchLabels`, `matchExpressions`";
    assert_eq!(problems(r#"{"exempt":{"labels":{"team":"infra"}}}"#), label);
    let label = "`exempt.labels.matchLabels` is wrong: expected a string, found `true`";
    assert_eq!(problems(r#"{"exempt":{"labels":{"matchLabels":{"ci":true}}}}"#), label);
    let limits = "`limitRanges.rules[0].limits` is wrong: expected a list, found `{}`";
    assert_eq!(problems(r#"{"limitRanges":{"rules":[{"name":"a","limits":{}}]}}"#), limits);
    let namespace = "`estimates.namespace` is wrong: expected a string, found `5`";
    assert_eq!(
        problems(r#"{"estimates":{"namespace":5,"history":[{"window":"7d","match":"tag","samples":9}]}}"#),
        namespace
    );
    // In YAML, `on` is true.
    let on = "`quotas.mode` is wrong: expected `enforce`, `warn`, `off`, found `true`";
    assert_eq!(problems(r#"{"quotas":{"mode":true}}"#), on);
}
