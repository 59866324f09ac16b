//! Sends the same requests to API servers with the in-tree LimitRanger and ResourceQuota, and to API servers with our
//! policy: instead of the plugins as one mutating policy, instead of them as the policies of the Helm chart, and as
//! that pair together with the plugins. Verdicts and values must be equal, and we must give every reason of the
//! plugins.
//!
//! Most requests have forged fields: fields that a client may send and the API server resets before the plugins run.
//! The mutating policy sees them, and must answer as if they were absent. Subresources are `scale` and `status`; this
//! API server has no `resize`, whose fields the core's test `trust` forges.
//!
//! No controller runs: the test writes the same status of each quota everywhere, and every case has its own namespace
//! with one request. So it does not matter that the plugin charges quotas and a policy cannot.
//!
//! `HEADROOM_DIFFERENTIAL_CASES` is the number of cases (default 3,000), `HEADROOM_DIFFERENTIAL_SEED` the seed of the
//! first; each further case has the next seed. So one case is replayed with its seed and a number of 1.

mod case;
mod check;
mod departures;
mod outcome;
mod plane;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use headroom_e2e::cluster::{Cluster, LABEL};
use headroom_e2e::control_plane::{Controllers, InTreePlugins};
use headroom_e2e::policy_server::{Deployment, Host, PolicyServer};
use serde_json::{Value, json};

use self::case::Case;
use self::departures::Departure;
use self::outcome::{Answer, Difference, Kind, Outcome, differences};
use self::plane::{Plane, text_of};
use crate::chart_policies;
use crate::guarded_namespace::{ID, guard_in};
use crate::workload_forecast::number;

/// The outcomes at one of our API servers, compared with the outcomes at the API server with only the plugins.
#[derive(Default)]
struct Comparison<'a> {
    departures: &'a [Departure],
    /// The number of cases by departure.
    met: BTreeMap<&'a str, usize>,
    /// The seeds of cases that no departure explains.
    unlisted: BTreeSet<u64>,
}

impl Comparison<'_> {
    fn assert_all_are_listed(&self) {
        let (unlisted, count) = (&self.unlisted, self.unlisted.len());
        assert!(count == 0, "{count} cases differ in a way that no departure lists: seeds {unlisted:?}");
    }

    fn add(&mut self, place: &str, case: &Case, difference: &Difference, answers: &str) {
        match self.departures.iter().find(|departure| departure.allows(case, difference)) {
            Some(departure) => *self.met.entry(&departure.reason).or_default() += 1,
            None if self.unlisted.insert(case.seed) => println!(
                "--- {place}: {:?}\n{answers}\n{}replay with HEADROOM_DIFFERENTIAL_SEED={} HEADROOM_DIFFERENTIAL_CASES=1\n",
                difference.kind,
                text_of(case),
                case.seed,
            ),
            None => {}
        }
    }
}

/// The rules of this minor version, without estimates: they depend on histories, which plugins do not have.
fn at(minor: u16, mut deployment: Deployment) -> Deployment {
    deployment.settings["estimates"] = json!({"mode": "never"});
    deployment.settings["kubernetesVersion"] = json!(format!("1.{minor}"));
    deployment
}

