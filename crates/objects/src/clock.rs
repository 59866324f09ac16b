//! The clock of the machine, or of the browser; read here only.

/// Unix seconds. A clock before the epoch reads as the epoch.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub fn now() -> i64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Unix seconds. A clock before the epoch reads as the epoch.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
pub fn now() -> i64 {
    use wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = Date, js_name = now)]
        fn milliseconds() -> f64;
    }

    // OK because a cast from a float saturates, and no clock is far beyond 2^53 milliseconds.
    (milliseconds() / 1000.0).max(0.0) as i64
}
