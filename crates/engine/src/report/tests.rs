use hdrhistogram::serialization::Deserializer;

use super::*;

#[test]
fn percentiles_and_the_packed_histogram_say_the_same() {
    let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    for value_ns in (1..=1000).map(|index| index * 1_000) {
        histogram.record(value_ns).expect("it is in bounds");
    }
    let latency = latency(&histogram);
    let packed = STANDARD.decode(&latency.histogram).expect("it is base64");
    let unpacked: Histogram<u64> =
        Deserializer::new().deserialize(&mut &packed[..]).expect("it is a histogram");
    assert_eq!(unpacked, histogram);
    for (shown_ns, exact_ns) in [
        (latency.min, 1_000.0),
        (latency.p50, 500_000.0),
        (latency.p90, 900_000.0),
        (latency.p99, 990_000.0),
        (latency.p99_9, 999_000.0),
        (latency.p99_99, 1_000_000.0),
        (latency.max, 1_000_000.0),
    ] {
        assert!((shown_ns as f64 / exact_ns - 1.0).abs() < 1e-3, "{shown_ns} is not {exact_ns}");
    }
}

#[test]
fn a_run_without_replies_has_a_latency_of_zeroes() {
    let histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds are valid");
    let latency = latency(&histogram);
    assert_eq!((latency.min, latency.p99, latency.max), (0, 0, 0));
    assert_eq!((latency.mean, latency.stdev), (0.0, 0.0));
}

#[test]
fn a_server_is_gone_where_no_connection_is_left_and_none_can_be_opened() {
    let example = |change: fn(&mut LoadSpec, &mut ::load::Report)| {
        let example = crate::contract::read(include_str!("../../../../schema/examples/report.json"))
            .expect("the example is valid");
        let (mut spec, mut measured) = (asked(&example), measured(&example).expect("it has histograms"));
        (measured.connections_open, measured.errors.connect) = (0, 3);
        measured.last_reply_ns = measured.begin_ns + (measured.end_ns - measured.begin_ns) / 4;
        change(&mut spec, &mut measured);
        (report(&spec, Vec::new(), &measured), example.rate_per_s)
    };
    let gone: [fn(&mut LoadSpec, &mut ::load::Report); 2] = [
        |_, _| (),
        // One was just being opened again.
        |_, measured| (measured.connections_open, measured.connections_untaken) = (1, 1),
    ];
    for change in gone {
        let (gone, rate_per_s) = example(change);
        assert!(gone.gone && (gone.rate_per_s / rate_per_s - 4.0).abs() < 1e-3, "{}", gone.rate_per_s);
        assert_eq!(gone.connections_open, 0);
    }
    let lasting: [fn(&mut LoadSpec, &mut ::load::Report); 3] = [
        |_, measured| measured.connections_open = 1,
        |_, measured| measured.errors.connect = 0,
        // One that is opened after so many requests may be none at any moment.
        |spec, _| spec.requests_per_connection = Some(1),
    ];
    for change in lasting {
        let (lasted, rate_per_s) = example(change);
        assert!(!lasted.gone && (lasted.rate_per_s / rate_per_s - 1.0).abs() < 1e-9, "{}", lasted.rate_per_s);
    }
}
