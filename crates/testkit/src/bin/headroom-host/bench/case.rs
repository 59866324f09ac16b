//! One row of the bench: a request, its cluster, and the cost of judging it.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use headroom_core::cluster::usage::profile_layout::KIND;
use headroom_testkit::{
    access::Access,
    admission::AdmissionRequest,
    cluster::{Cluster, Work},
    compiler::{Compiled, Measured},
    host::{PolicyHost, answer},
    protocol::{Exchange, GuestCall, HostCall},
};
use serde_json::{Value, json};

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
            *place = json!(namespace);
        }
        cluster.add(object);
    }
    cluster
}

/// The cost of judging a case, and the policy's response.
pub struct Cost {
    pub fuel: u64,
    pub out_of_fuel: bool,
    /// The final size of the guest's memory.
    pub memory: usize,
    pub payload: usize,
    /// The bytes of all answers of the host.
    pub answers: usize,
    pub host_calls: usize,
    pub work: Work,
    pub response: Result<Vec<u8>, String>,
    /// Median times of the whole evaluation, and of serde_json reading and printing the payload.
    pub times: Option<(Duration, Duration)>,
}

/// Everything that is needed to run a case.
pub struct Bench {
    pub host: PolicyHost,
    pub access: Access,
    pub fuel: Compiled,
    pub time: Option<Compiled>,
}

/// The cluster of the metered guest, and the host calls.
struct Asked {
    cluster: Cluster,
    exchanges: Vec<Exchange>,
}

impl Bench {
    /// Runs a case, compares the response with the real host's, and prints the row.
    pub fn run(&self, case: Case) -> Result<Cost, String> {
        let failed = |error| format!("{}: {error}", case.name);
        let mut cluster = case.cluster.clone();
        let expected = self.host.call("validate", &case.payload, &self.access, &mut cluster).response;
        let (mut cost, exchanges) = self.measure(u64::MAX, &case).map_err(failed)?;
        if cost.response != Ok(expected.map_err(failed)?) {
            return Err(failed("the meter's answer is not the host's".to_owned()));
        }
        if let Some(meter) = &self.time {
            let (call, exchanges) = (guest_call(case.payload), exchanges.into());
            let policy = median(|| meter.measure(&call, &exchanges).map(|measured| measured.total))?;
            cost.times = Some((policy, median(|| parse_and_print(&call.payload))?));
        }
        print_row(&case.name, &cost);
        Ok(cost)
    }

    /// Runs a case of unknown cost, at most until it has used `most_fuel`, and prints the row.
    pub fn run_within(&self, most_fuel: u64, case: &Case) -> Result<Cost, String> {
        let (cost, _) = self.measure(most_fuel, case).map_err(|error| format!("{}: {error}", case.name))?;
        print_row(&case.name, &cost);
        Ok(cost)
    }

    /// Prints where a case spends its fuel: the case is stopped at many points, and each function is counted when the
    /// guest was stopped in it, or in a function that it called.
    pub fn print_hot_functions(&self, case: Case) -> Result<(), String> {
        const STOPS: u64 = 400;
        const SHOWN: usize = 40;
        let (cost, exchanges) = self.measure(u64::MAX, &case)?;
        let (call, exchanges) = (guest_call(case.payload), Arc::from(exchanges));
        let (mut own, mut with_callees) = (HashMap::new(), HashMap::new());
        for stop in 1..STOPS {
            let mut functions = self.fuel.measure_some(cost.fuel / STOPS * stop, &call, &exchanges)?.stopped_in;
            if let Some(function) = functions.first() {
                *own.entry(function.clone()).or_default() += 1_u64;
            }
            functions.sort();
            functions.dedup();
            functions.into_iter().for_each(|function| *with_callees.entry(function).or_default() += 1_u64);
        }
        println!("{}: {} fuel", case.name, cost.fuel);
        for (heading, counts) in [("by itself", own), ("with what it calls", with_callees)] {
            println!("\n{heading}:");
            let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
            counts.sort_by_key(|(name, count)| (Reverse(*count), name.clone()));
            for (name, count) in counts.into_iter().take(SHOWN) {
                println!("{:>11} {name}", cost.fuel / STOPS * count);
            }
        }
        Ok(())
    }

