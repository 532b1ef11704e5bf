"""Strata beside another program on a GPU that has no room for all experts of a model, as markdown.

Every round calls each program once, one after the other; of the rival, which is a llama-bench, every set of flags is
tried in every round, or in the first --tries rounds, after which only those go on that were best at some test; at each
test the best one counts. What a program takes of the GPU's memory is read from
nvidia-smi while it runs: compare only what stands beside the same memory.
"""
import argparse
import pathlib
import shlex
import statistics
import sys

import common
import compare


def used_vram_mib(gpu):
    text = common.text_of(["nvidia-smi", f"--id={gpu}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"])
    return int(text) if text.isdigit() else 0


def command_of(contender, options):
    words = [str(contender.program)]
    words += ["bench", str(options.model), "--json"] if contender.is_strata else ["-m", str(options.model), "-o", "json"]
    return words + ["-p", options.prompts, "-n", options.answers, "-r", "1"] + contender.flags


def speeds_of(contender, text):
    """{test: tokens a second}, whatever the threads."""
    return {test: speed for (test, _), speed in contender.read(contender, text).items()}


def measure(contender, options):
    """One call. After a failure a contender is left out."""
    if contender.failures or contender in options.beaten:
        return
    command = command_of(contender, options)
    print(shlex.join(command), file=sys.stderr, flush=True)
    with common.MostUsed(lambda: used_vram_mib(options.gpu)) as vram:
        result = common.call(command, options.timeout)
    failure = result.failure
    if not failure:
        try:
            speeds = speeds_of(contender, result.out)
        except (ValueError, KeyError, TypeError, AttributeError):
            failure = "its output is not the JSON that was expected"
    if failure:
        contender.failures[0] = failure
        print(f"  {failure}", file=sys.stderr, flush=True)
        return
    contender.vram = max(getattr(contender, "vram", 0), vram.above())
    for test, speed in speeds.items():
        contender.speeds[test].append(speed)


def beaten_of(rivals, tests):
    """Those that are best at no test so far."""
    best = [compare.best_of(rivals, test) for test in tests]
    return [rival for rival in rivals if not any(rival is one for one in best)]


def tests_of(options):
    names = [f"pp{n}" for n in options.prompts.split(",") if int(n) > 0]
    return names + [f"tg{n}" for n in options.answers.split(",") if int(n) > 0]


def ratio_rows(ours, rivals, tests):
    """Of the rivals that were there to the end."""
    rows = []
    for test in tests:
        mine = ours.speeds[test]
        best = compare.best_of(rivals, test)
        ratio = "-"
        if best and mine:
            ratio = f"**{statistics.median(mine) / statistics.median(best.speeds[test]):.2f}**"
        rows.append([test, common.spread(mine), best.label() if best else "-",
                     common.spread(best.speeds[test]) if best else "failed", ratio])
    return rows


def bound_rows(ours, tests):
    """From the last call: what the machine allows, and where the experts were."""
    last = {test: row for (test, _), row in ours.extra.items()}
    rows = []
    for test in tests:
        if test not in last:
            continue
        row = last[test]
        most = row["most_tokens_per_second"]
        reached = f"{100 * statistics.median(ours.speeds[test]) / most:.0f} %" if most > 0 else "-"
        rows.append([test, f"{most:.1f}", reached, f"{100 * row['cache_hit_share']:.0f} %",
                     f"{row['cpu_expert_bytes_per_token'] / 1e6:.1f}", f"{row['link_bytes_per_token'] / 1e6:.1f}",
                     f"{100 * row['link_busy_share']:.0f} %"])
    return rows


def all_rows(contenders, tests):
    rows = []
    for contender in contenders:
        reason = contender.failures.get(0, "")
        vram = str(getattr(contender, "vram", "-"))
        for test in tests:
            values = contender.speeds[test]
            after = f"; then failed: {reason}" if values and reason else ""
            rows.append([contender.label(), vram, test,
                         common.spread(values) + after if values else f"failed: {reason}"])
    return rows


