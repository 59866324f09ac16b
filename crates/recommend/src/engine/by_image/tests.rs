//! Sizes held against the pods that come next, in seeded fleets of short-lived pods.

use std::fmt::Write as _;

use expect_test::expect;
use fastrand::Rng;
use headroom_usage::sketch::Sketch;

use super::*;

const MEBIBYTE: u64 = 1 << 20;
/// Millicores and mebibytes of a node, as a cloud's with 16 cores and 64 GiB leaves them to pods.
const NODE: (u64, u64) = (15_800, 60_000);
const AT_ONCE: usize = 300;
const PAST: usize = 200;
const NEXT: usize = 2_000;

/// Millicores and mebibytes of a pod in each minute of its life.
type Life = Vec<(u64, u64)>;

/// Around a median, by the exponential of a normal distribution.
fn around(random: &mut Rng, median: f64, spread: f64) -> f64 {
    let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    median * (spread * normal).exp()
}

/// An agent waits for its model and its user, and now and then runs a tool, a build or a browser.
fn sandbox(random: &mut Rng) -> Life {
    let idle = around(random, 220.0, 0.15);
    let mut left = (0, 0.0);
    let minute = |_| {
        if left.0 == 0 && random.f64() < 0.06 {
            left = (random.usize(1..6), around(random, 700.0, 0.55));
        }
        let is_busy = left.0 > 0;
        left.0 = left.0.saturating_sub(1);
        let (cpu, memory) =
            if is_busy { (around(random, 900.0, 0.4), left.1) } else { (around(random, 8.0, 0.3), 0.0) };
        (cpu as u64, (idle + memory) as u64)
    };
    (0..90).map(minute).collect()
}

/// A runner fetches, compiles with all cores, and tests: more and more memory until the end.
fn runner(random: &mut Rng) -> Life {
    let (minutes, peak, cpu) = (random.usize(4..25), around(random, 1_800.0, 0.45), around(random, 1_600.0, 0.3));
    let minute = |minute: usize| {
        let part = ((minute + 1) as f64 / minutes as f64).min(1.0);
        let cpu = if part < 0.2 { cpu / 8.0 } else { cpu };
        (cpu as u64, (150.0 + peak * part.powf(1.5)) as u64)
    };
    (0..minutes).map(minute).collect()
}

/// A notebook holds what was loaded, and computes for some minutes an hour.
fn notebook(random: &mut Rng) -> Life {
    let (mut held, mut busy) = (around(random, 350.0, 0.2), 0);
    let minute = |_| {
        if busy == 0 && random.f64() < 0.03 {
            busy = random.usize(2..12);
            held += around(random, 260.0, 0.9);
        }
        busy = usize::saturating_sub(busy, 1);
        let cpu = if busy > 0 { around(random, 1_100.0, 0.4) } else { 6.0 };
        (cpu as u64, (held * if busy > 0 { 1.4 } else { 1.0 }) as u64)
    };
    (0..240).map(minute).collect()
}

/// Millicores and mebibytes to request, and the memory limit.
#[derive(Clone, Copy)]
struct Size(u64, u64, u64);

fn distributions(lives: &[Life]) -> [Distribution; 2] {
    let (mut cpu, mut memory) = (Sketch::default(), Sketch::default());
    for (millicores, mebibytes) in lives.iter().flatten() {
        cpu.add(millicores * 1_000_000, 60);
        memory.add(mebibytes * MEBIBYTE, 60);
    }
    [(cpu, Resource::Cpu), (memory, Resource::Memory)]
        .map(|(sketch, resource)| Distribution::of_sketch(&sketch, resource).unwrap())
}

fn ours(lives: &[Life]) -> Size {
    let [cpu, memory] = distributions(lives);
    let usage =
        UsageOfImage { pods: PAST as u64, cpu: Some(&cpu), memory: Some(&memory), storage: None, killed_at: None };
    let Resources { requests, limits } = SizeByImage::of(usage, None).unwrap().resources;
    let mebibytes = |amount: Option<Quantity>| amount.unwrap().value() as u64 / MEBIBYTE;
    Size(requests.cpu.unwrap().milli_value() as u64, mebibytes(requests.memory), mebibytes(limits.memory))
}

