use contract::{Statuses, Workload};

use super::*;

#[test]
fn the_flags_of_ab_become_ours() {
    check("ab http://a/", "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s --no-keepalive");
    check(
        "ab -n 1000 -c 10 -k http://a:80/x",
        "http://a:80/x -c 10 --open as_needed --details -n 1000 --timeout 30s",
    );
    check("ab -n1000 -kc10 a/", "http://a/ -c 10 --open as_needed --details -n 1000 --timeout 30s");
    check(
        "/usr/bin/ab -qrSI -v 2 -t 30 -k a/",
        "http://a/ -c 1 --open as_needed --details -n 50000 -z 30s --timeout 30s",
    );
    check(
        "ab -n 9 -l -s 5 a/",
        "http://a/ -c 1 --open as_needed --details -n 9 --timeout 5s --no-keepalive --verify status",
    );
    check("ab -k -n 5 -n 7 a/", "http://a/ -c 1 --open as_needed --details -n 7 --timeout 30s");
    check(
        "ab -k -p b.json -T application/json a/",
        "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s -m POST -D b.json \
         -H 'Content-Type: application/json'",
    );
    check(
        "ab -k -u b a/",
        "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s -m PUT -D b -H 'Content-Type: text/plain'",
    );
    check(
        "ab -k -B 127.0.0.2 a/",
        "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s --source 127.0.0.2",
    );
    check("ab -k -i a/", "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s -m HEAD");
    check("ab -k -m DELETE a/", "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s -m DELETE");
    check(
        "ab -k -C a=b -C c=d -A me:secret -H 'X: y z' a/",
        "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s -H 'Cookie: a=b' -H 'Cookie: c=d' \
         -H 'Authorization: Basic bWU6c2VjcmV0' -H 'X: y z'",
    );
}

#[test]
fn a_time_limit_of_ab_brings_its_50_000_requests_unless_a_number_comes_after_it() {
    check("ab -k -t 5 a/", "http://a/ -c 1 --open as_needed --details -n 50000 -z 5s --timeout 30s");
    check("ab -k -n 10 -t 5 a/", "http://a/ -c 1 --open as_needed --details -n 50000 -z 5s --timeout 30s");
    check("ab -k -t 5 -n 10 a/", "http://a/ -c 1 --open as_needed --details -n 10 -z 5s --timeout 30s");
    check("ab -k -n 10 -t 5 -n 20 a/", "http://a/ -c 1 --open as_needed --details -n 20 -z 5s --timeout 30s");
    check("ab -k -t 0 a/", "http://a/ -c 1 --open as_needed --details -n 50000 --timeout 30s");
    check(
        "ab -k -t 5 -n 100000000 a/",
        "http://a/ -c 1 --open as_needed --details -n 100000000 -z 5s --timeout 30s",
    );
}

#[test]
fn what_a_header_says_of_the_connection_is_a_flag_of_ours() {
    let kept = [
        (
            "ab -k -H 'Connection: KEEP-ALIVE' a/",
            "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s",
        ),
        (
            "hey -H 'connection:keep-alive' http://a/",
            "http://a/ -c 50 --open as_needed --details -n 200 --timeout 20s --verify status",
        ),
    ];
    let closed = [
        (
            "ab -k -H 'Connection: close' a/",
            "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s --no-keepalive",
        ),
        (
            "ab -H 'Connection: close' a/",
            "http://a/ -c 1 --open as_needed --details -n 1 --timeout 30s --no-keepalive",
        ),
        (
            "hey -H 'Connection: Close' http://a/",
            "http://a/ -c 50 --open as_needed --details -n 200 --timeout 20s --verify status --no-keepalive",
        ),
        (
            "wrk -H 'connection: close' -H 'X: y' http://a/",
            "http://a/ -c 10 -t 2 -z 10s --warmup 0s --timeout 2s --verify status --no-keepalive -H 'X: y'",
        ),
        (
            "oha -H 'Connection:close' http://a/",
            "http://a/ -c 50 -n 200 --timeout 24h --verify status --no-keepalive",
        ),
    ];
    kept.iter().chain(&closed).for_each(|(line, expected)| check(line, expected));
}