def report(contenders, options):
    tests = tests_of(options)
    ours, rivals = contenders[0], contenders[1:]
    gpu = common.text_of(["nvidia-smi", f"--id={options.gpu}", "--query-gpu=name", "--format=csv,noheader"])
    text = f"# {options.title}\n\nDate {common.today()}; {gpu or 'no GPU'}; {options.machine}.\n"
    text += f"Model: {common.file_line(options.model)}. Tokens a second, median of {options.rounds} rounds"
    text += " (least to most).\n\n"
    text += common.table(["test", "strata", "rival with its best flags", "rival", "ours / rival"],
                         ratio_rows(ours, [one for one in rivals if one not in options.beaten], tests))
    text += "\n" + common.table(["test", "at most", "reached", "hits", "CPU MB/token", "link MB/token", "link busy"],
                                bound_rows(ours, tests))
    text += "\n" + common.table(["program", "VRAM MiB", "test", "tokens a second"], all_rows(contenders, tests))
    text += "\n" + "\n".join(f"* {c.name}: {c.version}" for c in [ours] + rivals[:1]) + "\n\n"
    for contender in contenders:
        text += common.shown(command_of(contender, options))
    return text


def numbers(text):
    values = [int(n) for n in text.split(",")]
    if min(values) < 0:
        raise ValueError
    return text


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="hybrid.sh", usage="%(prog)s MODEL LLAMA_BENCH [options] [-- flags of strata bench]", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("rival", type=pathlib.Path, metavar="LLAMA_BENCH",
                        help="a llama-bench that understands -o json")
    parser.add_argument("--strata", type=pathlib.Path, default=common.default_strata())
    parser.add_argument("--title", default="Experts beside a GPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompts", "-p", type=numbers, default="70,4096", help="lengths of prompts")
    parser.add_argument("--answers", "-n", type=numbers, default="64", help="lengths of answers")
    parser.add_argument("--rival-flags", default="", metavar="SETS",
                        help='sets of flags to try with the rival, separated by ;, as "-ngl 99 -ncmoe 36;-ngl 99 -ot ..."')
    parser.add_argument("--tries", type=int, default=0, metavar="ROUNDS",
                        help="rounds in which every set is tried; 0 is all of them")
    parser.add_argument("--rival-version", default="", help="what to print as the rival's version if it has none")
    parser.add_argument("--gpu", default="0", help="whose memory is watched, as nvidia-smi numbers it")
    parser.add_argument("--timeout", type=float, default=900, help="seconds after which a call is ended")
    at = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(common.with_joined(words[:at], "--rival-flags"))
    options.strata_flags = words[at + 1:]
    if options.rounds < 1:
        parser.error("rounds are at least 1")
    if options.tries < 0:
        parser.error("tries are at least 0")
    if not options.model.is_file():
        parser.error(f"{options.model}: no such file")
    if not options.rival.is_file():
        parser.error(f"{options.rival}: no such file; a llama-bench is wanted")
    options.model = common.absolute(options.model)
    options.strata = common.absolute(options.strata)
    options.rival = common.absolute(options.rival)
    return options


def contenders_of(options):
    ours = compare.Contender("strata", options.strata, options.strata_flags, compare.read_strata)
    ours.version = common.text_of([options.strata, "--version"]) + ", commit " + common.our_commit()
    name = compare.rival_name(options.rival)
    rivals = [compare.Contender(name, options.rival, shlex.split(flags), compare.read_llama_bench,
                                version=options.rival_version) for flags in options.rival_flags.split(";")]
    return [ours] + rivals


def main(words):
    options = parse_arguments(words)
    options.machine = common.machine()
    contenders = contenders_of(options)
    options.beaten = []
    for done in range(options.rounds):
        if options.tries and done == options.tries:
            options.beaten = beaten_of(contenders[1:], tests_of(options))
        for contender in contenders:
            measure(contender, options)
    print(report(contenders, options), end="")
    return 1 if contenders[0].failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
