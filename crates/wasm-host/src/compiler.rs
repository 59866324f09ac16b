//! Runs a policy with wasmtime, Kubewarden's engine, and measures its executed wasm instructions (fuel), memory, time and
//! page faults.
//!
//! Kubewarden's own crate gives no access to the store's fuel, and builds a good deal of wasmtime that nothing here uses.
//! As in Kubewarden, every call has its own instance, and its cost includes that and `wapc_init`.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::{Cache, Caller, Config, Engine, Extern, Instance, InstancePre, Linker, Module, Store, Trap};

use crate::protocol::{
    Answer, Exchange, GUEST_CALL, GuestCall, HostCall, NO_MEMORY, Random, STARTERS, Side, link_imports,
};

/// The cost and the response of one evaluation.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Zero if the meter does not count fuel.
    pub fuel: u64,
    /// The final size of the guest's memory. Memory only grows, so this is also the maximum.
    pub memory: usize,
    /// True if the guest was stopped because it had used all its fuel.
    pub out_of_fuel: bool,
    /// Making the instance and running what it registers.
    pub start: Spent,
    /// The call itself.
    pub evaluation: Spent,
    /// The guest's response, or why it trapped.
    pub response: Result<Vec<u8>, String>,
}

/// The cost of a part of an evaluation to the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    pub time: Duration,
    /// Pages of memory that the system had to provide; zero if the meter does not count them.
    pub page_faults: u64,
}

/// The events that a meter counts beside the time, which includes the counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Nothing,
    Fuel,
    PageFaults,
}

pub struct Compiled {
    engine: Engine,
    policy: InstancePre<Side>,
    counted: Counted,
    pub compile: Duration,
}

impl Compiled {
    /// Counts fuel. Its times include the counting.
    pub fn for_fuel(wasm: &[u8]) -> Result<Self, String> {
        Self::new(wasm, Config::new().consume_fuel(true), Counted::Fuel)
    }

    /// Measures the time of the code that Kubewarden runs.
    pub fn for_time(wasm: &[u8]) -> Result<Self, String> {
        Self::new(wasm, &Config::new(), Counted::Nothing)
    }

    /// The same compiled code, with page faults counted.
    #[must_use]
    pub fn for_page_faults(&self) -> Self {
        let (engine, policy) = (self.engine.clone(), self.policy.clone());
        Self { engine, policy, counted: Counted::PageFaults, compile: self.compile }
    }

    /// Finds the compiled code of an earlier run in wasmtime's cache, if there is one.
    pub fn cached(wasm: &[u8]) -> Result<Self, String> {
        Self::new(wasm, Config::new().cache(Cache::from_file(None).ok()), Counted::Nothing)
    }

    fn new(wasm: &[u8], config: &Config, counted: Counted) -> Result<Self, String> {
        let engine = Engine::new(config).map_err(|error| error.to_string())?;
        let start = Instant::now();
        let module = Module::new(&engine, wasm).map_err(|error| format!("{error:#}"))?;
        let compile = start.elapsed();
        let policy =
            linker(&engine).and_then(|linker| linker.instantiate_pre(&module)).map_err(|error| format!("{error:#}"))?;
        Ok(Self { engine, policy, counted, compile })
    }

    /// Makes the call in a fresh instance.
    pub fn call(&self, call: Arc<GuestCall>, answer: Answer) -> Result<Vec<u8>, String> {
        self.measure_within(u64::MAX, &call, answer)?.response
    }

    /// Makes the call in a fresh instance. Its host calls get the recorded answers, and must equal the recorded ones.
    pub fn measure(&self, call: &Arc<GuestCall>, exchanges: &Arc<[Exchange]>) -> Result<Measured, String> {
        let (exchanges, mut next) = (Arc::clone(exchanges), 0);
        let answer = move |call: HostCall| {
            let exchange: &Exchange = exchanges.get(next).ok_or("no recorded exchange is left")?;
            next += 1;
            if exchange.call != call {
                return Err(format!("exchange {next} was recorded for another call"));
            }
            exchange.answer.clone()
        };
        self.measure_within(u64::MAX, call, Box::new(answer))
    }

