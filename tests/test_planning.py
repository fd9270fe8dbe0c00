"""`--within` and `--budget`: a pilot chooses the number of blocks. The noise is known, and no time passes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import fake_engine
from conftest import MS, FakeHost, FakeLoad, FakeServer, iolab
from iolab import api
from iolab.contract.types import LoadSpec, updated
from iolab.errors import PlanError
from iolab.judge import precision, stats
from iolab.judge.blocks import used_blocks
from iolab.judge.precision import Precision, chosen_words, precision_of
from iolab.measure import limit_probe, planning, runner
from iolab.measure.engine import LoadEvent
from iolab.measure.events import BlocksChosen, Event, Probing, TrialBegan
from iolab.measure.planning import PILOT
from iolab.plan.experiment import parse_experiment, vs_plan
from iolab.plan.plan import BLOCKS_MAX, Aim, Choice, Plan, Trial
from iolab.plan.settings import Cell
from iolab.report import commands
from iolab.results import layout, store
from iolab.results.records import Result
from made import results as made_results
from test_stats import WEATHER, simulated_logs

pytestmark = pytest.mark.usefixtures("few_resamples")

PAIR = vs_plan(["epoll", "io_uring"], {"protocol": "echo", "warmup_ms": 400, "duration_ms": 1_600})
# Both contestants are checked before the first trial.
LOOKS = 2


class NoisyHost(FakeHost):
    """A host with random rates: `spread` is the standard deviation of their logarithm.

    A trial has the same rate in every run with the same seed. From a given number of starts on, each start of a server
    takes `late_ms` longer than planned, and each server uses `then_busy_percent` of its CPU.
    """

    def __init__(
        self,
        spread: float,
        *,
        seed: int = 1,
        late_ms: int = 0,
        then_busy_percent: int = 95,
        from_start: int = 0,
        faults: dict[int, str] | None = None,
    ) -> None:
        super().__init__(faults)
        self.spread, self.seed, self.late_ms = spread, seed, late_ms
        self.then_busy_percent, self.from_start = then_busy_percent, from_start
        self.trial: Trial | None = None

    @property
    def elapsed_s(self) -> float:
        """The time since the host's first use."""
        return self.now_ns / 1e9 - 1

    def see(self, event: Event) -> None:
        """Notes the current trial."""
        if isinstance(event, TrialBegan):
            self.trial = event.trial

    def start(self, cell: Cell, *, count_calls: bool = False) -> FakeServer:
        if len(self.started) >= self.from_start:
            self.now_ns += self.late_ms * MS
            self.busy_percent = min(self.busy_percent, self.then_busy_percent)
        return super().start(cell, count_calls=count_calls)

    def load(self, spec: LoadSpec) -> FakeLoad:
        server = self.running[-1]
        assert isinstance(server, FakeServer)
        return NoisyLoad(self, spec, server, self.speed(self.trial))

    def speed(self, trial: Trial | None) -> float:
        """The machine's speed in a trial, around 1."""
        if trial is None:
            return 1.0
        place = (self.seed, trial.block, trial.slot, trial.attempt)
        return math.exp(self.spread * float(np.random.default_rng(place).standard_normal()))


class NoisyLoad(FakeLoad):
    """Emits the fake engine's events, with the rate multiplied by `speed`."""

    def __init__(self, host: FakeHost, spec: LoadSpec, server: FakeServer, speed: float) -> None:
        super().__init__(host, spec, server)
        self.speed = speed

    def events(self, tick_s: float) -> Iterator[LoadEvent | None]:
        name = self.server.cell.contestant.name
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(fake_engine.RATES, name, round(fake_engine.RATES[name] * self.speed))
            yield from super().events(tick_s)


class Done(NamedTuple):
    """A run: its plan with the chosen blocks, its results, its precision, and the events of its last session."""

    plan: Plan
    results: tuple[Result, ...]
    reached: Precision
    events: list[Event]


