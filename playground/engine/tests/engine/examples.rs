//! The examples of the page, and what the page adds to a dry run.

#![expect(clippy::unwrap_used, reason = "a test may stop where something is not as it made it")]

use std::collections::HashMap;
use std::path::Path;

use headroom_playground::example::{Example, all};
use headroom_playground::memo::Memo;
use headroom_playground::play::{Panel, Play};
use headroom_playground::{answer, policy, read, replay};
use serde_json::{Value, json};

fn examples() -> Vec<Example> {
    all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

#[test]
fn every_example_can_be_evaluated_and_only_one_has_a_problem() {
    let examples = examples();
    assert!(examples.len() > 25, "there are examples");
    for example in examples {
        let outcome = serde_json::to_value(example.play().evaluate(&mut Memo::default())).unwrap();
        assert!(outcome["details"][0].is_object(), "{}: {outcome:#}", example.name);
        let is_wrong = example.name == "wrong-settings";
        assert_eq!(outcome["problems"] == json!([]), !is_wrong, "{}: {}", example.name, outcome["problems"]);
    }
}

#[test]
fn the_shop_shows_a_refusal_a_change_and_a_warning() {
    let examples = examples();
    let shop = examples.first().unwrap();
    assert_eq!(shop.name, "shop");
    let outcome = serde_json::to_value(shop.play().evaluate(&mut Memo::default())).unwrap();
    let verdicts: Vec<&Value> = outcome["rows"].as_array().unwrap().iter().map(|row| &row["verdict"]).collect();
    assert_eq!(verdicts, ["rejected", "changed", "pods blocked"], "{outcome:#}");
    assert_eq!(outcome["problems"], json!([]));
    let pods = outcome["quotas"].as_array().unwrap().iter().find(|level| level["resource"] == "pods").unwrap();
    assert_eq!((&pods["before"], &pods["hard"]), (&json!("3"), &json!("8")));
}

fn play(panels: &[(Panel, &str)]) -> Value {
    let panels = panels.iter().map(|(panel, text)| (*panel, (*text).to_owned())).collect();
    let play = Play { panels, namespace: "shop".to_owned(), from: 0, count: 10 };
    serde_json::to_value(play.evaluate(&mut Memo::default())).unwrap()
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n";

#[test]
fn what_can_be_read_is_evaluated_and_the_rest_is_a_problem_at_its_line() {
    let outcome = play(&[
        (Panel::Objects, &format!("{POD}---\nkind: [\n")),
        (Panel::LimitRanges, "apiVersion: v1\nkind: LimitRange\nspec: {limits: 3}\n"),
        (Panel::Quotas, "\n- a\n"),
        (Panel::Settings, "estimates: {mode: never}\nlimitRanges:\n  mode: sometimes\n"),
    ]);
    assert_eq!(outcome["rows"].as_array().unwrap().len(), 1);
    let problems: Vec<(&str, u64)> = outcome["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| (problem["panel"].as_str().unwrap(), problem["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(problems, [("limitRanges", 3), ("quotas", 2), ("settings", 3), ("objects", 6)]);
}

#[test]
fn unknown_kinds_pass_with_a_note() {
    let outcome = play(&[(Panel::Objects, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n")]);
    assert_eq!(outcome["rows"][0]["verdict"], "not checked");
    assert_eq!(
        outcome["details"][0]["note"],
        "No LimitRange applies to the kind Widget; only a quota for count/widgets.example.com counts it."
    );
}

#[test]
fn what_is_there_already_makes_an_update() {
    let outcome = play(&[(Panel::Objects, POD), (Panel::Existing, POD), (Panel::Settings, "estimates: {mode: never}")]);
    assert_eq!(outcome["rows"][0]["isUpdate"], true);
}

#[test]
fn only_the_details_that_were_asked_for_are_told() {
    let pods: Vec<String> = (0..30).map(|index| POD.replace("name: a}\n", &format!("name: a{index}}}\n"))).collect();
    let panels = HashMap::from([(Panel::Objects, pods.join("---\n"))]);
    let outcome = Play { panels, namespace: String::new(), from: 10, count: 5 }.evaluate(&mut Memo::default());
    let details: Vec<usize> = outcome.details.iter().map(|detail| detail.row).collect();
    assert_eq!((outcome.rows.len(), details), (30, vec![10, 11, 12, 13, 14]));
    assert_eq!(outcome.rows[0].namespace, "default");
}

#[test]
fn a_replay_holds_what_the_policy_would_read() {
    let example = examples().into_iter().find(|example| example.name == "quota-sees-the-filled-pod").unwrap();
    let panels = serde_json::to_value(&example.panels).unwrap();
    let replayed = |input: Value| -> Value {
        let files = read(&input.to_string()).and_then(|play| replay::files(&play));
        serde_json::from_str(&answer(files)).unwrap()
    };
    let answer = replayed(json!({"panels": panels, "namespace": "shop", "from": 0}));
    let files = answer["ok"]["files"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["pod-web.request.json", "pod-web.session.yml", "pod-web.settings.json", "replay.sh"]);
    assert!(files[1]["text"].as_str().unwrap().contains("!KubernetesListResourceNamespace"));
    assert_eq!(replayed(json!({"panels": panels, "from": 1})), json!({"error": "there is no such object"}));
}

#[test]
fn the_policies_are_those_that_are_deployed_with_the_settings() {
    let manifest = |settings: &str| serde_json::from_str::<Value>(&answer(policy::manifest(settings))).unwrap();
    let answer = manifest("mutateTemplates: true\nquotas: {mode: warn}\n");
    let text = answer["ok"].as_str().unwrap();
    let policies: Vec<Value> =
        headroom_objects::manifest::documents::read(text).into_iter().map(|read| read.unwrap().1).collect();
    let settings: Vec<&Value> = policies.iter().map(|policy| &policy["spec"]["settings"]).collect();
    assert_eq!(
        settings,
        [
            &json!({"role": "mutate", "mutateTemplates": true, "quotas": {"mode": "warn"}}),
            &json!({"role": "validate", "quotas": {"mode": "warn"}}),
            &json!({"mutateTemplates": true, "quotas": {"mode": "warn"}}),
        ]
    );
    assert_eq!(manifest("role: validate")["ok"].as_str().unwrap().matches("kind: ClusterAdmissionPolicy").count(), 1);
    let wrong = manifest("mutateTemplates: 3");
    assert!(wrong["error"].as_str().unwrap().starts_with("invalid settings: `mutateTemplates`"), "{wrong}");
}
