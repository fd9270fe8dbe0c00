//! CPU work in steps: sets how much CPU time a request costs.
//!
//! A step is `x = ((x xor (x >> 15)) * 1664525 + 1013904223) mod 2^32`, and the answer to a target is the result of
//! `target` steps, starting with `target`. It is easy to write in any language, because no value within a step reaches
//! 2^53, which even a floating-point number holds exactly. Each step needs the one before it. A compiler could combine
//! several linear steps into one, but the shift prevents that. `lab/iolab/work.py` is the same in Python.

use core::hint::black_box;

/// The result of `target` steps, starting with `target`.
pub fn compute(target: u32) -> u32 {
    walk(target, target)
}

/// Computes this many steps and discards the result.
pub fn spin(steps: u32) {
    black_box(walk(black_box(0), steps));
}

fn walk(x: u32, steps: u32) -> u32 {
    (0..steps).fold(x, |x, _| (x ^ (x >> 15)).wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}