def run(plan: Plan, host: NoisyHost, runs: Path) -> Done:
    events: list[Event] = []

    def on_event(event: Event) -> None:
        host.see(event)
        events.append(event)

    folder = runner.run(plan, host, runs, on_event, clocks=host.clocks())
    stored, trials = store.read_plan(folder), store.read_trials(folder)
    reached = precision_of(stored, trials.results, trials.counts)
    assert reached is not None
    return Done(stored, trials.results, reached, events)


def chosen(plan: Plan) -> Choice:
    assert plan.choice is not None
    return plan.choice


# --- The formula --------------------------------------------------------------------------------------------------

SETS, LONGEST = 400, 240


@pytest.mark.parametrize("weather", WEATHER)
def test_the_blocks_of_a_pilot_give_the_half_width_in_most_runs_and_no_more_false_alarms(weather: str) -> None:
    """The pilot's blocks are part of the result, so their number depends on it; the verdicts must stay correct."""
    within, reached, alarms, sizes = 0.03, 0, 0, []
    generator = np.random.default_rng(11)
    for x in simulated_logs(weather, 1.0, generator, sets=SETS, blocks=LONGEST, own_noise=0.04):
        seen = stats.half_width(x[:PILOT])
        assert seen is not None
        blocks = planning.blocks_chosen(seen, PILOT, within)
        _, low, high = stats.hodges_lehmann(x[:blocks])
        reached += bool(math.expm1((high - low) / 2) <= within)
        alarms += bool(low > 0 or high < 0)
        sizes.append(blocks)
    assert reached / SETS >= 0.8
    assert alarms / SETS <= 0.07
    assert PILOT < np.median(sizes) < LONGEST / 2


@pytest.mark.parametrize(
    ("seen", "within", "needed", "chosen"),
    [
        # Half the width takes four times the blocks, and a third more to spare.
        (0.04, 0.02, round(10 * 1.34 * 3.92), round(10 * 1.34 * 3.92)),
        # A pilot that is barely narrow enough may be so by chance; one twice as narrow is not.
        (0.02, 0.02, 14, 20),
        (0.011, 0.02, 10, 20),
        (0.0099, 0.02, 10, 10),
        (0.0, 0.02, 10, 10),
    ],
)
def test_the_blocks_for_a_half_width_grow_with_its_square(seen: float, within: float, needed: int, chosen: int) -> None:
    assert planning.blocks_needed(seen, 10, within) == pytest.approx(needed, abs=1)
    assert planning.blocks_chosen(seen, 10, within) == pytest.approx(chosen, abs=1)


def test_fewer_blocks_than_an_interval_takes_have_no_half_width() -> None:
    assert stats.half_width([0.1] * 5) is None
    assert stats.half_width([0.1] * 6) == 0
    # The interval of six values reaches from the smallest to the largest.
    assert stats.half_width([-0.1, -0.05, 0.0, 0.0, 0.05, 0.1]) == pytest.approx(math.expm1(0.1))


# --- Runs ---------------------------------------------------------------------------------------------------------


def test_the_chosen_blocks_reach_the_half_width_in_most_runs_of_the_lab(tmp_path: Path) -> None:
    plan = planning.aimed(PAIR, 0.03, None)
    runs = [run(plan, NoisyHost(0.03, seed=seed), tmp_path / str(seed)) for seed in range(10)]
    assert sum(bool(each.reached.is_reached) for each in runs) >= 7
    for each in runs:
        assert len(each.results) == 2 * each.plan.blocks, "each block of the pilot is one of them"
        assert each.plan.blocks == max(chosen(each.plan).needed or 0, 2 * PILOT)
        assert sum(isinstance(event, BlocksChosen) for event in each.events) == 1


