"""The result of a search for a capacity, in sentences."""

from __future__ import annotations

from iolab.capacity.fit import Fit
from iolab.capacity.limits import Measurement, rate_number, rate_words, time_words
from iolab.capacity.progress import SearchState
from iolab.capacity.search import Estimate, MachineState, is_disturbed, rounded
from iolab.capacity.steps import AFTERWARDS
from iolab.contract.types import percent
from iolab.wording import number


def sentences(state: SearchState) -> tuple[str, ...]:
    """The verdict, then the other states of the machine and the overload if known: one sentence each."""
    found = (verdict(state), states_sentence(state), overload_sentence(state), recovery_sentence(state))
    return tuple(filter(None, found))


def verdict(state: SearchState) -> str:
    """One sentence with the capacity, or with what is known instead."""
    limits, done = " and ".join(state.spec.limits), state.done
    if done is None:
        return f"Not finished: {_bracket(state)}."
    if done.kind == "never":
        return f"{limits} does not hold at any rate: {done.why}."
    if done.rate_per_s is None:
        return f"The capacity under {limits} is not known: {done.why}."
    rate = rate_words(done.rate_per_s)
    if done.kind == "capacity" and done.fit is not None:
        return f"The capacity under {limits} is {rate} ({interval_words(done.fit)}; {done.why})."
    return f"The capacity under {limits} is {done.kind} {rate}: {done.why}."


def interval_words(fit: Fit) -> str:
    """The interval of a capacity."""
    low, high = (rate_number(rounded(rate_per_s)) for rate_per_s in (fit.low_per_s, fit.high_per_s))
    return f"95 % interval {low} to {high}"


def states_sentence(state: SearchState) -> str:
    """The capacity in the other states of the machine; empty if there was one state."""
    first, *others = state.done.estimates if state.done is not None and state.done.estimates else (None,)
    if first is None or not others:
        return ""
    found = (f"{_state_words(each.machine)}, it is {_estimate_words(each)}" for each in others)
    return f"This is the capacity {_state_words(first.machine)}; {'; '.join(found)}."


def _estimate_words(found: Estimate) -> str:
    if found.bound == "exact":
        return f"{rate_words(found.rate_per_s)} ({interval_words(found.fit)})"
    return f"{found.bound} {rate_words(found.rate_per_s)}, above which the generator was the limit"


def disturbance_words(seen: Measurement) -> str:
    """What disturbed a run; empty if nothing did."""
    if seen.shares_cpu:
        return "server and generator shared a processor"
    return "the core-to-core latency changed" if is_disturbed(seen) else ""


def _state_words(machine: MachineState) -> str:
    """A state of the machine as part of a sentence."""
    if machine.shares_cpu:
        return "with server and generator on one processor"
    if machine.core_to_core_ns is None:
        return "with an unknown core-to-core latency"
    return f"with a core-to-core latency of {machine.core_to_core_ns:.0f} ns"


def overload_sentence(state: SearchState) -> str:
    """How the server behaves at the highest rate of the curve; empty if unknown."""
    probe, done = state.overload, state.done
    if probe is None or done is None or done.rate_per_s is None:
        return ""
    achieved, kept = rate_words(probe.seen.achieved_per_s), percent(probe.seen.achieved_per_s / done.rate_per_s)
    p99, seconds = time_words(probe.seen.times_ns["p99"]), f"{number(probe.step.duration_ms / 1_000, 2)} s"
    failed = f", and {percent(probe.seen.errors_share, 1)} of requests fail" if probe.seen.errors_share else ""
    generator = _generator_words(probe.seen.generator)
    said = f"the server answers {achieved} ({kept} of the capacity) with a p99 of {p99} in a run of {seconds}"
    times = number((probe.step.rate_per_s or 0.0) / done.rate_per_s, 2)
    return f"At {times} times the capacity, {said}{failed}{generator}."


def recovery_sentence(state: SearchState) -> str:
    """How long the server takes to recover from an overload; empty if unknown."""
    seen = state.recovery
    if seen is None:
        return ""
    length, generator = f"{seen.end_s - seen.begin_s:g} s", _generator_words(seen.generator)
    back_s, watched_s = seen.back_s, seen.watched_s
    recovers = f"does not recover within {watched_s:g} s" if back_s is None else f"recovers within {back_s:.1f} s"
    return f"After {length} of overload, at {AFTERWARDS:g} times the capacity, the server {recovers}{generator}."


def _bracket(state: SearchState) -> str:
    """The highest rate that held and the lowest that did not. A run limited by the generator is neither."""
    searched = [probe for probe in state.curve if probe.step.purpose == "search"]
    held = max((probe.step.rate_per_s or 0.0 for probe in searched if probe.judged.word == "holds"), default=None)
    broke = min((probe.step.rate_per_s or 0.0 for probe in searched if probe.judged.word == "breaks"), default=None)
    words = [] if held is None else [f"it held at {rate_words(held)}"]
    words += [] if broke is None else [f"it did not hold at {rate_words(broke)}"]
    return " and ".join(words) or "nothing is known yet"


def _generator_words(why: str) -> str:
    """Why the generator was the limit, in parentheses, without the advice after the colon."""
    return f" ({why.partition(':')[0]})" if why else ""
