//! A curve of lateness as an SVG: share of the jobs along, milliseconds up, both stretched so that the
//! slowest can be told apart.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 50.0;
/// The shares that are marked along the bottom.
const MARKS: [(f64, &str); 5] =
    [(0.0, "0"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];
const COLOURS: [&str; 4] = ["#2563eb", "#dc2626", "#059669", "#7c3aed"];

/// How far along a share stands: each nine as wide as the one before.
fn along(share: f64) -> f64 {
    let nines = -(1.0 - share.min(0.999_95)).log10();
    MARGIN + (WIDTH - 2.0 * MARGIN) * nines / 4.3
}

/// Curves with their names, in one picture.
pub fn svg(title: &str, curves: &[(String, Vec<(f64, f64)>)]) -> String {
    let most = curves.iter().flat_map(|(_, curve)| curve).map(|(_, millis)| *millis);
    let top = 10_f64.powf(most.fold(1.0, f64::max).log10().ceil());
    // From a tenth of a millisecond on, each power of ten as high as the one before.
    let decades = top.log10() + 1.0;
    let up = |millis: f64| {
        let share = (millis.max(0.1).log10() + 1.0) / decades;
        HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * share
    };
    let mut out = String::new();
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="white"/><text x="{MARGIN}" y="20" font-size="14">{title}</text>
"##
    );
    for (share, name) in MARKS {
        let (x, bottom) = (along(share), HEIGHT - MARGIN);
        let _ = writeln!(
            out,
            r##"<line x1="{x:.1}" y1="{MARGIN}" x2="{x:.1}" y2="{bottom}" stroke="#ddd"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{name}</text>"##,
            bottom + 15.0
        );
    }
    for decade in 0..=decades as i32 {
        let millis = 10_f64.powi(decade - 1);
        let y = up(millis);
        let _ = writeln!(
            out,
            r##"<line x1="{MARGIN}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#ddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{millis} ms</text>"##,
            WIDTH - MARGIN,
            MARGIN - 4.0,
            y + 4.0
        );
    }
    for (place, (name, curve)) in curves.iter().enumerate() {
        let colour = COLOURS[place % COLOURS.len()];
        let points: Vec<String> = curve
            .iter()
            .map(|(share, at)| format!("{:.1},{:.1}", along(*share), up(*at)))
            .collect();
        let y = MARGIN + 14.0 * (place + 1) as f64;
        let _ = writeln!(
            out,
            r##"<polyline fill="none" stroke="{colour}" stroke-width="2" points="{}"/><text x="{:.1}" y="{y}" fill="{colour}">{name}</text>"##,
            points.join(" "),
            MARGIN + 8.0
        );
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_is_higher_and_rarer_is_further_right() {
        let curve = vec![(0.0, 0.5), (0.5, 2.0), (0.99, 12.0), (1.0, 40.0)];
        let text = svg("lateness", &[("spread".to_string(), curve)]);
        let points = text.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
        let points: Vec<(f64, f64)> = points
            .expect("a line")
            .split(' ')
            .map(|pair| pair.split_once(',').expect("a pair"))
            .map(|(x, y)| (x.parse().expect("a number"), y.parse().expect("a number")))
            .collect();
        assert!(points.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 > two[1].1));
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
    }
}
