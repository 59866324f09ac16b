//! Every output format, on the example shop.

use serde_json::Value;

use crate::support::*;

#[test]
fn the_outputs_of_a_command_agree() {
    const SHOP: &str = "--cluster-dir docs/examples/shop/cluster";
    for (command, arguments, formats) in [
        ("check", "-f docs/examples/shop/app", "table json sarif github junit"),
        ("why", "-f docs/examples/shop/app", "text json"),
        ("check --against-running", "-f docs/examples/shop/tighter.yaml", "table json"),
    ] {
        for format in formats.split(' ') {
            let arguments = format!("{command} {arguments} {SHOP} -o {format}");
            let said = headroom(&root(), &arguments.split(' ').collect::<Vec<_>>());
            assert_eq!((said.code, said.err.as_str()), (1, ""), "{arguments}");
            snapshot(&format!("{}.{format}", command.replace(" --", "-")), &said.out);
            if format == "sarif" {
                check_sarif(&serde_json::from_str(&said.out).unwrap());
            }
        }
    }
}

#[test]
fn yaml_says_what_json_says() {
    for command in [
        "check -f docs/examples/shop/app",
        "check --against-running -f docs/examples/shop/tighter.yaml",
        "why -f docs/examples/shop/app",
        "describe limits -n shop",
        "describe quota -n shop",
    ] {
        let said = |format: &str| {
            let arguments = format!("{command} --cluster-dir docs/examples/shop/cluster -o {format}");
            headroom(&root(), &arguments.split(' ').collect::<Vec<_>>()).out
        };
        let json: Value = serde_json::from_str(&said("json")).unwrap();
        assert_eq!(serde_saphyr::from_str::<Value>(&said("yaml")).unwrap(), json, "{command}");
    }
}

/// The SARIF log is valid for its readers.
fn check_sarif(log: &Value) {
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!((log["version"].as_str(), rules.is_empty()), (Some("2.1.0"), false));
    for rule in rules {
        let ends_well = |text: &Value| text["text"].as_str().is_some_and(|text| !text.is_empty());
        assert!(ends_well(&rule["shortDescription"]) && ends_well(&rule["help"]), "{rule}");
    }
    let results = run["results"].as_array().unwrap();
    assert!(results.len() >= 3, "expected a refusal, a change and a warning");
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().unwrap()));
        let place = &result["locations"][0]["physicalLocation"];
        assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
        let file = root().join(place["artifactLocation"]["uri"].as_str().unwrap());
        assert!(file.is_file(), "{}", file.display());
    }
}
