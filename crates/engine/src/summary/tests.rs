use super::*;
use crate::contract;

#[test]
fn a_clean_run_is_shown_without_warnings() {
    check(
        |_| (),
        0..1_000,
        "\
http://127.0.0.1:8080/   2.00 s, 50 connections, 1 thread, epoll

  Requests    500/s   1 000 correct, 0 wrong, 0 failed
  Received    16.0 MB/s   32.0 MB
  Sent        8.00 MB/s   16.0 MB
  Errors      none

  Latency     from the send to the whole, checked reply, in a closed loop
              min       p50       p90       p99     p99.9    p99.99       max
          1.00 µs   1.00 µs   1.00 µs    100 µs    100 µs         -   1.00 ms
              mean 5.45 µs, standard deviation 34.6 µs

    to    1.58 µs   95.0 %  ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■
    to    2.51 µs    0.0 %
    to    3.98 µs    0.0 %
    to    6.31 µs    0.0 %
    to    10.0 µs    0.0 %
    to    15.8 µs    0.0 %
    to    25.1 µs    0.0 %
    to    39.8 µs    0.0 %
    to    63.1 µs    0.0 %
    to     100 µs    4.9 %  ■■■
    to    1.00 ms    0.1 %  ■

  Generator   50 % of a processor, 1.00 ms a reply; 3.00 MB of memory",
    );
}
