//! Makes the JavaScript and the TypeScript declarations around a module of wasm: `headroom-playground-bind MODULE FOLDER`.
//!
//! It is the command `wasm-bindgen` without the parts that run tests in browsers, which bring a web server and an HTTP
//! client with them. Its version is pinned by the lock file beside it.

use std::env;
use std::path::PathBuf;

use anyhow::Context;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> anyhow::Result<()> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let (module, folder) = (arguments.next(), arguments.next());
    let (Some(module), Some(folder), None) = (module, folder, arguments.next()) else {
        anyhow::bail!("usage: headroom-playground-bind MODULE FOLDER");
    };
    Bindgen::new()
        .input_path(&module)
        .out_name("engine")
        .web(true)?
        .typescript(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(&folder)
        .with_context(|| format!("cannot make the JavaScript around `{}`", module.display()))
}
