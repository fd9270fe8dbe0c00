//! The known endings. The contents of the files are tested end to end.

use super::{Kind, Target};

fn check(text: &str, expected: Result<(Kind, bool), &str>) {
    let target = Target::parse(text).map(|target| (target.kind, target.has_slices()));
    assert_eq!(target, expected.map_err(str::to_owned), "{text}");
}

#[test]
fn the_ending_decides_the_form() {
    check("run.json", Ok((Kind::Json, false)));
    check("/tmp/a b/run.NDJSON", Ok((Kind::Ndjson, true)));
    check("run.old.csv", Ok((Kind::Csv, true)));
    check("run.hlog", Ok((Kind::Hlog, true)));
    check("./run.svg", Ok((Kind::Svg, false)));
}

#[test]
fn an_ending_that_is_none_names_those_that_are() {
    let known = "does not say in which form: end it in one of .csv, .hlog, .json, .ndjson, .svg";
    for text in ["run", "run.txt", ".json", "json", "run.", "folder.csv/run"] {
        check(text, Err(&format!("`{text}` {known}")));
    }
}
