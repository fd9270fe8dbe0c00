//! Work for a processor in steps: the dial of how much CPU a request costs.
//!
//! A step is `x = ((x xor (x >> 15)) * 1664525 + 1013904223) mod 2^32`, and the answer to a target is what `target`
//! steps make of it. It is quickly stated in any language, because no value within a step reaches 2^53, which even
//! a floating-point number holds exactly. Each step needs the one before it; of several linear steps alone a compiler
//! could make one, but the shift stands in its way. `lab/iolab/work.py` is the same in Python.

use core::hint::black_box;

/// What `target` steps make of `target`.
pub fn compute(target: u32) -> u32 {
    walk(target, target)
}

/// Takes so many steps for nothing.
pub fn spin(steps: u32) {
    black_box(walk(black_box(0), steps));
}

fn walk(x: u32, steps: u32) -> u32 {
    (0..steps).fold(x, |x, _| (x ^ (x >> 15)).wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}