/// One mutating policy that decides everything.
fn alone(minor: u16) -> BTreeMap<String, Deployment> {
    let rules = json!([{
        "apiGroups": ["", "apps", "batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": [
            "pods", "persistentvolumeclaims", "services", "configmaps", "replicationcontrollers", "deployments",
            "replicasets", "statefulsets", "daemonsets", "jobs", "replicationcontrollers/scale", "deployments/scale",
            "replicasets/scale", "statefulsets/scale", "pods/status", "persistentvolumeclaims/status",
        ],
    }]);
    let deployment = Deployment { rules: Some(rules), ..Deployment::mutating(json!({})) };
    BTreeMap::from([(ID.to_owned(), at(minor, deployment))])
}

/// The policies of the Helm chart: one fills in, the others evaluate. With rules for further counted kinds, as the
/// documentation recommends.
fn paired(minor: u16) -> BTreeMap<String, Deployment> {
    let mut policies: BTreeMap<_, _> =
        chart_policies::policies().into_iter().map(|(id, policy)| (id, at(minor, policy))).collect();
    let evaluate = chart_policies::evaluate(&policies);
    let config_maps =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let rules = policies.get_mut(&evaluate).and_then(|policy| policy.rules.as_mut()).and_then(Value::as_array_mut);
    rules.unwrap().push(config_maps);
    policies
}

/// A plane at `cluster`, with namespaces that these policies guard.
async fn plane(
    cluster: &Cluster,
    prefix: &'static str,
    policies: BTreeMap<String, Deployment>,
) -> (PolicyServer, Plane) {
    let (server, namespace) = guard_in(cluster, policies, Host::Ours).await;
    let client = cluster.client().await.unwrap();
    (server, Plane { client, labels: json!({LABEL: namespace}), prefix })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts three control planes: make e2e-cluster"]
async fn headroom_decides_as_the_plugins_do() {
    let first = number("HEADROOM_DIFFERENTIAL_SEED", 20_261_121);
    let cases: Vec<Case> = (0..number("HEADROOM_DIFFERENTIAL_CASES", 3_000)).map(|n| Case::new(first + n)).collect();
    let (plugins, ours, both) = tokio::join!(
        Cluster::start(InTreePlugins::On, Controllers::Off),
        Cluster::start(InTreePlugins::Off, Controllers::Off),
        Cluster::start(InTreePlugins::On, Controllers::Off)
    );
    let (plugins, ours, both) = (plugins.unwrap(), ours.unwrap(), both.unwrap());
    let minor = plugins.minor_version().await.unwrap();
    let kubernetes = Plane { client: plugins.client().await.unwrap(), labels: json!({}), prefix: "case" };
    let (_alone_server, alone) = plane(&ours, "alone", alone(minor)).await;
    let (_paired_server, pair) = plane(&ours, "pair", paired(minor)).await;
    let (_with_plugins_server, with_plugins) = plane(&both, "case", paired(minor)).await;

    let began = Instant::now();
    for plane in [&kubernetes, &with_plugins] {
        plane.prepare_latest().await.unwrap();
    }
    let ours = async {
        alone.prepare_all(&cases).await;
        pair.prepare_all(&cases).await;
    };
    tokio::join!(kubernetes.prepare_all(&cases), with_plugins.prepare_all(&cases), ours);
    for plane in [&kubernetes, &with_plugins] {
        plane.wait_for_latest().await.unwrap();
    }
    println!("{} cases are set up after {:?}", cases.len(), began.elapsed());
    let ours = async {
        let unforged = alone.ask_all_unforged(&cases).await;
        (unforged, alone.ask_all(&cases).await, pair.ask_all(&cases).await)
    };
    let (theirs, (unforged, alone, paired), with_plugins) =
        tokio::join!(kubernetes.ask_all(&cases), ours, with_plugins.ask_all(&cases));
    println!("and evaluated after {:?}", began.elapsed());

    let departures = Departure::of_policy(minor);
    let mut comparison = Comparison { departures: &departures, ..Comparison::default() };
    for (place, ours) in [("alone", &alone), ("as a pair", &paired), ("as a pair with the plugins", &with_plugins)] {
        for ((case, theirs), ours) in cases.iter().zip(&theirs).zip(ours) {
            for difference in differences(&theirs.outcome, &ours.outcome) {
                comparison.add(place, case, &difference, &format!("kubernetes {theirs}\nheadroom, {place}, {ours}"));
            }
        }
    }
    let mut forged = 0;
    for ((case, unforged), answer) in cases.iter().zip(&unforged).zip(&alone) {
        if let Some(unforged) = unforged {
            forged += 1;
            // They must be equal, including warnings.
            if unforged != answer {
                let [kubernetes, headroom] = [unforged, answer].map(Answer::to_string);
                let answers = format!("without forged fields {kubernetes}\nwith them {headroom}");
                let difference = Difference { kind: Kind::ForgeryCounts, kubernetes, headroom };
                comparison.add("alone", case, &difference, &answers);
            }
        }
    }
    let refused = theirs.iter().filter(|answer| matches!(answer.outcome, Outcome::Refused { .. })).count();
    let admitted = cases.len() - refused;
    println!(
        "Kubernetes admitted {admitted} and refused {refused}, {forged} had forged fields; departures that are listed: {:#?}",
        comparison.met
    );
    // The test is only meaningful if many requests are admitted and many refused.
    assert!(cases.len() < 100 || admitted.min(refused) > cases.len() / 5, "{admitted} admitted, {refused} refused");
    comparison.assert_all_are_listed();
}
