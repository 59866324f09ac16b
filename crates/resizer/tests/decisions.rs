//! Decisions about one workload, as tables.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may stop")]

use std::collections::BTreeMap;

use headroom_resizer::decision::{
    Amounts, AtOnce, ComputeResource, ContainerSize, Decision, Direction, Event, Kubelet, Mode, ObservedContainer,
    ObservedPod, Past, Phase, Readiness, Record, ResizeReason, Rules, Time, Unfit, Used, Workload, decide, undo,
};
use serde_json::json;

const MI: u64 = 1 << 20;
const NOW: Time = 1_795_000_000;
const HOUR: Time = 3600;
const DAY: Time = 24 * HOUR;

fn amounts(cpu: u64, memory: u64) -> Amounts {
    Amounts { cpu: Some(cpu), memory: Some(memory * MI) }
}

/// A container that is as large as it should be.
fn container() -> ObservedContainer {
    ObservedContainer {
        name: "web".to_owned(),
        size: ContainerSize { requests: amounts(500, 400), limits: Amounts { cpu: None, memory: Some(800 * MI) } },
        wanted: amounts(500, 400),
        days: 30,
        floor: amounts(0, 90),
        used: Some(Used { at: NOW - 30, amounts: amounts(80, 80), mean_cpu: Some(80), stalled_percent: Some(1) }),
        runs_with: Some(800 * MI),
        ..ObservedContainer::default()
    }
}

fn used(container: &mut ObservedContainer) -> &mut Used {
    container.used.as_mut().unwrap()
}

fn pod(container: ObservedContainer) -> ObservedPod {
    ObservedPod {
        uid: "1".to_owned(),
        name: "web-1".to_owned(),
        version: "7".to_owned(),
        mode: Mode::On,
        left_alone: None,
        readiness: Readiness::Ready,
        kubelet: Kubelet::Done,
        containers: vec![container],
    }
}

fn workload(pods: Vec<ObservedPod>) -> Workload {
    Workload { pods, is_rolling_out: false, objective_is_met: None }
}

/// A pod that could be smaller.
fn smaller() -> Workload {
    workload(vec![pod(ObservedContainer { wanted: amounts(100, 100), ..container() })])
}

/// The same once it was lowered and seen with its new size, and the record.
fn lowered() -> (Workload, Record) {
    let mut workload = smaller();
    let begun = decided(&workload, &Record::default(), NOW);
    let pod = &mut workload.pods[0];
    (pod.version, pod.containers[0].size) = ("8".to_owned(), begun.resizes[0].containers[0].to);
    let made = decided(&workload, &begun.record, NOW + 10);
    assert!(matches!(made.record.changes[0].phase, Phase::Watched { .. }));
    (workload, made.record)
}

fn decided(workload: &Workload, record: &Record, now: Time) -> Decision {
    decide(workload, record, now, &Rules::default(), usize::MAX, &mut |_, _| Ok(()))
}

/// The size that a pod is resized to: CPU and memory requested in m and Mi, and the memory limit.
fn resized(workload: &Workload) -> Option<(u64, u64, u64)> {
    let decision = decided(workload, &Record::default(), NOW);
    let size = decision.resizes.first()?.containers[0].to;
    Some((size.requests.cpu?, size.requests.memory? / MI, size.limits.memory.unwrap_or(0) / MI))
}

#[track_caller]
fn check(change: impl Fn(&mut ObservedContainer), expected: impl Into<Option<(u64, u64, u64)>>) {
    let mut container = container();
    change(&mut container);
    assert_eq!(resized(&workload(vec![pod(container)])), expected.into());
}

#[test]
fn requests_are_lowered_by_at_most_a_third_and_never_below_the_peak() {
    check(|_| {}, None);
    check(|of| of.wanted = amounts(100, 100), (335, 268, 800));
    check(|of| of.wanted = amounts(450, 350), None);
    check(|of| of.wanted = amounts(400, 300), (400, 300, 800));
    check(|of| (of.wanted, of.floor) = (amounts(100, 100), amounts(0, 310)), (335, 310, 800));
    check(|of| (of.wanted, used(of).amounts) = (amounts(100, 400), amounts(390, 80)), (390, 400, 800));
}

