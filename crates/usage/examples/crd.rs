//! Prints the CustomResourceDefinition of UsageProfiles, for `cargo xtask codegen`.

use headroom_usage::profile::custom_resource::definition;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("# Made from crates/usage/src/profile/custom_resource.rs by `cargo xtask codegen`.");
    print!("{}", serde_saphyr::to_string(&definition()?)?);
    Ok(())
}
