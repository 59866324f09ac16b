//! ARCHITECTURE.md describes the modules that there are.

#[test]
fn the_table_of_modules_has_those_of_lib_rs_in_their_order() {
    let declared = include_str!("../../src/lib.rs").lines().filter_map(|line| {
        let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ")?.strip_suffix(';')?;
        (!name.ends_with("_test")).then_some(name)
    });
    let (_, section) = include_str!("../../../../ARCHITECTURE.md").split_once("## The modules of the core").unwrap();
    let rows =
        section.split("\n## ").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let names = rows.flat_map(|cell| cell.trim().trim_end_matches('`').split("`, `"));
    let mut described: Vec<&str> = names.map(|name| name.split('/').next().unwrap_or(name)).collect();
    described.dedup();
    assert_eq!(described, declared.collect::<Vec<_>>());
}