    /// Makes the call in a fresh instance, and stops it when it has used `most_fuel`.
    pub fn measure_within(&self, most_fuel: u64, call: &Arc<GuestCall>, answer: Answer) -> Result<Measured, String> {
        self.run(most_fuel, call, answer).map_err(|error| format!("{error:#}"))
    }

    fn run(&self, most_fuel: u64, call: &Arc<GuestCall>, answer: Answer) -> wasmtime::Result<Measured> {
        let counts_fuel = self.counted == Counted::Fuel;
        let random = if counts_fuel { Random::Fixed } else { Random::Fresh };
        let mut clock = Clock::new(self.counted == Counted::PageFaults);
        let mut store = Store::new(&self.engine, Side::new(Arc::clone(call), answer, random));
        if counts_fuel {
            store.set_fuel(most_fuel)?;
        }
        let instance = self.policy.instantiate(&mut store)?;
        let started = start_guest(&mut store, &instance);
        let start = clock.lap();
        let returned = started.and_then(|()| call_guest(&mut store, &instance));
        let evaluation = clock.lap();
        let fuel = if counts_fuel { most_fuel - store.get_fuel()? } else { 0 };
        let memory = instance.get_memory(&mut store, "memory").map_or(0, |memory| memory.data_size(&store));
        let out_of_fuel = returned.as_ref().err().and_then(|trap| trap.downcast_ref()) == Some(&Trap::OutOfFuel);
        let response = store.into_data().response(returned.map_err(|trap| format!("{trap:#}")));
        Ok(Measured { fuel, memory, out_of_fuel, start, evaluation, response })
    }
}

/// Measures the parts of an evaluation, one after the other.
struct Clock {
    counts_faults: bool,
    faults: u64,
    start: Instant,
}

impl Clock {
    fn new(counts_faults: bool) -> Self {
        let faults = if counts_faults { page_faults() } else { 0 };
        Self { counts_faults, faults, start: Instant::now() }
    }

    /// The cost since the last lap.
    fn lap(&mut self) -> Spent {
        let (time, before) = (self.start.elapsed(), self.faults);
        *self = Self::new(self.counts_faults);
        Spent { time, page_faults: self.faults - before }
    }
}

/// The page faults of this thread so far, without reads from a disk; always zero where the system does not tell.
fn page_faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    // The name of the thread is in parentheses, and may contain anything; the faults are in the eighth field after it.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').nth(7).and_then(|faults| faults.parse().ok()).unwrap_or_default()
}

/// Runs what the host runs in a fresh instance.
fn start_guest(store: &mut Store<Side>, instance: &Instance) -> wasmtime::Result<()> {
    for starter in STARTERS {
        if instance.get_export(&mut *store, starter).is_some() {
            instance.get_typed_func::<(), ()>(&mut *store, starter)?.call(&mut *store, ())?;
        }
    }
    Ok(())
}

fn call_guest(store: &mut Store<Side>, instance: &Instance) -> wasmtime::Result<i32> {
    let lengths = store.data().lengths().map_err(wasmtime::Error::msg)?;
    instance.get_typed_func::<(i32, i32), i32>(&mut *store, GUEST_CALL)?.call(store, lengths)
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<Side>> {
    let mut linker = Linker::new(engine);
    link_imports!(linker);
    Ok(linker)
}

fn enter<R>(
    caller: &mut Caller<'_, Side>,
    function: impl FnOnce(&mut Side, &mut [u8]) -> Result<R, String>,
) -> wasmtime::Result<R> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    let memory = memory.ok_or_else(|| wasmtime::Error::msg(NO_MEMORY))?;
    let (memory, side) = memory.data_and_store_mut(caller);
    function(side, memory).map_err(wasmtime::Error::msg)
}
