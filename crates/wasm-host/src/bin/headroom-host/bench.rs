//! `bench`: the cost of an evaluation for recorded, growing and hostile requests, compared with budgets. Budgets are in
//! fuel, which is the same on every machine; time is shown too.

mod case;
mod compare;
mod growth;
mod history;
mod hostile;

use std::{fs, path::PathBuf, sync::Arc};

use headroom_fixtures::files_below;
use headroom_fixtures::request::{all_recorded, recorded};
use headroom_wasm_host::built::{self, workspace_file};
use headroom_wasm_host::{cluster::items, protocol::GuestCall};
use serde_json::{Value, json};

use self::case::{Bench, Case, Cost, micros, print_heading};
use self::growth::{GROWTHS, superlinear, with_containers};
use self::history::State;

/// The request whose cost is budgeted, and from which the growing ones are made.
const PLAIN: &str = "pod-create-plain";
/// A budget is 1.3 times what was measured, so that a feature may land and a mistake may not.
const PLAIN_FUEL: u64 = 268_000;
/// The history of the rows with estimated containers.
const KNOWN: &str = "100 images known";
/// For a pod whose two containers get estimates.
const ESTIMATED_FUEL: u64 = 656_000;
/// Likewise, if two pages are read too. Independent of the number of images in the history.
const PAGED_FUEL: u64 = 760_000;
/// Host calls for one estimated container: LimitRanges, quotas, and a root of history, with a page of it
/// if the root is large; no calls to the API server; and a limited size of objects.
const HOST_CALLS: usize = 3;
/// The mutating policy reads no quotas, and the validating one no history.
const HOST_CALLS_IN_ROLE: usize = 2;
const HOST_BYTES: usize = 20_000;
const LARGEST_OBJECT: usize = 16_384;
const WASM_BYTES: usize = 600_000;

#[derive(clap::Args)]
pub struct Arguments {
    /// The wasm, as it was built
    #[arg(default_value = "policy.wasm")]
    wasm: PathBuf,
    /// Compare with this module, row by row in turns, instead of checking budgets
    #[arg(long, value_name = "OTHER", conflicts_with = "check")]
    against: Option<PathBuf>,
    /// Count fuel only, and fail when a budget is exceeded
    #[arg(long)]
    check: bool,
}

pub fn bench(arguments: &Arguments) -> Result<(), String> {
    let read = |path: &PathBuf| fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()));
    let wasm = read(&arguments.wasm)?;
    let access = built::access()?;
    let bench = Bench::load(&wasm, &access, !arguments.check)?;
    let mut objects = Vec::new();
    for path in files_below(&workspace_file("tests/data/context"))? {
        let list = serde_json::from_slice(&read(&path)?).map_err(|error| format!("`{}`: {error}", path.display()))?;
        objects.extend(items(list));
    }
    let requests = all_recorded().into_iter().map(|name| (recorded(&name), name));
    let (plain, settings) = (recorded(PLAIN), json!({"estimates": {"namespace": "headroom"}}));
    if let Some(path) = &arguments.against {
        let other = Bench::load(&read(path)?, &access, true)?;
        let cases = requests.map(|(request, name)| Case::new(name, request, &settings, objects.clone()));
        let mut cases: Vec<Case> = cases.collect::<Result<_, _>>()?;
        let name = format!("{PLAIN}, without estimates");
        cases.push(Case::new(name, plain.clone(), &never(), objects.clone())?);
        cases.push(estimated_case(&plain, &objects, &settings, 2, KNOWN, WARM)?);
        return compare::run(&bench, &other, cases);
    }
    print_heading();
    for (request, name) in requests {
        bench.run(Case::new(name, request, &settings, objects.clone())?)?;
    }
    let mut exceeded = run_growing(&bench, &plain, &objects, &settings)?;
    exceeded.extend(hostile::run(&bench)?);

    println!("\nwasm: {} bytes", wasm.len());
    if wasm.len() > WASM_BYTES {
        exceeded.push(format!("the wasm has {} bytes, and at most {WASM_BYTES} are budgeted", wasm.len()));
    }
    if bench.time.is_some() {
        print_module_times(&wasm, &bench, Case::new(PLAIN.to_owned(), plain, &settings, objects)?)?;
    }
    if exceeded.is_empty() {
        println!(
            "budgets: kept ({PLAIN} at most {PLAIN_FUEL} fuel, two estimated containers {ESTIMATED_FUEL}, and \
             {PAGED_FUEL} however many images are known; one at most {HOST_CALLS} host calls, none live, {HOST_BYTES} bytes; wasm at most {WASM_BYTES} bytes; linear growth; {})",
            hostile::budget()
        );
        return Ok(());
    }
    exceeded.iter().for_each(|line| println!("budget exceeded: {line}"));
    if arguments.check { Err("a budget is exceeded".to_owned()) } else { Ok(()) }
}

