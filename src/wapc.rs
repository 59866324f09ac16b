//! The waPC protocol: the only file with the functions that the host calls, and with calls to the host.
//!
//! It is written by hand, because the usual crate keeps its handlers in a map behind a lock: that took 24 KB, and 2,000
//! to 4,000 fuel of every request (`make bench`).

#![expect(unsafe_code, reason = "the host's functions take addresses, and it finds ours by their unmangled names")]

#[link(wasm_import_module = "wapc")]
unsafe extern "C" {
    fn __guest_request(operation: *mut u8, payload: *mut u8);
    fn __guest_response(bytes: *const u8, length: usize);
    fn __guest_error(bytes: *const u8, length: usize);
    fn __host_call(
        binding: *const u8,
        binding_length: usize,
        namespace: *const u8,
        namespace_length: usize,
        operation: *const u8,
        operation_length: usize,
        payload: *const u8,
        payload_length: usize,
    ) -> usize;
    fn __host_response_len() -> usize;
    fn __host_response(bytes: *mut u8);
    fn __host_error_len() -> usize;
    fn __host_error(bytes: *mut u8);
}

/// Called in each fresh instance. Nothing needs to be prepared.
#[unsafe(no_mangle)]
extern "C" fn wapc_init() {}

/// Called with an operation and its payload; returns whether there was an answer.
#[unsafe(no_mangle)]
extern "C" fn __guest_call(operation_length: usize, payload_length: usize) -> usize {
    let mut payload = Vec::new();
    // SAFETY: the host writes as many bytes as it announced.
    let operation = unsafe {
        written(operation_length, |operation| {
            payload = written(payload_length, |payload| __guest_request(operation, payload));
        })
    };
    match crate::answer(&operation, &payload, &mut kubernetes) {
        Some(answer) => {
            // SAFETY: the host copies the bytes before it returns.
            unsafe { __guest_response(answer.as_ptr(), answer.len()) };
            1
        }
        None => {
            let problem = [b"there is no operation ", operation.as_slice()].concat();
            // SAFETY: as above.
            unsafe { __guest_error(problem.as_ptr(), problem.len()) };
            0
        }
    }
}

/// Calls the host's namespace `kubernetes`; the error is the host's own text.
fn kubernetes(operation: &str, payload: &[u8]) -> Result<Vec<u8>, String> {
    const BINDING: &str = "kubewarden";
    const NAMESPACE: &str = "kubernetes";
    // SAFETY: the host reads the bytes before it returns.
    let is_answered = unsafe {
        __host_call(
            BINDING.as_ptr(),
            BINDING.len(),
            NAMESPACE.as_ptr(),
            NAMESPACE.len(),
            operation.as_ptr(),
            operation.len(),
            payload.as_ptr(),
            payload.len(),
        )
    } == 1;
    // SAFETY: the host writes as many bytes as it announces.
    if is_answered {
        return Ok(unsafe { written(__host_response_len(), |bytes| __host_response(bytes)) });
    }
    let error = unsafe { written(__host_error_len(), |bytes| __host_error(bytes)) };
    let error = String::from_utf8_lossy(&error);
    // The layer between us and the API server adds its own prefix; only the cause matters to people.
    Err(error.strip_prefix("Callback evaluation failure: ").unwrap_or(&error).to_owned())
}

/// A buffer of this length, filled by `write` at the given address. It is not zeroed first, because that would cost as
/// much as reading the bytes.
///
/// # Safety
///
/// `write` must write all bytes.
unsafe fn written(length: usize, write: impl FnOnce(*mut u8)) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length);
    write(bytes.as_mut_ptr());
    // SAFETY: there is room for the bytes, and they were written.
    unsafe { bytes.set_len(length) };
    bytes
}