@pytest.mark.parametrize(
    ("own_noise", "within", "budget_s", "blocks", "said"),
    [
        # The pilot is enough, or a few more blocks are.
        (0.0, 0.02, None, PILOT, "that is within ±2 %, so there are no more blocks"),
        (0.05, 0.03, None, None, "blocks should give ±3 %, about "),
        (0.05, 0.03, 3_600, None, "blocks should give ±3 %, about "),
        # Too narrow. Without a budget the run does not try for hours.
        (0.03, 0.0001, None, PILOT, "±0.01 % cannot be reached in 1,000 blocks: it takes about "),
        (0.03, 0.001, 83, 18, "±0.1 % cannot be reached in 83 s: it takes about "),
        # With a budget alone, all of it is used.
        (0.03, None, 83, 18, "18 blocks fit in 83 s"),
        (0.0, None, 7_000, BLOCKS_MAX, "1,000 blocks fit in "),
    ],
)
def test_a_pilot_chooses_as_many_blocks_as_are_needed_or_fit(
    own_noise: float, within: float | None, budget_s: int | None, blocks: int | None, said: str
) -> None:
    plan = planning.aimed(PAIR, within, None if budget_s is None else 1_000 * budget_s)
    host = NoisyHost(own_noise)
    results = made_results(plan, lambda trial: 100_000 * host.speed(trial))
    pilot = [updated(result, took_s=plan.cell(result.trial).trial_ms / 1_000) for result in results]
    after = planning.chosen(plan, pilot)
    assert said in chosen_words(after)
    assert after.blocks == (chosen(after).needed if blocks is None else blocks)
    if budget_s is not None:
        assert chosen(after).time_s(after.blocks) <= budget_s


@pytest.mark.parametrize(("late_ms", "busy"), [(0, False), (300, False), (0, True), (300, True)])
@pytest.mark.parametrize("share", [95, 50])
def test_a_run_ends_within_its_budget_however_slow_its_starts_and_disturbed_its_pilot(
    tmp_path: Path, late_ms: int, busy: bool, share: int
) -> None:
    budget_s = 120
    host = NoisyHost(0.05, late_ms=late_ms, faults={LOOKS + 3: "busy", LOOKS + 12: "busy"} if busy else {})
    host.busy_percent = share
    done = run(planning.aimed(PAIR, 0.001, 1_000 * budget_s), host, tmp_path)
    assert done.reached.is_reached is False
    assert host.elapsed_s <= budget_s - planning.report_s(done.plan)
    # Used up, except for trials that would show what limited a cell: one decisive pair makes those shorter.
    assert host.elapsed_s > 0.75 * budget_s
    assert done.plan.blocks == chosen(done.plan).affordable
    assert done.reached.trials_s == pytest.approx(host.elapsed_s, abs=LOOKS * (late_ms / 1_000 + 0.1))


def test_a_budget_for_fewer_blocks_than_a_pilot_has_makes_the_pilot_shorter(tmp_path: Path) -> None:
    plan = planning.aimed(PAIR, None, 45_000)
    assert plan.blocks_min <= plan.blocks < PILOT
    host = NoisyHost(0.01)
    done = run(plan, host, tmp_path)
    assert host.elapsed_s <= 45 - planning.report_s(plan)
    assert done.plan.blocks >= plan.blocks


FOUR = vs_plan(["epoll", "io_uring", "thread", "prefork"], {"protocol": "echo", "warmup_ms": 400, "duration_ms": 1_600})
OFTEN_BUSY = dict.fromkeys(range(LOOKS + 2 * PILOT + 5, 500, 5), "busy")
NO_TIME = "no time is left in 2 min for another block or rerun: the run ends with "


@pytest.mark.parametrize("plan", [PAIR, FOUR])
@pytest.mark.parametrize(
    ("late_ms", "busy_percent", "busy_every", "is_used_up"),
    [
        # Trials are discarded and repeated.
        (0, 95, 3, True),
        # Servers start more slowly.
        (700, 95, 500, True),
        # Trials follow that show what limited the contestants; in the pilot it was the server.
        (0, 50, 500, False),
        (700, 50, 3, True),
    ],
)
def test_a_run_ends_within_its_budget_whatever_changes_after_its_pilot(
    tmp_path: Path, plan: Plan, late_ms: int, busy_percent: int, busy_every: int, is_used_up: bool
) -> None:
    budget_s, contestants = 120, len(plan.comparisons[0].cells)
    after_pilot = contestants * (PILOT + 1)
    host = NoisyHost(
        0.05,
        late_ms=late_ms,
        then_busy_percent=busy_percent,
        from_start=after_pilot,
        faults=dict.fromkeys(range(after_pilot + busy_every, 500, busy_every), "busy"),
    )
    done = run(planning.aimed(plan, None, 1_000 * budget_s), host, tmp_path)
    assert host.elapsed_s <= budget_s - planning.report_s(done.plan)
    assert host.elapsed_s > 0.75 * budget_s
    at_first, *then = [event.plan for event in done.events if isinstance(event, BlocksChosen)]
    assert (done.plan.is_used_up, done.reached.is_used_up, len(then)) == (is_used_up, is_used_up, is_used_up)
    assert done.plan.blocks == done.reached.blocks <= at_first.blocks
    assert chosen_words(done.plan).startswith(NO_TIME) is is_used_up
    assert ("no time is left for another one" in done.reached.sentence) is is_used_up
    whole = [result for result in done.results if result.trial.attempt == 0]
    assert len(whole) == contestants * done.plan.blocks, "a block that has begun is finished"
    counts = store.read_trials(store.folder_of(done.plan, tmp_path)).counts
    assert len(counts) == contestants, "the costs are counted in any case"


