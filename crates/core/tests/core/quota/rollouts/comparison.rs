//! One random update, forecast and simulated.

use serde_json::{Value, json};

use super::world::{self, Random, Schedule, Sizes, Workload, World};
use super::{deployment, stateful};
use crate::harness::answer;

/// How a rollout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    /// The pods that are missing, or of a template that they should not have.
    lacking: u64,
    /// True if any pod was refused on the way.
    is_refused: bool,
}

/// The forecast of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forecast {
    Silent,
    Slower,
    Stops,
    /// So many of the wanted ones fit.
    Fits(u64),
}

fn forecast(warnings: &[String]) -> Forecast {
    let of = |text: &String| match () {
        () if text.contains("the rollout will be slower") => Forecast::Slower,
        () if text.contains("the rollout will stop") => Forecast::Stops,
        () if text.contains(" fit quota ") => {
            let count = text.split(" of ").next().unwrap().rsplit(' ').next().unwrap();
            Forecast::Fits(count.parse().unwrap())
        }
        () => panic!("{text}"),
    };
    let all: Vec<Forecast> = warnings.iter().map(of).collect();
    let least = all.iter().filter_map(|one| if let Forecast::Fits(count) = one { Some(*count) } else { None }).min();
    match least {
        Some(count) => Forecast::Fits(count),
        None if all.contains(&Forecast::Stops) => Forecast::Stops,
        None if all.contains(&Forecast::Slower) => Forecast::Slower,
        None => Forecast::Silent,
    }
}

/// The numbers of a comparison.
#[derive(Debug, Default)]
pub struct Tally {
    pub updates: u64,
    pub silent: u64,
    pub slower: u64,
    pub stops: u64,
    pub fits: u64,
    /// The end depends on which of two controllers comes first.
    pub undecided: u64,
}

/// One random update; returns a description of a difference.
pub fn compare(random: &mut Random, tally: &mut Tally) -> Result<(), String> {
    let case = case(random);
    let lists = json!({"ResourceQuota": {"items": case.before.quotas()}, "Scaled": case.old});
    let payload = json!({"request": case.request, "settings": {"estimates": {"mode": "never"}}});
    let warnings = answer(&payload, &lists, None).warnings;
    let found = forecast(&warnings);

    let run = |schedule: Schedule| {
        let (mut world, mut workload) = (case.before.clone(), case.workload.clone());
        world.is_refused = false;
        world::run(&mut world, &mut *workload, &schedule);
        End { lacking: workload.lacking(&world), is_refused: world.is_refused }
    };
    // The order in which a controller's pods are created before it takes its next step, as happens nearly always.
    let usual = run(Schedule::Usual);
    let eager = run(Schedule::Eager);
    let others: Vec<End> = (0..3).map(|_| run(Schedule::Random(random.next()))).collect();
    let differs = |what: &str| {
        Err(format!(
            "{what}: forecast {found:?} {warnings:?}\nusual {usual:?}, eager {eager:?}, others {others:?}\n{}\nquotas {}",
            case.request,
            json!(case.before.quotas())
        ))
    };
    tally.updates += 1;
    let ends = |end: &End| end.lacking == 0;
    if others.iter().chain([&eager]).any(|end| ends(end) != ends(&usual)) {
        tally.undecided += 1;
    }
    match found {
        Forecast::Silent => {
            tally.silent += 1;
            // An update that asks for nothing does not answer for what was missing before.
            if !ends(&usual) && case.asks_for_pods {
                return differs("silence");
            }
            // But for the moment that leaving pods take.
            if (usual.is_refused || eager.is_refused) && case.asks_for_pods {
                return differs("a pod was refused, without a word");
            }
        }
        Forecast::Slower => {
            tally.slower += 1;
            if !ends(&usual) {
                return differs("called slower");
            }
            if !others.iter().chain([&usual, &eager]).any(|end| end.is_refused) {
                return differs("false alarm, nothing was refused");
            }
        }
        Forecast::Stops => {
            tally.stops += 1;
            if ends(&usual) {
                return differs("false alarm, it ends");
            }
        }
        Forecast::Fits(count) => {
            tally.fits += 1;
            if ends(&usual) {
                return differs("false alarm, all fit");
            }
            let is_exact = case.is_only_added && case.wanted - usual.lacking != count;
            if is_exact {
                return differs("another number fits");
            }
        }
    }
    Ok(())
}

/// A workload and an update of it.
struct Case {
    /// The cluster before the update.
    before: World,
    /// The workload with the new spec.
    workload: Box<dyn Workload>,
    old: Value,
    request: Value,
    wanted: u64,
    /// True if pods are only added, so that those that fit can be counted.
    is_only_added: bool,
    asks_for_pods: bool,
}

/// Creates a workload in a random quota, lets it settle, changes the quota, and updates the workload.
fn case(random: &mut Random) -> Case {
    let sizes = Sizes { old: random.below(5), new: random.below(5) };
    let mut world = World::new(random, sizes);
    let made =
        if random.below(5) < 3 { deployment::case(random, &mut world) } else { stateful::case(random, &mut world) };
    let world::Update { workload, resource, group, subresource, object, old, wanted, is_only_added, asks_for_pods } =
        made;
    let request = json!({
        "operation": if old.is_null() { "CREATE" } else { "UPDATE" }, "namespace": "shop", "name": "web",
        "resource": {"group": group, "resource": resource}, "subResource": subresource,
        "object": object, "oldObject": if subresource == "scale" { world::scale_of(&old) } else { old.clone() },
    });
    Case { before: world, workload, old, request, wanted, is_only_added, asks_for_pods }
}
