//! Proposals held against the creations of 30 days before them and 30 days after, in namespaces that are made by a seed.

use std::fmt::Write as _;

use expect_test::expect;
use headroom_admission::amount::Quantity;
use headroom_admission::timestamp::Timestamp;
use headroom_dry_run::Overlay;
use headroom_dry_run::evaluate::{Admission, request};
use headroom_objects::kinds::ApiKind;
use serde_json::{Value, json};

use super::consumer::WorkloadConsumer;
use super::quota::{Evidence, Past, propose};
use super::{limits, trial};
use crate::engine::tests::around;
use crate::report::price::Prices;
use crate::report::{Order, Recommendations, ReportSource};
use headroom_workloads::inventory::Inventory;

const HOURS: i64 = 30 * 24;
/// Cores in thousandths, mebibytes, and the pod itself.
type Amounts = [i64; 3];
const NAMES: [&str; 3] = ["requests.cpu", "requests.memory", "pods"];

/// A workload of a namespace: its pods in each hour from 30 days before now to 30 days after.
struct App {
    name: &'static str,
    kind: &'static str,
    request: Amounts,
    right_sized: Amounts,
    /// Without those of rollouts.
    pods: Vec<i64>,
    rollouts: Vec<i64>,
    most: Option<i64>,
}

struct World(Vec<App>);

