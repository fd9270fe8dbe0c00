//! The files of a run by hand, read back by programs for such files; what happens if they cannot be written; and the
//! events for a view of the run.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{Outcome, PATIENCE, Supervised, command, engine};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

const ENDINGS: [&str; 5] = ["json", "ndjson", "csv", "hlog", "svg"];

/// Nothing listens there: a run that connects would report so.
const NOBODY: &str = "http://127.0.0.1:1/";

#[test]
fn every_file_of_a_closed_loop_tells_the_same_run() {
    check_files("closed", "-c 3", 1);
}

#[test]
fn every_file_of_an_open_loop_tells_the_same_run_and_its_other_views() {
    check_files("open", "-c 3 -r 2000 --threads 2", 4);
}

/// Runs a load that writes every kind of file. Expects all to agree, and the drawing to have this many lines.
fn check_files(name: &str, flags: &str, lines: usize) {
    let folder = folder(name);
    let (_server, address) = server();
    let outcome = engine(&format!(
        "load http://{address}/ {flags} -z 1s --warmup 100ms --slice 400ms --json {}",
        writes(&folder)
    ));
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout).expect("the report is JSON");
    let read = |ending: &str| fs::read_to_string(folder.join(format!("run.{ending}"))).expect(ending);

    assert_eq!(serde_json::from_str::<Value>(&read("json")).expect("it is JSON"), report);
    let events: Vec<Value> =
        read("ndjson").lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let (last, intervals) = events.split_last().expect("there are lines");
    assert_eq!(*last, report);
    check_intervals(intervals, &report);
    check_rows(&read("csv"), intervals);
    check_log(&read("hlog"), intervals, &report);
    check_drawing(&read("svg"), lines);
    // A single line belongs to a closed loop, whose times begin with the send.
    let heading = if lines == 1 { "Service times: share" } else { "Response times: share" };
    assert!(read("svg").contains(heading), "{heading}");
}

fn check_intervals(intervals: &[Value], report: &Value) {
    assert_eq!(intervals.len(), 3, "two slices of 400 ms and one of 200 ms");
    assert!(intervals.windows(2).all(|pair| pair[0]["end_ns"] == pair[1]["begin_ns"]), "there is no gap");
    for kind in ["correct", "wrong", "failed"] {
        let sum: u64 = intervals.iter().map(|interval| number(&interval[kind])).sum();
        assert_eq!(sum, number(&report["requests"][kind]), "{kind}");
    }
    assert!(number(&report["requests"]["correct"]) > 0, "{report}");
}

fn check_rows(text: &str, intervals: &[Value]) {
    let mut rows = text.lines();
    let head = "second,correct,wrong,failed,rate_per_s,min_ns,mean_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,max_ns";
    assert_eq!(rows.next(), Some(head));
    for (interval, second) in intervals.iter().zip(["0", "0.4", "0.8"]) {
        let row: Vec<&str> = rows.next().expect("a row for each interval").split(',').collect();
        let latency = &interval["latency_ns"];
        let counts = ["correct", "wrong", "failed"].map(|kind| interval[kind].to_string());
        let times = ["min", "p50", "p90", "p99", "p99_9", "max"].map(|name| latency[name].to_string());
        assert_eq!(row[0], second);
        assert_eq!(row[1..4], counts);
        assert_eq!([&row[5..6], &row[7..]].concat(), times);
        for (column, exact) in [(4, &interval["rate_per_s"]), (6, &latency["mean"])] {
            let shown: f64 = row[column].parse().expect("it is a number");
            assert!((shown - exact.as_f64().expect("it is a number")).abs() <= 0.5, "{row:?}");
        }
    }
    assert_eq!(rows.next(), None);
}

fn check_log(text: &str, intervals: &[Value], report: &Value) {
    for part in
        ["#[Histogram log format version 1.3]\n", "#[StartTime: 1", "#[BaseTime: 1", "\"StartTimestamp\","]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let mut whole = histogram(report["latency_ns"]["histogram"].as_str().expect("it has one"));
    whole.clear();
    let mut rows = 0;
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let LogEntry::Interval(row) = entry.expect("it is a log") else { continue };
        let of_row = histogram(row.encoded_histogram());
        assert_eq!(row.start_timestamp(), Duration::from_millis(400 * rows as u64));
        assert_eq!(row.duration(), Duration::from_millis(if rows < 2 { 400 } else { 200 }));
        assert_eq!(row.tag(), None);
        assert_eq!(row.max() as u64, number(&intervals[rows]["latency_ns"]["max"]));
        assert_eq!(of_row.value_at_quantile(0.99), number(&intervals[rows]["latency_ns"]["p99"]));
        whole += of_row;
        rows += 1;
    }
    assert_eq!(rows, intervals.len());
    assert!(whole == histogram(report["latency_ns"]["histogram"].as_str().expect("it has one")));
    assert_eq!(whole.value_at_quantile(0.999), number(&report["latency_ns"]["p99_9"]));
}

