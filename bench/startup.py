"""Time and peak memory of runs that answer with one token, with warm and with cold files, as markdown.

A run's time is that of the whole process: start, loading, prompt, one token, end. Before a cold run the model's files
are dropped from the system's cache, which needs no privilege; other programs must not have them mapped. Peak memory is
what the kernel says of the process (ru_maxrss): mapped pages of the file that were touched count too.
"""
import argparse
import dataclasses
import pathlib
import shlex
import statistics
import sys

import common


@dataclasses.dataclass
class Contender:
    name: str
    command: list
    runs: dict = dataclasses.field(default_factory=lambda: {"warm": [], "cold": []})
    failure: str = ""


def warm_up(model):
    for path in common.parts_of(model):
        with open(path, "rb", buffering=0) as file:
            while file.read(8 << 20):
                pass


def cached_bytes(model):
    """What util-linux's fincore says; None without it."""
    sizes = [common.text_of(["fincore", "--bytes", "--noheadings", "--output", "RES", part])
             for part in common.parts_of(model)]
    return sum(int(size) for size in sizes) if all(size.strip().isdigit() for size in sizes) else None


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="startup.sh", usage="%(prog)s MODEL [CLI ...] [options]", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("rivals", nargs="*", metavar="CLI",
                        help="a llama-cli or llama-completion; NAME=PATH names it in the table")
    parser.add_argument("--strata", type=pathlib.Path, default=common.default_strata())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", "-t", type=int, default=2)
    parser.add_argument("--ctx", "-c", type=int, default=512, help="context of all programs")
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--rival-flags", default="", help="flags for every rival")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a run is ended")
    options = parser.parse_args(common.with_joined(words, "--rival-flags"))
    if options.rounds < 1 or options.threads < 1:
        parser.error("rounds and threads are at least 1")
    if not options.model.is_file():
        parser.error(f"{options.model}: no such file")
    options.model = common.absolute(options.model)
    options.strata = common.absolute(options.strata)
    return options


def contenders_of(options):
    numbers = ["-n", "1", "--threads", str(options.threads)]
    contenders = []
    for experts in ("mapped", "auto"):
        contenders.append(Contender(f"strata --experts {experts}", [
            str(options.strata), "run", str(options.model), "-p", options.prompt, "--raw", "--temp", "0", "--ctx",
            str(options.ctx), "--experts", experts] + numbers))
    for given in options.rivals:
        name, equals, path = given.partition("=")
        path = common.absolute(path if equals else given)
        # This one would hold a conversation.
        talk = ["-no-cnv"] if path.name == "llama-completion" else []
        contenders.append(Contender(name if equals else path.name, [
            str(path), "-m", str(options.model), "-p", options.prompt, "--temp", "0", "-c", str(options.ctx)] +
            numbers + talk + shlex.split(options.rival_flags)))
    return contenders


def measure(contender, state, options):
    if contender.failure:
        return
    if state == "cold":
        common.drop_from_cache(options.model)
        left = cached_bytes(options.model)
        if left:
            print(f"{left / 1e6:.0f} MB of the model are still in the cache", file=sys.stderr)
    print(state + ": " + shlex.join(contender.command), file=sys.stderr, flush=True)
    result = common.call(contender.command, options.timeout)
    if result.failure:
        contender.failure = result.failure
        print(f"  {result.failure}", file=sys.stderr, flush=True)
        return
    contender.runs[state].append(result)


def row_of(contender):
    cells = [contender.name]
    for state in ("warm", "cold"):
        runs = contender.runs[state]
        cells.append(common.spread([run.seconds for run in runs]) if runs else "failed")
        cells.append(f"{statistics.median(run.peak_bytes for run in runs) / 2 ** 20:.0f}" if runs else "-")
    return cells + [contender.failure]


def report(contenders, options):
    text = f"# Runs of one token\n\nDate {common.today()}; Strata {common.our_commit()}; {options.machine}.\n"
    text += f"Model: {common.file_line(options.model)}. Median of {options.rounds} rounds (least to most).\n\n"
    text += common.table(["program", "warm, s", "warm peak, MiB", "cold, s", "cold peak, MiB", "failure"],
                         [row_of(contender) for contender in contenders])
    text += "\nCommands:\n\n"
    return text + "".join(common.shown(contender.command) for contender in contenders)


def main():
    options = parse_arguments(sys.argv[1:])
    options.machine = common.machine()
    contenders = contenders_of(options)
    for state in ("warm", "cold"):
        for _ in range(options.rounds):
            for contender in contenders:
                if state == "warm":
                    warm_up(options.model)
                measure(contender, state, options)
    print(report(contenders, options), end="")
    return 1 if any(c.failure for c in contenders[:2]) else 0


if __name__ == "__main__":
    sys.exit(main())
