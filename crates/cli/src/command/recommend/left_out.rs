//! Says what is left out of what is written or patched.

use headroom_output::complain;

/// So many changes that are left out are named.
const MAX_NAMED: usize = 20;

/// Names the changes that are left out on standard error.
pub fn warn(left_out: &[String]) {
    left_out.iter().take(MAX_NAMED).for_each(|text| complain!("warning: {text}"));
    if let Some(more) = left_out.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        complain!("warning: left out: {more} more, as `kubectl headroom recommend -o json` tells");
    }
}
