//! Small artificial recordings, measured as `make bench-estimates` does real ones.

#![expect(clippy::disallowed_methods, reason = "the programs read these files")]

use expect_test::expect_file;

use super::requests::ByMoment;
use super::*;

fn requests(name: &str, cores: f64) -> Requests {
    let images = [("web".to_owned(), [("cpu".to_owned(), cores)].into())].into();
    Requests { name: name.to_owned(), by_moment: ByMoment::from([("now".to_owned(), images)]) }
}

fn used(image: &str, amounts: &[f64]) -> Used {
    Used { moment: "now".to_owned(), image: image.to_owned(), amounts: amounts.to_vec(), chooses: true }
}

#[test]
fn requests_are_compared_with_later_usage() {
    let pods = [used("web", &[1.0, 1.0, 1.0, 5.0]), used("web", &[1.0, 1.0, 1.0, 1.0]), used("other", &[9.0])];
    let columns = [requests("vpa", 2.0), requests("twice", 4.0), requests("none", 0.001)];
    // Computed by hand: one of eight amounts is above 2, by 3 of the 12 used in total. No factor makes the last as safe.
    let expected = "
set cpu: 2 of 3 pods have a request; headroom has none for 1 of 2 images
                     asked     time>     pods>  busiest>     peak>      use>   typical  as risky      +use
vpa                   1.33     12.50     50.00    100.00     50.00     25.00      1.50      50.0     100.0
twice                 2.67     12.50     50.00    100.00     50.00      8.33      3.00      50.0     100.0
none                  0.00    100.00    100.00    100.00    100.00     99.93      0.00     never     never
";
    assert_eq!(accuracy::table("set", &pods, &columns.each_ref(), ComputeResource::Cpu), expected);
    assert_eq!(accuracy::table("set", &[], &[], ComputeResource::Memory), "");
}

#[test]
fn artificial_recordings_are_replayed_through_the_programs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let text = run(&folder).unwrap();
    expect_file!["../../traces/expected.txt"].assert_eq(&text);
}

#[test]
fn a_folder_without_traces_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let error = run(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("has no traces"), "{error}");
}