/// The 95th percentile of CPU, and an amount of memory as request and limit, of which so many percent are taken.
fn by_peak(lives: &[Life], of_memory: fn(&Distribution) -> &Quantity, percent: u64) -> Size {
    let [cpu, memory] = distributions(lives);
    let memory = of_memory(&memory).value() as u64 / MEBIBYTE * percent / 100;
    Size(cpu.percentile(950).unwrap().milli_value() as u64, memory, memory)
}

#[derive(Default)]
struct Outcome {
    killed_by_limit: u64,
    killed_by_node: u64,
    slowed_minutes: u64,
    busy_minutes: u64,
    nodes: usize,
    requested: u64,
    used: u64,
}

/// Runs pods, so many at once, each on the first node with room for its requests. What is above its limit is killed, and on a node
/// without memory the pod that is farthest above its request.
fn run(lives: &[Life], Size(cpu, memory, limit): Size, random: &mut Rng) -> Outcome {
    let mut outcome = Outcome::default();
    let most = (NODE.0 / cpu.max(1)).min(NODE.1 / memory.max(1)).clamp(1, 110) as usize;
    let mut waiting = lives.iter();
    let mut nodes: Vec<Vec<(&Life, usize)>> = Vec::new();
    for minute in 0.. {
        for node in &mut nodes {
            node.iter_mut().for_each(|(_, at)| *at += 1);
            node.retain(|(life, at)| *at < life.len());
        }
        let running = nodes.iter().map(Vec::len).sum::<usize>();
        let starting = if minute < 60 { AT_ONCE / 60 * (minute + 1) } else { AT_ONCE }.saturating_sub(running);
        for life in waiting.by_ref().take(starting) {
            let at = nodes.iter().position(|node| node.len() < most).unwrap_or_else(|| {
                nodes.push(Vec::new());
                nodes.len() - 1
            });
            // The first were there before.
            nodes[at].push((life, if minute == 0 { random.usize(..life.len()) } else { 0 }));
        }
        outcome.nodes = outcome.nodes.max(nodes.iter().filter(|node| !node.is_empty()).count());
        for node in &mut nodes {
            let before = node.len();
            node.retain(|(life, at)| life[*at].1 <= limit);
            outcome.killed_by_limit += (before - node.len()) as u64;
            while node.iter().map(|(life, at)| life[*at].1).sum::<u64>() > NODE.1 {
                let above = |(life, at): &(&Life, usize)| life[*at].1.saturating_sub(memory);
                let worst = (0..node.len()).max_by_key(|place| above(&node[*place])).unwrap();
                node.remove(worst);
                outcome.killed_by_node += 1;
            }
            let wanted = node.iter().map(|(life, at)| life[*at].0).sum::<u64>();
            outcome.busy_minutes += u64::from(!node.is_empty());
            outcome.slowed_minutes += u64::from(wanted > NODE.0);
            outcome.requested += memory * node.len() as u64;
            outcome.used += node.iter().map(|(life, at)| life[*at].1).sum::<u64>();
        }
        if minute > 60 && waiting.len() == 0 {
            return outcome;
        }
    }
    outcome
}