@pytest.mark.parametrize("at", [4, 19, 30, 45])
def test_a_resumed_run_ends_within_the_budget_of_all_its_sessions(tmp_path: Path, at: int) -> None:
    plan, budget_s = planning.aimed(PAIR, None, 120_000), 120
    torn = NoisyHost(0.05, faults={**OFTEN_BUSY, LOOKS + at: "stopped"})
    with pytest.raises(KeyboardInterrupt):
        run(plan, torn, tmp_path)
    host = NoisyHost(0.05, late_ms=500, faults=OFTEN_BUSY)
    done = run(plan, host, tmp_path)
    assert 0.75 * budget_s < torn.elapsed_s + host.elapsed_s <= budget_s
    assert done.plan.is_used_up
    again = run(plan, NoisyHost(0.05), tmp_path)
    assert (again.plan, again.results) == (done.plan, done.results), "a budget that is used up stays used up"


TWO_SIZES = """
name = "sizes"
question = "Which?"
contestants = ["epoll", "io_uring", "poll"]
fixed.workload.protocol = "echo"
axes."load.connections" = [10, 50]
"""


def test_a_look_at_the_clock_takes_in_each_result_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = list[int]()
    real = planning.lateness_of

    def counted(plan: Plan, results: Iterable[Result]) -> list[float]:
        results = list(results)
        looked_at.append(len(results))
        return real(plan, results)

    monkeypatch.setattr(planning, "lateness_of", counted)
    done = run(planning.aimed(PAIR, 0.001, 300_000), NoisyHost(0.01), tmp_path)
    trials = len(done.results)
    assert trials > 2 * PILOT
    # Before each trial there is a look, and once at the pilot as a whole.
    assert len(looked_at) > trials
    assert sum(looked_at) <= trials + 2 * PILOT


def test_the_limits_of_a_comparison_are_worked_out_once_for_all_its_contestants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_for = list[int]()

    def counted(plan: Plan, comparison: int, done: Any) -> Any:
        asked_for.append(comparison)
        return used_blocks(plan, comparison, done)

    monkeypatch.setattr("iolab.measure.limit_probe.used_blocks", counted)
    plan = parse_experiment(TWO_SIZES.encode())
    limit_probe.longest_ms(plan, made_results(plan, lambda trial: 1_000.0))
    assert asked_for == [0, 1]


def test_servers_that_are_too_slow_for_a_budget_end_the_run_in_time_and_it_says_what_it_takes(tmp_path: Path) -> None:
    host = NoisyHost(0.01, late_ms=5_000)
    done = run(planning.aimed(PAIR, 0.02, 60_000), host, tmp_path)
    assert host.elapsed_s <= 60 - planning.report_s(PAIR)
    assert (done.reached.blocks, done.plan.blocks) == (2, PAIR.blocks_min)
    assert chosen_words(done.plan) == "60 s is too short: an interval takes 6 blocks, about 2 min here"
    assert "2 blocks, no time is left for another one; trials took " in done.reached.sentence


