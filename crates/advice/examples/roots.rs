//! Prints `deploy/roots.yaml`.

use headroom_advice::profile::definition::EmptyRoots;

fn main() {
    print!("{EmptyRoots}");
}
