//! Every output format, on the example shop.

use serde_json::Value;

use crate::support::*;

#[test]
fn the_outputs_of_a_command_agree() {
    const SHOP: &str = "--cluster-dir docs/examples/shop/cluster";
    for (command, arguments, formats) in [
        ("check", "-f docs/examples/shop/app", "table json sarif github junit"),
        ("why", "-f docs/examples/shop/app", "text json"),
        ("check --against-running", "-f docs/examples/shop/tighter.yaml", "table json"),
    ] {
        for format in formats.split(' ') {
            let arguments = format!("{command} {arguments} {SHOP} -o {format}");
            let said = headroom(&root(), &arguments);
            assert_eq!((said.code, said.err.as_str()), (1, ""), "{arguments}");
            snapshot(&format!("{}.{format}", command.replace(" --", "-")), &said.out);
        }
    }
}

#[test]
fn yaml_of_why_says_what_its_json_says() {
    let said = |format: &str| {
        let arguments = "why -f docs/examples/shop/app --cluster-dir docs/examples/shop/cluster -o";
        headroom(&root(), &format!("{arguments} {format}")).out
    };
    let json: Value = serde_json::from_str(&said("json")).unwrap();
    assert_eq!(serde_saphyr::from_str::<Value>(&said("yaml")).unwrap(), json);
}