/// Small files in the documented format of each public set.
#[test]
fn public_sets_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let head = "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\t\
                Memory capacity provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s]\n";
    let line =
        |day: i64| format!("{};\t2;\t5200;\t1300;\t25.0;\t4194304;\t1048576;\t0\n", 1_372_636_800 + day * 86_400);
    write("rnd/2013-7/1.csv", &format!("{head}{}{}{}", line(0), line(1), line(14)));
    write("rnd/2013-8/1.csv", &format!("{head}{}{}", line(22), line(31)));
    write("workload/20110303/planetlab1_cs_example_edu_princeton_codeen", "7\n50\n");
    write("workload/20110306/planetlab4_example_edu_ rnp_dcc_ufjf", "3\n4\n");
    write("workload/20110306/readme", "not a sliver");
    let head = "Time,TimeStamp,PodName,CpuUsage(m),CpuUsageRate(%),MemoryUsage(Mi)\n";
    for day in [22, 23] {
        let at = |time: &str| format!("2022-08-{day} {time}.607158889 +0000 UTC m=+0.1,1861140279,web-api");
        let lines = format!("{head}{},250,1,64\n{},,1,64\n", at("00:00:00"), at("00:01:00"));
        for part in ["rca_data", "construct_data"] {
            write(&format!("Nezha/{part}/2022-08-{day}/metric/web-api-579f59597d-wc2lz_metric.csv"), &lines);
        }
    }
    write("Nezha/rca_data/2022-08-22/log/08_50_log.csv", "a,b\n1,2\n");
    let mut text = String::new();
    for set in traces::open(folder.path()).unwrap() {
        for file in &set.files {
            text.push_str(&format!("{} {}\n{}", set.name, file.day, file.lines().unwrap()));
        }
        text.push_str(&std::fs::read_to_string(&set.pods).unwrap());
    }
    expect_test::expect![[r#"
        bitbrains 2013-07-01
        time,namespace,pod,container,image,cpu,memory
        1372636800,bitbrains,vm-1,vm,bitbrains/vm-1:1,0.5000,1073741824
        1372723200,bitbrains,vm-1,vm,bitbrains/vm-1:1,0.5000,1073741824
        bitbrains 2013-07-15
        time,namespace,pod,container,image,cpu,memory
        1373846400,bitbrains,vm-1,vm,bitbrains/vm-1:1,0.5000,1073741824
        bitbrains 2013-07-23
        time,namespace,pod,container,image,cpu,memory
        1374537600,bitbrains,vm-1,vm,bitbrains/vm-1:1,0.5000,1073741824
        1375315200,bitbrains,vm-1,vm,bitbrains/vm-1:1,0.5000,1073741824
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: vm-1, namespace: bitbrains}
        spec: {containers: [{name: vm, image: "bitbrains/vm-1:1"}]}
        nezha 2022-08-22
        time,namespace,pod,container,image,cpu,memory
        1661126400,nezha,web-api-579f59597d-wc2lz,web-api,nezha/web-api:1,0.2500,67108864
        nezha 2022-08-23
        time,namespace,pod,container,image,cpu,memory
        1661212800,nezha,web-api-579f59597d-wc2lz,web-api,nezha/web-api:1,0.2500,67108864
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: web-api, namespace: nezha}
        spec: {containers: [{name: web-api, image: "nezha/web-api:1"}]}
        planetlab 2011-03-03
        time,namespace,pod,container,image,cpu,memory
        1299110400,cs-example-edu,planetlab1-cs-example-edu-princeton-codeen-20110303,sliver,planetlab/princeton_codeen:1,0.0700,
        1299110700,cs-example-edu,planetlab1-cs-example-edu-princeton-codeen-20110303,sliver,planetlab/princeton_codeen:1,0.5000,
        planetlab 2011-03-06
        time,namespace,pod,container,image,cpu,memory
        1299369600,example-edu,planetlab4-example-edu--rnp-dcc-ufjf-20110306,sliver,planetlab/rnp_dcc_ufjf:1,0.0300,
        1299369900,example-edu,planetlab4-example-edu--rnp-dcc-ufjf-20110306,sliver,planetlab/rnp_dcc_ufjf:1,0.0400,
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: princeton-codeen, namespace: newcomer}
        spec: {containers: [{name: sliver, image: "planetlab/princeton_codeen:1"}]}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: rnp-dcc-ufjf, namespace: newcomer}
        spec: {containers: [{name: sliver, image: "planetlab/rnp_dcc_ufjf:1"}]}
    "#]].assert_eq(&text);
}

/// Computed by hand: of 100 samples, 95 % lie at or below 1 core.
#[test]
fn other_recommenders_follow_their_rules() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "time,namespace,pod,container,image,cpu,memory\n".to_owned();
    for minute in 0..100 {
        let cpu = if minute < 96 { "1" } else { "9" };
        text.push_str(&format!("{},shop,a,main,web:1,{cpu},{}\n", minute * 300, 400 << 20));
    }
    for day in ["1970-01-01", "1970-01-02"] {
        std::fs::write(folder.path().join(format!("{day}.csv")), &text).unwrap();
    }
    let set = Set::open("shop".to_owned(), folder.path(), None).unwrap();
    let [vpa, krr] = rule::requests(&set).unwrap();
    let of = |requests: &Requests, resource| requests.of("1970-01-02T00:00:00Z", "web:1", resource).unwrap();
    assert_eq!(of(&krr, ComputeResource::Cpu), 1.0);
    assert_eq!(of(&krr, ComputeResource::Memory), 460.0 * 1_048_576.0);
    // The buckets of these amounts end at most 8 % above them; 15 % are added.
    assert!((1.15..1.25).contains(&of(&vpa, ComputeResource::Cpu)), "{}", of(&vpa, ComputeResource::Cpu));
    assert!((1.15..1.25).contains(&(of(&vpa, ComputeResource::Memory) / f64::from(400 << 20))));
}