#[test]
fn hey_gives_each_worker_the_same_number_of_requests() {
    check(
        "hey -n 10 -c 4 http://a/",
        "http://a/ -c 4 --open as_needed --details -n 8 --timeout 20s --verify status",
    );
    check(
        "hey -n 4 -c 4 http://a/",
        "http://a/ -c 4 --open as_needed --details -n 4 --timeout 20s --verify status",
    );
    check(
        "hey -n 3 -c 4 -z 1s http://a/",
        "http://a/ -c 4 --open as_needed --details -z 1s --warmup 0s --timeout 20s --verify status",
    );
    check_error("hey -n 3 -c 4 http://a/", "hey: -n 3 is less than a request for each of -c 4");
    check_error("hey -c 0 http://a/", "hey: -n 200 is less than a request for each of -c 0");
}

#[test]
fn tools_that_check_no_certificate_have_none_checked() {
    check("ab -k https://a/", "https://a/ --insecure -c 1 -n 1 --timeout 30s");
    check("hey https://a/", "https://a/ --insecure -c 50 -n 200 --timeout 20s --verify status");
    check(
        "wrk https://a/",
        "https://a/ --insecure -c 10 -t 2 -z 10s --warmup 0s --timeout 2s --verify status",
    );
    check(
        "oha --cacert b.pem https://a/",
        "https://a/ --cacert b.pem -c 50 -n 200 --timeout 24h --verify status",
    );
    check("oha --insecure https://a/", "https://a/ --insecure -c 50 -n 200 --timeout 24h --verify status");
}

#[test]
fn the_flags_of_hey_become_ours() {
    check("hey http://a/", "http://a/ -c 50 --open as_needed --details -n 200 --timeout 20s --verify status");
    check(
        "hey -n 1000 -c 10 -cpus 2 http://a/",
        "http://a/ -c 10 --open as_needed --details -t 2 -n 1000 --timeout 20s --verify status",
    );
    check(
        "hey -n=9 -c=1 -cpus=2 http://a/",
        "http://a/ -c 1 --open as_needed --details -t 1 -n 9 --timeout 20s --verify status",
    );
    check(
        "hey -z 1m30s -n 7 -q 2.5 -t 0 -disable-keepalive http://a/",
        "http://a/ -c 50 --open as_needed --details -z 90s --warmup 0s --rate 125 --arrivals even --timeout 24h \
         --no-keepalive --verify status",
    );
    check(
        "hey -m POST -d -1 -T text/x -A text/y -a me:secret -host b -H 'X: y' --disable-compression http://a/",
        "http://a/ -c 50 --open as_needed --details -n 200 --timeout 20s --verify status -m POST -d=-1 \
         -H 'Content-Type: text/x' -H 'Host: b' -H 'Accept: text/y' -H 'Authorization: Basic bWU6c2VjcmV0' -H 'X: y'",
    );
    check(
        "hey -D body http://a/",
        "http://a/ -c 50 --open as_needed --details -n 200 --timeout 20s --verify status -m GET -D body \
         -H 'Content-Type: text/html'",
    );
}

#[test]
fn the_flags_of_wrk_become_ours() {
    check("wrk http://a/", "http://a/ -c 10 -t 2 -z 10s --warmup 0s --timeout 2s --verify status");
    check(
        "wrk -t4 -c1k -d2m --latency --timeout 500ms -H 'X: y' http://a/",
        "http://a/ -c 1000 -t 4 -z 120s --warmup 0s --timeout 500ms --verify status -H 'X: y'",
    );
    check(
        "wrk -d 5 -R 2k -L http://a/",
        "http://a/ -c 10 -t 2 -z 5s --warmup 0s --rate 2000 --arrivals even --timeout 2s --verify status",
    );
}