impl World {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let hours = || -HOURS..HOURS;
        // A release every week or so rolls out all services within an hour, others come alone.
        let releases: Vec<i64> = hours().step_by(168).map(|week| week + random.i64(0..168)).collect();
        let service = |random: &mut fastrand::Rng, name, kind, pods: Vec<i64>, most| {
            let cpu = 200 + 50 * random.i64(0..17);
            let memory = 256 + 64 * random.i64(0..20);
            let rollouts = (0..12).map(|_| random.i64(0..2 * HOURS) - HOURS).chain(releases.iter().copied()).collect();
            let right_sized = [cpu * (30 + random.i64(0..50)) / 100, memory * (50 + random.i64(0..60)) / 100, 1];
            App { name, kind, request: [cpu, memory, 1], right_sized, pods, rollouts, most }
        };
        let steady = 2 + random.i64(0..6);
        let web = service(&mut random, "web", "Deployment", hours().map(|_| steady).collect(), None);
        // Busy by day, up to nine of twelve, on some days.
        let busy: Vec<i64> = (0..60).map(|_| 2 + random.i64(0..8)).collect();
        let by_day = hours().map(|hour| {
            let (day, hour) = ((hour + HOURS) / 24, (hour + HOURS) % 24);
            if (8..20).contains(&hour) { busy[day as usize] } else { 2 }
        });
        let api = service(&mut random, "api", "Deployment", by_day.collect(), Some(12));
        let (begin, every) = (2 + random.i64(0..3), 7 + random.i64(0..6));
        let growing = hours().map(|hour| begin + (hour + HOURS) / 24 / every);
        let shards = service(&mut random, "shards", "StatefulSet", growing.collect(), None);
        let hourly = service(&mut random, "hourly", "CronJob", hours().map(|hour| hour & 1).collect(), None);
        let by_night = hours().map(|hour| if hour.rem_euclid(24) == 1 { 3 } else { 0 });
        let nightly = service(&mut random, "nightly", "CronJob", by_night.collect(), None);
        // A Job of somebody's, which is gone when quotas are proposed.
        let once = random.i64(0..HOURS - 48) - HOURS;
        let migration = hours().map(|hour| i64::from((once..once + 3).contains(&hour)) * 2);
        let migration = service(&mut random, "migration", "Job", migration.collect(), None);
        Self(vec![web, api, shards, hourly, nightly, migration])
    }

    /// The objects that the API server has now.
    fn objects(&self) -> Vec<Value> {
        let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})];
        for app in self.0.iter().filter(|app| app.kind != "Job") {
            let metadata = json!({"name": app.name, "namespace": "shop"});
            let template = json!({"spec": {"containers": [app.container(&app.request)]}});
            let (group, spec) = match app.kind {
                "CronJob" => {
                    let most = app.pods.iter().max().copied();
                    let job = json!({"parallelism": most, "completions": most, "template": template});
                    ("batch/v1", json!({"concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job}}))
                }
                _ => ("apps/v1", json!({"replicas": app.pods[HOURS as usize], "template": template})),
            };
            objects.push(json!({"apiVersion": group, "kind": app.kind, "metadata": metadata, "spec": spec}));
            if let Some(most) = app.most {
                let target = json!({"kind": app.kind, "name": app.name});
                objects.push(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                    "metadata": metadata, "spec": {"scaleTargetRef": target, "maxReplicas": most}}));
            }
        }
        objects
    }

    /// Creates the pods of these hours one after the other, the ones that a rollout adds before it removes others, too. What does
    /// not fit is refused and not tried again within the hour.
    fn replay(
        &self,
        hours: std::ops::Range<i64>,
        amounts: fn(&App) -> &Amounts,
        fits: &mut dyn FnMut(&App, &Amounts) -> bool,
    ) -> Outcome {
        let mut outcome = Outcome { levels: Vec::new(), created: 0, refused: 0 };
        let mut running: Vec<i64> = self.0.iter().map(|_| 0).collect();
        for hour in hours.clone() {
            let at = (hour + HOURS) as usize;
            for (app, running) in self.0.iter().zip(&mut running) {
                // Pods of Jobs are others in each hour.
                *running = if ["CronJob", "Job"].contains(&app.kind) { 0 } else { (*running).min(app.pods[at]) };
            }
            let used = |running: &[i64]| {
                let each = self.0.iter().zip(running);
                each.fold([0; 3], |sum: Amounts, (app, pods)| [0, 1, 2].map(|at| sum[at] + amounts(app)[at] * pods))
            };
            let mut extra: Vec<i64> = self.0.iter().map(|_| 0).collect();
            for (place, app) in self.0.iter().enumerate() {
                let missing = app.pods[at] - running[place];
                for _ in 0..missing {
                    let level = used(&running);
                    let is_first = hour == hours.start && !["CronJob", "Job"].contains(&app.kind);
                    if is_first || outcome.count(fits(app, &level)) {
                        running[place] += 1;
                    }
                }
            }
            for (place, app) in
                self.0.iter().enumerate().filter(|(_, app)| app.rollouts.contains(&hour) && app.kind == "Deployment")
            {
                for _ in 0..(app.pods[at] + 3) / 4 {
                    let both: Vec<i64> = running.iter().zip(&extra).map(|(pods, extra)| pods + extra).collect();
                    if outcome.count(fits(app, &used(&both))) {
                        extra[place] += 1;
                    }
                }
            }
            let both: Vec<i64> = running.iter().zip(&extra).map(|(pods, extra)| pods + extra).collect();
            outcome.levels.push(used(&both));
        }
        outcome
    }

    /// The requests of what runs now, of each workload at least one pod.
    fn requested(&self) -> Amounts {
        let each = self.0.iter().filter(|app| app.kind != "Job");
        each.fold([0; 3], |sum, app| [0, 1, 2].map(|at| sum[at] + app.request[at] * app.pods[HOURS as usize].max(1)))
    }

    /// The consumers as an inventory finds them, right-sized.
    fn consumers(&self, cluster: &mut Overlay) -> Vec<WorkloadConsumer> {
        let inventory = Inventory::read(cluster, &[Some("shop")], |error| error.to_string()).unwrap();
        let mut consumers = WorkloadConsumer::all(&inventory);
        for consumer in &mut consumers {
            let app = self.0.iter().find(|app| app.name == consumer.key.name).unwrap();
            consumer.right_sized["spec"]["containers"] = json!([app.container(&app.right_sized)]);
        }
        consumers
    }
}

