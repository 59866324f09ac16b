//! Prints the CustomResourceDefinition of UsageProfiles, for `cargo xtask codegen`.

use headroom_usage_profile::definition::CustomResourceDefinition;

fn main() {
    print!("{CustomResourceDefinition}");
}