    fn measure(&self, most_fuel: u64, case: &Case) -> Result<(Cost, Vec<Exchange>), String> {
        let asked = Arc::new(Mutex::new(Asked { cluster: case.cluster.clone(), exchanges: Vec::new() }));
        let (answering, access) = (Arc::clone(&asked), self.access.clone());
        let host = move |call: HostCall| {
            let mut asked = answering.lock().unwrap_or_else(PoisonError::into_inner);
            let exchange = answer(call, &access, &mut asked.cluster);
            asked.exchanges.push(exchange.clone());
            exchange.answer
        };
        let call = guest_call(case.payload.clone());
        let Measured { fuel, memory, out_of_fuel, response, .. } =
            self.fuel.measure_within(most_fuel, &call, Box::new(host))?;
        let asked = Arc::into_inner(asked).ok_or("the guest is still running")?;
        let Asked { cluster, exchanges } = asked.into_inner().unwrap_or_else(PoisonError::into_inner);
        let answers = exchanges.iter().map(|exchange| exchange.answer.as_ref().map_or_else(String::len, Vec::len));
        let cost = Cost {
            fuel,
            out_of_fuel,
            memory,
            payload: case.payload.len(),
            answers: answers.sum(),
            host_calls: exchanges.len(),
            work: cluster.work(),
            response,
            times: None,
        };
        Ok((cost, exchanges))
    }
}

impl Cost {
    /// The size of the policy's input: the payload and the host's answers.
    pub fn bytes(&self) -> usize {
        self.payload + self.answers
    }

    pub fn fuel_per_byte(&self) -> f64 {
        per_byte(self.fuel, self.bytes())
    }

    pub fn memory_per_byte(&self) -> f64 {
        per_byte(self.memory as u64, self.bytes())
    }

    /// The verdict, and the bytes of messages to the user.
    pub fn verdict(&self) -> (&'static str, usize) {
        if self.out_of_fuel {
            return ("over", 0);
        }
        let answer = self.response.as_ref().ok().and_then(|answer| serde_json::from_slice::<Value>(answer).ok());
        let Some(answer) = answer else { return ("trapped", 0) };
        let messages = ["message", "warnings"].map(|field| answer.get(field).map_or(0, |text| text.to_string().len()));
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

pub fn guest_call(payload: Vec<u8>) -> Arc<GuestCall> {
    Arc::new(GuestCall { operation: "validate".to_owned(), payload })
}

pub fn print_heading() {
    println!(
        "{:<56} {:>8} {:>11} {:>7} {:>8} {:>6} {:>5} {:>4} {:>10} {:>8} {:>8} {:>10} {:>12}",
        "request",
        "bytes",
        "fuel",
        "fuel/B",
        "mem KiB",
        "mem/B",
        "calls",
        "live",
        "host bytes",
        "verdict",
        "messages",
        "p50 us",
        "serde p50 us"
    );
}

fn print_row(name: &str, cost: &Cost) {
    let (verdict, messages) = cost.verdict();
    print!(
        "{name:<56} {:>8} {:>11} {:>7.1} {:>8} {:>6.1} {:>5} {:>4} {:>10} {verdict:>8} {messages:>8}",
        cost.payload,
        cost.fuel,
        cost.fuel_per_byte(),
        cost.memory / 1024,
        cost.memory_per_byte(),
        cost.host_calls,
        cost.work.live_calls,
        cost.work.bytes,
    );
    match cost.times {
        Some((policy, serde)) => println!(" {:>10.1} {:>12.1}", micros(policy), micros(serde)),
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

/// The median of many runs, after a few warm-up runs.
pub fn median(mut run: impl FnMut() -> Result<Duration, String>) -> Result<Duration, String> {
    (0..20).try_for_each(|_| run().map(drop))?;
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < 50 || (times.len() < 1000 && start.elapsed() < Duration::from_millis(300)) {
        times.push(run()?);
    }
    times.sort();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
