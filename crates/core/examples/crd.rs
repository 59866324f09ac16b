//! Prints `deploy/crd.yaml`.

use headroom_core::context::usage::definition::CustomResourceDefinition;

fn main() {
    print!("{CustomResourceDefinition}");
}
