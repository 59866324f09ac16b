//! The figures as a table.

use headroom_resizer::decision::ComputeResource;

use super::accuracy::{Accuracy, Figures};

const HEADS: [&str; 9] = ["asked", "time>", "pods>", "busiest>", "peak>", "use>", "typical", "as risky", "+use"];

/// Empty if no pod can be compared.
pub fn text(set: &str, resource: ComputeResource, measured: &Accuracy) -> String {
    let Accuracy { pods, all_pods, images, images_without, columns } = measured;
    if *pods == 0 {
        return String::new();
    }
    let mut text = format!(
        "\n{set} {}: {pods} of {all_pods} pods have a request; headroom has none for \
         {images_without} of {images} images\n{:16}",
        resource.name(),
        ""
    );
    HEADS.iter().for_each(|head| text.push_str(&format!("{head:>10}")));
    text.push('\n');
    for (name, figures) in columns {
        text.push_str(&format!("{name:16}{}\n", cells(figures)));
    }
    text
}

fn cells(figures: &Figures) -> String {
    let Figures { asked, risk, busiest_above, peaks_above, typical, .. } = figures;
    let plain = [asked, &risk.time, &risk.pods, busiest_above, peaks_above, &risk.used, typical];
    let mut text: String = plain.iter().map(|figure| format!("{figure:10.2}")).collect();
    for percent in [figures.as_risky, figures.as_risky_with_use] {
        match percent {
            Some(percent) => text.push_str(&format!("{percent:10.1}")),
            None => text.push_str(&format!("{:>10}", "never")),
        }
    }
    text
}