/// Runs the plain request with growing numbers of everything. Returns the exceeded budgets.
fn run_growing(bench: &Bench, plain: &Value, objects: &[Value], settings: &Value) -> Result<Vec<String>, String> {
    let mut exceeded = Vec::new();
    let mut budget = |name: &str, fuel: u64, most: u64| {
        if fuel > most {
            exceeded.push(format!("{name} takes {fuel} fuel, and at most {most} are budgeted"));
        }
    };
    let mut growths = Vec::new();
    for (what, grow) in GROWTHS {
        let mut fuel = Vec::new();
        for count in [1, 10, 100] {
            let (request, objects) = grow(plain.clone(), objects.to_vec(), count);
            let case = Case::new(format!("{PLAIN}, {count} {what}"), request, &never(), objects)?;
            fuel.push(bench.run(case)?.measured.fuel);
        }
        budget(&format!("{PLAIN} with 1 of its {what}"), fuel.first().copied().unwrap_or_default(), PLAIN_FUEL);
        growths.push((what, fuel));
    }
    let estimated_by = |settings: &Value, containers, what: &str, state| {
        bench.run(estimated_case(plain, objects, settings, containers, what, state)?)
    };
    let estimated = |containers, what: &str, state| estimated_by(settings, containers, what, state);
    let [few, some, many] = [100, 1_000, 100_000].map(|images| {
        let what = format!("{images} images known");
        estimated(2, &what, State::Warm { images, namespaces: 5 }).map(|cost| cost.measured.fuel)
    });
    let (few, some, many) = (few?, some?, many?);
    budget("a pod with two estimated containers", few, ESTIMATED_FUEL);
    budget("the same with 1,000 images in history", some, PAGED_FUEL);
    budget("the same with 100,000 images in history", many, PAGED_FUEL);
    let known = |containers| estimated(containers, KNOWN, WARM).map(|cost| cost.measured.fuel);
    growths.push(("estimated containers", vec![known(1)?, known(10)?, known(100)?]));
    exceeded.extend(run_histories(settings, estimated_by)?);
    exceeded.extend(growths.iter().filter_map(|(what, fuel)| superlinear(what, fuel)));
    Ok(exceeded)
}

fn never() -> Value {
    json!({ "estimates": { "mode": "never" } })
}

/// Runs estimates with each state of the history, and in each role. Returns the exceeded budgets for the host.
fn run_histories(
    settings: &Value,
    estimated: impl Fn(&Value, usize, &str, State) -> Result<Cost, String>,
) -> Result<Vec<String>, String> {
    let mut exceeded = Vec::new();
    let estimates = &settings["estimates"];
    let in_role = |role: &str| json!({"role": role, "estimates": estimates});
    for (what, settings, state, most_calls) in [
        ("without a collector", &json!({}), State::Cold, HOST_CALLS),
        ("nothing known of the image", settings, State::Empty, HOST_CALLS),
        ("known in 1 namespace of 1", settings, State::Warm { images: 100, namespaces: 1 }, HOST_CALLS),
        ("known in 100 namespaces", settings, State::Warm { images: 1_000, namespaces: 100 }, HOST_CALLS + 1),
        ("known in 5,000 namespaces", settings, State::Warm { images: 10_000, namespaces: 5_000 }, HOST_CALLS + 1),
        ("one of 100,000 images", settings, State::Warm { images: 100_000, namespaces: 5 }, HOST_CALLS + 1),
        ("role mutate", &in_role("mutate"), WARM, HOST_CALLS_IN_ROLE),
        ("role validate", &in_role("validate"), WARM, HOST_CALLS_IN_ROLE),
    ] {
        let largest = history::profiles(state, 1).iter().map(|object| object.to_string().len()).max();
        let cost = estimated(settings, 1, what, state)?;
        for (of, found, most) in [
            ("host calls", cost.host_calls, most_calls),
            ("live calls", cost.work.live_calls, 0),
            ("bytes of objects", cost.work.bytes, HOST_BYTES),
            ("bytes in the largest object", largest.unwrap_or_default(), LARGEST_OBJECT),
        ] {
            if found > most {
                exceeded.push(format!("an estimate, {what}: {found} {of}, and at most {most} are budgeted"));
            }
        }
    }
    Ok(exceeded)
}

const WARM: State = State::Warm { images: 100, namespaces: 5 };

/// A pod whose containers get estimates, if the history has their images.
fn estimated_case(
    plain: &Value,
    objects: &[Value],
    settings: &Value,
    containers: usize,
    what: &str,
    state: State,
) -> Result<Case, String> {
    let (mut request, mut objects) = with_containers(plain.clone(), objects.to_vec(), containers);
    history::use_known_images(&mut request);
    objects.extend(history::profiles(state, containers));
    let plural = if containers == 1 { "" } else { "s" };
    Case::new(format!("{containers} estimated container{plural}, {what}"), request, settings, objects)
}

fn print_module_times(wasm: &[u8], bench: &Bench, plain: Case) -> Result<(), String> {
    if let (_, Some(recorded)) = bench.record(&plain)? {
        let [compile, start, evaluation] = recorded.first_answer(wasm)?.map(|time| micros(time) / 1000.0);
        println!("first answer: compile {compile:.0} ms, start {start:.2} ms, evaluation {evaluation:.2} ms");
    }
    // The cheapest guest call.
    let call = GuestCall::new("protocol_version", Vec::new());
    let start = bench.fuel.measure(&call, &Arc::from([]))?.fuel;
    println!("the start of an instance and an empty call: {start} fuel");
    Ok(())
}