fn check_drawing(text: &str, lines: usize) {
    assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" ") && text.ends_with("</svg>\n"));
    assert_eq!(text.matches("<polyline ").count(), lines);
    for part in ["prefers-color-scheme:dark", ">p99.999</text>", " %</text>", "/s"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    // The unit of the axis depends on the machine.
    assert!(
        [" ns</text>", " µs</text>", " ms</text>", " s</text>"].iter().any(|unit| text.contains(unit)),
        "{text}"
    );
    for part in ["<script", "NaN", "inf", "href"] {
        assert!(!text.contains(part), "{part} is in\n{text}");
    }
    let (opened, closed) = (text.matches("<text ").count(), text.matches("</text>").count());
    assert_eq!(opened, closed);
}

#[test]
fn a_drawing_names_no_percentile_that_too_few_replies_have() {
    let folder = folder("few");
    let (_server, address) = server();
    let drawing = folder.join("run.svg");
    let outcome = engine(&format!("load http://{address}/ -c 1 -n 50 -o {}", drawing.display()));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let text = fs::read_to_string(drawing).expect("it is there");
    assert!(text.contains(", p99 -, p99.9 -, max ") && !text.contains("p50 -"), "{text}");
}

#[test]
fn a_run_without_a_reply_is_drawn_and_written_too() {
    let folder = folder("silent");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let outcome = engine(&format!("load http://{address}/ -c 1 -n 1 --timeout 100ms {}", writes(&folder)));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let drawing = fs::read_to_string(folder.join("run.svg")).expect("it is there");
    assert!(drawing.contains("No reply came"), "{drawing}");
    assert!(fs::read_to_string(folder.join("run.hlog")).expect("it is there").contains("StartTimestamp"));
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is_sent() {
    let folder = folder("refused");
    let within = |name: &str| folder.join(name).display().to_string();
    fs::create_dir(folder.join("folder.csv")).expect("it can be made");
    let (txt, absent, a_folder) = (within("run.txt"), within("absent/run.svg"), within("folder.csv"));
    check_refused(&format!("-o {txt}"), "does not say in which form: end it in one of .csv, .hlog, .json, ");
    check_refused(&format!("-o {absent}"), &format!("cannot write {absent}: No such file or directory"));
    check_refused(&format!("-o {a_folder}"), &format!("cannot write {a_folder}: Is a directory"));
    let twice = within("twice.csv");
    check_refused(&format!("-o {twice} --write {twice}"), &format!("{twice} is named twice"));
    check_refused(&format!("-o {twice} --slice 50ms"), "--slice is 50ms; it can be from 100ms to ");
    check_refused("--slice 1s", "--write <PATH>");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1, "no new file is left");
}

/// Expects a file of this name in this folder to be refused under another name too.
fn check_same(folder: &Path, name: &str, other: &Path) {
    let (path, other) = (folder.join(name).display().to_string(), other.display().to_string());
    check_refused(&format!("-o {path} -o {other}"), &format!("{other} is named twice, also as {path}"));
}

#[test]
fn one_file_by_two_names_is_refused_and_left_as_it_was() {
    let folder = folder("two-names");
    let old = folder.join("old.csv");
    fs::write(&old, "of an earlier run").expect("it can be written");
    let link = |target: &str, name: &str| {
        let path = folder.join(name);
        symlink(target, &path).expect("it can be made");
        path
    };
    check_same(&folder, "old.csv", &link("old.csv", "link.json"));
    check_same(&folder, "new.json", &link("new.json", "to-new.csv"));
    fs::hard_link(&old, folder.join("hard.hlog")).expect("it can be made");
    check_same(&folder, "old.csv", &folder.join("hard.hlog"));
    check_same(&folder, "new.svg", &folder.join("../two-names/new.svg"));
    let line = format!("load {NOBODY} -z 1s -o new.json -o ./new.json");
    let outcome = finish(command(&line).current_dir(&folder));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("./new.json is named twice, also as new.json"), "{outcome:?}");
    assert_eq!(fs::read_to_string(&old).expect("it is there"), "of an earlier run");
    assert!(!folder.join("new.json").exists());
}

