//! Hostile requests, and the budget for evaluating them.
//!
//! A user who may create an object can fill a request with anything, up to the API server's limit of 3 MB. The cost
//! must depend on the size alone. Every row is large enough to reveal a quadratic cost.

mod row;
mod rows;

use headroom_wasm_host::compiler::Measured;

use super::case::{Bench, Case, Cost, in_namespace};

/// The budget of any request, in addition to the budget for each byte.
const FUEL: u64 = 400_000;
const FUEL_PER_BYTE: u64 = 150;
const MEMORY: usize = 2 << 20;
const MEMORY_PER_BYTE: usize = 8;
/// The budget of shapes whose parts multiply: so much for the most pairs that are evaluated, or by size.
const FUEL_OF_PRODUCT: u64 = 300_000_000;
const FUEL_PER_BYTE_OF_PRODUCT: u64 = 3_000;
const MEMORY_OF_PRODUCT: usize = 64 << 20;
/// The most bytes of messages to a user, refusal and warnings together: longer texts are not read, and clients cut
/// them.
const MESSAGE_BYTES: usize = 16 << 10;
/// Where a row is stopped because its final cost does not matter: at this much per byte of the request, but not before
/// the budget of a request with large answers from the host.
const STOP_PER_BYTE: u64 = 1_000;
const STOP_AT_LEAST: u64 = 1_000_000_000;

pub fn budget() -> String {
    format!(
        "any request at most {FUEL} fuel and {FUEL_PER_BYTE} a byte, {} KiB of memory and {MEMORY_PER_BYTE} bytes a byte, messages of {} KiB; \
         where parts multiply {FUEL_OF_PRODUCT} fuel or {FUEL_PER_BYTE_OF_PRODUCT} a byte, and {} MiB",
        MEMORY / 1024,
        MESSAGE_BYTES / 1024,
        MEMORY_OF_PRODUCT >> 20
    )
}

/// Runs all rows. Returns the exceeded budgets.
pub fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let mut exceeded = Vec::new();
    for (places, is_product, per_byte) in
        [(rows::PLACES, false, STOP_PER_BYTE), (rows::PRODUCTS, true, FUEL_PER_BYTE_OF_PRODUCT)]
    {
        for (place, sizes, row) in places {
            for size in *sizes {
                // Made only when it is its turn, because some have megabytes.
                let (name, row) = (format!("{place}: {}", size.name()), row(*size));
                let case = Case { name, payload: row.payload(), cluster: in_namespace(row::NAMESPACE, row.objects) };
                let most_fuel = STOP_AT_LEAST.max(per_byte * case.payload.len() as u64);
                let cost = bench.run_within(most_fuel, &case)?;
                exceeded.extend(excess(&case.name, &cost, is_product));
            }
        }
    }
    Ok(exceeded)
}

fn excess(name: &str, cost: &Cost, is_product: bool) -> Vec<String> {
    let bytes = cost.bytes;
    let (most_fuel, most_memory) = match is_product {
        false => (FUEL + FUEL_PER_BYTE * bytes as u64, MEMORY + MEMORY_PER_BYTE * bytes),
        true => (FUEL_OF_PRODUCT.max(FUEL_PER_BYTE_OF_PRODUCT * bytes as u64), MEMORY_OF_PRODUCT),
    };
    let mut excess = Vec::new();
    let Measured { fuel, memory, out_of_fuel, response, .. } = &cost.measured;
    if *fuel > most_fuel {
        let at_least = if *out_of_fuel { "more than " } else { "" };
        let per_byte = cost.fuel_per_byte();
        excess.push(format!("{name}: takes {at_least}{fuel} fuel, {per_byte:.0} a byte; budget {most_fuel}"));
    }
    if *memory > most_memory {
        let per_byte = cost.memory_per_byte();
        excess.push(format!("{name}: takes {memory} bytes of memory, {per_byte:.1} a byte; budget {most_memory}"));
    }
    let (_, messages) = cost.verdict();
    if messages > MESSAGE_BYTES {
        excess.push(format!("{name}: messages of {messages} bytes; budget {MESSAGE_BYTES}"));
    }
    if let (Err(trap), false) = (response, *out_of_fuel) {
        excess.push(format!("{name}: {trap}"));
    }
    excess
}
