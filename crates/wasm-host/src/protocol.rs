//! The host's side of one guest call, without an engine: the functions of waPC and of WASI preview 1 that a policy imports.
//!
//! Of WASI it has what Rust's standard library always imports: a clock, random numbers, standard output and error, and an
//! empty environment. An engine links the functions with `link_imports!` and lends them the guest's memory.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone)]
pub struct GuestCall {
    pub operation: String,
    pub payload: Vec<u8>,
}

impl GuestCall {
    pub fn new(operation: &str, payload: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { operation: operation.to_owned(), payload })
    }
}

/// A call of the guest to the host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCall {
    pub binding: String,
    pub namespace: String,
    pub operation: String,
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone)]
pub struct Exchange {
    pub call: HostCall,
    pub answer: Result<Vec<u8>, String>,
}

/// Answers the guest's host calls.
pub type Answer = Box<dyn FnMut(HostCall) -> Result<Vec<u8>, String> + Send>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Random {
    /// As in a cluster.
    Fresh,
    /// The same in every run: they seed the guest's hash maps, and so the number of its instructions.
    Fixed,
}

/// Functions that an engine runs before the first call, if the guest exports it, and the call itself.
pub const STARTERS: [&str; 2] = ["_start", "wapc_init"];
pub const GUEST_CALL: &str = "__guest_call";
pub const NO_MEMORY: &str = "the guest exports no memory";

/// WASI's errno for success, and for a bad file descriptor.
const SUCCESS: i32 = 0;
const BAD_FILE: i32 = 8;

pub struct Side {
    call: Arc<GuestCall>,
    answer: Answer,
    random: Random,
    host_answer: Result<Vec<u8>, String>,
    guest_response: Option<Vec<u8>>,
    guest_error: Option<String>,
}

impl Side {
    pub fn new(call: Arc<GuestCall>, answer: Answer, random: Random) -> Self {
        Self { call, answer, random, host_answer: Ok(Vec::new()), guest_response: None, guest_error: None }
    }

    /// The parameters of [`GUEST_CALL`]: the lengths of the operation and of the payload.
    pub fn lengths(&self) -> Result<(i32, i32), String> {
        Ok((length(self.call.operation.len())?, length(self.call.payload.len())?))
    }

    /// The guest's response. `returned` is what [`GUEST_CALL`] returned, or why it trapped. Errors have the texts of waPC.
    pub fn response(self, returned: Result<i32, String>) -> Result<Vec<u8>, String> {
        let response = match (returned, self.guest_response, self.guest_error) {
            (Err(trap), ..) => Err(trap),
            (Ok(1..), Some(response), _) => Ok(response),
            (_, _, Some(error)) => Err(error),
            (Ok(0), ..) => Err("No error message set for call failure".to_owned()),
            (Ok(_), ..) => Err("No error message OR response set for call success".to_owned()),
        };
        response.map_err(|error| format!("Guest call failure: {error}"))
    }

    pub(crate) fn guest_request(&mut self, memory: &mut [u8], operation: i32, payload: i32) -> Result<(), String> {
        write(memory, operation, self.call.operation.as_bytes())?;
        write(memory, payload, &self.call.payload)
    }

    pub(crate) fn guest_response(&mut self, memory: &mut [u8], pointer: i32, length: i32) -> Result<(), String> {
        self.guest_response = Some(read(memory, pointer, length)?.to_vec());
        Ok(())
    }

