//! A distribution as a picture: how much was enough for how many samples, with what is set and what is advised.

use std::fmt::Write;

/// One picture; several stand below each other in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panel {
    pub title: String,
    pub subtitle: String,
    /// Per mille of the samples and the amount that was enough for them, rising.
    pub curve: Vec<(u16, u64)>,
    /// Amounts that a line is drawn at: what it is, the amount in words, and as a number.
    pub marks: Vec<Mark>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub label: String,
    pub value: u64,
    pub color: &'static str,
}

pub const ADVISED: &str = "#1a7f37";
pub const SET: &str = "#9a6700";
pub const PEAK: &str = "#cf222e";

const WIDTH: u64 = 720;
const HEIGHT: u64 = 260;
/// Left, top, right and bottom of the plot in its panel.
const FRAME: (u64, u64, u64, u64) = (60, 50, 560, 225);
const LABELS: [(u16, &str); 6] = [(500, "p50"), (600, "p60"), (700, "p70"), (800, "p80"), (900, "p90"), (1000, "peak")];

/// The whole file.
pub fn picture(panels: &[Panel]) -> String {
    let height = HEIGHT * panels.len() as u64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" \
         fill=\"white\"/>\n"
    );
    for (place, panel) in panels.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate(0 {})\">", HEIGHT * place as u64);
        draw(panel, &mut svg);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// Writing into a string does not fail.
fn draw(panel: &Panel, svg: &mut String) {
    let (left, top, right, bottom) = FRAME;
    let greatest = panel.curve.iter().map(|(_, value)| *value).chain(panel.marks.iter().map(|mark| mark.value)).max();
    let greatest = greatest.unwrap_or(0).max(1);
    let x = |permille: u16| left + (u64::from(permille.max(500)) - 500) * (right - left) / 500;
    let y = |value: u64| {
        let rise = u128::from(value) * u128::from(bottom - top) / u128::from(greatest);
        bottom - u64::try_from(rise).unwrap_or(0)
    };
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"20\" font-weight=\"bold\">{}</text>", escaped(&panel.title));
    let _ = writeln!(svg, "<text x=\"{left}\" y=\"37\" fill=\"#57606a\">{}</text>", escaped(&panel.subtitle));
    let _ = writeln!(svg, "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#57606a\"/>");
    for (permille, label) in LABELS {
        let (x, y) = (x(permille), bottom + 16);
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"#57606a\">{label}</text>");
    }
    let points: Vec<String> =
        panel.curve.iter().map(|(permille, value)| format!("{},{}", x(*permille), y(*value))).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#0969da\" stroke-width=\"2\"/>",
        points.join(" ")
    );
    let mut lowest = u64::MAX;
    let mut marks: Vec<&Mark> = panel.marks.iter().collect();
    marks.sort_by_key(|mark| mark.value);
    for mark in marks {
        let y = y(mark.value);
        // Labels of amounts that are close to each other stand above each other.
        let label = (y + 4).min(lowest.saturating_sub(14));
        lowest = label;
        let color = mark.color;
        let _ = writeln!(svg, "<path d=\"M{left} {y}H{right}\" stroke=\"{color}\" stroke-dasharray=\"4 3\"/>");
        let _ =
            writeln!(svg, "<text x=\"{}\" y=\"{label}\" fill=\"{color}\">{}</text>", right + 6, escaped(&mark.label));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_its_curve_and_its_marks_in_the_frame() {
        let mark = |label: &str, value, color| Mark { label: label.to_owned(), value, color };
        let panel = Panel {
            title: "cpu of <web>".to_owned(),
            subtitle: "7d".to_owned(),
            curve: vec![(500, 50), (900, 90), (1000, 100)],
            marks: vec![mark("peak 100m", 100, PEAK), mark("advised 90m", 90, ADVISED), mark("set 89m", 89, SET)],
        };
        let svg = picture(&[panel.clone(), panel]);
        assert_eq!(svg.matches("<polyline points=\"60,138 460,68 560,50\"").count(), 2, "{svg}");
        assert!(svg.contains("cpu of &lt;web&gt;"), "{svg}");
        for label in [
            "y=\"74\" fill=\"#9a6700\">set 89m",
            "y=\"60\" fill=\"#1a7f37\">advised 90m",
            "y=\"46\" fill=\"#cf222e\">peak 100m",
        ] {
            assert!(svg.contains(label), "{label} in {svg}");
        }
        assert!(svg.contains("viewBox=\"0 0 720 520\""), "{svg}");
    }
}