#[test]
fn nothing_is_lowered_without_knowledge() {
    let wanted = amounts(100, 100);
    check(|of| (of.wanted, of.days) = (wanted, 6), None);
    check(|of| (of.wanted, of.used) = (wanted, None), None);
    check(|of| (of.wanted, used(of).at) = (wanted, NOW - 301), None);
    check(|of| (of.wanted, of.floor) = (wanted, Amounts::default()), None);
    check(|of| of.wanted = Amounts::default(), None);
}

#[test]
fn what_others_own_is_left() {
    let memory = || vec![ComputeResource::Memory];
    check(|of| (of.wanted, of.is_left) = (amounts(100, 100), memory()), (335, 400, 800));
    check(|of| (of.wanted, of.is_left) = (amounts(900, 900), memory()), (900, 400, 800));
    // Guaranteed: without the author's leave no limit moves, and the class stays.
    let size = ContainerSize { requests: amounts(500, 400), limits: amounts(500, 400) };
    check(|of| (of.size, of.wanted) = (size, amounts(100, 100)), None);
    check(|of| (of.size, of.scales, of.wanted) = (size, Some(size), amounts(100, 100)), (335, 400, 400));
}

#[test]
fn requests_are_raised_at_once() {
    check(|of| of.wanted = amounts(500, 600), (500, 600, 800));
    check(|of| of.wanted = amounts(500, 900), (500, 800, 800));
    check(|of| used(of).amounts = amounts(80, 450), (500, 540, 800));
    check(|of| used(of).mean_cpu = Some(1100), (1320, 400, 800));
    check(|of| used(of).mean_cpu = Some(900), None);
    check(|of| used(of).amounts = amounts(9000, 80), None);
    check(|of| of.wanted = amounts(500, 410), None);
}

/// Else a pod that lacks memory is left without a word.
#[test]
fn a_raise_that_would_change_the_class_is_told() {
    let mut full = container();
    full.size.limits = amounts(500, 500);
    used(&mut full).amounts = amounts(80, 450);
    let decision = decided(&workload(vec![pod(full)]), &Record::default(), NOW);
    assert!(decision.resizes.is_empty());
    assert_eq!(decision.notes[0].event, Event::DoesNotFit("the pod would get another QoS class".to_owned()));
}

#[test]
fn a_kill_raises_the_memory_limit() {
    check(|of| of.killed = Some(NOW - 10), (500, 400, 960));
    check(|of| of.killed = Some(NOW - 2 * HOUR), None);
    check(|of| of.killed = Some(NOW + 600), None);
    check(|of| (of.killed, of.is_left) = (Some(NOW - 10), vec![ComputeResource::Memory]), None);
    // The CPU request equals its limit, too.
    check(|of| (of.killed, of.size.limits) = (Some(NOW - 10), of.size.requests), (500, 500, 500));
}

/// The memory limits in Mi that looks find or set: at these seconds, with these kills and limits by the status.
#[track_caller]
fn check_looks(looks: &[(Time, Time, Option<u64>, u64)]) {
    let mut workload = workload(vec![pod(container())]);
    let mut record = Record::default();
    for (later, killed, runs_with, expected) in looks {
        let of = &mut workload.pods[0];
        of.containers[0].killed = Some(NOW + killed);
        of.containers[0].runs_with = runs_with.map(|limit| limit * MI);
        let decision = decided(&workload, &record, NOW + later);
        record = decision.record;
        let of = &mut workload.pods[0];
        for resize in decision.resizes {
            (of.version, of.containers[0].size) = (format!("after {later}"), resize.containers[0].to);
        }
        assert_eq!(of.containers[0].size.limits.memory, Some(expected * MI), "after {later} s: {record:?}");
    }
}

#[test]
fn a_kill_counts_against_the_limit_that_the_container_had() {
    // It ran while its limit was raised, and is killed at the new one.
    check_looks(&[(0, -10, Some(800), 960), (10, -10, Some(960), 960), (30, 20, None, 960), (50, 20, Some(960), 1152)]);
    // The kubelet has not raised the limit of what runs.
    check_looks(&[(0, -10, Some(800), 960), (10, -10, Some(800), 960), (30, 20, None, 960)]);
    // In CrashLoopBackOff, it is not raised again until it was seen to run with the limit and killed after that, and runs.
    let loops = [(0, -10, None, 960), (10, -10, None, 960), (75, 12, None, 960), (200, 190, Some(960), 960)];
    check_looks(&[&loops[..], &[(230, 220, None, 960), (250, 220, Some(960), 1152)]].concat());
    // The clock of the node is ahead.
    let ahead = [(0, -10, Some(800), 960), (10, 40, Some(960), 960), (60, 40, Some(960), 960)];
    check_looks(&[&ahead[..], &[(90, 80, Some(960), 1152)]].concat());
}

