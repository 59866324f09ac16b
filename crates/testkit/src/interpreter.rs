//! A waPC engine on an interpreter. It builds in a minute instead of the ten minutes of a wasm compiler, and is fast
//! enough for a policy's short calls. It has only those functions of WASI that Rust's standard library always imports.

use std::error::Error as StdError;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use wapc::{HOST_NAMESPACE, ModuleState, WebAssemblyEngineProvider, wapc_functions};
use wasmi::{Caller, Engine, Error, Extern, Instance, Linker, Memory, Module, Store};

const WASI: &str = "wasi_snapshot_preview1";
/// WASI's errno for success, and for a bad file descriptor.
const SUCCESS: i32 = 0;
const BAD_FILE: i32 = 8;

/// A loaded policy.
pub struct Interpreter {
    module: Module,
}

impl Interpreter {
    pub fn new(wasm: &[u8]) -> Result<Self, String> {
        Ok(Self { module: Module::new(&Engine::default(), wasm).map_err(|error| error.to_string())? })
    }

    /// A fresh instance, which starts when it is given to a host.
    pub fn instance(&self) -> Interpreted {
        Interpreted { module: self.module.clone(), running: None }
    }
}

/// The state of an instance is the host's side of the waPC protocol.
type Host = Arc<ModuleState>;

/// One instance of a policy.
pub struct Interpreted {
    module: Module,
    running: Option<(Store<Host>, Instance)>,
}

impl WebAssemblyEngineProvider for Interpreted {
    fn init(&mut self, host: Host) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let mut store = Store::new(self.module.engine(), host);
        let instance = linker(self.module.engine())?.instantiate_and_start(&mut store, &self.module)?;
        for starter in wapc_functions::REQUIRED_STARTS {
            if instance.get_func(&store, starter).is_some() {
                instance.get_typed_func::<(), ()>(&store, starter)?.call(&mut store, ())?;
            }
        }
        self.running = Some((store, instance));
        Ok(())
    }

    fn call(&mut self, operation: i32, payload: i32) -> Result<i32, Box<dyn StdError + Send + Sync>> {
        let (store, instance) = self.running.as_mut().ok_or("the instance was not started")?;
        let guest = instance.get_typed_func::<(i32, i32), i32>(&*store, wapc_functions::GUEST_CALL)?;
        Ok(guest.call(store, (operation, payload))?)
    }

    fn replace(&mut self, _: &[u8]) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Err("a running policy cannot be replaced".into())
    }
}

/// The nine functions of waPC, and WASI preview 1 as far as a policy needs it.
fn linker(engine: &Engine) -> Result<Linker<Host>, Error> {
    let mut linker = Linker::new(engine);
    requests(&mut linker)?;
    responses(&mut linker)?;
    wasi(&mut linker)?;
    Ok(linker)
}

/// The functions for requests: to the guest and from the guest.
fn requests(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        HOST_NAMESPACE,
        wapc_functions::GUEST_REQUEST_FN,
        |mut caller: Caller<'_, Host>, operation: i32, payload: i32| {
            let Some(asked) = caller.data().get_guest_request() else { return Ok(()) };
            write(&mut caller, operation, asked.operation.as_bytes())?;
            write(&mut caller, payload, &asked.msg)
        },
    )?;
    linker.func_wrap(
        HOST_NAMESPACE,
        wapc_functions::HOST_CALL,
        |caller: Caller<'_, Host>,
         binding: i32,
         binding_length: i32,
         namespace: i32,
         namespace_length: i32,
         operation: i32,
         operation_length: i32,
         payload: i32,
         payload_length: i32| {
            let binding = text(&caller, binding, binding_length)?;
            let namespace = text(&caller, namespace, namespace_length)?;
            let operation = text(&caller, operation, operation_length)?;
            let payload = read(&caller, payload, payload_length)?;
            let answered = caller.data().do_host_call(&binding, &namespace, &operation, &payload);
            answered.map_err(|error| Error::new(error.to_string()))
        },
    )?;
    linker.func_wrap(
        HOST_NAMESPACE,
        wapc_functions::HOST_CONSOLE_LOG,
        |caller: Caller<'_, Host>, message: i32, length: i32| {
            caller.data().do_console_log(&text(&caller, message, length)?);
            Ok::<_, Error>(())
        },
    )?;
    Ok(())
}