# Starts after the two checks: within the pilot, at its last trial, at the first one after it, and late.
@pytest.mark.parametrize("at", [4, 19, 20, 27])
@pytest.mark.parametrize(("within", "budget_s"), [(0.03, None), (0.001, 120)])
def test_a_run_stopped_at_any_trial_goes_on_to_the_same_number_of_blocks(
    tmp_path: Path, within: float, budget_s: int | None, at: int
) -> None:
    plan = planning.aimed(PAIR, within, None if budget_s is None else 1_000 * budget_s)
    whole = run(plan, NoisyHost(0.04), tmp_path / "whole")
    assert whole.plan.blocks > PILOT + 4
    with pytest.raises(KeyboardInterrupt):
        run(plan, NoisyHost(0.04, faults={LOOKS + at: "stopped"}), tmp_path / "torn")
    resumed = run(plan, NoisyHost(0.04), tmp_path / "torn")
    assert resumed.plan == whole.plan
    assert [result.trial for result in resumed.results] == [result.trial for result in whole.results]
    assert resumed.reached == whole.reached
    begun = next(number for number, event in enumerate(resumed.events) if isinstance(event, TrialBegan))
    told = next(number for number, event in enumerate(resumed.events) if isinstance(event, BlocksChosen))
    assert (told < begun) == (at >= 20), "a run that has chosen says again what, before its next trial"


def test_a_run_killed_before_its_choice_is_stored_makes_the_same_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planning.aimed(PAIR, 0.03, None)
    whole = run(plan, NoisyHost(0.04), tmp_path / "whole")

    def killed(writer: store.Writer, plan: Plan) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store.Writer, "choose", killed)
        with pytest.raises(KeyboardInterrupt):
            run(plan, NoisyHost(0.04), tmp_path / "torn")
    folder = store.folder_of(plan, tmp_path / "torn")
    assert len(store.read_trials(folder).results) == 2 * PILOT
    assert store.read_plan(folder).choice is None
    assert run(plan, NoisyHost(0.04), tmp_path / "torn").plan == whole.plan


def test_a_run_that_is_measured_anew_has_a_pilot_of_its_own(tmp_path: Path) -> None:
    plan = planning.aimed(PAIR, 0.03, None)
    first = run(plan, NoisyHost(0.04), tmp_path)
    host = NoisyHost(0.0)
    folder = runner.run(plan, host, tmp_path, host.see, repeat=True, clocks=host.clocks())
    assert (store.read_plan(folder).blocks, first.plan.blocks > PILOT) == (PILOT, True)


# --- Plans --------------------------------------------------------------------------------------------------------


