//! `bench`: what an evaluation costs, for the recorded requests and for growing ones, and whether that is within the
//! budgets. Fuel is the same on every machine and is what the budgets are about; time is told beside it.

mod history;

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use headroom_testkit::{
    access::Access,
    admission::AdmissionRequest,
    cluster::{Cluster, items},
    fuel::{Evaluation, Meter},
    host::PolicyHost,
    metadata::Metadata,
};
use serde_json::{Value, json};

/// The request whose cost is budgeted, and which the growing ones are made of.
const PLAIN: &str = "pod-create-plain";
const PLAIN_FUEL: u64 = 200_000;
/// The same of a pod whose two containers get estimates.
const ESTIMATED_FUEL: u64 = 400_000;
const WASM_BYTES: usize = 500_000;
/// How much dearer than one of the first ten each of the next ninety may be, in hundredths.
const GROWTH_PERCENT: u64 = 125;

#[derive(clap::Args)]
pub struct Arguments {
    /// The wasm, as it was built
    #[arg(default_value = "policy.wasm")]
    wasm: PathBuf,
    /// What the policy may read
    #[arg(long, value_name = "PATH", default_value = "policy-metadata.yaml")]
    metadata_path: PathBuf,
    /// A folder of AdmissionReview requests
    #[arg(long, value_name = "FOLDER", default_value = "test_data/requests")]
    requests: PathBuf,
    /// A folder of Kubernetes objects, put into the namespace of each request
    #[arg(long, value_name = "FOLDER", default_value = "test_data/context")]
    context: PathBuf,
    /// The settings for the recorded requests, as JSON
    #[arg(long, value_name = "VALUE", default_value = "{}")]
    settings_json: String,
    /// Count fuel only, and fail when a budget is exceeded
    #[arg(long)]
    check: bool,
}

/// A request, what it is judged by, and the objects that its namespace holds.
struct Case {
    name: String,
    settings: Value,
    request: Value,
    objects: Vec<Value>,
}

struct Cost {
    fuel: u64,
    payload: usize,
    host_calls: usize,
    /// Median times of the whole evaluation, and of serde_json reading and printing the payload.
    times: Option<(Duration, Duration)>,
}

/// Everything that is needed to run a case.
struct Bench {
    host: PolicyHost,
    access: Access,
    fuel: Meter,
    time: Option<Meter>,
}

pub fn bench(arguments: &Arguments) -> Result<(), String> {
    let wasm =
        fs::read(&arguments.wasm).map_err(|error| format!("cannot read `{}`: {error}", arguments.wasm.display()))?;
    let metadata = fs::read_to_string(&arguments.metadata_path)
        .map_err(|error| format!("cannot read `{}`: {error}", arguments.metadata_path.display()))?;
    let bench = Bench {
        host: PolicyHost::from_bytes(&wasm)?,
        access: Access::declared(&Metadata::from_yaml(&metadata)?),
        fuel: Meter::of_fuel(&wasm)?,
        time: if arguments.check { None } else { Some(Meter::of_time(&wasm)?) },
    };
    let objects: Vec<Value> = read_folder(&arguments.context)?.into_iter().flat_map(|(_, list)| items(list)).collect();
    let requests = read_folder(&arguments.requests)?;
    let plain = requests.iter().find(|(name, _)| name == PLAIN).map(|(_, request)| request.clone());
    let plain = plain.ok_or_else(|| format!("`{}` has no {PLAIN}.json", arguments.requests.display()))?;

    println!("{:<52} {:>8} {:>6} {:>10} {:>10} {:>12}", "request", "bytes", "calls", "fuel", "p50 us", "serde p50 us");
    let settings: Value =
        serde_json::from_str(&arguments.settings_json).map_err(|error| format!("cannot read the settings: {error}"))?;
    for (name, request) in requests {
        bench.tell(&Case { name, settings: settings.clone(), request, objects: objects.clone() })?;
    }
    let mut exceeded = Vec::new();
    let mut budget = |name: &str, fuel: u64, most: u64| {
        if fuel > most {
            exceeded.push(format!("{name} takes {fuel} fuel, and at most {most} are budgeted"));
        }
    };
    let never = json!({ "estimates": { "mode": "never" } });
    let mut growths = Vec::new();
    for (what, grow) in GROWTHS {
        let mut fuel = Vec::new();
        for count in [1, 10, 100] {
            let (request, objects) = grow(plain.clone(), objects.clone(), count);
            let name = format!("{PLAIN}, {count} {what}");
            let case = Case { name, settings: never.clone(), request, objects };
            fuel.push(bench.tell(&case)?.fuel);
        }
        budget(&format!("{PLAIN} with 1 of its {what}"), fuel.first().copied().unwrap_or_default(), PLAIN_FUEL);
        growths.push((what, fuel));
    }
    let estimated = |containers, images| {
        let (mut request, mut objects) = with_containers(plain.clone(), objects.clone(), containers);
        history::use_known_images(&mut request);
        objects.push(history::profile(images));
        let name = format!("{containers} estimated containers, {images} images known");
        bench.tell(&Case { name, settings: settings.clone(), request, objects }).map(|cost| cost.fuel)
    };
    let [few, some, many] = [estimated(2, 100)?, estimated(2, 1_000)?, estimated(2, 100_000)?];
    budget("a pod with two estimated containers", few, ESTIMATED_FUEL);
    // A thousandth for the digits of the time.
    budget("the same with 1,000 images in history", some, few + few / 1_000);
    budget("the same with 100,000 images in history", many, few + few / 1_000);
    growths.push(("estimated containers", vec![estimated(1, 100)?, estimated(10, 100)?, estimated(100, 100)?]));
    exceeded.extend(growths.iter().filter_map(|(what, fuel)| superlinear(what, fuel)));

    println!("\nwasm: {} bytes", wasm.len());
    if wasm.len() > WASM_BYTES {
        exceeded.push(format!("the wasm has {} bytes, and at most {WASM_BYTES} are budgeted", wasm.len()));
    }
    if bench.time.is_some() {
        tell_module_times(&wasm, &bench)?;
    }
    if exceeded.is_empty() {
        println!(
            "budgets: kept ({PLAIN} at most {PLAIN_FUEL} fuel, two estimated containers {ESTIMATED_FUEL}, however many images \
             are known; wasm at most {WASM_BYTES} bytes; linear growth)"
        );
        return Ok(());
    }
    exceeded.iter().for_each(|line| println!("budget exceeded: {line}"));
    if arguments.check { Err("a budget is exceeded".to_owned()) } else { Ok(()) }
}

