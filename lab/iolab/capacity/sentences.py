"""What is known of a capacity, in sentences."""

from __future__ import annotations

from iolab.capacity.limits import rate_words, time_words
from iolab.capacity.progress import SearchState
from iolab.capacity.steps import AFTERWARDS, OVERLOAD
from iolab.contract.types import percent


def sentences(state: SearchState) -> tuple[str, ...]:
    """The verdict, and what is known of an overload: one sentence each."""
    return tuple(filter(None, (verdict(state), overload_sentence(state), recovery_sentence(state))))


def verdict(state: SearchState) -> str:
    """The capacity in one sentence, or what is known instead."""
    limits, done = " and ".join(state.spec.limits), state.done
    if done is None:
        return f"Not finished: {_bracket(state)}."
    if done.kind == "never":
        return f"{limits} does not hold at any rate: {done.why}."
    if done.kind == "capacity" and done.rate_per_s is not None:
        return f"The capacity under {limits} is {rate_words(done.rate_per_s)}: {done.why}."
    if done.kind == "at least" and done.rate_per_s is not None:
        return f"The capacity under {limits} is at least {rate_words(done.rate_per_s)}: {done.why}."
    sure = "" if done.rate_per_s is None else f"; {rate_words(done.rate_per_s)} held in two of three trials"
    return f"The capacity under {limits} is not known ({_bracket(state)}{sure}): {done.why}."


def overload_sentence(state: SearchState) -> str:
    """What the server does at OVERLOAD times its capacity; empty while that is not known."""
    probe, done = state.overload, state.done
    if probe is None or done is None or done.rate_per_s is None:
        return ""
    achieved, kept = rate_words(probe.seen.achieved_per_s), percent(probe.seen.achieved_per_s / done.rate_per_s)
    p99, seconds = time_words(probe.seen.times_ns["p99"]), f"{probe.step.duration_ms / 1_000:.2g} s"
    failed = f", and {percent(probe.seen.errors_share, 1)} failed" if probe.seen.errors_share else ""
    generator = _generator_words(probe.seen.generator)
    said = f"it answers {achieved}, {kept} of its capacity, with a p99 of {p99} after {seconds}"
    return f"At {OVERLOAD:g} times that {said}{failed}{generator}."


def recovery_sentence(state: SearchState) -> str:
    """How long the server takes to recover from an overload; empty while that is not known."""
    seen = state.recovery
    if seen is None:
        return ""
    length, generator = f"{seen.end_s - seen.begin_s:g} s of that", _generator_words(seen.generator)
    was_back = f"not back within {seen.watched_s:g} s" if seen.back_s is None else f"back within {seen.back_s:.1f} s"
    return f"After {length} and then {AFTERWARDS:g} times the capacity it was {was_back}{generator}."


def _bracket(state: SearchState) -> str:
    """The highest rate that held and the lowest that did not. A run limited by the generator is neither."""
    searched = [probe for probe in state.curve if probe.step.purpose == "search"]
    held = max((probe.step.rate_per_s or 0.0 for probe in searched if probe.judged.word == "holds"), default=None)
    broke = min((probe.step.rate_per_s or 0.0 for probe in searched if probe.judged.word == "breaks"), default=None)
    words = [] if held is None else [f"it held at {rate_words(held)}"]
    words += [] if broke is None else [f"it did not hold at {rate_words(broke)}"]
    return " and ".join(words) or "nothing is known yet"


def _generator_words(why: str) -> str:
    """Why the generator was the limit, in brackets, without the advice after the colon."""
    return f" ({why.partition(':')[0]})" if why else ""
