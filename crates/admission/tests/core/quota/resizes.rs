//! Whatever is resized in whatever order: what nodes allocate stays within the quota.

mod world;

use proptest::prelude::*;
use world::Step;

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..2_usize;
    prop_oneof![
        3 => (pod.clone(), 0..6_u32, prop::sample::select(vec![1, 9])).prop_map(|(pod, cpu, memory)| Step::Resize { pod, cpu, memory }),
        1 => pod.clone().prop_map(Step::ChangeImage),
        3 => pod.prop_map(Step::Sync),
        2 => Just(Step::Recount),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_sequence_of_resizes_passes_a_bound(steps in prop::collection::vec(step(), 1..24)) {
        world::run(&steps);
    }
}
