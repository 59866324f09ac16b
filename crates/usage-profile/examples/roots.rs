//! Prints `deploy/roots.yaml`.

use headroom_usage_profile::definition::EmptyRoots;

fn main() {
    print!("{EmptyRoots}");
}
