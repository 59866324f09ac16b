//! One row of the bench: a request, its cluster, and the cost of evaluating it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use headroom_admission::cluster::usage::profile_layout::KIND;
use headroom_wasm_host::access::Access;
use headroom_wasm_host::admission::AdmissionRequest;
use headroom_wasm_host::cluster::{Cluster, Work};
use headroom_wasm_host::compiler::{Compiled, Measured, Spent};
use headroom_wasm_host::host::{PolicyHost, answer};
use headroom_wasm_host::protocol::{Exchange, GuestCall, HostCall};
use serde_json::Value;

/// A request, and the objects in its namespace.
pub struct Case {
    pub name: String,
    pub payload: Vec<u8>,
    pub cluster: Cluster,
}

impl Case {
    pub fn new(name: String, request: Value, settings: &Value, objects: Vec<Value>) -> Result<Self, String> {
        let request = AdmissionRequest::from_value(request)?;
        let namespace = request.namespace.clone().unwrap_or_default();
        let cluster = in_namespace(&namespace, objects);
        Ok(Self { name, payload: request.payload(settings), cluster })
    }
}

/// A cluster with these objects, all in one namespace except histories, which have their own.
pub fn in_namespace(namespace: &str, objects: impl IntoIterator<Item = Value>) -> Cluster {
    let mut cluster = Cluster::new();
    for mut object in objects {
        let is_history = object.get("kind").and_then(Value::as_str) == Some(KIND);
        if let Some(place) = object.pointer_mut("/metadata/namespace").filter(|_| !is_history) {
            *place = Value::from(namespace);
        }
        cluster.add(object);
    }
    cluster
}

/// The cost of evaluating a case, and the policy's response.
pub struct Cost {
    pub measured: Measured,
    pub payload: usize,
    /// The size of the policy's input: the payload and the host's answers.
    pub bytes: usize,
    pub host_calls: usize,
    pub work: Work,
    /// Costs of the evaluation, and the median time of serde_json reading and printing the payload.
    pub times: Option<(Times, Duration)>,
}

/// Costs of an evaluation, as medians of many runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    pub start: Spent,
    pub evaluation: Spent,
}

pub struct Bench {
    pub host: PolicyHost,
    pub access: Access,
    pub fuel: Compiled,
    pub time: Option<Compiled>,
}

/// A case that ran once, so that it can run without a cluster.
pub struct Recorded<'b> {
    time: &'b Compiled,
    call: Arc<GuestCall>,
    exchanges: Arc<[Exchange]>,
}

impl Recorded<'_> {
    /// The time between the wasm and a host's first answer: compiling, starting an instance, and evaluating. The
    /// medians of some runs, each with an engine of its own.
    pub fn first_answer(&self, wasm: &[u8]) -> Result<[Duration; 3], String> {
        let mut samples = [const { Vec::new() }; 3];
        for _ in 0..3 {
            let compiled = Compiled::for_time(wasm)?;
            let Measured { start, evaluation, .. } = compiled.measure(&self.call, &self.exchanges)?;
            samples
                .iter_mut()
                .zip([compiled.compile, start.time, evaluation.time])
                .for_each(|(of, time)| of.push(time));
        }
        Ok(samples.map(middle))
    }
}

impl Bench {
    pub fn load(wasm: &[u8], access: &Access, measures_time: bool) -> Result<Self, String> {
        Ok(Self {
            host: PolicyHost::from_bytes(wasm)?,
            access: access.clone(),
            fuel: Compiled::for_fuel(wasm)?,
            time: if measures_time { Some(Compiled::for_time(wasm)?) } else { None },
        })
    }

    /// Runs a case, and prints the row.
    pub fn run(&self, case: Case) -> Result<Cost, String> {
        let (mut cost, recorded) = self.record(&case)?;
        if let Some(recorded) = recorded {
            let times = medians(&[&recorded])?.into_iter().next().unwrap_or_default();
            cost.times = Some((times, median(|| parse_and_print(&case.payload))?));
        }
        print_row(&case.name, &cost);
        Ok(cost)
    }

    /// Runs a case, and compares the response with the real host's. Returns the recorded case if time is measured.
    pub fn record(&self, case: &Case) -> Result<(Cost, Option<Recorded<'_>>), String> {
        let failed = |error| format!("{}: {error}", case.name);
        let mut cluster = case.cluster.clone();
        let expected = self.host.call("validate", &case.payload, &self.access, &mut cluster).response;
        let (cost, exchanges) = self.measure(u64::MAX, case).map_err(failed)?;
        // As values, because the order of audit annotations is random.
        if json(&cost.measured.response) != json(&Ok(expected.map_err(failed)?)) {
            return Err(failed("the meter's answer is not the host's".to_owned()));
        }
        let call = GuestCall::new("validate", case.payload.clone());
        let recorded = self.time.as_ref().map(|time| Recorded { time, call, exchanges: exchanges.into() });
        Ok((cost, recorded))
    }

    /// Runs a case of unknown cost, at most until it has used `most_fuel`, and prints the row.
    pub fn run_within(&self, most_fuel: u64, case: &Case) -> Result<Cost, String> {
        let (cost, _) = self.measure(most_fuel, case).map_err(|error| format!("{}: {error}", case.name))?;
        print_row(&case.name, &cost);
        Ok(cost)
    }