def test_the_folder_of_a_run_is_the_same_before_and_after_its_choice() -> None:
    plan = planning.aimed(PAIR, 0.03, None)
    choice = Choice(pilot=10, blocks=40, block_s=1.0, others_s=1.0)
    assert updated(plan, blocks=40, choice=choice).digest == plan.digest
    others = [PAIR, planning.aimed(PAIR, 0.02, None), planning.aimed(PAIR, 0.03, 600_000)]
    assert len({plan.digest, *(other.digest for other in others)}) == 4
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize(
    ("plan", "within", "budget_s", "message"),
    [
        (PAIR, 0.0, None, "within: must be more than 0"),
        (PAIR, 1.5, None, "within: must be less than 1"),
        (PAIR, None, 0.5, "budget_ms: must be 1000 ms or more"),
        (PAIR, None, 20, "budget_ms: 20 s is too short: 6 blocks, the fewest, and what belongs to them take up to "),
        (PAIR, 0.02, 20, ", or shorter trials, as with --quick"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(
    plan: Plan, within: float | None, budget_s: float | None, message: str
) -> None:
    with pytest.raises(PlanError) as refused:
        planning.aimed(plan, within, None if budget_s is None else round(1_000 * budget_s))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_budget_that_a_refusal_names_is_enough() -> None:
    with pytest.raises(PlanError) as refused:
        planning.aimed(PAIR, None, 5_000)
    enough_s = int(str(refused.value).partition("use ")[2].partition("s or")[0])
    assert planning.aimed(PAIR, None, 1_000 * enough_s).blocks == PAIR.blocks_min
    with pytest.raises(PlanError):
        planning.aimed(PAIR, None, 1_000 * (enough_s - 1))


ALONE = """
name = "alone"
question = "How fast is it?"
contestants = ["epoll"]
fixed.workload.protocol = "echo"
"""


def test_a_half_width_needs_something_that_is_compared() -> None:
    plan = parse_experiment(ALONE.encode())
    with pytest.raises(PlanError, match="within: nothing is compared under a load here"):
        planning.aimed(plan, 0.02, None)
    assert planning.aimed(plan, None, 600_000).blocks == PILOT


def test_the_widest_ratio_of_all_comparisons_counts() -> None:
    text = ALONE.replace('["epoll"]', '["epoll", "io_uring", "thread"]') + "axes.load.connections = [1, 50]\n"
    plan = updated(parse_experiment(text.encode()), blocks=10)
    random = np.random.default_rng(5)

    def rate(trial: Trial) -> float:
        is_noisy = (trial.comparison, trial.slot) == (1, 2)
        return 100_000 * math.exp(random.normal(0, 0.10 if is_noisy else 0.01))

    found = precision.widest(plan, made_results(plan, rate))
    assert found is not None
    assert found.what.endswith(" of thread / epoll, connections=50")
    assert found.half_width is not None
    assert 0.03 < found.half_width < 0.2
    # Too few blocks give no interval, which may be wider than any other.
    few = [each for each in made_results(plan, rate) if each.trial.comparison == 0 or each.trial.block < 5]
    assert precision.widest(plan, few) == (None, "requests of io_uring / epoll, connections=50")


def test_the_command_of_a_report_asks_for_the_same_again() -> None:
    plan = planning.aimed(PAIR, 0.03, 90_500)
    words = " ".join(commands.again(updated(plan, blocks=17)))
    assert "--within 3% --budget 90500ms --seed" in words
    assert "--blocks" not in words


# --- Trials that show what limited a cell -------------------------------------------------------------------------


@pytest.mark.parametrize("share", [95, 50])
def test_trials_that_show_what_limited_a_cell_are_planned_for_and_announced(tmp_path: Path, share: int) -> None:
    host = NoisyHost(0.0)
    host.busy_percent = share
    done = run(planning.aimed(PAIR, 0.02, None), host, tmp_path)
    probes = len(host.started) - LOOKS - len(done.results)
    assert probes == (0 if share == 95 else 4)
    assert probes <= planning.probes(done.plan).starts
    assert planning.probes(done.plan, done.results).starts == (0 if share == 95 else 12)
    told = [(event.contestant, event.what) for event in done.events if isinstance(event, Probing)]
    what = "pair 1 of at most 3, with twice as many requests in flight"
    assert told == ([] if share == 95 else [("epoll", what), ("io_uring", what)])


# --- The command line ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("simulated")
def test_vs_says_what_its_pilot_chose_and_what_was_reached(tmp_path: Path) -> None:
    done = iolab("vs", "epoll", "io_uring", "--quick", "--within", "2%", "--budget", "60s", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[1].startswith("10 blocks (one trial of each contestant), 20 trials, about ")
    assert lines[1].endswith(" more to see what limited them")
    assert lines[2] == "this is a pilot: after it, the number of blocks is chosen for ±2 % within 60 s"
    assert any(line.endswith("that is within ±2 %, so there are no more blocks") for line in lines)
    told = " ".join(done.stdout.split())
    assert "±2 % was asked for and reached; 10 blocks, chosen after a pilot of 10; trials took " in told
    folder = next(tmp_path.glob("vs-*"))
    assert "Precision" in (folder / "report.html").read_text()
    document = json.loads(iolab("report", folder, "--json").stdout)["precision"]
    assert (document["within"], document["budget_s"], document["is_reached"]) == (0.02, 60, True)
    assert (document["pilot_blocks"], document["blocks"], document["half_width"]) == (10, 10, 0)
    assert document["sentence"] in told
    assert "±2 % was asked for" in iolab("report", folder, "--markdown").stdout


@pytest.mark.usefixtures("simulated")
def test_without_a_precision_or_a_budget_there_is_nothing_to_say_of_them(tmp_path: Path) -> None:
    done = iolab("vs", "epoll", "io_uring", "--quick", "--json", "--out", tmp_path)
    assert json.loads(done.stdout)["precision"] is None
    assert "pilot" not in done.stderr


@pytest.mark.usefixtures("simulated")
def test_an_experiment_takes_a_precision_and_a_suite_does_not(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(ALONE.replace('["epoll"]', '["epoll", "thread"]'))
    found = api.run(tmp_path / "two.toml", quick=True, within=0.05, out=tmp_path / "runs")
    assert found.precision is not None
    assert found.precision.is_reached
    again = api.run(tmp_path / "two.toml", quick=True, within=0.05, out=tmp_path / "runs")
    assert again == found, "one that has ended is shown again"
    done = iolab("run", "published", "--within", "2%", "--out", tmp_path / "runs")
    assert done.exit_code == 2
    assert done.stderr == (
        "iolab run: --within: is for one experiment, and published is a suite: name one of its experiments\n"
    )


@pytest.mark.usefixtures("simulated")
@pytest.mark.parametrize("damage", [lambda plan: "", lambda plan: plan[: len(plan) // 2], lambda plan: "{}"])
def test_an_ended_run_whose_choice_cannot_be_read_is_kept_and_the_line_says_what_to_do(
    tmp_path: Path, damage: Callable[[str], str]
) -> None:
    two = tmp_path / "two.toml"
    two.write_text(ALONE.replace('["epoll"]', '["epoll", "thread"]'))
    command = ("run", two, "--quick", "--within", "2%", "--out", tmp_path / "runs")
    assert iolab(*command).exit_code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    (folder / layout.PLAN).write_text(damage((folder / layout.PLAN).read_text()))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = iolab(*command)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        f"iolab run: {folder / layout.PLAN}: is damaged, so the number of blocks that the run chose is not known: "
        "start again with --fresh, which keeps this run under another name"
    )
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    fresh = iolab(*command, "--fresh")
    assert fresh.exit_code == 0, fresh.stderr
    kept = folder.with_name(f"{folder.name}.1")
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


WORDS = {"pilot": 10, "block_s": 2.0, "others_s": 4.0, "half_width": 0.052, "widest": "requests of b / a"}


@pytest.mark.parametrize(
    ("aim", "choice", "said"),
    [
        (
            {"within": 0.02},
            {"blocks": 75, "needed": 75},
            "the pilot gives ±5.2 % (requests of b / a); 75 blocks should give ±2 %, about 3 min in all",
        ),
        (
            {"within": 0.02, "budget_ms": 60_000},
            {"blocks": 28, "needed": 75, "affordable": 28},
            "±2 % cannot be reached in 60 s: it takes about 75 blocks, 3 min; "
            "the pilot gives ±5.2 % (requests of b / a); 28 blocks fit in 60 s",
        ),
        (
            {"within": 0.02, "budget_ms": 20_000},
            {"blocks": 10, "needed": 75, "affordable": 8},
            "±2 % cannot be reached in 20 s: it takes about 75 blocks, 3 min; "
            "the pilot gives ±5.2 % (requests of b / a); a block takes 2.0 s, so no more than the pilot fits in 20 s",
        ),
        (
            {"within": 0.0001},
            {"blocks": 10, "needed": 400_000},
            "±0.01 % cannot be reached in 1,000 blocks: it takes about 400,000 blocks, 222 h 13 min; "
            "the pilot gives ±5.2 % (requests of b / a); the run keeps to the 10 blocks of its pilot",
        ),
        (
            {"within": 0.02},
            {"blocks": 10, "half_width": None},
            "the pilot has too few blocks that count to plan for ±2 % (requests of b / a); "
            "the run keeps to the 10 blocks of its pilot",
        ),
        ({"budget_ms": 60_000}, {"blocks": 28, "affordable": 28}, "28 blocks fit in 60 s"),
    ],
)
def test_what_was_chosen_is_one_sentence_with_what_it_would_take(
    aim: dict[str, Any], choice: dict[str, Any], said: str
) -> None:
    made = Choice.model_validate({**WORDS, **choice})
    assert chosen_words(updated(PAIR, blocks=made.blocks, aim=Aim(**aim), choice=made)) == said
