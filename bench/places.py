"""Decoding with the experts that a GPU lacks in each place that they can be read from, as markdown.

Calls strata bench with every set of flags of --places in turn, for several rounds, with the model's files dropped from
the system's cache before each call. Flags after -- are those of all calls, as --device cuda:0 --vram-budget-gib 7.
"""
import json
import re
import shlex
import statistics
import sys

import common

PLACES = ("--experts arena;--experts resident;--experts resident --resident-budget-gib 4;--experts direct;"
          "--experts direct --resident-budget-gib 4")
PROBE_MIB = 64  # of memory whose rate bench measures: little beside an engine's, for the peak is to be the engine's


def command_of(place, options):
    threads = ["-t", str(options.threads)] if options.threads > 0 else []
    return [str(options.strata), "bench", str(options.model), "-p", "0", "-n", str(options.n_gen), "-r", "1",
            "--json", "--buffer-mib", str(PROBE_MIB)] + threads + place + options.flags


def measured(place, options):
    """The test of one call, with what its engine says is page-locked and the process's peak memory."""
    result = common.call_uncached(command_of(place, options), options)
    found = json.loads(result.out)
    locked = re.findall(r"([\d.]+ \w+) of [\d.]+ \w+ page-locked", found["engines"][0]["description"] + result.err)
    return {"locked": " + ".join(locked) or "none", "peak": result.peak_bytes, **found["tests"][0]}


def report(rounds, places, options):
    text = "# Experts in every place beside a GPU\n\n"
    text += f"Date {common.today()}; Strata {common.our_commit()}; {options.machine}.\n"
    text += f"Model: {common.file_line(options.model)}. Nothing of it was in the system's cache at the start of a "
    text += f"call; {len(rounds)} rounds, what is not a speed is of the last one.\n\n"
    rows = []
    for i, place in enumerate(places):
        speeds = [r[i]["tokens_per_second"]["median"] for r in rounds]
        last = rounds[-1][i]
        rows.append([shlex.join(place), common.spread(speeds), f"{100 * last['cache_hit_share']:.0f} %",
                     f"{last['cpu_expert_bytes_per_token'] / 1e6:.1f}", f"{last['link_bytes_per_token'] / 1e6:.1f}",
                     f"{last['drive_bytes_per_token'] / 1e6:.1f}", last["locked"], f"{last['peak'] / 2 ** 30:.1f}"])
    text += common.table(["flags", "tokens/s", "hits", "CPU MB a token", "link MB a token", "drive MB a token",
                          "page-locked", "peak GiB"], rows)
    return text + "\nCommands:\n\n" + "".join(common.shown(command_of(place, options)) for place in places)


def main():
    words = common.with_joined(sys.argv[1:], "--places")
    sets = [word.split("=", 1)[1] for word in words if word.startswith("--places=")]
    words = [word for word in words if not word.startswith("--places=")]
    options = common.decode_arguments("places.sh", __doc__, 3, ["--device", "cuda:0"], words, threads=0)
    options.machine = common.machine()
    places = [shlex.split(place) for place in (sets or [PLACES])[-1].split(";")]
    rounds = [[measured(place, options) for place in places] for _ in range(options.rounds)]
    print(report(rounds, places, options), end="")


if __name__ == "__main__":
    main()
