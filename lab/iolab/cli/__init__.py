"""The command line: one module per verb, which declares its flags and prints the results of other modules.

Results go to standard output, progress and failures to standard error. Exit codes: 0, something could be concluded,
even that there is no difference; 1, a failure, or a verb found what it looks for (a regression, a finding, a
difference); 2, bad input; 3, nothing could be concluded; 128 plus the signal's number, an interrupted run, which the
same command resumes.

The module of a verb has a docstring of one line (its description in help), USAGE, EXAMPLES, `add`, which declares its
flags, and `run`, which returns the exit code. `run` imports the modules that do the work, because they load slowly and
help must not wait for them.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType

from iolab.cli.parser import Parser
from iolab.errors import BadInput, IolabError
from iolab.measure import handover
from iolab.wording import instead

# The verbs with a module here; the verbs of `handover` are the engine's.
VERBS = (
    *("vs", "run", "check", "soak", "capacity", "list", "report"),
    *("compare", "lint", "query", "export", "bundle", "verify", "doctor"),
)
# The exit code of a run that could conclude nothing, which is not the same as no difference.
INCONCLUSIVE = 3
# An interrupted run has this exit code plus the signal's number.
SIGNALLED = 128
ABOUT = "Which I/O and concurrency model should my network server use, for my workload, on my machine?"
FLAGS = {"-h, --help": "show this help, or that of a command after its name", "--version": "show the version"}
START = "Start with: iolab doctor; then: iolab vs epoll io_uring --quick"
# The errors of a write to standard output if it is a file and there is no space left.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# The width of a name with the space around it, before its description.
NAME_COLUMNS = 14


def main(arguments: Sequence[str]) -> int:
    """Runs a command; returns its exit code. Every expected failure is one line on standard error."""
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.stdout.write(overview())
        return 0
    verb, *rest = arguments
    if verb in handover.VERBS:
        return handover.run(verb, rest)
    try:
        code = _run(verb, rest)
        sys.stdout.flush()
    except IolabError as error:
        return failed(str(error), error.code)
    except KeyboardInterrupt:
        return failed("interrupted", 128 + signal.SIGINT)
    except BrokenPipeError:
        # The reader of our output has ended, such as `head`. Python must not flush to it when this process exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed(f"standard output: {error.strerror}: free space, or write to another disk", 1)
    return code


def failed(message: str, code: int, command: str = "iolab") -> int:
    """Prints a failure of one line, or one for each mistake in a file; returns `code`."""
    for line in message.split("\n"):
        print(f"{command}: {line}", file=sys.stderr)
    return code


def overview() -> str:
    """The help of `iolab` itself, with one line per command."""
    verbs = {verb: module(verb).__doc__ or "" for verb in VERBS} | handover.VERBS
    columns = shutil.get_terminal_size().columns
    parts = (["usage: iolab COMMAND ..."], textwrap.wrap(ABOUT, columns), _table("commands:", verbs, columns))
    return "\n\n".join("\n".join(lines) for lines in (*parts, _table("flags:", FLAGS, columns), [START])) + "\n"


def _table(heading: str, rows: Mapping[str, str], columns: int) -> list[str]:
    """Names and their descriptions, in lines of at most `columns`."""
    lines = [heading]
    for name, about in rows.items():
        first, rest = f"  {name}".ljust(NAME_COLUMNS), " " * NAME_COLUMNS
        lines += textwrap.wrap(about, columns, initial_indent=first, subsequent_indent=rest)
    return lines


def module(verb: str) -> ModuleType:
    """The module of a verb."""
    return import_module(f"iolab.cli.{verb}")


def parser(verb: str) -> Parser:
    """The parser of a verb, with all its flags."""
    declared = module(verb)
    made = Parser(verb, declared.USAGE, declared.__doc__ or "", declared.EXAMPLES)
    declared.add(made)
    return made


def _run(verb: str, arguments: Sequence[str]) -> int:
    if verb == "--version":
        from importlib.metadata import version

        print(f"iolab {version('iolab')}")
        return 0
    if verb.startswith("-"):
        raise BadInput(f"there is no flag {verb}{instead(verb, ('--help', '--version'))}")
    if verb not in VERBS:
        raise BadInput(f"there is no command {verb!r}{instead(verb, (*VERBS, *handover.VERBS))}")
    flags = parser(verb)
    try:
        code: int = module(verb).run(flags.read(arguments))
    except BadInput as error:
        return failed(flags.spelt(str(error)), error.code, flags.prog)
    return code
