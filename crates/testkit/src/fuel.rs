//! The cost of an evaluation: executed wasm instructions (fuel), memory and time.
//!
//! `wasmtime-provider` gives no access to the store's fuel, so this is a second, small waPC host directly on wasmtime.
//! It answers host calls from recorded exchanges, so that only the guest is measured, or by a callback. As in
//! Kubewarden, the cost of an evaluation includes its own instance and `wapc_init`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wasmtime::{
    Caller, Config, Engine, Extern, Instance, InstancePre, Linker, Memory, Module, Store, Trap, WasmBacktrace,
};
use wasmtime_wasi::{WasiCtxBuilder, p1::WasiP1Ctx, random::Deterministic};

use crate::host::Exchange;

/// A guest call to measure.
#[derive(Debug, Clone)]
pub struct GuestCall {
    pub operation: String,
    pub payload: Vec<u8>,
}

/// The cost and the response of one evaluation.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Zero if the meter does not count fuel.
    pub fuel: u64,
    /// The final size of the guest's memory. Memory only grows, so this is also the maximum.
    pub memory: usize,
    /// Whether the guest was stopped because it had used all its fuel.
    pub out_of_fuel: bool,
    /// Where it was stopped, the innermost function first. Empty if the module has no function names.
    pub stopped_in: Vec<String>,
    /// The time to make the instance, before anything runs in it.
    pub instantiate: Duration,
    /// The time to make the instance, run `wapc_init` and make the call.
    pub total: Duration,
    /// The guest's response, or why it trapped.
    pub response: Result<Vec<u8>, String>,
}

/// Answers a host call: its namespace, operation and payload.
pub type Answer = Box<dyn FnMut(&str, &str, &[u8]) -> Result<Vec<u8>, String> + Send>;

/// A compiled policy whose evaluations can be measured.
pub struct Meter {
    engine: Engine,
    policy: InstancePre<State>,
    counts_fuel: bool,
    /// How long the wasm took to compile.
    pub compile: Duration,
}

/// The host's side of one evaluation.
struct State {
    wasi: WasiP1Ctx,
    call: Arc<GuestCall>,
    answer: Answer,
    host_answer: Result<Vec<u8>, String>,
    guest_answer: Result<Vec<u8>, String>,
}

impl Meter {
    /// A meter that counts fuel. Its times include the counting.
    pub fn of_fuel(wasm: &[u8]) -> Result<Self, String> {
        Self::new(wasm, true)
    }

    /// A meter that measures the time of the code that Kubewarden runs.
    pub fn of_time(wasm: &[u8]) -> Result<Self, String> {
        Self::new(wasm, false)
    }

    fn new(wasm: &[u8], counts_fuel: bool) -> Result<Self, String> {
        let engine = Engine::new(Config::new().consume_fuel(counts_fuel)).map_err(|error| error.to_string())?;
        let start = Instant::now();
        let module = Module::new(&engine, wasm).map_err(|error| format!("{error:#}"))?;
        let compile = start.elapsed();
        let policy =
            linker(&engine).and_then(|linker| linker.instantiate_pre(&module)).map_err(|error| format!("{error:#}"))?;
        Ok(Self { engine, policy, counts_fuel, compile })
    }

    /// Makes the call in a fresh instance. Its host calls get the recorded answers, and must equal the recorded ones.
    pub fn measure(&self, call: &Arc<GuestCall>, exchanges: &Arc<[Exchange]>) -> Result<Measured, String> {
        self.measure_some(u64::MAX, call, exchanges)
    }

    /// Like [`Self::measure`], but stops the guest when it has used `most_fuel`.
    pub fn measure_some(
        &self,
        most_fuel: u64,
        call: &Arc<GuestCall>,
        exchanges: &Arc<[Exchange]>,
    ) -> Result<Measured, String> {
        let (exchanges, mut next) = (Arc::clone(exchanges), 0);
        let answer = move |namespace: &str, operation: &str, payload: &[u8]| {
            let exchange: &Exchange = exchanges.get(next).ok_or("no recorded exchange is left")?;
            next += 1;
            if (exchange.namespace.as_str(), exchange.operation.as_str()) != (namespace, operation)
                || exchange.payload != payload
            {
                return Err(format!("exchange {next} was recorded for another call"));
            }
            exchange.answer.clone()
        };
        self.measure_within(most_fuel, call, Box::new(answer))
    }

    /// Makes the call in a fresh instance, and stops it when it has used `most_fuel`.
    pub fn measure_within(&self, most_fuel: u64, call: &Arc<GuestCall>, answer: Answer) -> Result<Measured, String> {
        self.run(most_fuel, call, answer).map_err(|error| format!("{error:#}"))
    }

    fn run(&self, most_fuel: u64, call: &Arc<GuestCall>, answer: Answer) -> wasmtime::Result<Measured> {
        let start = Instant::now();
        let state = State {
            // The waPC crate keeps its operations in a hash map, whose seed would change the count by a few
            // instructions.
            wasi: WasiCtxBuilder::new().secure_random(Deterministic::new(vec![7])).build_p1(),
            call: Arc::clone(call),
            answer,
            host_answer: Ok(Vec::new()),
            guest_answer: Err("the guest gave no response".to_owned()),
        };
        let mut store = Store::new(&self.engine, state);
        if self.counts_fuel {
            store.set_fuel(most_fuel)?;
        }
        let instance = self.policy.instantiate(&mut store)?;
        let instantiate = start.elapsed();
        let trap = call_guest(&mut store, &instance, call).err();
        let total = start.elapsed();
        let fuel = if self.counts_fuel { most_fuel - store.get_fuel()? } else { 0 };
        let memory = instance.get_memory(&mut store, "memory").map_or(0, |memory| memory.data_size(&store));
        let out_of_fuel = trap.as_ref().and_then(|trap| trap.downcast_ref()) == Some(&Trap::OutOfFuel);
        let stopped_in = trap.as_ref().and_then(|trap| trap.downcast_ref()).map(functions).unwrap_or_default();
        let response = match trap {
            None => store.into_data().guest_answer,
            Some(trap) => Err(format!("the guest trapped: {trap:#}")),
        };
        Ok(Measured { fuel, memory, out_of_fuel, stopped_in, instantiate, total, response })
    }
}

