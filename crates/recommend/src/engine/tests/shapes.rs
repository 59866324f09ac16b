//! Shapes of use that single percentiles, peaks or days get wrong: what is recommended for each, and what is said of it.

use super::*;
use headroom_admission::recommend::NoRecommendation;
use headroom_usage::cardinality;

const HOUR: i64 = 60;
const DAY_IN_MINUTES: i64 = 24 * HOUR;
/// The minutes between two samples.
const STEP: i64 = 2;
const FORTNIGHT: i64 = 14 * DAY_IN_MINUTES;

/// Millicores and mebibytes in a minute, counted back from now.
type Use<'u> = &'u dyn Fn(i64) -> (u64, u64);

/// The histories of one container, as a store tells them.
#[derive(Default)]
struct Told {
    histories: Histories,
    pods: u32,
    version: Option<u32>,
    running: RunningPods,
}

impl Told {
    /// Adds a pod that ran until so many minutes ago, and was not seen where it used nothing.
    fn pod(mut self, (from, until): (i64, i64), of: Use<'_>) -> Self {
        let pod = cardinality::hash("shop", &self.pods.to_string());
        self.pods += 1;
        let now = NOW / 60;
        let day_of = |ago: i64| (now - ago).div_euclid(DAY_IN_MINUTES);
        let mut days: BTreeMap<u32, Observed> = BTreeMap::new();
        let mut hours: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
        for ago in (until + 1..=from).rev().step_by(STEP as usize) {
            let ((cpu, memory), age) = (of(ago), u32::try_from(day_of(1) - day_of(ago)).unwrap());
            if memory == 0 {
                continue;
            }
            let day = days.entry(age).or_default();
            day.pods.add(pod);
            day.add(Resource::Cpu, (now - ago) * 60, cpu * 1_000_000, 60 * STEP as u64);
            day.add(Resource::Memory, (now - ago) * 60, memory * MEBI, 60 * STEP as u64);
            let hour = (now - ago).div_euclid(HOUR) % 24;
            hours.entry((age, u32::try_from(hour).unwrap())).or_default().push(cpu * 1_000_000);
        }
        days.into_iter().for_each(|(age, day)| self.histories.observe_pod(0, "a", age, pod, &day));
        self.histories.of_first().course.pods.entry(pod).or_default().template = self.version;
        let all: Vec<u64> = hours.values().flatten().copied().collect();
        let mean = |amounts: &[u64]| amounts.iter().sum::<u64>() / amounts.len().max(1) as u64;
        for (age, hour) in hours.keys() {
            let course = &mut self.histories.of_first().course.pods.get_mut(&pod).unwrap();
            let last = day_of(1) * 24 + i64::from(hour + 1) - i64::from(age * 24);
            course.hours.add(last, 1 << (last % 24));
        }
        for (at, amounts) in hours.iter().filter(|(_, amounts)| mean(amounts) > 2 * mean(&all)) {
            self.histories.of_first().course.add_busy_hour(pod, *at, mean(amounts));
        }
        self
    }

    /// The advice for its container, and the flags.
    fn advised(&self, kind: &str, resources: &Value) -> (ContainerAdvice, String) {
        let mut entry = entry_of(kind, json!([{"name": "a", "image": "example.com/a:1", "resources": resources}]));
        entry.running = self.running.clone();
        let mut row = advised_from(Some(&self.histories), false, &entry, &mut around(&[]));
        let flags = row.flags(&row.containers[0]).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        (row.containers.remove(0), flags)
    }
}

fn minute_of_day(ago: i64) -> i64 {
    (NOW / 60 - ago).rem_euclid(DAY_IN_MINUTES)
}

/// True in some minutes from one of the day on, and again each so many minutes.
fn is_after(ago: i64, begin: i64, length: i64, every: i64) -> bool {
    (minute_of_day(ago) - begin).rem_euclid(every) < length
}

/// Minutes that lie up to so many days ago, from that hour of UTC on.
fn is_in(ago: i64, days_ago: i64, from_hour: i64, hours: i64) -> bool {
    let begin = NOW / 60 - minute_of_day(0) - days_ago * DAY_IN_MINUTES + from_hour * HOUR;
    (begin..begin + hours * HOUR).contains(&(NOW / 60 - ago))
}

