//! Prints `deploy/crd.yaml`.

use headroom_advice::profile::definition::CustomResourceDefinition;

fn main() {
    print!("{CustomResourceDefinition}");
}