#[test]
fn the_flags_of_oha_become_ours() {
    check("oha http://a/", "http://a/ -c 50 -n 200 --timeout 24h --verify status");
    check(
        "oha --no-tui -n 10k -c 100 --worker-threads 4 http://a/",
        "http://a/ -c 100 -t 4 -n 10000 --timeout 24h --verify status",
    );
    check(
        "oha -z 10s -q 500 --latency-correction --disable-keepalive -t 2s --output-format text http://a/",
        "http://a/ -c 50 -z 10s --warmup 0s --rate 500 --arrivals even --timeout 2s --no-keepalive \
         --verify status",
    );
    check(
        "oha -m PUT -d '{\"a\": 1}' -T application/json http://a/",
        "http://a/ -c 50 -n 200 --timeout 24h --verify status -m PUT -d '{\"a\": 1}' \
         -H 'Content-Type: application/json'",
    );
}

#[test]
fn the_flags_of_the_echo_client_become_ours() {
    check(
        "echo-client -s 127.0.0.1 -p 9000 -t 50 -n 100000",
        "tcp://127.0.0.1:9000 -c 50 --open as_needed -n 100000 --message-bytes 65 --driver thread --one-receive",
    );
    check(
        "echo-client -s ::1 -p 9000 -t 1 -n 1",
        "tcp://[::1]:9000 -c 1 --open as_needed -n 1 --message-bytes 65 --driver thread --one-receive",
    );
}

#[test]
fn a_line_that_is_no_command_says_so() {
    check_error("", "--like is empty");
    check_error("ab -H 'X: y a/", "a quote is not closed");
    check_error(
        "wkr http://a/",
        "tool of --like `wkr` is not known; did you mean wrk? one of: ab, hey, wrk, oha",
    );
    check_error("ab", "ab: the following required arguments were not provided: <URL>");
    check_error("ab -n 1 a/ | grep Requests", "ab: unexpected argument '|' found");
    check_error("ab -n many a/", "ab: invalid value 'many' for '-n <REQUESTS>'");
    check_error("wrk -d 5x http://a/", "`x` is not a unit");
    check_error("wrk -c 5q http://a/", "`5q` is not a count; write it as in 1000, 10k or 1M");
    check_error("oha tcp://a:1", "oha: `tcp://a:1` is not HTTP: write http://a:1/");
    check_error("hey localhost", "hey: `localhost` is not complete: write http://localhost");
    check_error("echo-client -s 127.0.0.1 -p 9000 -t 50", "echo-client: the following required arguments");
}

#[test]
fn a_flag_that_cannot_be_followed_is_named_with_the_reason() {
    check_error("ab -X proxy:80 a/", "ab: -X cannot be followed here: proxies are not supported");
    check_error("ab -e out.csv a/", "ab: -e cannot be followed here");
    check_error("ab -p b -i a/", "cannot be used with");
    check_error("hey -o csv http://a/", "hey: -o cannot be followed here: latencies are kept as a histogram");
    check_error("hey -h2 http://a/", "hey: -h2 cannot be followed here: the generator speaks HTTP/1.1");
    check_error("wrk -s post.lua http://a/", "wrk: -s cannot be followed here: the generator runs no Lua");
    check_error("oha --output-format json http://a/", "oha: invalid value 'json' for '--output-format");
    check_error("oha --urls-from-file urls", "oha: --urls-from-file cannot be followed here");
}

