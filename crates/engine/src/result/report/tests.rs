use super::*;

#[test]
fn the_time_to_finish_is_that_of_a_number_of_requests_and_comes_back_from_a_report() {
    let example = contract::read(include_str!("../../../../../schema/examples/report.json"))
        .expect("the example is valid");
    let (mut spec, mut run) = (asked(&example), measured(&example));
    (run.first_connect_ns, run.first_begin_ns, run.last_reply_ns) = (40, 100, 350);
    for (requests, finish_ns, first_begin_ns) in [(Some(7), Some(250), 100), (None, None, u64::MAX)] {
        spec.requests = requests;
        let told = report(&spec, Vec::new(), &run);
        assert_eq!((told.elapsed_ns, told.finish_ns), (Some(310), finish_ns));
        let again = measured(&told);
        assert_eq!((again.first_connect_ns, again.first_begin_ns), (40, first_begin_ns));
        assert_eq!(asked(&told).requests, requests);
    }
    // Without a reply it has no time of its own, but still a number of requests.
    (spec.requests, run.last_reply_ns) = (Some(7), 0);
    let told = report(&spec, Vec::new(), &run);
    assert_eq!((told.elapsed_ns, told.finish_ns, asked(&told).requests), (None, None, Some(7)));
    assert_eq!(measured(&told).first_connect_ns, u64::MAX);
}

#[test]
fn a_server_is_gone_where_no_connection_is_left_and_none_can_be_opened() {
    let example = |change: fn(&mut LoadSpec, &mut ::load::Report)| {
        let example = contract::read(include_str!("../../../../../schema/examples/report.json"))
            .expect("the example is valid");
        let (mut spec, mut measured) = (asked(&example), measured(&example));
        (measured.connections_open, measured.errors.connect) = (0, 3);
        measured.last_reply_ns = measured.begin_ns + (measured.end_ns - measured.begin_ns) / 4;
        change(&mut spec, &mut measured);
        (report(&spec, Vec::new(), &measured), example.rate_per_s)
    };
    let gone: [fn(&mut LoadSpec, &mut ::load::Report); 2] = [
        |_, _| (),
        // One connection was just being reopened.
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
        // Connections with a limited number of requests may all be closed at any moment.
        |spec, _| spec.requests_per_connection = Some(1),
    ];
    for change in lasting {
        let (lasted, rate_per_s) = example(change);
        assert!(!lasted.gone && (lasted.rate_per_s / rate_per_s - 1.0).abs() < 1e-9, "{}", lasted.rate_per_s);
    }
}