#[test]
fn a_full_disk_behind_standard_output_is_told_without_a_number() {
    let (_server, address) = server();
    let outcome = by_shell("exec > /dev/full", &format!("http://{address}/ -n 10"));
    let expected = "error: cannot write to standard output: No space left on device\n";
    assert_eq!((outcome.code, &*outcome.stderr), (Some(1), expected), "{outcome:?}");
}

fn check_refused(flags: &str, message: &str) {
    let outcome = engine(&format!("load {NOBODY} -z 1s {flags}"));
    let Outcome { code, stdout, stderr } = &outcome;
    assert_eq!((*code, stderr.lines().count(), &**stdout), (Some(2), 1, ""), "{outcome:?}");
    assert!(stderr.contains(message), "{message} is not in {stderr}");
}

#[test]
fn a_run_that_does_not_begin_leaves_the_files_as_they_were() {
    let folder = folder("as-they-were");
    let (old, new) = (folder.join("old.csv"), folder.join("new.csv"));
    fs::write(&old, "of an earlier run").expect("it can be written");
    let outcome = engine(&format!("load {NOBODY} -z 1s -o {} -o {}", old.display(), new.display()));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert_eq!(fs::read_to_string(&old).expect("it is there"), "of an earlier run");
    assert!(!new.exists());
}

#[test]
fn a_longer_file_of_an_earlier_run_is_replaced() {
    let folder = folder("replaced");
    let path = folder.join("run.json");
    fs::write(&path, " ".repeat(1 << 20)).expect("it can be written");
    let (_server, address) = server();
    let outcome = engine(&format!("load http://{address}/ -c 1 -n 10 -o {}", path.display()));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let text = fs::read_to_string(&path).expect("it is there");
    assert!(text.starts_with("{\n") && text.ends_with("}\n"), "{text}");
}

#[test]
fn a_run_that_is_killed_leaves_a_file_that_is_written_at_its_end_as_it_was() {
    let folder = folder("killed");
    for ending in ["json", "svg"] {
        fs::write(folder.join(format!("run.{ending}")), "of an earlier run").expect("it can be written");
    }
    let (_server, address) = server();
    let line = format!("load http://{address}/ -c 1 -z 1m --warmup 0s --slice 100ms {}", writes(&folder));
    let mut child = command(&line).stdout(Stdio::null()).spawn().expect("the engine starts");
    let read = |ending: &str| fs::read_to_string(folder.join(format!("run.{ending}"))).unwrap_or_default();
    let begin = Instant::now();
    while read("ndjson").is_empty() && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
    assert!(!read("ndjson").is_empty(), "the run has begun");
    assert_eq!(["json", "svg"].map(read), ["of an earlier run"; 2]);
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), ENDINGS.len(), "nothing else is left");
}

#[test]
fn a_file_that_cannot_be_written_to_its_end_leaves_the_one_that_was_there() {
    let folder = folder("too-large");
    let path = folder.join("run.json");
    fs::write(&path, "of an earlier run").expect("it can be written");
    let (_server, address) = server();
    // A limit on file size acts like a full disk, but only for plain files.
    let outcome =
        by_shell("trap '' XFSZ; ulimit -f 1", &format!("http://{address}/ -n 100 -o {}", path.display()));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stdout.contains("100 correct, 0 wrong, 0 failed"), "{outcome:?}");
    assert!(outcome.stderr.starts_with(&format!("error: cannot write {}: ", path.display())), "{outcome:?}");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "of an earlier run");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 1, "nothing else is left");
}

#[test]
fn a_file_has_the_rights_that_writing_it_anew_would_give() {
    let folder = folder("rights");
    let (old, new) = (folder.join("old.json"), folder.join("new.json"));
    fs::write(&old, "of an earlier run").expect("it can be written");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o604)).expect("it is ours");
    let (_server, address) = server();
    let flags = format!("http://{address}/ -n 100 -o {} -o {}", old.display(), new.display());
    let outcome = by_shell("umask 027", &flags);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let rights = |path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!([&old, &new].map(rights), [0o604, 0o640]);
    assert_eq!([&old, &new].map(|path| fs::read(path).expect("it is there")[0]), [b'{'; 2]);
}