impl App {
    fn container(&self, [cpu, memory, _]: &Amounts) -> Value {
        let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
        json!({"name": "main", "image": "app:1", "resources": {"requests": requests, "limits": {"memory": format!("{}Mi", 2 * self.request[1])}}})
    }

    fn pod(&self, amounts: &Amounts) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name, "namespace": "shop"},
            "spec": {"containers": [self.container(amounts)]}})
    }
}

struct Outcome {
    levels: Vec<Amounts>,
    created: u64,
    refused: u64,
}

impl Outcome {
    fn count(&mut self, is_created: bool) -> bool {
        *(if is_created { &mut self.created } else { &mut self.refused }) += 1;
        is_created
    }

    fn peak(&self) -> Amounts {
        [0, 1, 2].map(|at| self.levels.iter().map(|level| level[at]).max().unwrap())
    }

    /// The usage that grows in a day, by the regression line of the last week.
    fn growth(&self) -> [f64; 3] {
        let week = &self.levels[self.levels.len() - 168..];
        [0, 1, 2].map(|at| {
            let mean = week.iter().map(|level| level[at] as f64).sum::<f64>() / 168.0;
            let distance = |hour: usize| hour as f64 - 83.5;
            let sum =
                week.iter().enumerate().map(|(hour, level)| distance(hour) * (level[at] as f64 - mean)).sum::<f64>();
            24.0 * sum / (0..168).map(|hour| distance(hour).powi(2)).sum::<f64>()
        })
    }

    /// Percent of a quota that nobody used, over the hours, of its largest part.
    fn unused(&self, hard: &Amounts) -> i64 {
        let used: i64 = self.levels.iter().map(|level| level[0] * 1000 / hard[0].max(1)).sum();
        (1000 - used / self.levels.len() as i64) / 10
    }
}

fn quantity(name: &str, amount: f64) -> Quantity {
    match name {
        "requests.memory" => Quantity::from_bytes((amount.max(0.0) * 1_048_576.0) as u64),
        "requests.cpu" => Quantity::from_milli(amount.ceil() as i64),
        _ => Quantity::from_milli((amount * 1000.0) as i64),
    }
}

fn hard_of(amounts: &[super::quota::Proposed]) -> Amounts {
    NAMES.map(|name| {
        let hard = &amounts.iter().find(|amount| amount.resource == name).unwrap().proposed;
        match name {
            "requests.cpu" => hard.milli_value(),
            "pods" => hard.value(),
            _ => hard.value() >> 20,
        }
    })
}

fn past(of: &Outcome) -> Vec<Past> {
    let (peak, growth) = (of.peak(), of.growth());
    let of_name = |at: usize, name: &str| Past {
        namespace: "shop".to_owned(),
        quota: String::new(),
        name: name.to_owned(),
        peak: quantity(name, peak[at] as f64),
        per_day: quantity(name, growth[at]),
    };
    NAMES.iter().enumerate().map(|(at, name)| of_name(at, name)).collect()
}

fn proposal(world: &World) -> super::quota::QuotaProposal {
    let (mut cluster, admission) = (around(&world.objects()), Admission::assumed());
    let namespaces = ["shop".to_owned()];
    let past = past(&world.replay(-HOURS..0, |app| &app.request, &mut |_, _| true));
    let consumers = world.consumers(&mut cluster);
    let now = Timestamp::from_unix_seconds(1_795_255_200).unwrap();
    let evidence = Evidence { namespaces: &namespaces, consumers: &consumers, past: &past, now };
    let simulation = trial::begin(&namespaces, &admission, &mut cluster);
    let mut proposals = propose(&evidence, &admission, &mut cluster).unwrap();
    let tried = trial::end(&simulation, proposals.iter().map(|quota| &quota.object), &admission, &mut cluster).unwrap();
    assert!(tried.is_passed() && tried.objects == 5, "{tried:?}");
    assert_eq!(proposals.len(), 1);
    proposals.remove(0)
}

