//! Memory limits from usage, for containers that have one: nobody else's memory is bounded here, and a CPU limit is never
//! recommended, since it only slows down.

use headroom_admission::amount::Quantity;

const MEBIBYTE: u64 = 1 << 20;

/// It was killed again and again, so nobody knows how much it takes.
const MANY_KILLS: u64 = 5;

/// A limit that leaves a fifth above the peak, at least 64Mi; above a kill the same fifth, at least 100Mi, because there
/// the limit itself cut the peak off, and half of it above many kills.
pub fn of_usage(peak: u64, killed_at: Option<u64>, kills: u64) -> Quantity {
    let above = |bytes: u64, part: u64, least: u64| bytes.saturating_add((bytes / part).max(least * MEBIBYTE));
    let part = if kills < MANY_KILLS { 5 } else { 2 };
    let bytes = above(peak, 5, 64).max(killed_at.map_or(0, |bytes| above(bytes, part, 100)));
    Quantity::from_bytes(bytes.div_ceil(MEBIBYTE).saturating_mul(MEBIBYTE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_room_above_the_peak_and_more_above_a_kill() {
        let check = |peak: u64, kills: Option<(u64, u64)>, expected: &str| {
            let (killed_at, kills) = kills.unzip();
            let limit = of_usage(peak * MEBIBYTE, killed_at.map(|mebibytes| mebibytes * MEBIBYTE), kills.unwrap_or(0));
            assert_eq!(limit.to_string(), expected);
        };
        check(0, None, "64Mi");
        check(100, None, "164Mi");
        check(1000, None, "1200Mi");
        check(1001, None, "1202Mi");
        check(500, Some((512, 1)), "615Mi");
        check(200, Some((256, 4)), "356Mi");
        check(2000, Some((256, 1)), "2400Mi");
        check(400, Some((1024, 56)), "1536Mi");
    }
}
