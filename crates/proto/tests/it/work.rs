//! The table of answers that both this and the Python implementation must match.

use std::fs;
use std::path::Path;

use proto::work;

#[test]
fn the_answers_are_those_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/work.txt");
    let table = fs::read_to_string(path).unwrap();
    let mut lines = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let (target, answer) = line.split_once(' ').unwrap();
        let (target, answer): (u32, u32) = (target.parse().unwrap(), answer.parse().unwrap());
        assert_eq!(work::compute(target), answer, "the answer to {target}");
        lines += 1;
    }
    assert!(lines > 10, "the table has {lines} lines");
}