/// The table of `docs/src/tasks/agents-and-runners.md`.
#[test]
fn pods_that_come_next_are_killed_seldom_and_need_few_nodes() {
    type Fleet = fn(&mut Rng) -> Life;
    type Rule = fn(&[Life]) -> Size;
    let fleets: [(&str, Fleet); 3] = [("sandbox", sandbox), ("runner", runner), ("notebook", notebook)];
    let rules: [(&str, Rule); 5] = [
        ("recommend image", ours),
        ("1 core, 2Gi", |_| Size(1_000, 2_048, 2_048)),
        ("2 cores, 8Gi", |_| Size(2_000, 8_192, 8_192)),
        ("p95", |lives| by_peak(lives, |memory| memory.percentile(950).unwrap(), 100)),
        ("peak + 15%", |lives| by_peak(lives, Distribution::peak, 115)),
    ];
    let mut table = String::new();
    for (fleet, life) in fleets {
        let mut random = Rng::with_seed(7);
        let past: Vec<Life> = (0..PAST).map(|_| life(&mut random)).collect();
        let next: Vec<Life> = (0..NEXT).map(|_| life(&mut random)).collect();
        for (name, rule) in rules {
            let size = rule(&past);
            let outcome = run(&next, size, &mut Rng::with_seed(1));
            let _ = writeln!(
                table,
                "{fleet:9} {name:17} {:4}m {:5}Mi limit {:5}Mi: killed {:4} by limit {:4} by node, {:3} nodes, {:2}% of minutes slowed, {:3}% of the request used",
                size.0,
                size.1,
                size.2,
                outcome.killed_by_limit,
                outcome.killed_by_node,
                outcome.nodes,
                outcome.slowed_minutes * 100 / outcome.busy_minutes,
                outcome.used * 100 / outcome.requested.max(1)
            );
        }
    }
    expect![[r#"
        sandbox   recommend image    305m   688Mi limit  4815Mi: killed    0 by limit    0 by node,   6 nodes,  0% of minutes slowed,  51% of the request used
        sandbox   1 core, 2Gi       1000m  2048Mi limit  2048Mi: killed  343 by limit    0 by node,  20 nodes,  0% of minutes slowed,  16% of the request used
        sandbox   2 cores, 8Gi      2000m  8192Mi limit  8192Mi: killed    0 by limit    0 by node,  43 nodes,  0% of minutes slowed,   4% of the request used
        sandbox   p95               1062m  1096Mi limit  1096Mi: killed 1468 by limit    0 by node,  22 nodes,  0% of minutes slowed,  25% of the request used
        sandbox   peak + 15%        1062m  4613Mi limit  4613Mi: killed    1 by limit    0 by node,  24 nodes,  0% of minutes slowed,   7% of the request used
        runner    recommend image   1810m  1760Mi limit  8788Mi: killed    0 by limit    0 by node,  38 nodes,  1% of minutes slowed,  55% of the request used
        runner    1 core, 2Gi       1000m  2048Mi limit  2048Mi: killed  767 by limit    0 by node,  20 nodes, 92% of minutes slowed,  38% of the request used
        runner    2 cores, 8Gi      2000m  8192Mi limit  8192Mi: killed    0 by limit    0 by node,  43 nodes,  0% of minutes slowed,  11% of the request used
        runner    p95               2500m  2416Mi limit  2416Mi: killed  550 by limit    0 by node,  50 nodes,  0% of minutes slowed,  35% of the request used
        runner    peak + 15%        2500m  8421Mi limit  8421Mi: killed    0 by limit    0 by node,  50 nodes,  0% of minutes slowed,  11% of the request used
        notebook  recommend image    335m  2832Mi limit 12824Mi: killed    3 by limit   66 by node,  15 nodes,  0% of minutes slowed,  58% of the request used
        notebook  1 core, 2Gi       1000m  2048Mi limit  2048Mi: killed 1480 by limit    0 by node,  20 nodes,  0% of minutes slowed,  39% of the request used
        notebook  2 cores, 8Gi      2000m  8192Mi limit  8192Mi: killed   49 by limit    0 by node,  43 nodes,  0% of minutes slowed,  19% of the request used
        notebook  p95               1267m  3952Mi limit  3952Mi: killed  778 by limit    0 by node,  25 nodes,  0% of minutes slowed,  31% of the request used
        notebook  peak + 15%        1267m 12288Mi limit 12288Mi: killed    4 by limit    0 by node,  75 nodes,  0% of minutes slowed,  13% of the request used
    "#]].assert_eq(&table);
}
