"""Strata against other programs on one model file, as markdown.

Every round calls each program once for each number of threads, one after the other, so that what disturbs the machine
disturbs all of them. Compared are medians over the rounds; of a rival the set of flags that is best at a test.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import shlex
import statistics
import sys

import common


@dataclasses.dataclass
class Contender:
    """A program with one set of flags."""
    name: str
    program: pathlib.Path
    flags: list
    read: object  # from the text of its output to {(test, threads): tokens a second}
    speeds: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(list))
    failures: dict = dataclasses.field(default_factory=dict)  # threads: why
    version: str = ""
    extra: dict = dataclasses.field(default_factory=dict)  # (test, threads): row of strata's

    @property
    def is_strata(self):
        return self.read is read_strata

    def command(self, options, threads):
        model = [str(options.model)] if self.is_strata else ["-m", str(options.model)]
        output = ["--json"] if self.is_strata else ["-o", "json"]
        program = [str(self.program)] + (["bench"] if self.is_strata else [])
        return program + model + ["-p", str(options.n_prompt), "-n", str(options.n_gen), "-t", str(threads),
                                  "-r", str(options.repetitions)] + output + self.flags

    def label(self):
        return self.name + (" " + shlex.join(self.flags) if self.flags else "")


def read_strata(contender, text):
    rows = json.loads(text)["tests"]
    contender.extra.update({(row["test"], row["threads"]): row for row in rows})
    return {(row["test"], row["threads"]): row["tokens_per_second"]["median"] for row in rows}


def read_llama_bench(contender, text):
    """llama-bench and its forks; messages may stand before the JSON array."""
    rows = json.loads(text[text.index("["):])
    speeds = {}
    for row in rows:
        build = f"build {row.get('build_number', '?')}, commit {row.get('build_commit', '?')}"
        contender.version = contender.version or build
        test = f"pp{row['n_prompt']}" if row["n_prompt"] > 0 else f"tg{row['n_gen']}"
        speeds[(test, row["n_threads"])] = statistics.median(row.get("samples_ts") or [row["avg_ts"]])
    return speeds


def measure(contender, options, threads):
    """One call. A failure is kept, and the call not repeated in later rounds."""
    if threads in contender.failures:
        return
    command = contender.command(options, threads)
    print(shlex.join(command), file=sys.stderr, flush=True)
    result = common.call(command, options.timeout)
    failure = result.failure
    if not failure:
        try:
            speeds = contender.read(contender, result.out)
        except (ValueError, KeyError, TypeError, AttributeError):
            failure = "its output is not the JSON that was expected"
    if not failure and not speeds:
        failure = "it measured nothing"
    if failure:
        contender.failures[threads] = failure
        print(f"  {failure}", file=sys.stderr, flush=True)
        return
    for key, speed in speeds.items():
        contender.speeds[key].append(speed)


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="compare.sh", usage="%(prog)s MODEL LLAMA_BENCH [LLAMA_BENCH ...] [options] [-- flags of strata bench]",
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("rivals", type=pathlib.Path, nargs="+", metavar="LLAMA_BENCH",
                        help="a llama-bench that understands -o json; NAME=PATH names it in the tables")
    parser.add_argument("--strata", type=pathlib.Path, default=common.default_strata())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", "-t", default="1,2", help="numbers of threads, each measured in calls of its own")
    parser.add_argument("--n-prompt", "-p", type=int, default=512)
    parser.add_argument("--n-gen", "-n", type=int, default=64)
    parser.add_argument("--repetitions", "-r", type=int, default=1, help="repetitions within a call")
    parser.add_argument("--rival-flags", default="", metavar="SETS",
                        help='sets of flags to try with every rival, separated by ;, as "-fa 0;-fa 1;-rtr 1"')
    parser.add_argument("--rival-version", action="append", default=[], metavar="NAME=TEXT",
                        help="what to print as a rival's version when it does not know its own; may be repeated")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds after which a call is ended")
    ours = words[words.index("--") + 1:] if "--" in words else []
    own = words[:words.index("--")] if "--" in words else words
    options = parser.parse_args(common.with_joined(own, "--rival-flags"))
    options.strata_flags = ours
    try:
        options.threads = [int(n) for n in options.threads.split(",")]
    except ValueError:
        parser.error(f"--threads {options.threads}: not numbers separated by commas")
    if min(options.threads) < 1 or options.rounds < 1 or options.repetitions < 1:
        parser.error("threads, rounds and repetitions are at least 1")
    if options.n_prompt < 0 or options.n_gen < 0 or options.n_prompt + options.n_gen == 0:
        parser.error("-p and -n leave nothing to measure")
    if not options.model.is_file():
        parser.error(f"{options.model}: no such file")
    options.model = common.absolute(options.model)
    options.strata = common.absolute(options.strata)
    return options


def rival_name(path):
    """By its place: DIR/build/bin/llama-bench is called DIR."""
    parts = [part for part in path.parts[:-1] if part not in ("build", "bin", "/")]
    return parts[-1] if parts else path.name


def contenders_of(options):
    contenders = [Contender("strata", options.strata, options.strata_flags, read_strata)]
    contenders[0].version = common.text_of([options.strata, "--version"]) + ", commit " + common.our_commit()
    versions = dict(given.partition("=")[::2] for given in options.rival_version)
    for given in options.rivals:
        name, equals, path = str(given).partition("=")
        path = common.absolute(path if equals else given)
        name = name if equals else rival_name(path)
        for flags in options.rival_flags.split(";"):
            contenders.append(Contender(name, path, shlex.split(flags), read_llama_bench))
            contenders[-1].version = versions.get(name, "")
    return contenders


def tests_of(options):
    names = ([f"pp{options.n_prompt}"] if options.n_prompt else []) + ([f"tg{options.n_gen}"] if options.n_gen else [])
    return [(name, threads) for name in names for threads in options.threads]


def best_of(contenders, key):
    """The one with the highest median; None when all failed."""
    good = [c for c in contenders if c.speeds[key]]
    return max(good, key=lambda c: statistics.median(c.speeds[key])) if good else None


def ratio_rows(contenders, tests):
    ours, rivals = contenders[0], contenders[1:]
    rows = []
    for key in tests:
        mine = ours.speeds[key]
        for name in dict.fromkeys(rival.name for rival in rivals):
            best = best_of([rival for rival in rivals if rival.name == name], key)
            ratio = "-"
            if best and mine:
                ratio = f"**{statistics.median(mine) / statistics.median(best.speeds[key]):.2f}**"
            rows.append([key[0], str(key[1]), common.spread(mine), best.label() if best else name,
                         common.spread(best.speeds[key]) if best else "failed", ratio])
    return rows


def ceiling_rows(ours, tests):
    rows = []
    for key in tests:
        if key not in ours.extra:
            continue
        row = ours.extra[key]
        rows.append([key[0], str(key[1]), f"{row['bytes_per_token'] / 1e6:.1f}", f"{row['bytes_per_second'] / 1e9:.2f}",
                     f"{100 * row['share_of_read_ceiling']:.0f} %"])
    return rows


def all_rows(contenders, tests):
    rows = []
    for contender in contenders:
        for key in tests:
            values = contender.speeds[key]
            reason = contender.failures.get(key[1], "")
            after = f"; then failed: {reason}" if values and reason else ""
            rows.append([contender.label(), key[0], str(key[1]),
                         common.spread(values) + after if values else f"failed: {reason}"])
    return rows


def report(contenders, options):
    tests = tests_of(options)
    names = ", ".join(dict.fromkeys(c.name for c in contenders[1:]))
    text = f"# Strata against {names}\n\nDate {common.today()}; {options.machine}.\n"
    text += f"Model: {common.file_line(options.model)}. Tokens a second, median of {options.rounds} rounds"
    text += " (least to most).\n\n"
    text += common.table(["test", "threads", "strata", "rival with its best flags", "rival", "ours / rival"],
                         ratio_rows(contenders, tests))
    ceiling = ceiling_rows(contenders[0], tests)
    if ceiling:
        text += "\nStrata in the last round, against reading memory with the same threads:\n\n"
        text += common.table(["test", "threads", "MB read a token", "GB/s", "of ceiling"], ceiling)
    text += "\nAll that was measured:\n\n"
    text += common.table(["program", "test", "threads", "tokens/s"], all_rows(contenders, tests))
    text += "\nVersions and commands, of each for the last number of threads:\n\n"
    for contender in contenders:
        text += f"* {contender.label()}: {contender.version or 'unknown version'}\n\n"
        text += "  " + common.shown(contender.command(options, options.threads[-1])) + "\n"
    return text


def main():
    options = parse_arguments(sys.argv[1:])
    options.machine = common.machine()
    contenders = contenders_of(options)
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        for threads in options.threads:
            for contender in contenders:
                measure(contender, options, threads)
    print(report(contenders, options), end="")
    return 1 if contenders[0].failures else 0


if __name__ == "__main__":
    sys.exit(main())