fn functions(backtrace: &WasmBacktrace) -> Vec<String> {
    let frames = backtrace.frames().iter();
    frames.filter_map(|frame| frame.func_name()).map(|name| format!("{:#}", rustc_demangle::demangle(name))).collect()
}

/// Starts the guest and makes the call. The response is stored in the state.
fn call_guest(store: &mut Store<State>, instance: &Instance, call: &GuestCall) -> wasmtime::Result<()> {
    for starter in wapc::wapc_functions::REQUIRED_STARTS {
        if instance.get_export(&mut *store, starter).is_some() {
            instance.get_typed_func::<(), ()>(&mut *store, starter)?.call(&mut *store, ())?;
        }
    }
    let lengths = (i32::try_from(call.operation.len())?, i32::try_from(call.payload.len())?);
    instance.get_typed_func::<(i32, i32), i32>(&mut *store, "__guest_call")?.call(store, lengths)?;
    Ok(())
}

impl State {
    fn host_error(&self) -> &str {
        self.host_answer.as_ref().err().map_or("", String::as_str)
    }

    fn host_response(&self) -> &[u8] {
        self.host_answer.as_deref().unwrap_or_default()
    }
}

/// The nine functions of waPC, and WASI preview 1.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p1::add_to_linker_sync(&mut linker, |state: &mut State| &mut state.wasi)?;
    linker.func_wrap("wapc", "__guest_request", |mut caller: Caller<'_, State>, operation: i32, payload: i32| {
        let call = Arc::clone(&caller.data().call);
        write(&mut caller, operation, call.operation.as_bytes())?;
        write(&mut caller, payload, &call.payload)
    })?;
    linker.func_wrap("wapc", "__guest_response", |mut caller: Caller<'_, State>, pointer: i32, length: i32| {
        caller.data_mut().guest_answer = Ok(read(&mut caller, pointer, length)?);
        wasmtime::Result::Ok(())
    })?;
    linker.func_wrap("wapc", "__guest_error", |mut caller: Caller<'_, State>, pointer: i32, length: i32| {
        let error = read(&mut caller, pointer, length)?;
        caller.data_mut().guest_answer = Err(String::from_utf8_lossy(&error).into_owned());
        wasmtime::Result::Ok(())
    })?;
    linker.func_wrap(
        "wapc",
        "__host_call",
        |mut caller: Caller<'_, State>,
         _binding: i32,
         _binding_length: i32,
         namespace: i32,
         namespace_length: i32,
         operation: i32,
         operation_length: i32,
         payload: i32,
         payload_length: i32| {
            let namespace = String::from_utf8(read(&mut caller, namespace, namespace_length)?)?;
            let operation = String::from_utf8(read(&mut caller, operation, operation_length)?)?;
            let payload = read(&mut caller, payload, payload_length)?;
            let answer = (caller.data_mut().answer)(&namespace, &operation, &payload);
            let succeeded = i32::from(answer.is_ok());
            caller.data_mut().host_answer = answer;
            wasmtime::Result::Ok(succeeded)
        },
    )?;
    linker.func_wrap("wapc", "__host_response_len", |caller: Caller<'_, State>| {
        Ok(i32::try_from(caller.data().host_response().len())?)
    })?;
    linker.func_wrap("wapc", "__host_response", |mut caller: Caller<'_, State>, pointer: i32| {
        let response = caller.data().host_response().to_vec();
        write(&mut caller, pointer, &response)
    })?;
    linker.func_wrap("wapc", "__host_error_len", |caller: Caller<'_, State>| {
        Ok(i32::try_from(caller.data().host_error().len())?)
    })?;
    linker.func_wrap("wapc", "__host_error", |mut caller: Caller<'_, State>, pointer: i32| {
        let error = caller.data().host_error().to_owned();
        write(&mut caller, pointer, error.as_bytes())
    })?;
    linker.func_wrap("wapc", "__console_log", |mut caller: Caller<'_, State>, pointer: i32, length: i32| {
        let line = read(&mut caller, pointer, length)?;
        eprintln!("{}", String::from_utf8_lossy(&line));
        wasmtime::Result::Ok(())
    })?;
    Ok(linker)
}

fn memory(caller: &mut Caller<'_, State>) -> wasmtime::Result<Memory> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    memory.ok_or_else(|| wasmtime::Error::msg("the guest exports no memory"))
}

fn read(caller: &mut Caller<'_, State>, pointer: i32, length: i32) -> wasmtime::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length)?];
    memory(caller)?.read(&caller, pointer.cast_unsigned() as usize, &mut bytes)?;
    Ok(bytes)
}

fn write(caller: &mut Caller<'_, State>, pointer: i32, bytes: &[u8]) -> wasmtime::Result<()> {
    Ok(memory(caller)?.write(caller, pointer.cast_unsigned() as usize, bytes)?)
}
