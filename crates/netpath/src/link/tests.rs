use std::convert::Infallible;

use super::*;

const MS: u64 = 1_000_000;

/// 10 ms one way, and a queue of three packets.
fn plain() -> PathSpec {
    PathSpec { delay_ms: 10.0, queue_packets: 3, ..PathSpec::default() }
}

/// A packet of 1,000 bytes takes 8 ms to get onto the wire.
fn megabit() -> PathSpec {
    PathSpec { rate_bits_per_s: Some(1e6), ..plain() }
}

#[test]
fn a_packet_arrives_after_the_delay() {
    check(&plain(), &[0, 1, 1, 7], &[10, 11, 11, 17]);
}

#[test]
fn packets_go_onto_the_wire_one_after_the_other() {
    check(&megabit(), &[0, 0, 20], &[18, 26, 38]);
}

#[test]
fn a_packet_that_finds_the_queue_full_is_dropped() {
    // One is on the wire and three wait. The queue has room again when one of them goes onto the wire.
    let carried = check(&megabit(), &[0, 0, 0, 0, 0, 7, 8], &[18, 26, 34, 42, 50]);
    assert_eq!((carried.packets, carried.bytes, carried.dropped), (5, 5000, 2));
}

#[test]
fn a_queue_does_not_fill_while_the_wire_is_free() {
    let carried = check(&PathSpec { queue_packets: 1, ..megabit() }, &[0, 8, 16], &[18, 26, 34]);
    assert_eq!(carried.dropped, 0);
}

#[test]
fn without_a_rate_nothing_is_dropped() {
    assert_eq!(check(&plain(), &[0; 100], &[10; 100]).dropped, 0);
}

#[test]
fn without_a_delay_a_packet_arrives_at_once() {
    check(&PathSpec { delay_ms: 0.0, ..plain() }, &[0, 5], &[0, 5]);
}

#[test]
fn a_late_delivery_is_reported_by_how_much_and_only_once() {
    let mut link = Link::new(&plain(), 1);
    link.send(&[0], 0);
    delivered(&mut link, 10 * MS - 1, |_| panic!("it is not due"));
    delivered(&mut link, 13 * MS, |_| ());
    let carried = link.report();
    assert_eq!((carried.packets, carried.late_ns_max / 100_000), (1, 30));
    assert_eq!(carried.late_ns_p99, carried.late_ns_max);
    assert_eq!(link.report(), Carried::default(), "a report is of what came after the last one");
}

#[test]
fn a_packet_is_late_by_the_time_that_those_before_it_took() {
    let mut link = Link::new(&plain(), 1);
    (0..3).for_each(|number| link.send(&[number], 0));
    let mut at_ns = 9 * MS;
    let deliver = |_: &[u8]| {
        at_ns += MS;
        Ok::<u64, Infallible>(at_ns)
    };
    let Ok(()) = link.deliver(10 * MS, deliver);
    let carried = link.report();
    assert_eq!((carried.packets, carried.late_ns_max / 100_000), (3, 20));
}

#[test]
fn a_packet_whose_delivery_fails_counts_as_neither_carried_nor_due() {
    let mut link = Link::new(&plain(), 1);
    link.send(&[1], 0);
    link.send(&[2], 0);
    let mut first = true;
    let mut fail_first = |_: &[u8]| if std::mem::take(&mut first) { Err("no") } else { Ok(10 * MS) };
    assert_eq!(link.deliver(10 * MS, &mut fail_first), Err("no"));
    assert_eq!(link.deliver(10 * MS, &mut fail_first), Ok(()));
    assert_eq!(link.report().packets, 1);
}

#[test]
fn packets_on_their_way_take_a_bounded_amount_of_memory() {
    let mut link = Link::new(&plain(), 1);
    let (packet, most) = (vec![0; 65_535], TRAVELLING_BYTES_MAX / 65_535);
    for _ in 0..most + 5 {
        link.send(&packet, 0);
    }
    let carried = link.report();
    assert_eq!((carried.overflowed, carried.dropped), (5, 0));
    delivered(&mut link, 10 * MS, |_| ());
    assert_eq!(link.report().packets, most as u64);
    link.send(&packet, 20 * MS);
    assert_eq!(link.report().overflowed, 0, "it has room again");
}

#[test]
fn the_share_that_is_lost_is_that_asked_for_and_the_same_with_the_same_seed() {
    let survivors = |seed| {
        let mut link = Link::new(&PathSpec { loss: 0.1, ..plain() }, seed);
        let mut survivors = Vec::new();
        for number in 0..10_000_u64 {
            link.send(&number.to_le_bytes(), 0);
        }
        delivered(&mut link, u64::MAX, |packet| survivors.push(packet.to_vec()));
        assert_eq!(survivors.len() as u64 + link.report().lost, 10_000);
        survivors
    };
    // Four standard deviations of 30 packets.
    assert!((8_880..=9_120).contains(&survivors(1).len()));
    assert_eq!(survivors(1), survivors(1));
    assert_ne!(survivors(1), survivors(2));
}

