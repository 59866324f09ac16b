//! The plain request with 1, 10 and 100 of something: the cost of one more must not depend on their number.

use serde_json::{Value, json};

/// The highest cost of one of the last ninety, in percent of one of the first ten.
const GROWTH_PERCENT: u64 = 125;

/// Makes the plain request and its namespace's objects larger.
pub type Growth = fn(Value, Vec<Value>, usize) -> (Value, Vec<Value>);

pub const GROWTHS: [(&str, Growth); 3] = [
    ("containers", with_containers),
    ("LimitRanges", |request, objects, count| (request, with_copies_of("LimitRange", objects, count))),
    ("ResourceQuotas", |request, objects, count| (request, with_copies_of("ResourceQuota", objects, count))),
];

/// Returns a message if the fuel for 1, 10 and 100 of something grows faster than their number.
pub fn superlinear(what: &str, fuel: &[u64]) -> Option<String> {
    let &[one, ten, hundred] = fuel else { return None };
    let each_of_ten = ten.saturating_sub(one) / 9;
    let each_of_ninety = hundred.saturating_sub(ten) / 90;
    (each_of_ninety * 100 > each_of_ten * GROWTH_PERCENT).then(|| {
        format!("of 100 {what}, each of the last 90 takes {each_of_ninety} fuel, and of the first 10 {each_of_ten}")
    })
}

pub fn with_containers(mut request: Value, objects: Vec<Value>, count: usize) -> (Value, Vec<Value>) {
    if let Some(containers) = request.pointer_mut("/object/spec/containers").and_then(Value::as_array_mut) {
        *containers = copies(containers, count, "/name");
    }
    (request, objects)
}

fn with_copies_of(kind: &str, objects: Vec<Value>, count: usize) -> Vec<Value> {
    let (of_kind, mut others): (Vec<Value>, Vec<Value>) =
        objects.into_iter().partition(|object| object.get("kind").and_then(Value::as_str) == Some(kind));
    others.extend(copies(&of_kind, count, "/metadata/name"));
    others
}

/// `count` copies of the first value, with a number at the end of their names.
fn copies(values: &[Value], count: usize, name: &str) -> Vec<Value> {
    let Some(first) = values.first() else { return Vec::new() };
    let numbered = (0..count).map(|number| {
        let mut copy = first.clone();
        if let Some(name) = copy.pointer_mut(name) {
            *name = json!(format!("{}-{number}", name.as_str().unwrap_or_default()));
        }
        copy
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_linear_if_the_last_ninety_cost_what_the_first_ten_cost() {
        assert_eq!(superlinear("x", &[1_000, 10_000, 100_000]), None);
        assert!(superlinear("x", &[1_000, 10_000, 1_000_000]).unwrap().contains("11000 fuel"));
        assert_eq!(superlinear("x", &[5, 5, 5]), None);
    }

    #[test]
    fn copies_have_different_names() {
        let (request, _) = with_containers(json!({"object": {"spec": {"containers": [{"name": "a"}]}}}), Vec::new(), 2);
        assert_eq!(request["object"]["spec"]["containers"], json!([{"name": "a-0"}, {"name": "a-1"}]));
    }
}