#[test]
fn amounts_are_whole_mebibytes_unless_others_chose_them() {
    let memory = |change: &dyn Fn(&mut ObservedContainer)| {
        let mut container = container();
        change(&mut container);
        let size = decided(&workload(vec![pod(container)]), &Record::default(), NOW).resizes[0].containers[0].to;
        [size.requests.memory, size.limits.memory].map(|bytes| ComputeResource::Memory.written(bytes.unwrap()))
    };
    let odd = 66_876_212;
    assert_eq!(memory(&|of| used(of).amounts.memory = Some(400 * MI + odd)), ["557Mi", "800Mi"]);
    assert_eq!(memory(&|of| (of.wanted.memory, of.floor.memory) = (Some(MI), Some(280 * MI + 1))), ["281Mi", "800Mi"]);
    assert_eq!(memory(&|of| of.wanted.memory = Some(300 * MI + 1)), ["314572801", "800Mi"]);
    let limit = |of: &mut ObservedContainer, limit| (of.size.limits.memory, of.killed) = (Some(limit), Some(NOW - 10));
    assert_eq!(memory(&|of| limit(of, 500_000_000)), ["400Mi", "577Mi"]);
    let text = |resource: ComputeResource, amount| (resource.written(amount), resource.readable(amount));
    for (resource, amount, written, readable) in [
        (ComputeResource::Cpu, 2000, "2", "2"),
        (ComputeResource::Cpu, 90, "90m", "90m"),
        (ComputeResource::Memory, 80 * MI, "80Mi", "80Mi"),
        (ComputeResource::Memory, 1024 * MI, "1Gi", "1Gi"),
        (ComputeResource::Memory, 89_925_878, "89925878", "86Mi"),
        (ComputeResource::Memory, 2048, "2Ki", "2Ki"),
        (ComputeResource::Memory, 0, "0", "0"),
    ] {
        assert_eq!(text(resource, amount), (written.to_owned(), readable.to_owned()));
    }
}

#[test]
fn limits_move_with_requests_where_their_author_allows_it() {
    let scaled = |memory, [request, limit, author]: [u64; 3], expected: Option<(u64, u64, u64)>| {
        let size = |request, limit: u64| ContainerSize {
            requests: amounts(500, request),
            limits: Amounts { cpu: None, memory: Some(limit * MI) },
        };
        let change = |of: &mut ObservedContainer| {
            (of.size, of.scales) = (size(request, limit), Some(size(author, 2 * author)));
            (of.wanted, used(of).amounts) = (of.size.requests, amounts(80, memory));
        };
        check(change, expected);
    };
    scaled(380, [400, 800, 400], None);
    scaled(450, [400, 800, 400], Some((500, 540, 1080)));
    // The request was lowered before, and its limit stayed.
    scaled(350, [300, 800, 400], Some((500, 420, 840)));
    scaled(310, [300, 800, 400], Some((500, 372, 800)));
    // Only the kernel can see more than the limit, so nine tenths of it are enough.
    let size = ContainerSize { requests: amounts(500, 400), limits: amounts(500, 400) };
    check(|of| (of.size, of.scales, used(of).amounts) = (size, Some(size), amounts(80, 350)), None);
    check(|of| (of.size, of.scales, used(of).amounts) = (size, Some(size), amounts(80, 370)), (500, 444, 444));

    // A pod that leaks gets no higher limit for the fifth time in a week.
    let mut leaking = container();
    leaking.scales = Some(leaking.size);
    used(&mut leaking).amounts = amounts(80, 450);
    let raise =
        Past { direction: Direction::Up, why: ResizeReason::Used, raises_limit: true, ..lowered_at(NOW - 2 * DAY) };
    for (raises, limit) in [(3, 1080), (4, 800)] {
        let record =
            Record { past: BTreeMap::from([("1".to_owned(), vec![raise.clone(); raises])]), ..Record::default() };
        let size = decided(&workload(vec![pod(leaking.clone())]), &record, NOW).resizes[0].containers[0].to;
        assert_eq!(size.limits.memory, Some(limit * MI), "after {raises} raises");
    }
}