/// `20m 350Mi nightly …` of a container with these resources.
fn row(told: &Told, kind: &str, resources: &Value) -> String {
    let (container, flags) = told.advised(kind, resources);
    assert!(!container.is_below_peak(), "{flags}");
    let amount = |resource| container.resource(resource).and_then(|of| of.recommended.as_ref());
    let shown = |resource| amount(resource).map_or_else(|| "-".to_owned(), ToString::to_string);
    format!("{} {} {flags}", shown(Resource::Cpu), shown(Resource::Memory))
}

#[test]
fn a_request_covers_what_recurs_and_most_pods_and_the_rest_is_said() {
    let requests = json!({"requests": {"cpu": "2", "memory": "2Gi"}});
    let mut found: Vec<String> = Vec::new();
    let mut add = |what: &str, kind: &str, told: Told| found.push(format!("{what}: {}", row(&told, kind, &requests)));
    let mut one = |what: &str, of: Use<'_>| add(what, "Deployment", Told::default().pod((FORTNIGHT, 0), of));
    one("a quarter of an hour each six hours", &|ago| (if minute_of_day(ago) % 360 < 15 { 2_000 } else { 20 }, 300));
    one("two hours each night", &|ago| (if minute_of_day(ago) < 120 { 1_900 } else { 100 }, 300));
    one("half an hour each night", &|ago| (if minute_of_day(ago) < 30 { 1_900 } else { 100 }, 300));
    let changed = |ago: i64| if ago > FORTNIGHT / 2 { 60 } else { 0 };
    one("an hour later before", &|ago| {
        (if is_after(ago, changed(ago), 60, DAY_IN_MINUTES) { 1_900 } else { 100 }, 300)
    });
    one("a load test", &|ago| if is_in(ago, 6, 9, 3) { (1_500, 6_200) } else { (300, 800) });
    one("an extraordinary day", &|ago| if is_in(ago, 1, 0, 24) { (2_000, 1_600) } else { (350, 400) });
    one("a day of each week", &|ago| {
        if is_in(ago, 1, 0, 24) || is_in(ago, 8, 0, 24) { (2_000, 1_600) } else { (350, 400) }
    });
    one("since yesterday", &|ago| if is_in(ago, 1, 0, 36) { (2_000, 1_600) } else { (350, 400) });
    one("until a week ago", &|ago| if ago > FORTNIGHT / 2 { (2_000, 1_600) } else { (350, 400) });
    let many = |count: i64, of: &dyn Fn(i64, i64) -> (u64, u64)| {
        (0..count).fold(Told::default(), |told, number| told.pod((FORTNIGHT, 0), &|ago| of(number, ago)))
    };
    add("a large shard", "StatefulSet", many(8, &|of, _| (200, if of == 3 { 8_192 } else { 1_024 })));
    add("a hot shard", "StatefulSet", many(8, &|of, _| (if of == 3 { 900 } else { 200 }, 1_024)));
    let leads = |of, ago| (ago / DAY_IN_MINUTES) % 5 == of;
    add("two hot shards", "StatefulSet", many(8, &|of, _| (if of < 2 { 900 } else { 200 }, 1_024)));
    let version = |number, told: Told| Told { version: Some(number), ..told };
    let old = (0..9).fold(version(1, Told::default()), |told, _| told.pod((FORTNIGHT, 0), &|_| (200, 500)));
    add("a canary", "Deployment", version(2, old).pod((26 * HOUR, 0), &|_| (200, 4_096)));
    let old = (0..3).fold(version(1, Told::default()), |told, _| told.pod((FORTNIGHT, 40), &|_| (200, 500)));
    let new = (0..3).fold(version(2, old), |told, _| told.pod((40, 0), &|_| (800, 500)));
    add("a release of 40 minutes", "Deployment", new);
    add("a moving leader", "StatefulSet", many(5, &|of, ago| if leads(of, ago) { (900, 900) } else { (200, 300) }));
    let pods = |count: i64, each: i64, length: i64, of: &dyn Fn(i64, i64) -> (u64, u64)| {
        (0..count).fold(Told::default(), |told, number| {
            let from = FORTNIGHT - number * each;
            told.pod((from, (from - length).max(0)), &|ago| of(number, from - ago))
        })
    };
    let start = |_, alive: i64| (if alive < 4 { 1_950 } else { 50 }, 700);
    add("a release each day", "Deployment", pods(14, DAY_IN_MINUTES, DAY_IN_MINUTES, &start));
    let mad = |number: i64, _| if number % 211 == 100 { (4_400, 7_900) } else { (330, 350) };
    add("one short pod in 211", "Deployment", pods(1_820, 11, 60, &mad));
    let large = |run: i64, _| (100, if run % 7 == 3 { 8_192 } else { 500 });
    add("two large runs of 14", "CronJob", pods(14, DAY_IN_MINUTES, 40, &large));
    let expected = "\
a quarter of an hour each six hours: 31m 346Mi 4 times a day 2.00 cores (at 00:00, 06:00, 12:00, 18:00 UTC)
two hours each night: 1910m 346Mi nightly 1.90 cores (at 00:00 UTC)
half an hour each night: 111m 346Mi nightly 1.90 cores (at 00:00 UTC)
an hour later before: 111m 346Mi nightly 1.90 cores (at 00:00 UTC)
a load test: 310m 896Mi once 1.50 cores on 2026-11-16; once 6.1 GiB on 2026-11-16
an extraordinary day: 360m 456Mi once 2.00 cores on 2026-11-21; once 1.6 GiB on 2026-11-21
a day of each week: 2010m 1776Mi weekly 2.00 cores (on Sat)
since yesterday: 2010m 1776Mi 
until a week ago: 2010m 1776Mi less since 2026-11-16 (0.35 cores); less since 2026-11-16 (400 MiB)
a large shard: 210m 1143Mi pods differ (8.0 GiB in 1 of 8, 1.0 GiB in others, not covered)
a hot shard: 910m 1143Mi pods differ (0.90 cores in 1 of 8, 0.20 cores in others)
two hot shards: 910m 1143Mi pods differ (0.90 cores in 2 of 8, 0.20 cores in others)
a canary: 210m 4522Mi pods differ (4.0 GiB in 1 of 10, 500 MiB in others)
a release of 40 minutes: - 566Mi 
a moving leader: 910m 1006Mi 
a release each day: 61m 786Mi at start 1.95 cores
one short pod in 211: 340m 401Mi pods differ (4.40 cores in 9 of 1820, 0.33 cores in others, not covered); pods differ (7.7 GiB in 9 of 1820, 350 MiB in others, not covered)
two large runs of 14: 110m 9028Mi 
";
    assert_eq!(found.join("\n"), expected.trim_end_matches('\n'));
}

