//! Whole reviews as text: request, settings and the host's answers, all of them hostile.

#![no_main]

use headroom_admission::json::Document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = Document::read_bytes(bytes) else { return };
    let part = |name| document.root().get(name).ok().flatten();
    let (Some(request), Some(settings), Some(cluster)) = (part("request"), part("settings"), part("cluster")) else {
        return;
    };
    headroom_fuzz::check_request(request.text(), settings, cluster);
});