#[test]
fn what_is_no_plain_file_is_written_itself() {
    let folder = folder("no-plain-file");
    let (_server, address) = server();
    let write = |path: &Path| {
        let outcome = engine(&format!("load http://{address}/ -n 100 -o {}", path.display()));
        assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{outcome:?}");
        outcome.stdout
    };
    let link = |name: &str, target: &Path| {
        let path = folder.join(name);
        symlink(target, &path).expect("it can be made");
        path
    };
    assert!(write(&link("stdout.json", Path::new("/dev/stdout"))).contains("\"event\": \"report\""));
    write(&link("null.svg", Path::new("/dev/null")));
    let target = folder.join("target");
    let to_target = link("link.json", &target);
    for _ in 0..2 {
        write(&to_target);
        assert!(fs::read_to_string(&target).is_ok_and(|text| text.starts_with('{') && text.ends_with("}\n")));
    }
    assert!(fs::symlink_metadata(&to_target).is_ok_and(|link| link.is_symlink()));
    let pipe = folder.join("pipe.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe)
    });
    write(&pipe);
    let text = reader.join().expect("it does not panic").expect("it is text");
    assert!(text.starts_with('{') && text.ends_with("}\n"), "{text}");
}

#[test]
fn a_file_is_written_where_its_folder_takes_no_other_and_refused_where_it_may_not_be_written() {
    if !fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
        || as_nobody("--version").code != Some(0)
    {
        eprintln!("skipped: it takes root to run the engine as another user");
        return;
    }
    let folder = folder("of-others");
    let (open, closed) = (folder.join("open.json"), folder.join("closed.json"));
    for (path, mode) in [(&open, 0o666), (&closed, 0o644)] {
        fs::write(path, "of an earlier run").expect("it can be written");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    let (_server, address) = server();
    let write = |path: &Path| as_nobody(&format!("load http://{address}/ -n 100 -o {}", path.display()));
    assert_eq!(write(&open).code, Some(0));
    assert!(fs::read_to_string(&open).is_ok_and(|text| text.starts_with('{')));
    for path in [closed.clone(), folder.join("new.json")] {
        let outcome = write(&path);
        assert_eq!(
            (outcome.code, outcome.stderr.contains("Permission denied")),
            (Some(2), true),
            "{outcome:?}"
        );
    }
    // A file that this user may not write is not replaced either, even if the folder would allow it.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("it is ours");
    assert_eq!(write(&closed).code, Some(2));
    assert_eq!(fs::read_to_string(&closed).expect("it is there"), "of an earlier run");
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_run() {
    let (_server, address) = server();
    for ending in ENDINGS {
        let path = folder(&format!("full-{ending}")).join(format!("run.{ending}"));
        symlink("/dev/full", &path).expect("it can be made");
        let outcome = engine(&format!("load http://{address}/ -c 1 -n 100 -o {}", path.display()));
        let Outcome { code, stdout, stderr } = &outcome;
        assert_eq!(*code, Some(1), "{outcome:?}");
        assert!(stdout.contains("100 correct, 0 wrong, 0 failed"), "{outcome:?}");
        let expected = format!("error: cannot write {}: No space left on device\n", path.display());
        assert_eq!(*stderr, expected);
    }
}

#[test]
fn a_crash_leaves_what_was_measured() {
    let folder = folder("crash");
    let (_server, address) = server();
    let line = format!("load http://{address}/ -c 1 -z 1m --warmup 0s --slice 100ms {}", writes(&folder));
    let mut child = command(&line).stdout(Stdio::null()).spawn().expect("the engine starts");
    let read = |ending: &str| fs::read_to_string(folder.join(format!("run.{ending}"))).unwrap_or_default();
    let begin = Instant::now();
    while read("ndjson").lines().count() < 3 && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it is our child");
    child.wait().expect("it is our child");
    let events = read("ndjson");
    let whole = events.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
    assert!(whole >= 3, "{events}");
    // Events before the last line of one file are also in the files written before it.
    assert!(read("csv").lines().count() > whole - 1);
    let rows = |entry: &Result<LogEntry<'_>, _>| matches!(entry, Ok(LogEntry::Interval(_)));
    assert!(IntervalLogIterator::new(read("hlog").as_bytes()).filter(rows).count() >= whole - 1);
}

#[test]
fn a_view_is_told_what_the_run_is_to_be_and_what_happens() {
    let (_server, address) = server();
    let line = format!("load http://{address}/ -c 2 -z 300ms --warmup 100ms --events-fd 3");
    let output = on_descriptor_3(&line).stdout(Stdio::piped()).output().expect("there is a shell");
    assert!(output.status.success(), "{output:?}");
    let told: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect();
    assert_eq!((&told[0]["role"], number(&told[0]["duration_ms"])), (&Value::from("load"), 300));
    let events: Vec<&str> = told[1..].iter().filter_map(|event| event["event"].as_str()).collect();
    // The window may end before its only slice has been merged.
    assert!(matches!(
        events[..],
        ["ready", "measuring", "interval", "measured"] | ["ready", "measuring", "measured", "interval"]
    ));
}

#[test]
fn a_view_that_does_not_read_delays_nothing() {
    let (_server, address) = server();
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe can be made");
    // As much as a pipe holds.
    writer.write_all(&[b'\n'; 1 << 16]).expect("there is room");
    let line = format!("load http://{address}/ -c 2 -n 1000 --events-fd 3");
    let mut child = on_descriptor_3(&line).stdout(writer).spawn().expect("there is a shell");
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().expect("it is our child") {
            None if begin.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(5)),
            ended => break ended,
        }
    };
    // Nothing to do if the child has ended.
    let _ = child.kill();
    assert_eq!(status.and_then(|status| status.code()), Some(0));
    let mut told = String::new();
    reader.read_to_string(&mut told).expect("it is text");
    assert_eq!(told.trim_start_matches('\n'), "", "a line that did not fit is dropped as a whole");
}