#[test]
fn a_release_that_uses_more_than_is_requested_is_at_risk_on_the_next_day() {
    let containers =
        json!([{"name": "a", "image": "example.com/a:1", "resources": {"requests": {"memory": "512Mi", "cpu": "1"}}}]);
    let entry = entry_of("Deployment", containers);
    let check = |memory: &dyn Fn(i64) -> u64, expected: &[&str]| {
        let told = Told::default().pod((FORTNIGHT, 0), &|ago| (100, memory(ago)));
        let row = advised_from(Some(&told.histories), false, &entry, &mut around(&[]));
        let texts: Vec<String> =
            risk::of_all(&[row]).into_iter().map(|risk| format!("{}; {}", risk.text, risk.fix)).collect();
        assert_eq!(texts, expected);
    };
    let since = |hours: i64| move |ago: i64| if ago < hours * HOUR { 900 } else { 400 };
    check(&since(3), &[]);
    check(
        &since(30),
        &["above its memory request most of the time since yesterday; raise the memory request to 1006Mi"],
    );
    check(&since(200), &["above its memory request most of the time; raise the memory request to 1006Mi"]);
    // It was until midnight, until five days ago, and still is.
    check(&|ago| if is_in(ago, 4, 0, 96) { 900 } else { 400 }, &[]);
    let fell = |to: u64| move |ago: i64| if ago < 5 * DAY_IN_MINUTES { to } else { 1_000 };
    check(&fell(400), &[]);
    check(&fell(600), &["above its memory request most of the time; raise the memory request to 1116Mi"]);
    let told = Told::default().pod((FORTNIGHT, 0), &|ago| (100, fell(400)(ago)));
    let (container, flags) = told.advised("Deployment", &json!({"requests": {"memory": "512Mi"}}));
    assert_eq!((memory_of(&container)[0].as_deref(), flags.as_str()), (None, "less since 2026-11-18 (400 MiB)"));
}