impl Bench {
    /// Runs a case and prints its line.
    fn tell(&self, case: &Case) -> Result<Cost, String> {
        let cost = self.cost(case).map_err(|error| format!("{}: {error}", case.name))?;
        print!("{:<52} {:>8} {:>6} {:>10}", case.name, cost.payload, cost.host_calls, cost.fuel);
        match cost.times {
            Some((policy, serde)) => println!(" {:>10.1} {:>12.1}", micros(policy), micros(serde)),
            None => println!(),
        }
        Ok(cost)
    }

    fn cost(&self, case: &Case) -> Result<Cost, String> {
        let request = AdmissionRequest::from_value(case.request.clone())?;
        let namespace = request.namespace.clone().unwrap_or_default();
        let mut cluster = Cluster::new();
        case.objects.iter().cloned().for_each(|object| cluster.add(moved(object, &namespace)));

        let payload = request.payload(&case.settings);
        let called = self.host.call("validate", &payload, &self.access, &mut cluster);
        let expected = called.response?;
        let evaluation =
            Arc::new(Evaluation { operation: "validate".to_owned(), payload, exchanges: called.exchanges });
        let measured = self.fuel.measure(&evaluation)?;
        if measured.response.as_ref() != Ok(&expected) {
            return Err("the meter's answer is not the host's: the policy does not always decide the same".to_owned());
        }
        let times = match &self.time {
            None => None,
            Some(meter) => {
                let policy = median(|| meter.measure(&evaluation).map(|measured| measured.total))?;
                Some((policy, median(|| parse_and_print(&evaluation.payload))?))
            }
        };
        Ok(Cost {
            fuel: measured.fuel,
            payload: evaluation.payload.len(),
            host_calls: evaluation.exchanges.len(),
            times,
        })
    }
}

fn tell_module_times(wasm: &[u8], bench: &Bench) -> Result<(), String> {
    let mut compile: Vec<Duration> =
        (0..3).map(|_| Meter::of_time(wasm).map(|meter| meter.compile)).collect::<Result<_, _>>()?;
    compile.sort();
    println!("compile: {:.0} ms", micros(compile.get(1).copied().unwrap_or_default()) / 1000.0);
    let Some(meter) = &bench.time else { return Ok(()) };
    // The cheapest guest call there is: what remains is the instance and wapc_init.
    let evaluation =
        Arc::new(Evaluation { operation: "protocol_version".to_owned(), payload: Vec::new(), exchanges: Vec::new() });
    let instantiate = median(|| meter.measure(&evaluation).map(|measured| measured.instantiate))?;
    let start = bench.fuel.measure(&evaluation)?.fuel;
    println!("instantiate: p50 {:.1} us; wapc_init and an empty call: {start} fuel", micros(instantiate));
    Ok(())
}