/// The reason that a change is taken back, empty if it is not.
#[track_caller]
fn harm(later: impl Fn(&mut Workload)) -> String {
    let (mut workload, record) = lowered();
    used(&mut workload.pods[0].containers[0]).at = NOW + 60;
    later(&mut workload);
    let decision = decided(&workload, &record, NOW + 70);
    let harm = decision.notes.into_iter().find_map(|note| match note.event {
        Event::TakingBack { harm, .. } => {
            assert_eq!(decision.resizes[0].containers[0].to, container().size);
            assert!(decision.record.left_alone[0].until == NOW + 70 + DAY);
            Some(harm.to_string())
        }
        _ => None,
    });
    harm.unwrap_or_default()
}

#[test]
fn what_gets_worse_is_taken_back() {
    type Change = fn(&mut ObservedPod);
    let rows: [(Change, &str); 9] = [
        (|_| {}, ""),
        (|pod| pod.containers[0].killed = Some(NOW + 20), "a container was killed for memory"),
        (|pod| pod.containers[0].restarts = 1, "a container restarted"),
        (|pod| pod.readiness = Readiness::NotReady, "the pod is no longer ready"),
        (|pod| pod.readiness = Readiness::NotHeardOf, ""),
        (|pod| used(&mut pod.containers[0]).amounts = amounts(80, 300), "a container uses more than its new request"),
        (
            |pod| used(&mut pod.containers[0]).stalled_percent = Some(12),
            "a container is throttled or waits for CPU more than before",
        ),
        (|pod| pod.kubelet = Kubelet::InProgress, ""),
        (|pod| pod.kubelet = Kubelet::Infeasible, "the kubelet cannot make the resize"),
    ];
    for (change, expected) in rows {
        assert_eq!(harm(|workload| change(&mut workload.pods[0])), expected);
    }
    let suffers = harm(|workload| workload.objective_is_met = Some(false));
    assert_eq!(suffers, "the expression of its team says that the workload suffers");
}

#[test]
fn a_decrease_settles_once_its_pod_is_heard_of() {
    let (mut workload, record) = lowered();
    let later = NOW + 10 + Rules::default().watch;
    used(&mut workload.pods[0].containers[0]).at = later;
    for (readiness, settles) in [(Readiness::NotHeardOf, false), (Readiness::Ready, true)] {
        workload.pods[0].readiness = readiness;
        let decision = decided(&workload, &record, later);
        assert_eq!((decision.record.changes.is_empty(), decision.resizes), (settles, Vec::new()));
        let told = if settles { Event::Settled } else { Event::Unsettled("its node is not heard of") };
        assert!(decision.notes.iter().any(|note| note.event == told), "{:?}", decision.notes);
    }
}

/// The request that takes a deferred raise back is lost, and the kubelet makes the raise.
#[test]
fn a_memory_limit_in_force_is_not_lowered() {
    let mut workload = workload(vec![pod(ObservedContainer { killed: Some(NOW - 10), ..container() })]);
    let raised = decided(&workload, &Record::default(), NOW);
    let pod = &mut workload.pods[0];
    (pod.version, pod.containers[0].size, pod.kubelet) =
        ("8".to_owned(), raised.resizes[0].containers[0].to, Kubelet::Deferred);
    let watched = decided(&workload, &raised.record, NOW + 10);
    let back = decided(&workload, &watched.record, NOW + 20);
    assert_eq!(back.resizes[0].containers[0].to, container().size);
    for kubelet in [Kubelet::InProgress, Kubelet::Done] {
        workload.pods[0].kubelet = kubelet;
        let made = decided(&workload, &back.record, NOW + 30);
        assert_eq!((made.resizes, made.record.changes[0].phase.clone()), (vec![], Phase::Watched { since: NOW + 30 }));
        assert_eq!(undo(&workload, &back.record, NOW + 30, &Rules::default()).resizes, []);
    }
}