#[test]
fn a_view_that_is_not_there_or_not_wanted_is_said_or_left_out() {
    let (_server, address) = server();
    let outcome = engine(&format!("load {NOBODY} -z 1s --events-fd 77"));
    assert_eq!((outcome.code, outcome.stderr.contains("descriptor 77 is no pipe")), (Some(2), true));
    for flag in ["--quiet", "--json"] {
        let line = format!("load http://{address}/ -n 1 -c 1 --events-fd 3 {flag}");
        let output = on_descriptor_3(&line).stdout(Stdio::piped()).output().expect("there is a shell");
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]), "{output:?}");
    }
}

/// Runs a load in a shell after some preparation.
fn by_shell(preparation: &str, flags: &str) -> Outcome {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!(r#"{preparation}; exec "$ENGINE" load {flags}"#)]);
    finish(shell.env("ENGINE", env!("CARGO_BIN_EXE_iolab-engine")))
}

/// Runs the engine as a user who owns no files.
fn as_nobody(arguments: &str) -> Outcome {
    const NOBODY: u32 = 65_534;
    finish(command(arguments).uid(NOBODY).gid(NOBODY))
}

fn finish(command: &mut Command) -> Outcome {
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        return Outcome { code: None, stdout: String::new(), stderr: "it cannot be started".into() };
    };
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("its output is text"),
        stderr: String::from_utf8(output.stderr).expect("its errors are text"),
    }
}

/// A command whose standard output is the engine's descriptor 3. The engine's own output is dropped.
fn on_descriptor_3(arguments: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!(r#"exec "$ENGINE" {arguments} 3>&1 >/dev/null"#)]);
    shell.env("ENGINE", env!("CARGO_BIN_EXE_iolab-engine")).stdin(Stdio::null());
    shell
}

/// An HTTP server of this engine.
fn server() -> (Supervised, SocketAddr) {
    Supervised::server("epoll", r#"{"protocol":"http"}"#)
}

/// Flags that write a file of every kind.
fn writes(folder: &Path) -> String {
    ENDINGS.map(|ending| format!("-o {}/run.{ending}", folder.display())).join(" ")
}

/// A new, empty folder of this name.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("files").join(name);
    // Missing the first time.
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the build folder can be written");
    path
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

fn histogram(text: &str) -> Histogram<u64> {
    let packed = STANDARD.decode(text).expect("it is base64");
    Deserializer::new().deserialize(&mut packed.as_slice()).expect("it is a histogram")
}
