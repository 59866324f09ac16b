//! Long paths through the model of the ledger, in scenarios that the bytes make: creates and updates of three keys below a
//! tree of two quotas, with crashes, lost responses, deletions, spares, and leaders that see the cluster late.

#![no_main]

use headroom_quota_protocol::model::{Flaw, Model, Scenario, Verb, scenario};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let Ok(scenario) = choose_scenario(&mut bytes) else { return };
    let mut model = Model::new(&scenario, Flaw::None);
    let (mut world, mut path) = (model.start(), Vec::new());
    while !bytes.is_empty() {
        if let Some(problem) = model.violation(&world) {
            panic!("{problem} in {scenario:?}\n    {}", path.join("\n    "));
        }
        let mut next = model.next(&world);
        let Ok(chosen) = bytes.choose_index(next.len()) else { return };
        let (step, after) = next.swap_remove(chosen);
        path.push(step.to_string());
        world = after;
    }
});

/// The model numbers requests by bits of 16.
const MAX_REQUESTS: usize = 14;

fn choose_scenario(bytes: &mut Unstructured<'_>) -> Result<Scenario> {
    let mut requests = Vec::new();
    for _ in 0..bytes.int_in_range(1..=MAX_REQUESTS)? {
        let verb = if bytes.arbitrary()? { Verb::Create } else { Verb::Update };
        requests.push((verb, bytes.choose_index(3)?, bytes.int_in_range(1..=3)?));
    }
    let objects = [bytes.int_in_range(0..=2)?, bytes.int_in_range(0..=1)?, 0];
    Ok(Scenario {
        hard: vec![vec![5, 3]],
        parents: vec![vec![None, Some(0)]],
        places: vec![vec![(0, 1)], vec![(0, 1)], vec![(0, 0)]],
        deletes: vec![0, 1, 2],
        terms: 4,
        deliveries: vec![2; requests.len()],
        lost: bytes.arbitrary()?,
        max_entries: bytes.int_in_range(1..=4)?,
        spare: if bytes.arbitrary()? { Some((2, 1)) } else { None },
        lagging: bytes.arbitrary()?,
        ..scenario("fuzz", 0, &objects, &requests)
    })
}