/// The node of one pod is full, until there are many such pods, however many containers each has.
#[test]
fn a_deferred_raise_leaves_other_pods_alone_only_after_ten() {
    let mut workload = twenty(|of| used(of).amounts = amounts(80, 450));
    for (place, pod) in workload.pods.iter_mut().enumerate() {
        pod.name = format!("web-{place}");
        pod.containers.push(ObservedContainer { name: "side".to_owned(), ..pod.containers[0].clone() });
    }
    let (rules, mut record, mut raised) = (Rules::default(), Record::default(), 0);
    for now in (NOW..NOW + 600).step_by(10) {
        let decision = decide(&workload, &record, now, &rules, 1, &mut |_, _| Ok(()));
        for resize in &decision.resizes {
            let pod = workload.pods.iter_mut().find(|pod| pod.uid == resize.uid).unwrap();
            let is_raise = resize.containers[0].to != container().size;
            raised += usize::from(is_raise);
            pod.version = format!("{now}");
            pod.kubelet = if is_raise { Kubelet::Deferred } else { Kubelet::Done };
            pod.containers.iter_mut().zip(&resize.containers).for_each(|(container, of)| container.size = of.to);
        }
        record = decision.record;
        workload.pods.iter_mut().flat_map(|pod| &mut pod.containers).for_each(|container| used(container).at = now);
    }
    assert_eq!((raised, record.left_alone.iter().filter(|left| left.pod.is_none()).count()), (11, 2), "{record:?}");
}

/// Admission rounds the resize, or sets limits beside it: it counts, and is not made again today.
#[test]
fn a_resize_that_admission_changes_is_remembered() {
    let (mut workload, begun) = (smaller(), decided(&smaller(), &Record::default(), NOW));
    let pod = &mut workload.pods[0];
    (pod.version, pod.containers[0].size) = ("8".to_owned(), begun.resizes[0].containers[0].to);
    pod.containers[0].size.limits.cpu = Some(500);
    let after = decided(&workload, &begun.record, NOW + 10);
    assert_eq!((after.resizes, after.record.changes.len()), (vec![], 0));
    assert_eq!((after.record.past, after.record.left_alone[0].until), (begun.record.past, NOW + 10 + DAY));
    let told = "the resize is over: somebody else, or admission, has given the pod another size";
    assert_eq!(after.notes[0].event.to_string(), told);
}

/// Pods that no eviction ends, as of a DaemonSet, stay on a node that never comes back; and a runtime may fail for ever.
#[test]
fn a_decrease_that_is_not_heard_of_or_not_made_is_taken_back() {
    for (readiness, kubelet) in [(Readiness::NotHeardOf, Kubelet::Done), (Readiness::Ready, Kubelet::InProgress)] {
        let (mut workload, record) = lowered();
        (workload.pods[0].readiness, workload.pods[0].kubelet) = (readiness, kubelet);
        let lost = NOW + 10 + Rules::default().kubelet_is_stuck_after;
        assert_eq!(decided(&workload, &record, lost - 1).resizes, []);
        let back = decided(&workload, &record, lost);
        assert_eq!(back.resizes[0].containers[0].to, container().size);
        workload.pods[0].containers[0].size = back.resizes[0].containers[0].to;
        assert_eq!(decided(&workload, &back.record, lost + 10).record.changes, []);
    }
}

/// After a decrease its node is drained, or metrics stop: nothing more is sent, and nothing is held against the workload.
#[test]
fn a_decrease_of_a_pod_that_is_drained_or_no_longer_measured_stays() {
    for drains in [true, false] {
        let (mut workload, mut record) = lowered();
        if drains {
            let pod = &mut workload.pods[0];
            (pod.left_alone, pod.readiness) = (Some("it terminates".to_owned()), Readiness::NotReady);
        }
        for later in 2..300 {
            let decision = decided(&workload, &record, NOW + later * 600);
            assert_eq!(decision.resizes, []);
            record = decision.record;
        }
        assert_eq!((record.changes.is_empty(), record.left_alone.is_empty()), (drains, true));
    }
}

/// A decrease that settled.
fn lowered_at(begun: Time) -> Past {
    serde_json::from_value(json!({"begun": begun, "direction": "down", "why": "admission", "quiet": true})).unwrap()
}

fn twenty(change: impl Fn(&mut ObservedContainer)) -> Workload {
    let pods = (0..20).map(|uid| {
        let mut container = container();
        change(&mut container);
        ObservedPod { uid: format!("{uid:02}"), ..pod(container) }
    });
    workload(pods.collect())
}