/// What serde_json takes to read the payload and print it again, as a measure of the machine.
fn parse_and_print(payload: &[u8]) -> Result<Duration, String> {
    let start = Instant::now();
    let value: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    let printed = std::hint::black_box(value.to_string());
    let elapsed = start.elapsed();
    if printed.len() == payload.len() { Ok(elapsed) } else { Err("the payload is not compact".to_owned()) }
}

/// The median of many runs, after a few to warm up.
fn median(mut run: impl FnMut() -> Result<Duration, String>) -> Result<Duration, String> {
    (0..20).try_for_each(|_| run().map(drop))?;
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < 50 || (times.len() < 1000 && start.elapsed() < Duration::from_millis(300)) {
        times.push(run()?);
    }
    times.sort();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Says so if the fuel for 1, 10 and 100 of something grows faster than their number.
fn superlinear(what: &str, fuel: &[u64]) -> Option<String> {
    let &[one, ten, hundred] = fuel else { return None };
    let each_of_ten = ten.saturating_sub(one) / 9;
    let each_of_ninety = hundred.saturating_sub(ten) / 90;
    (each_of_ninety * 100 > each_of_ten * GROWTH_PERCENT).then(|| {
        format!("of 100 {what}, each of the last 90 takes {each_of_ninety} fuel, and of the first 10 {each_of_ten}")
    })
}

/// Makes the plain request and its namespace's objects larger.
type Growth = fn(Value, Vec<Value>, usize) -> (Value, Vec<Value>);

const GROWTHS: [(&str, Growth); 3] =
    [("containers", with_containers), ("LimitRanges", with_limit_ranges), ("ResourceQuotas", with_quotas)];

fn with_containers(mut request: Value, objects: Vec<Value>, count: usize) -> (Value, Vec<Value>) {
    if let Some(containers) = request.pointer_mut("/request/object/spec/containers").and_then(Value::as_array_mut) {
        *containers = copies(containers, count, "/name");
    }
    (request, objects)
}

fn with_limit_ranges(request: Value, objects: Vec<Value>, count: usize) -> (Value, Vec<Value>) {
    (request, with_copies_of("LimitRange", objects, count))
}

fn with_quotas(request: Value, objects: Vec<Value>, count: usize) -> (Value, Vec<Value>) {
    (request, with_copies_of("ResourceQuota", objects, count))
}

fn with_copies_of(kind: &str, objects: Vec<Value>, count: usize) -> Vec<Value> {
    let (of_kind, mut others): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| object.get("kind").and_then(Value::as_str) == Some(kind));
    others.extend(copies(&of_kind, count, "/metadata/name"));
    others
}

/// So many copies of the first value, told apart by a number at the end of their names.
fn copies(values: &[Value], count: usize, name: &str) -> Vec<Value> {
    let Some(first) = values.first() else { return Vec::new() };
    let numbered = (0..count).map(|number| {
        let mut copy = first.clone();
        if let Some(name) = copy.pointer_mut(name) {
            *name = json!(format!("{}-{number}", name.as_str().unwrap_or_default()));
        }
        copy
    });
    numbered.collect()
}

/// The object in another namespace.
fn moved(mut object: Value, namespace: &str) -> Value {
    if let Some(place) = object.pointer_mut("/metadata/namespace") {
        *place = json!(namespace);
    }
    object
}

/// The JSON files of a folder, by name without the ending, in the order of their names.
fn read_folder(folder: &PathBuf) -> Result<Vec<(String, Value)>, String> {
    let unreadable = |error| format!("cannot list `{}`: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let value = serde_json::from_str(&text).map_err(|error| format!("`{}`: {error}", path.display()))?;
        files.push((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), value));
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_linear_if_the_last_ninety_cost_what_the_first_ten_cost() {
        assert_eq!(superlinear("x", &[1_000, 10_000, 100_000]), None);
        assert!(superlinear("x", &[1_000, 10_000, 1_000_000]).unwrap().contains("11000 fuel"));
        assert_eq!(superlinear("x", &[5, 5, 5]), None);
    }

    #[test]
    fn copies_are_told_apart_by_their_names() {
        let (request, _) =
            with_containers(json!({"request": {"object": {"spec": {"containers": [{"name": "a"}]}}}}), Vec::new(), 2);
        assert_eq!(request["request"]["object"]["spec"]["containers"], json!([{"name": "a-0"}, {"name": "a-1"}]));
    }
}