/// The figures of `docs/src/commands/recommend.md`: over 40 namespaces, the pods that ran and would have been refused, and the room
/// that nobody used.
#[test]
fn quotas_refuse_nothing_that_ran_beside_the_usual_rules() {
    type Rule = fn(&World, &Outcome) -> Amounts;
    type Pods = fn(&App) -> &Amounts;
    let now: Pods = |app| &app.request;
    let rules: [(&str, Rule); 4] = [
        ("recommend bounds", |world, _| hard_of(&proposal(world).amounts)),
        ("peak + 20%", |_, before| before.peak().map(|peak| (peak * 6 + 4) / 5)),
        ("sum of requests", |world, _| world.requested()),
        ("sum of requests x 2", |world, _| world.requested().map(|sum| 2 * sum)),
    ];
    let mut table = String::new();
    for (name, rule) in rules {
        let (mut refused, mut created, mut unused, mut namespaces) = ([0; 2], [0; 2], 0, [0; 2]);
        for seed in 0..40 {
            let world = World::new(seed);
            let hard = rule(&world, &world.replay(-HOURS..0, now, &mut |_, _| true));
            for (at, hours) in [(0, -HOURS..0), (1, 0..HOURS)] {
                let mut fits = |app: &App, used: &Amounts| (0..3).all(|at| used[at] + now(app)[at] <= hard[at]);
                let outcome = world.replay(hours, now, &mut fits);
                refused[at] += outcome.refused;
                created[at] += outcome.created + outcome.refused;
                namespaces[at] += u64::from(outcome.refused > 0);
                unused += outcome.unused(&hard);
            }
        }
        let _ = writeln!(
            table,
            "{name:19} before {:5} of {} ({} namespaces), after {:5} of {} ({} namespaces), unused {}%",
            refused[0],
            created[0],
            namespaces[0],
            refused[1],
            created[1],
            namespaces[1],
            unused / 80
        );
    }
    expect![[r#"
        recommend bounds    before     0 of 23768 (0 namespaces), after     1 of 23405 (1 namespaces), unused 56%
        peak + 20%          before     0 of 23768 (0 namespaces), after   986 of 23911 (18 namespaces), unused 42%
        sum of requests     before 30942 of 47154 (40 namespaces), after 79166 of 85477 (40 namespaces), unused 11%
        sum of requests x 2 before    65 of 23768 (5 namespaces), after    85 of 23449 (9 namespaces), unused 48%
    "#]]
    .assert_eq(&table);
}

/// The same by the evaluation of each pod, with the LimitRange that is proposed.
#[test]
fn each_pod_that_ran_is_admitted_by_the_proposed_bounds() {
    let world = World::new(7);
    let (mut bounded, admission) = (around(&world.objects()), Admission::assumed());
    let consumers = world.consumers(&mut bounded);
    let source = (ReportSource::default(), Vec::new());
    let report = Recommendations::new(source, Vec::new(), Vec::new(), Prices::default(), Order::Name);
    let range = limits::propose(&["shop".to_owned()], &consumers, &report, &mut bounded).unwrap().remove(0);
    let quota = proposal(&world);
    bounded.put(range.object.clone()).unwrap();
    let mut refused = |hard: &Amounts, hours| {
        let mut fits = |app: &App, used: &Amounts| {
            let list = |of: &Amounts| json!({"requests.cpu": format!("{}m", of[0]), "requests.memory": format!("{}Mi", of[1]), "pods": of[2]});
            bounded
                .put(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": quota.object["metadata"],
                "spec": {"hard": list(hard)}, "status": {"hard": list(hard), "used": list(used)}}))
                .unwrap();
            let pod = request::create(app.pod(&app.request), &ApiKind::new("v1", "Pod"), "shop");
            admission.evaluate(pod, &mut bounded).is_admitted()
        };
        world.replay(hours, |app| &app.request, &mut fits).refused
    };
    let hard = hard_of(&quota.amounts);
    assert_eq!([refused(&hard, -HOURS..0), refused(&hard, 0..HOURS)], [0, 0]);
    assert!(refused(&hard.map(|amount| amount / 2), -HOURS..0) > 0);
}