#[test]
fn nothing_is_lowered_by_what_was_not_seen() {
    let resources = json!({"requests": {"cpu": "1", "memory": "4Gi"}});
    let check = |hours: i64, cpu: u64, expected: &str| {
        let told = Told::default().pod((hours * HOUR, 0), &|_| (cpu, 300));
        assert_eq!(row(&told, "Deployment", &resources), expected, "{hours} h");
        let (container, _) = told.advised("Deployment", &resources);
        let why = container.resource(Resource::Memory).unwrap().unknown.clone();
        assert_eq!(matches!(why, Some(NoRecommendation::ShortHistory { .. })), hours < 72, "{hours}");
    };
    check(16, 12, "- - short history (16h, 1 pod, Sat to Sun)");
    check(30, 12, "- - short history (30h, 1 pod, Sat to Sun)");
    check(30, 1_500, "1510m - short history (30h, 1 pod, Sat to Sun)");
    check(73, 12, "22m 402Mi ");
    let young = (0..24).fold(Told::default(), |told, run| told.pod((run * 5 + 4, run * 5), &|_| (12, 300)));
    assert_eq!(row(&young, "CronJob", &resources), "- - short history (4min, 24 runs, Sun)");
}

#[test]
fn nothing_is_lowered_by_a_part_of_the_time_or_of_the_pods() {
    let resources = json!({"requests": {"cpu": "1", "memory": "4Gi"}});
    let check = |running: u32, is_seen: &dyn Fn(i64) -> bool, expected: &str| {
        let mut told = Told::default().pod((FORTNIGHT, 0), &|ago| if is_seen(ago) { (12, 300) } else { (0, 0) });
        told.histories.to = NOW;
        told.running.pods = running.into();
        told.running.since = (0..running).map(|pod| (pod.to_string(), NOW - FORTNIGHT * 60)).collect();
        assert_eq!(row(&told, "Deployment", &resources), expected);
    };
    check(1, &|_| true, "22m 346Mi ");
    check(1, &|ago| !is_after(ago, 8 * HOUR, 10 * HOUR, DAY_IN_MINUTES), "- - seen in 59% of the time");
    check(1, &|ago| ago / DAY_IN_MINUTES % 7 != 3, "- - seen in 86% of the time");
    check(1, &|ago| ago / DAY_IN_MINUTES != 3, "22m 346Mi ");
    check(3, &|_| true, "- - seen in 33% of the time, 1 of 3 pods");
    // Nothing that runs was unseen.
    check(
        0,
        &|ago| ago % DAY_IN_MINUTES < 2 * HOUR && ago / DAY_IN_MINUTES % 6 == 1,
        "- - short history (10h, 1 pod, Mon to Sat)",
    );
    let mut failing = Told::default().pod((FORTNIGHT, 0), &|_| (12, 300));
    failing.running = RunningPods { runs: 2, failed_runs: 2, ..RunningPods::default() };
    assert_eq!(row(&failing, "CronJob", &resources), "- - all runs failed");
    failing.running = RunningPods { pods: 1, never_ready: 1, ..RunningPods::default() };
    assert_eq!(row(&failing, "Deployment", &resources), "- - never ready");
}

#[test]
fn whole_cpus_are_left_alone_and_many_kills_raise_a_limit_by_half() {
    let limits = json!({"limits": {"cpu": "4", "memory": "2Gi"}});
    let polling = Told::default().pod((FORTNIGHT, 0), &|_| (4_000, 180));
    assert_eq!(row(&polling, "Deployment", &limits), "- - whole cpus (memory 244Mi would do)");
    let idle = Told::default().pod((FORTNIGHT, 0), &|_| (1_200, 180));
    assert_eq!(row(&idle, "Deployment", &limits), "- - whole cpus (cpu 2, memory 244Mi would do)");
    let check = |lowers_limits, own: &Value, expected: Value| {
        let containers = json!([{"name": "a", "image": "example.com/a:1", "resources": own},
            {"name": "b", "image": "example.com/b:1", "resources": limits}]);
        let (used, entry) = (Some(&idle.histories), entry_of("Deployment", containers));
        let row = advised_from(used, lowers_limits, &entry, &mut around(&[]));
        assert_eq!((&recommended(&row)[0], row.qos_after), (&expected, "Guaranteed"));
    };
    check(true, &limits, json!({"cpu": null, "memory": "244Mi"}));
    // Another container of the pod has whole CPUs.
    let parts = json!({"limits": {"cpu": "2500m", "memory": "2Gi"}});
    check(false, &parts, json!({"cpu": null, "memory": null}));
    let mut killed = Told::default().pod((FORTNIGHT, 0), &|_| (100, 400));
    for age in 0..14 {
        let mut day = Observed::default();
        (0..4).for_each(|of| day.add_kill(Kill { at: NOW - i64::from(age) * DAY - 3_000, memory: 1_024 * MEBI, of }));
        killed.histories.observe(0, "a", age, &day);
    }
    let check = |limits: Value, expected: [&str; 2]| {
        let (container, _) = killed.advised("Deployment", &json!({"limits": limits}));
        assert_eq!(memory_of(&container), expected.map(|amount| Some(amount.to_owned())));
    };
    check(json!({"memory": "1Gi"}), ["1200Mi", "1536Mi"]);
    // Both, so that it keeps its CPUs.
    check(json!({"cpu": "2", "memory": "1Gi"}), ["1536Mi", "1536Mi"]);
}

