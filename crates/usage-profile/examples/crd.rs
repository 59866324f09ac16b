//! Prints `deploy/crd.yaml`.

use headroom_usage_profile::definition::CustomResourceDefinition;

fn main() {
    print!("{CustomResourceDefinition}");
}