/// Returns how many of twenty pods are resized at once.
#[track_caller]
fn at_once(change: impl Fn(&mut ObservedContainer), quiet: usize) -> usize {
    let past = BTreeMap::from([("gone".to_owned(), vec![lowered_at(NOW - HOUR); quiet])]);
    let record = Record { past, ..Record::default() };
    decided(&twenty(change), &record, NOW).resizes.len()
}

#[test]
fn one_pod_is_lowered_then_a_tenth_then_the_rest() {
    let lower = |of: &mut ObservedContainer| of.wanted = amounts(100, 100);
    assert_eq!([0, 1, 2, 3].map(|quiet| at_once(lower, quiet)), [1, 2, 2, 10]);
    assert_eq!(at_once(|of| used(of).amounts = amounts(80, 450), 0), 10);
}

#[test]
fn the_next_pass_begins_no_more_than_the_namespace_allows() {
    let (workload, mut record) = (twenty(|of| used(of).amounts = amounts(80, 450)), Record::default());
    for _ in 0..2 {
        record = decide(&workload, &record, NOW, &Rules::default(), 5, &mut |_, _| Ok(())).record;
        assert_eq!(record.under_way(), 5);
    }
}

#[test]
fn modes_and_reasons_keep_pods_as_they_are() {
    let is_kept = |change: fn(&mut Workload)| {
        let mut workload = smaller();
        change(&mut workload);
        resized(&workload).is_none()
    };
    assert!(!is_kept(|_| {}));
    assert!(is_kept(|of| of.is_rolling_out = true));
    assert!(is_kept(|of| of.objective_is_met = Some(false)));
    assert!(is_kept(|of| of.pods[0].mode = Mode::Observe));
    assert!(is_kept(|of| of.pods[0].mode = Mode::AfterOom));
    assert!(is_kept(|of| of.pods[0].readiness = Readiness::NotReady));
    assert!(is_kept(|of| of.pods[0].readiness = Readiness::NotHeardOf));
    assert!(is_kept(|of| of.pods[0].left_alone = Some("a VerticalPodAutoscaler acts on it".to_owned())));
    let mut killed = smaller();
    (killed.pods[0].mode, killed.pods[0].containers[0].killed) = (Mode::AfterOom, Some(NOW - 10));
    assert_eq!(resized(&killed), Some((500, 400, 960)));
    let use_more =
        |of: &mut ObservedContainer| (used(of).amounts.memory, used(of).mean_cpu) = (Some(450 * MI), Some(2000));
    use_more(&mut killed.pods[0].containers[0]);
    assert_eq!(resized(&killed), Some((500, 400, 960)), "nothing else is raised after a kill");
    killed.pods[0].mode = Mode::On;
    assert_eq!(resized(&killed), Some((2400, 540, 960)));
    let mut observed = smaller();
    observed.pods[0].mode = Mode::Observe;
    let decision = decided(&observed, &Record::default(), NOW);
    assert!(decision.record.is_empty());
    assert_eq!(
        decision.notes[0].event.to_string(),
        "would resize web (cpu request 500m -> 335m, memory request 400Mi -> 268Mi): it would be admitted so today"
    );
}

#[test]
fn what_does_not_fit_is_not_begun() {
    let mut full = |_: &_, _: &[_]| Err(Unfit::Refused("exceeded quota: team".to_owned()));
    let decision = decide(&smaller(), &Record::default(), NOW, &Rules::default(), usize::MAX, &mut full);
    assert!(decision.record.is_empty() && decision.resizes.is_empty());
    assert_eq!(decision.notes[0].event.to_string(), "a resize would not fit: exceeded quota: team");
}