#[test]
fn the_report_of_ab_has_its_labels_and_our_numbers() {
    check_report(
        "ab -n 10000 -c 50 -k http://127.0.0.1:8080/",
        &report(),
        LATENCIES_NS,
        "\
Server Software:        not measured
Server Hostname:        127.0.0.1
Server Port:            8080

Document Path:          /
Document Length:        4 bytes

Concurrency Level:      50
Time taken for tests:   2.000 seconds
Complete requests:      10000
Failed requests:        0
Keep-Alive requests:    not measured
Total transferred:      2048000 bytes
HTML transferred:       40000 bytes
Requests per second:    5000.00 [#/sec] (mean)
Time per request:       10.000 [ms] (mean)
Time per request:       0.200 [ms] (mean, across all concurrent requests)
Transfer rate:          1000.00 [Kbytes/sec] received

Connection Times (ms)
                    min      mean  [+/-sd]    median       max
Connect:      not measured
Processing:   not measured
Waiting:      not measured
Total:            0.100     0.370    0.249     0.200     1.000

Percentage of the requests served within a certain time (ms)
  50%      0.200
  66%      0.500
  75%      0.500
  80%      0.500
  90%      0.500
  95%      1.000
  98%      1.000
  99%      1.000
 100%      1.000 (longest request)",
    );
}

#[test]
fn the_report_of_hey_has_its_labels_and_our_numbers() {
    check_report(
        "hey -n 10000 http://127.0.0.1:8080/",
        &report(),
        LATENCIES_NS,
        "
Summary:
  Total:\t2.0000 secs
  Slowest:\t0.001000 secs
  Fastest:\t0.000100 secs
  Average:\t0.000370 secs
  Requests/sec:\t5000.0000

  Total data:\t40000 bytes
  Size/request:\t4 bytes

Response time histogram:
  0.000100 [1]\t|
  0.000190 [0]\t|
  0.000280 [5999]\t|■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■
  0.000370 [0]\t|
  0.000460 [0]\t|
  0.000550 [3000]\t|■■■■■■■■■■■■■■■■■■■■
  0.000640 [0]\t|
  0.000730 [0]\t|
  0.000820 [0]\t|
  0.000910 [0]\t|
  0.001000 [1000]\t|■■■■■■


Latency distribution:
  10% in 0.000200 secs
  25% in 0.000200 secs
  50% in 0.000200 secs
  75% in 0.000500 secs
  90% in 0.000500 secs
  95% in 0.001000 secs
  99% in 0.001000 secs

Details (average, fastest, slowest):
  DNS+dialup:\tnot measured
  DNS-lookup:\tnot measured
  req write:\tnot measured
  resp wait:\tnot measured
  resp read:\tnot measured

Status code distribution:
  [200]\t10000 responses",
    );
}

#[test]
fn the_report_of_wrk_has_its_labels_and_our_numbers() {
    check_report(
        "wrk -c 50 -d 2 --latency http://127.0.0.1:8080/",
        &report(),
        LATENCIES_NS,
        "\
Running 2s test @ http://127.0.0.1:8080/
  2 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   370.04us  249.28us   1.00ms   89.99%
    Req/Sec      2.50k    256.49    2.75k  100.00%
  Latency Distribution
     50%  200.06us
     75%  500.22us
     90%  500.22us
     99%    1.00ms
  10000 requests in 2.00s, 1.95MB read
Requests/sec:    5000.00
Transfer/sec:  1000.00KB",
    );
}

#[test]
fn the_deviation_in_the_report_of_wrk_is_that_of_a_sample() {
    let mut report = report();
    report.intervals.completed.truncate(5);
    let alone = text("wrk http://127.0.0.1:8080/", &report, &[(100_000, 1)]);
    assert!(alone.contains("    Latency   100.00us    0.00us"), "{alone}");
    assert!(alone.contains("    Req/Sec      2.25k      0.00    2.25k"), "{alone}");
    let two = text("wrk http://127.0.0.1:8080/", &report, &[(100_000, 1), (200_000, 1)]);
    assert!(two.contains("   70."), "half of 100 us by the root of 2: {two}");
}

#[test]
fn the_report_of_oha_has_its_labels_and_our_numbers() {
    check_report(
        "oha -n 10000 http://127.0.0.1:8080/",
        &report(),
        LATENCIES_NS,
        "\
Summary:
  Success rate:\t100.00%
  Total:\t2000.0000 ms
  Slowest:\t1.0004 ms
  Fastest:\t0.1000 ms
  Average:\t0.3700 ms
  Requests/sec:\t5000.0000

  Total data:\t39.06 KiB
  Size/request:\t4 B
  Size/sec:\t19.53 KiB

Response time histogram:
  0.100 ms [1]    |
  0.190 ms [0]    |
  0.280 ms [5999] |■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■
  0.370 ms [0]    |
  0.460 ms [0]    |
  0.550 ms [3000] |■■■■■■■■■■■■■■■■
  0.640 ms [0]    |
  0.730 ms [0]    |
  0.820 ms [0]    |
  0.910 ms [0]    |
  1.000 ms [1000] |■■■■■

Response time distribution:
  10.00% in 0.2001 ms
  25.00% in 0.2001 ms
  50.00% in 0.2001 ms
  75.00% in 0.5002 ms
  90.00% in 0.5002 ms
  95.00% in 1.0004 ms
  99.00% in 1.0004 ms
  99.90% in 1.0004 ms
  99.99% in 1.0004 ms


Details (average, fastest, slowest):
  DNS+dialup:\tnot measured
  DNS-lookup:\tnot measured

Status code distribution:
  [200] 10000 responses",
    );
}

#[test]
fn the_report_of_the_echo_client_has_its_labels_and_our_numbers() {
    check_report(
        "echo-client -s 127.0.0.1 -p 9000 -t 50 -n 10000",
        &report(),
        LATENCIES_NS,
        "\
success: 10000, failed: 0, time_used: 2000, qps: 5000",
    );
}

#[test]
fn the_parts_of_a_request_s_time_are_shown_where_they_were_measured() {
    let mut report = report();
    let of = |values_ns: &[(u64, u64)]| {
        let mut latency = contract::Latency::default();
        values_ns.iter().for_each(|&(ns, number)| latency.record_n(ns, number).expect("it is in bounds"));
        latency
    };
    report.times = Some(contract::Times {
        // Three of four requests found their connection open.
        connect_ns: of(&[(0, 3), (40_000, 1)]),
        write_ns: of(&[(10_000, 4)]),
        wait_ns: of(&[(100_000, 2), (200_000, 2)]),
        read_ns: of(&[(0, 4)]),
        processing_ns: of(&[(110_000, 2), (210_000, 2)]),
    });
    check_parts(
        "hey http://127.0.0.1:8080/",
        &report,
        &[
            "  DNS+dialup:\t0.000010 secs, 0.000000 secs, 0.000040 secs\n  DNS-lookup:\tnot measured\n",
            "  req write:\t0.000010 secs, 0.000010 secs, 0.000010 secs\n",
            "  resp wait:\t0.000150 secs, 0.000100 secs, 0.000200 secs\n",
            "  resp read:\t0.000000 secs, 0.000000 secs, 0.000000 secs\n",
        ],
    );
    check_parts(
        "ab http://127.0.0.1:8080/",
        &report,
        &[
            "Connect:          0.000     0.010    0.020     0.000     0.040\n",
            "Processing:       0.110     0.160    0.058     0.110     0.210\n",
            "Waiting:          0.100     0.150    0.058     0.100     0.200\n",
        ],
    );
}

#[test]
fn what_went_wrong_is_counted_as_the_tool_counts_it() {
    check_parts(
        "ab -n 10000 -c 50 http://127.0.0.1:8080/",
        &flawed_report(),
        &[
            "Complete requests:      10000\n",
            "Failed requests:        50\n   (Connect: 5, Receive: 35, Length: 10, Exceptions: 0)\n",
            "Non-2xx responses:      50\n",
        ],
    );
    check_parts(
        "hey http://127.0.0.1:8080/",
        &flawed_report(),
        &[
            "Requests/sec:\t5000.0000\n",
            "  [200]\t9910 responses\n  [503]\t50 responses\n",
            "Error distribution:\n  [5]\tcould not connect\n  [5]\tconnection reset\n  [30]\tno reply in time\n",
            "  [10]\twrong reply\n  the first: a reply had the \\u{1b}[2J",
        ],
    );
    check_parts(
        "wrk http://127.0.0.1:8080/",
        &flawed_report(),
        &[
            "9960 requests in 2.00s",
            "Socket errors: connect 5, read 5, write not measured, timeout 30\n",
            "Non-2xx or 3xx responses: 50\n",
            "Requests/sec:    4980.00\n",
        ],
    );
    check_parts(
        "oha http://127.0.0.1:8080/",
        &flawed_report(),
        &["Success rate:\t99.60%\n", "[7] aborted due to deadline\n"],
    );
    // A failure after the last reply extends the time.
    let mut report = flawed_report();
    (report.last_reply_ns, report.elapsed_ns) = (Some(report.end_ns - 500_000_000), Some(1_500_000_000));
    check_parts(
        "echo-client -s 127.0.0.1 -p 9000 -t 50 -n 10000",
        &report,
        &["success: 9900, failed: 100, time_used: 2000, qps: 5000"],
    );
}

#[test]
fn a_run_without_replies_has_no_times() {
    check_parts(
        "ab http://127.0.0.1:8080/",
        &empty_report(),
        &["Complete requests:      3\n", "Failed requests:        3\n", "Total:        not measured"],
    );
    check_parts(
        "hey http://127.0.0.1:8080/",
        &empty_report(),
        &["Average:\tnot measured\n", "Response time histogram:\n\n\nLatency distribution:\n\nDetails"],
    );
    check_parts(
        "wrk --latency http://127.0.0.1:8080/",
        &empty_report(),
        &["Latency   not measured\n    Req/Sec   not measured\n  0 requests in 0.00us, 0.00B read\n"],
    );
    check_parts(
        "oha http://127.0.0.1:8080/",
        &empty_report(),
        &["Success rate:\t0.00%\n", "Fastest:\tnot measured\n", "99.99% in not measured\n"],
    );
    let line = "echo-client -s 127.0.0.1 -p 9000 -t 50 -n 10000";
    check_parts(line, &empty_report(), &["success: 0, failed: 3, time_used: 0, qps: not measured"]);
    let mut report = empty_report();
    report.end_ns += 1_500_000_000;
    check_parts(line, &report, &["success: 0, failed: 3, time_used: 1500, qps: 2"]);
}

#[test]
fn a_flag_that_shapes_the_report_is_followed() {
    let shown = |line: &str| text(line, &report(), LATENCIES_NS);
    assert!(!shown("ab -d a/").contains("Percentage of the requests"));
    assert!(shown("ab -l a/").contains("Document Length:        Variable\n"));
    assert!(shown("ab -p b a/").contains("Total body sent:        1024000\n"));
    assert!(shown("ab -p b a/").contains("500.00 kb/s sent\n                        1500.00 kb/s total\n"));
    assert!(!shown("wrk http://a/").contains("Latency Distribution"));
    assert!(shown("oha -u ms http://a/").contains("Slowest:\t1.0004 ms\n"));
}

#[test]
fn the_unit_of_oha_is_the_largest_that_the_slowest_request_exceeds() {
    let shown = |slowest_ns: u64| text("oha http://a/", &report(), &[(500, 1), (slowest_ns, 1)]);
    for (slowest_ns, total) in [
        (900, "2000000000.0000 ns"),
        (90_000, "2000000.0000 us"),
        (1_100_000, "2000.0000 ms"),
        (3_000_000_000, "2.0000 sec"),
        (59_000_000_000, "2.0000 sec"),
    ] {
        assert!(shown(slowest_ns).contains(&format!("  Total:\t{total}\n")), "{}", shown(slowest_ns));
    }
    assert!(text("oha -u h http://a/", &report(), &[(500, 1)]).contains("  Total:\t0.0006 hr\n"));
}

#[test]
fn ab_refuses_more_connections_than_requests() {
    let message = "ab: Cannot use concurrency level greater than total number of requests: -n 100 for -c 200";
    check_error("ab -n 100 -c 200 http://a/", message);
    check_error("ab -c 2 http://a/", "-n 1 for -c 2");
    check("ab -k -n 2 -c 2 http://a", "http://a -c 2 --open as_needed --details -n 2 --timeout 30s");
}

fn check(line: &str, expected: &str) {
    let like = parse(line).unwrap_or_else(|failure| panic!("{line}: {}", failure.message));
    let expected = shlex::split(expected).expect("its quotes are closed");
    assert_eq!(like.argv, expected, "{line}");
}

fn check_error(line: &str, part: &str) {
    let failure = parse(line).expect_err(line);
    assert_eq!((failure.kind, failure.exit_code()), ("bad_flag", std::process::ExitCode::from(2)), "{line}");
    assert!(failure.message.contains(part), "{line}: {}", failure.message);
    assert!(!failure.message.contains('\n'), "{line}: {}", failure.message);
}

/// Compares the report that a tool would print of a run with the expected one.
fn check_report(line: &str, report: &Report, latencies_ns: &[(u64, u64)], expected: &str) {
    let shown = text(line, report, latencies_ns);
    assert_eq!(shown, expected, "\nshown:\n{shown}\n");
}

/// Expects these parts in the report that a tool would print. Without a correct reply there are no latencies either.
fn check_parts(line: &str, report: &Report, parts: &[&str]) {
    let latencies_ns = if report.requests.correct > 0 { LATENCIES_NS } else { &[] };
    let shown = text(line, report, latencies_ns);
    for part in parts {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
}

/// The report that a tool would print, with latencies as pairs of nanoseconds and count.
fn text(line: &str, report: &Report, latencies_ns: &[(u64, u64)]) -> String {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    for &(latency_ns, number) in latencies_ns {
        histogram.record_n(latency_ns, number).expect("it is in bounds");
    }
    parse(line).expect("the line is right").text(report, &histogram)
}

/// A run of 10,000 requests in two seconds, with round numbers.
fn report() -> Report {
    let mut report: Report = contract::read(include_str!("../../../../schema/examples/report.json"))
        .expect("the example is valid");
    report.threads = 2;
    report.workload = Workload::Http(contract::Http::default());
    (report.begin_ns, report.end_ns) = (1_000_000_000, 3_000_000_000);
    (report.requests.sent, report.requests.correct) = (10_000, 10_000);
    report.requests.in_flight_end = 0;
    (report.last_reply_ns, report.elapsed_ns) = (Some(report.end_ns), Some(2_000_000_000));
    (report.bytes.sent, report.bytes.received) = (1_024_000, 2_048_000);
    report.bytes.bodies = Some(40_000);
    report.statuses = Statuses::from_iter([(200, 10_000)]);
    report.intervals.begin_ns = report.begin_ns;
    report.intervals.length_ns = 20_000_000;
    report.intervals.completed = [[90; 50], [110; 50]].concat();
    report
}

const LATENCIES_NS: &[(u64, u64)] = &[(100_000, 1), (200_000, 5_999), (500_000, 3_000), (1_000_000, 1_000)];

/// The same with one request in a hundred wrong and seven in flight at the end.
fn flawed_report() -> Report {
    let mut report = report();
    (report.requests.correct, report.requests.wrong, report.requests.failed) = (9_900, 60, 40);
    report.requests.in_flight_end = 7;
    let errors = &mut report.errors;
    (errors.status, errors.wrong, errors.connect, errors.timeout, errors.reset) = (50, 10, 5, 30, 5);
    report.first_error = Some("a reply had the \u{1b}[2J".into());
    report.statuses = Statuses::from_iter([(200, 9_910), (503, 50)]);
    report
}

/// The same without replies.
fn empty_report() -> Report {
    let mut report = report();
    (report.requests.correct, report.requests.failed) = (0, 3);
    report.errors.connect = 3;
    report.end_ns = report.begin_ns;
    (report.last_reply_ns, report.elapsed_ns) = (None, None);
    (report.bytes.received, report.bytes.bodies) = (0, Some(0));
    report.intervals.completed.clear();
    report.statuses = Statuses::default();
    report
}