#[test]
fn all_or_nothing_is_lost_when_that_is_asked_for() {
    for (loss, arrived_ms, lost) in [(0.0, &[10; 50][..], 0), (1.0, &[], 50)] {
        assert_eq!(check(&PathSpec { loss, ..plain() }, &[0; 50], arrived_ms).lost, lost);
    }
}

/// Whatever is sent and polled: every packet is accounted for, none overtakes another or arrives before its delay, and
/// the wire never exceeds its rate.
#[test]
fn a_path_keeps_its_books_its_order_and_its_rate() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..500 {
        let spec = PathSpec {
            delay_ms: f64::from(random.u32(0..100)),
            rate_bits_per_s: random.bool().then(|| 10_f64.powi(random.i32(4..10))),
            queue_packets: random.usize(1..20),
            loss: random.choice([0.0, 0.01, 0.5]).expect("there are three"),
            ..PathSpec::default()
        };
        check_books(&spec, &mut random, round);
    }
}

fn check_books(spec: &PathSpec, random: &mut fastrand::Rng, round: u64) {
    let (mut link, mut now_ns, mut sent) = (Link::new(spec, round), 0, Vec::new());
    let mut arrived: Vec<(u32, u64)> = Vec::new();
    let mut deliver = |link: &mut Link, until_ns: u64| {
        while let Some(due_ns) = link.due_ns().filter(|due_ns| *due_ns <= until_ns) {
            delivered(link, due_ns, |packet| {
                let number = packet[..4].try_into().expect("a packet begins with its number");
                arrived.push((u32::from_le_bytes(number), due_ns));
            });
        }
    };
    for number in 0..200_u32 {
        now_ns += random.choice([0, 1_000, 3 * MS]).expect("there are three");
        deliver(&mut link, now_ns);
        let mut packet = number.to_le_bytes().to_vec();
        packet.resize(random.usize(4..1500), 0);
        link.send(&packet, now_ns);
        sent.push((now_ns, packet.len()));
    }
    deliver(&mut link, u64::MAX);
    let carried = link.report();
    assert_eq!(carried.packets + carried.dropped + carried.lost, 200, "{spec:?}");
    assert_eq!(carried.packets, arrived.len() as u64);
    assert!(
        arrived.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1),
        "{spec:?}: the order is kept"
    );
    let byte_ns = spec.rate_bits_per_s.map_or(0.0, |rate| 8e9 / rate);
    let delay_ns = (spec.delay_ms * 1e6) as u64;
    for &(number, at_ns) in &arrived {
        let (sent_ns, length) = sent[number as usize];
        // Each length is rounded to a nanosecond.
        assert!(
            at_ns + 1 >= sent_ns + delay_ns + (length as f64 * byte_ns) as u64,
            "{spec:?}: packet {number}"
        );
    }
    for pair in arrived.windows(2) {
        let wire_ns = (sent[pair[1].0 as usize].1 as f64 * byte_ns) as u64;
        assert!(pair[1].1 - pair[0].1 + 1 >= wire_ns, "{spec:?}: two packets are on the wire at a time");
    }
}

/// Sends packets of 1,000 bytes at these times, and expects them to arrive at those.
fn check(spec: &PathSpec, sent_ms: &[u64], arrived_ms: &[u64]) -> Carried {
    let mut link = Link::new(spec, 1);
    for (number, at_ms) in sent_ms.iter().enumerate() {
        link.send(&[number as u8; 1000], at_ms * MS);
    }
    let (mut found, mut numbers) = (Vec::new(), Vec::new());
    while let Some(due_ns) = link.due_ns() {
        delivered(&mut link, due_ns, |packet| {
            assert_eq!(packet, [packet[0]; 1000]);
            numbers.push(packet[0]);
            found.push(due_ns / MS);
        });
    }
    assert_eq!(found, arrived_ms);
    assert!(numbers.is_sorted(), "{numbers:?}: the order is kept");
    let carried = link.report();
    assert_eq!(carried.late_ns_max, 0);
    carried
}

fn delivered(link: &mut Link, now_ns: u64, mut deliver: impl FnMut(&[u8])) {
    let result = link.deliver(now_ns, |packet| {
        deliver(packet);
        Ok::<u64, Infallible>(now_ns)
    });
    let Ok(()) = result;
}