/// The functions for responses: from the guest and to the guest.
fn responses(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        HOST_NAMESPACE,
        wapc_functions::GUEST_RESPONSE_FN,
        |caller: Caller<'_, Host>, response: i32, length: i32| {
            caller.data().set_guest_response(read(&caller, response, length)?);
            Ok::<_, Error>(())
        },
    )?;
    linker.func_wrap(
        HOST_NAMESPACE,
        wapc_functions::GUEST_ERROR_FN,
        |caller: Caller<'_, Host>, error: i32, length: i32| {
            caller.data().set_guest_error(text(&caller, error, length)?);
            Ok::<_, Error>(())
        },
    )?;
    linker.func_wrap(HOST_NAMESPACE, wapc_functions::HOST_RESPONSE_LEN_FN, |caller: Caller<'_, Host>| {
        length(caller.data().host_response_len())
    })?;
    linker.func_wrap(
        HOST_NAMESPACE,
        wapc_functions::HOST_RESPONSE_FN,
        |mut caller: Caller<'_, Host>, place: i32| {
            let host = Arc::clone(caller.data());
            host.with_host_response(|response| write(&mut caller, place, response)).unwrap_or(Ok(()))
        },
    )?;
    linker.func_wrap(HOST_NAMESPACE, wapc_functions::HOST_ERROR_LEN_FN, |caller: Caller<'_, Host>| {
        length(caller.data().get_host_error().unwrap_or_default().len())
    })?;
    linker.func_wrap(HOST_NAMESPACE, wapc_functions::HOST_ERROR_FN, |mut caller: Caller<'_, Host>, place: i32| {
        let error = caller.data().get_host_error().unwrap_or_default();
        write(&mut caller, place, error.as_bytes())
    })?;
    Ok(())
}

/// A clock, random numbers, standard error, and an empty environment.
fn wasi(linker: &mut Linker<Host>) -> Result<(), Error> {
    linker.func_wrap(
        WASI,
        "clock_time_get",
        |mut caller: Caller<'_, Host>, _clock: i32, _precision: i64, place: i32| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let now = u64::try_from(now).unwrap_or(u64::MAX);
            write(&mut caller, place, &now.to_le_bytes()).map(|()| SUCCESS)
        },
    )?;
    // Random numbers seed the guest's hash maps.
    linker.func_wrap(WASI, "random_get", |mut caller: Caller<'_, Host>, place: i32, length: i32| {
        let length = usize::try_from(length).unwrap_or_default();
        let words = std::iter::repeat_with(|| RandomState::new().hash_one(length).to_le_bytes());
        let bytes: Vec<u8> = words.take(length.div_ceil(8)).flatten().take(length).collect();
        write(&mut caller, place, &bytes).map(|()| SUCCESS)
    })?;
    linker.func_wrap(WASI, "environ_sizes_get", |mut caller: Caller<'_, Host>, count: i32, size: i32| {
        write(&mut caller, count, &[0; 4])?;
        write(&mut caller, size, &[0; 4]).map(|()| SUCCESS)
    })?;
    linker.func_wrap(WASI, "environ_get", |_: Caller<'_, Host>, _pointers: i32, _texts: i32| SUCCESS)?;
    linker.func_wrap(WASI, "proc_exit", |_: Caller<'_, Host>, status: i32| Err::<(), _>(Error::i32_exit(status)))?;
    linker.func_wrap(
        WASI,
        "fd_write",
        |mut caller: Caller<'_, Host>, file: i32, parts: i32, count: i32, written: i32| {
            if ![1, 2].contains(&file) {
                return Ok(BAD_FILE);
            }
            let mut whole = 0;
            // Each part is a pointer and a length.
            for part in read(&caller, parts, count.saturating_mul(8))?.chunks_exact(8) {
                let number = |bytes: &[u8]| bytes.try_into().map(i32::from_le_bytes).unwrap_or_default();
                let (pointer, length) = part.split_at(4);
                let bytes = read(&caller, number(pointer), number(length))?;
                eprint!("{}", String::from_utf8_lossy(&bytes));
                whole += bytes.len();
            }
            write(&mut caller, written, &length(whole)?.to_le_bytes()).map(|()| SUCCESS)
        },
    )?;
    Ok(())
}

fn memory(caller: &Caller<'_, Host>) -> Result<Memory, Error> {
    caller.get_export("memory").and_then(Extern::into_memory).ok_or_else(|| Error::new("the guest exports no memory"))
}

/// Copies part of the guest's memory. A length beyond the memory is refused before anything is allocated.
fn read(caller: &Caller<'_, Host>, pointer: i32, length: i32) -> Result<Vec<u8>, Error> {
    let from = pointer.cast_unsigned() as usize;
    let to = from.saturating_add(length.cast_unsigned() as usize);
    let part = memory(caller)?.data(caller).get(from..to).map(<[u8]>::to_vec);
    part.ok_or_else(|| Error::new("the guest's pointer is outside its memory"))
}

fn text(caller: &Caller<'_, Host>, pointer: i32, length: i32) -> Result<String, Error> {
    String::from_utf8(read(caller, pointer, length)?).map_err(|error| Error::new(error.to_string()))
}

fn write(caller: &mut Caller<'_, Host>, pointer: i32, bytes: &[u8]) -> Result<(), Error> {
    let memory = memory(caller)?;
    memory.write(caller, pointer.cast_unsigned() as usize, bytes).map_err(|error| Error::new(error.to_string()))
}

fn length(length: usize) -> Result<i32, Error> {
    i32::try_from(length).map_err(|error| Error::new(error.to_string()))
}