#[test]
fn a_record_with_an_unknown_field_is_an_error() {
    assert!(serde_json::from_str::<Record>(r#"{"changes": [], "more": 1}"#).is_err());
}

#[test]
fn a_person_takes_back_the_last_change_but_no_memory_limit() {
    let rules = Rules::default();
    let begun = decided(&smaller(), &Record::default(), NOW);
    let at = |size: ContainerSize, version: &str| {
        let mut after = smaller();
        (after.pods[0].containers[0].size, after.pods[0].version) = (size, version.to_owned());
        after
    };
    let (old, new) = (container().size, begun.resizes[0].containers[0].to);

    // A change that may still be under way is not sent again.
    let undone = undo(&at(old, "7"), &begun.record, NOW + 1, &rules);
    assert!(undone.resizes.is_empty());
    assert!(decided(&at(old, "7"), &undone.record, NOW + 2).resizes.is_empty());
    let made_after_all = decided(&at(new, "8"), &undone.record, NOW + 3);
    assert_eq!(made_after_all.resizes[0].containers[0].to, old);

    // One that was made, and one that has settled, are taken back once, and not made again today.
    let watched = decided(&at(new, "8"), &begun.record, NOW + 10).record;
    let settled = Record { changes: Vec::new(), ..watched.clone() };
    for record in [watched, settled] {
        let undone = undo(&at(new, "8"), &record, NOW + 20, &rules);
        assert_eq!(undone.resizes[0].containers[0].to, old);
        let told = "takes the resize back, web (cpu request 335m -> 500m, memory request 268Mi -> 400Mi): somebody has asked for it";
        assert_eq!(undone.notes[0].event.to_string(), told);
        // As it is where nothing more may be done.
        let mut off = at(new, "8");
        off.pods[0].mode = Mode::Off;
        let left = decided(&off, &record, NOW + 20);
        assert_eq!((&left.resizes, &left.record.changes, &left.record.past), (&vec![], &vec![], &record.past));
        assert_eq!(undo(&off, &left.record, NOW + 20, &rules).resizes, undone.resizes);
        assert_eq!(decided(&off, &undone.record, NOW + 21).resizes, undone.resizes, "a request may be lost");
        assert_eq!(undo(&at(new, "8"), &undone.record, NOW + 21, &rules).record, undone.record);
        let after = decided(&at(old, "9"), &undone.record, NOW + 30);
        assert!(after.resizes.is_empty() && after.record.changes.is_empty());
        assert!(decided(&at(old, "9"), &after.record, NOW + HOUR).resizes.is_empty());
    }

    let mut killed = container();
    killed.killed = Some(NOW - 10);
    let raised = decided(&workload(vec![pod(killed)]), &Record::default(), NOW);
    let undone = undo(&at(raised.resizes[0].containers[0].to, "8"), &raised.record, NOW + 20, &rules);
    assert_eq!((undone.resizes, undone.record), (Vec::new(), raised.record));
    let told = "does not take the resize back: a memory limit is never lowered in place";
    assert_eq!(undone.notes[0].event.to_string(), told);
}

/// However many pods a workload has, its record fits a ConfigMap, and all of them get their size.
#[test]
fn the_record_of_a_large_workload_stays_small() {
    const PODS: usize = 5_000;
    let at_once = AtOnce { workload: 400, ..Rules::default().at_once };
    let rules = Rules { at_once, ..Rules::default() };
    let (to, mut record, mut largest) = (amounts(400, 300), Record::default(), 0);
    let pods = (0..PODS).map(|place| ObservedPod {
        uid: format!("c0a8d9b2-5f8e-4d63-9b0e-{place:012}"),
        name: format!("a-workload-with-a-long-name-6d4b9c6f5-{place:05}"),
        ..pod(ObservedContainer { wanted: to, ..container() })
    });
    let mut workload = workload(pods.collect());
    let places: BTreeMap<String, usize> =
        workload.pods.iter().enumerate().map(|(place, pod)| (pod.uid.clone(), place)).collect();
    for now in [NOW, NOW + DAY].into_iter().flat_map(|day| (day..day + 14_000).step_by(700)) {
        for pod in &mut workload.pods {
            used(&mut pod.containers[0]).at = now - 30;
        }
        // The resize is seen, then watched, and has settled when it is looked at for the third time.
        for later in [0, 10] {
            let decision = decide(&workload, &record, now + later, &rules, usize::MAX, &mut |_, _| Ok(()));
            record = decision.record;
            for resize in decision.resizes {
                let pod = &mut workload.pods[places[&resize.uid]];
                (pod.version, pod.containers[0].size) = (format!("{now}{later}"), resize.containers[0].to);
            }
        }
        largest = largest.max(serde_json::to_string(&record).unwrap().len());
    }
    assert!(workload.pods.iter().all(|pod| pod.containers[0].size.requests == to));
    let undone = undo(&workload, &record, NOW + DAY + 14_000, &rules);
    assert!((1..=rules.most_undoable).contains(&undone.resizes.len()), "{}", undone.resizes.len());
    largest = largest.max(serde_json::to_string(&undone.record).unwrap().len());
    assert!((400_000..1_000_000).contains(&largest), "{largest}");
}
