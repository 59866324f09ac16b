//! Every output format, on the example shop.

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