    fn measure(&self, most_fuel: u64, case: &Case) -> Result<(Cost, Vec<Exchange>), String> {
        let side = Arc::new(Mutex::new((case.cluster.clone(), Vec::<Exchange>::new())));
        let (answering, access) = (Arc::clone(&side), self.access.clone());
        let host = move |call: HostCall| {
            let (cluster, exchanges) = &mut *answering.lock().unwrap_or_else(PoisonError::into_inner);
            let exchange = answer(call, &access, cluster);
            exchanges.push(exchange.clone());
            exchange.answer
        };
        let call = GuestCall::new("validate", case.payload.clone());
        let measured = self.fuel.measure_within(most_fuel, &call, Box::new(host))?;
        let side = Arc::into_inner(side).ok_or("the guest is still running")?;
        let (cluster, exchanges) = side.into_inner().unwrap_or_else(PoisonError::into_inner);
        let answers = exchanges.iter().map(|exchange| exchange.answer.as_ref().map_or_else(String::len, Vec::len));
        let cost = Cost {
            measured,
            payload: case.payload.len(),
            bytes: case.payload.len() + answers.sum::<usize>(),
            host_calls: exchanges.len(),
            work: cluster.work(),
            times: None,
        };
        Ok((cost, exchanges))
    }
}

impl Cost {
    pub fn fuel_per_byte(&self) -> f64 {
        per_byte(self.measured.fuel, self.bytes)
    }

    pub fn memory_per_byte(&self) -> f64 {
        per_byte(self.measured.memory as u64, self.bytes)
    }

    /// The verdict, and the bytes of messages to the user.
    pub fn verdict(&self) -> (&'static str, usize) {
        if self.measured.out_of_fuel {
            return ("over", 0);
        }
        let Ok(answer) = json(&self.measured.response) else { return ("trapped", 0) };
        let given = |field| answer.get(field).filter(|text| !text.is_null());
        let messages = ["message", "warnings"].map(|field| given(field).map_or(0, |text| text.to_string().len()));
        let verdict = match (answer.get("accepted"), answer.get("mutated_object")) {
            (Some(Value::Bool(true)), None | Some(Value::Null)) => "admitted",
            (Some(Value::Bool(true)), Some(_)) => "changed",
            _ => "refused",
        };
        (verdict, messages.iter().sum())
    }
}

fn per_byte(amount: u64, bytes: usize) -> f64 {
    amount as f64 / bytes.max(1) as f64
}

pub fn print_heading() {
    println!(
        "request                                                     bytes        fuel  fuel/B  mem KiB  mem/B\
         \x20calls live host bytes  verdict messages start us faults eval us faults serde us"
    );
}

fn print_row(name: &str, cost: &Cost) {
    let (verdict, messages) = cost.verdict();
    print!(
        "{name:<56} {:>8} {:>11} {:>7.1} {:>8} {:>6.1} {:>5} {:>4} {:>10} {verdict:>8} {messages:>8}",
        cost.payload,
        cost.measured.fuel,
        cost.fuel_per_byte(),
        cost.measured.memory / 1024,
        cost.memory_per_byte(),
        cost.host_calls,
        cost.work.live_calls,
        cost.work.bytes,
    );
    match cost.times {
        Some((Times { start, evaluation }, serde)) => println!(
            " {:>8.1} {:>6} {:>7.1} {:>6} {:>8.1}",
            micros(start.time),
            start.page_faults,
            micros(evaluation.time),
            evaluation.page_faults,
            micros(serde)
        ),
        None => println!(),
    }
}

/// The time for serde_json to read and print the payload, as a measure of the machine.
fn parse_and_print(payload: &[u8]) -> Result<Duration, String> {
    let start = Instant::now();
    let value: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    let printed = std::hint::black_box(value.to_string());
    let elapsed = start.elapsed();
    if printed.len() == payload.len() { Ok(elapsed) } else { Err("the payload is not compact".to_owned()) }
}

const WARM_UP: usize = 20;

/// The medians of each case. The cases take turns, so that whatever else the machine does meets all of them.
pub fn medians(cases: &[&Recorded<'_>]) -> Result<Vec<Times>, String> {
    let mut samples = vec![(Vec::new(), Vec::new()); cases.len()];
    let begin = Instant::now();
    let mut round = 0;
    while round < WARM_UP + 50 || (round < 2000 && begin.elapsed() < Duration::from_secs(1)) {
        for (case, (starts, evaluations)) in cases.iter().zip(&mut samples) {
            let measured = case.time.measure(&case.call, &case.exchanges)?;
            if round >= WARM_UP {
                starts.push(measured.start.time);
                evaluations.push(measured.evaluation.time);
            }
        }
        round += 1;
    }
    let faults = |case: &Recorded<'_>| {
        let meter = case.time.for_page_faults();
        let mut faults = Vec::new();
        for _ in 0..WARM_UP {
            let measured = meter.measure(&case.call, &case.exchanges)?;
            faults.push((measured.start.page_faults, measured.evaluation.page_faults));
        }
        Ok::<_, String>(middle(faults))
    };
    cases
        .iter()
        .zip(samples)
        .map(|(case, (starts, evaluations))| {
            let (start_faults, evaluation_faults) = faults(case)?;
            Ok(Times {
                start: Spent { time: middle(starts), page_faults: start_faults },
                evaluation: Spent { time: middle(evaluations), page_faults: evaluation_faults },
            })
        })
        .collect()
}

/// The median of many runs, after a few warm-up runs.
fn median(mut run: impl FnMut() -> Result<Duration, String>) -> Result<Duration, String> {
    (0..WARM_UP).try_for_each(|_| run().map(drop))?;
    Ok(middle((0..50).map(|_| run()).collect::<Result<_, _>>()?))
}

fn middle<T: Ord + Copy + Default>(mut samples: Vec<T>) -> T {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// A response as a value; the error is the text of the trap.
pub fn json(response: &Result<Vec<u8>, String>) -> Result<Value, String> {
    serde_json::from_slice(response.as_deref().map_err(Clone::clone)?).map_err(|error| error.to_string())
}

pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