    pub(crate) fn guest_error(&mut self, memory: &mut [u8], pointer: i32, length: i32) -> Result<(), String> {
        self.guest_error = Some(text(memory, pointer, length)?);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "waPC passes four texts as pointers and lengths")]
    pub(crate) fn host_call(
        &mut self,
        memory: &mut [u8],
        binding: i32,
        binding_length: i32,
        namespace: i32,
        namespace_length: i32,
        operation: i32,
        operation_length: i32,
        payload: i32,
        payload_length: i32,
    ) -> Result<i32, String> {
        self.host_answer = (self.answer)(HostCall {
            binding: text(memory, binding, binding_length)?,
            namespace: text(memory, namespace, namespace_length)?,
            operation: text(memory, operation, operation_length)?,
            payload: read(memory, payload, payload_length)?.to_vec(),
        });
        Ok(i32::from(self.host_answer.is_ok()))
    }

    pub(crate) fn host_response_len(&mut self, _: &mut [u8]) -> Result<i32, String> {
        length(self.host_response_bytes().len())
    }

    pub(crate) fn host_response(&mut self, memory: &mut [u8], pointer: i32) -> Result<(), String> {
        write(memory, pointer, self.host_response_bytes())
    }

    pub(crate) fn host_error_len(&mut self, _: &mut [u8]) -> Result<i32, String> {
        length(self.host_error_text().len())
    }

    pub(crate) fn host_error(&mut self, memory: &mut [u8], pointer: i32) -> Result<(), String> {
        write(memory, pointer, self.host_error_text().as_bytes())
    }

    pub(crate) fn console_log(&mut self, memory: &mut [u8], pointer: i32, length: i32) -> Result<(), String> {
        eprintln!("{}", text(memory, pointer, length)?);
        Ok(())
    }

    pub(crate) fn clock_time_get(
        &mut self,
        memory: &mut [u8],
        _clock: i32,
        _precision: i64,
        time: i32,
    ) -> Result<i32, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        write(memory, time, &u64::try_from(now).unwrap_or(u64::MAX).to_le_bytes())?;
        Ok(SUCCESS)
    }

    pub(crate) fn random_get(&mut self, memory: &mut [u8], pointer: i32, length: i32) -> Result<i32, String> {
        let bytes = memory.get_mut(range(pointer, length.cast_unsigned() as usize)).ok_or(OUTSIDE)?;
        for bytes in bytes.chunks_mut(8) {
            let number = match self.random {
                Random::Fresh => RandomState::new().hash_one(length),
                Random::Fixed => 7,
            };
            for (byte, random) in bytes.iter_mut().zip(number.to_le_bytes()) {
                *byte = random;
            }
        }
        Ok(SUCCESS)
    }

    pub(crate) fn environ_sizes_get(&mut self, memory: &mut [u8], count: i32, size: i32) -> Result<i32, String> {
        write(memory, count, &[0; 4])?;
        write(memory, size, &[0; 4])?;
        Ok(SUCCESS)
    }

    pub(crate) fn environ_get(&mut self, _: &mut [u8], _pointers: i32, _texts: i32) -> Result<i32, String> {
        Ok(SUCCESS)
    }

    pub(crate) fn proc_exit(&mut self, _: &mut [u8], status: i32) -> Result<(), String> {
        Err(format!("Exited with i32 exit status {status}"))
    }

    pub(crate) fn fd_write(
        &mut self,
        memory: &mut [u8],
        file: i32,
        parts: i32,
        count: i32,
        written: i32,
    ) -> Result<i32, String> {
        if ![1, 2].contains(&file) {
            return Ok(BAD_FILE);
        }
        let mut whole = 0;
        // Each part is a pointer and a length.
        for part in read(memory, parts, count.saturating_mul(8))?.chunks_exact(8) {
            let number = |bytes: &[u8]| bytes.try_into().map(i32::from_le_bytes).unwrap_or_default();
            let (pointer, length) = part.split_at(4);
            let bytes = read(memory, number(pointer), number(length))?;
            eprint!("{}", String::from_utf8_lossy(bytes));
            whole += bytes.len();
        }
        write(memory, written, &length(whole)?.to_le_bytes())?;
        Ok(SUCCESS)
    }

    fn host_response_bytes(&self) -> &[u8] {
        self.host_answer.as_deref().unwrap_or_default()
    }

    fn host_error_text(&self) -> &str {
        self.host_answer.as_ref().err().map_or("", String::as_str)
    }
}

/// Links the imported functions. Every engine has its own `Caller`, which must be in scope, and an `enter` that borrows from it
/// the host's side and the guest's memory.
macro_rules! link_imports {
    ($linker:ident) => {
        link_imports!($linker, "wapc":
            "__guest_request" guest_request(operation: i32, payload: i32)
            "__guest_response" guest_response(pointer: i32, length: i32)
            "__guest_error" guest_error(pointer: i32, length: i32)
            "__host_call" host_call(
                binding: i32, binding_length: i32, namespace: i32, namespace_length: i32,
                operation: i32, operation_length: i32, payload: i32, payload_length: i32
            )
            "__host_response_len" host_response_len()
            "__host_response" host_response(pointer: i32)
            "__host_error_len" host_error_len()
            "__host_error" host_error(pointer: i32)
            "__console_log" console_log(pointer: i32, length: i32)
        );
        link_imports!($linker, "wasi_snapshot_preview1":
            "clock_time_get" clock_time_get(clock: i32, precision: i64, time: i32)
            "random_get" random_get(pointer: i32, length: i32)
            "environ_sizes_get" environ_sizes_get(count: i32, size: i32)
            "environ_get" environ_get(pointers: i32, texts: i32)
            "proc_exit" proc_exit(status: i32)
            "fd_write" fd_write(file: i32, parts: i32, count: i32, written: i32)
        );
    };
    ($linker:ident, $module:literal: $($name:literal $method:ident($($parameter:ident: $type:ty),*))*) => {$(
        $linker.func_wrap($module, $name, |mut caller: Caller<'_, Side> $(, $parameter: $type)*| {
            enter(&mut caller, |side, memory| side.$method(memory $(, $parameter)*))
        })?;
    )*};
}
pub(crate) use link_imports;

/// Part of the guest's memory. A pointer or length beyond it is refused before anything is allocated.
fn read(memory: &[u8], pointer: i32, length: i32) -> Result<&[u8], String> {
    memory.get(range(pointer, length.cast_unsigned() as usize)).ok_or_else(|| OUTSIDE.to_owned())
}

const OUTSIDE: &str = "the guest's pointer is outside its memory";

fn range(pointer: i32, length: usize) -> std::ops::Range<usize> {
    let from = pointer.cast_unsigned() as usize;
    from..from.saturating_add(length)
}

fn text(memory: &[u8], pointer: i32, length: i32) -> Result<String, String> {
    String::from_utf8(read(memory, pointer, length)?.to_vec()).map_err(|error| error.to_string())
}

fn write(memory: &mut [u8], pointer: i32, bytes: &[u8]) -> Result<(), String> {
    memory.get_mut(range(pointer, bytes.len())).ok_or(OUTSIDE)?.copy_from_slice(bytes);
    Ok(())
}

fn length(length: usize) -> Result<i32, String> {
    i32::try_from(length).map_err(|error| error.to_string())
}