/// Kinds of use, and the flag of each.
const KINDS: [(&str, &str); 9] = [
    ("wave", ""),
    ("nightly", "nightly"),
    ("several", "times a day"),
    ("start", "at start"),
    ("weekly", "weekly"),
    ("bursts", "bursts"),
    ("once", "once"),
    ("shard", "pods differ"),
    ("growth", "grows"),
];

/// A number that is the same in each run.
fn hash(seed: u64, number: i64) -> u64 {
    let mixed = (seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32
}

/// A workload of a kind, with what differs between those of a kind by the seed.
fn told_of(kind: &str, seed: u64) -> Told {
    let odds = |number: i64, from: u64, to: u64| from + hash(seed, -1 - number) % (to - from + 1);
    let (level, noise, memory, height) = (odds(0, 40, 400), odds(1, 3, 30), odds(2, 100, 900), odds(3, 12, 25));
    let (hour, weekday, length) = (odds(4, 0, 23) as i64 * 60, odds(5, 0, 6) as i64, odds(6, 20, 180) as i64);
    let times = [2, 3, 4, 6][odds(7, 0, 3) as usize];
    let of = |pod: i64, ago: i64, alive: i64| {
        let is_busy = match kind {
            "nightly" => is_after(ago, hour, length, DAY_IN_MINUTES),
            "several" => is_after(ago, hour, 15 + length / 8, DAY_IN_MINUTES / times),
            "start" => alive < 3 + length / 20,
            "weekly" => (0..2).any(|week| is_in(ago, weekday + week * 7, hour / 60, 1 + length / 12)),
            "bursts" => hash(seed, ago / (2 + length / 12)) % 1_000 < odds(8, 15, 80),
            "once" => is_in(ago, 2 + weekday, hour / 60, 1 + length / 12),
            "shard" => pod == 0,
            _ => false,
        };
        let times = match kind {
            "wave" => 30 + minute_of_day(ago).abs_diff(720) / 4,
            "growth" => 100 + odds(9, 60, 300) * (FORTNIGHT - ago) as u64 / FORTNIGHT as u64,
            _ if is_busy => 100 * if kind == "shard" { height / 4 } else { height },
            _ => 100,
        };
        let noisy = 100 - noise + hash(seed ^ pod as u64, ago) % (2 * noise + 1);
        let more = if kind == "once" && is_busy { 4 } else { 1 };
        (level * times / 100 * noisy / 100, memory * more * (98 + noisy % 5) / 100)
    };
    let pods = if kind == "shard" { odds(10, 3, 12) } else { odds(10, 1, 3) } as i64;
    let releases = if kind == "start" { odds(11, 3, 9) } else { odds(11, 1, 3) } as i64;
    let each = FORTNIGHT / if kind == "shard" { 1 } else { releases };
    (0..FORTNIGHT / each).fold(Told::default(), |told, release| {
        let from = FORTNIGHT - release * each;
        (0..pods).fold(told, |told, pod| told.pod((from, from - each), &|ago| of(pod, ago, from - ago)))
    })
}

#[test]
fn nine_of_ten_flags_are_right() {
    let mut counted: BTreeMap<&str, [Vec<String>; 3]> = BTreeMap::new();
    for seed in 101..113 {
        for (kind, expected) in KINDS {
            let (_, flags) = told_of(kind, hash(seed, 7)).advised("Deployment", &json!({}));
            for (_, flag) in KINDS.iter().filter(|(_, flag)| !flag.is_empty()) {
                let [right, wrong, missing] = counted.entry(flag).or_default();
                match (flags.contains(flag), expected == *flag) {
                    (true, true) => right.push(String::new()),
                    (true, false) => wrong.push(format!("{kind} {seed} ({flags})")),
                    (false, true) => missing.push(format!("{kind} {seed} ({flags})")),
                    (false, false) => {}
                }
            }
        }
    }
    for (flag, [right, wrong, missing]) in &counted {
        assert!(right.len() > 9 * wrong.len().max(missing.len()), "{flag}: wrong {wrong:?}, missing {missing:?}");
    }
}
