"""Decoding with the rows of an n-gram table read from the drive, beside the table in RAM, as markdown.

Calls strata bench with --ple-io direct and with --ple-io ram in turn, with the model's files dropped from the
system's cache before each. The counters are those of the runs from the drive. What the rows take of RAM is how much
less than the table's size the peak memory of a run sinks when the table stays on the drive. Flags after -- are those
of strata bench.
"""
import json
import os
import shlex
import statistics
import struct
import sys

import common

PLACES = ["direct", "ram"]
COUNTERS = ["tokens_forward", "ngram_rows", "ngram_distinct_rows", "ngram_reads", "ngram_read_bytes", "ngram_waits"]


def command_of(place, options):
    return [str(options.strata), "bench", str(options.model), "-p", "0", "-n", str(options.n_gen), "-r", "1", "-t",
            str(options.threads), "--json", "--stats", "--ple-io", place] + options.flags


def measured(place, options):
    """Speed, counters and peak memory of a run."""
    command = command_of(place, options)
    result = common.call_uncached(command, options)
    lines = [line.split() for line in result.err.splitlines()]
    counters = {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[0] in COUNTERS}
    if place == "direct" and counters.get("ngram_reads", 0) == 0:
        sys.exit(f"{shlex.join(command)}: no row of an n-gram table was read; the model has none")
    speed = json.loads(result.out)["tests"][0]["tokens_per_second"]["median"]
    return {"speed": speed, "peak": result.peak_bytes, **{name: counters.get(name, 0) for name in COUNTERS}}


def report(rounds, table_bytes, options):
    text = "# An n-gram table on the drive\n\n"
    text += f"Date {common.today()}; Strata {common.our_commit()}; {options.machine}.\n"
    text += f"Model: {common.file_line(options.model)}. Nothing of it was in the system's cache.\n\n"
    text += common.table(
        ["round", "drive, tokens/s", "RAM, tokens/s", "drive / RAM", "rows a token", "different ones", "reads",
         "waits", "KB of the drive a token"],
        [[str(i + 1), f"{r['direct']['speed']:.2f}", f"{r['ram']['speed']:.2f}",
          f"{r['direct']['speed'] / r['ram']['speed']:.3f}"] +
         [f"{r['direct'][name] / r['direct']['tokens_forward']:.2f}"
          for name in ("ngram_rows", "ngram_distinct_rows", "ngram_reads", "ngram_waits")] +
         [f"{r['direct']['ngram_read_bytes'] / r['direct']['tokens_forward'] / 1e3:.1f}"]
         for i, r in enumerate(rounds)])
    speeds = {place: [r[place]["speed"] for r in rounds] for place in PLACES}
    ratio = statistics.median(speeds["direct"]) / statistics.median(speeds["ram"])
    text += f"\nMedians: {common.spread(speeds['direct'])} tokens/s from the drive, "
    text += f"{common.spread(speeds['ram'])} with the table in RAM: {100 * ratio:.1f} %.\n"
    peaks = {place: statistics.median(r[place]["peak"] for r in rounds) for place in PLACES}
    saved = peaks["ram"] - peaks["direct"]
    text += f"Peak memory sinks by {saved / 2 ** 20:.0f} MiB when the table of {table_bytes / 2 ** 20:.0f} MiB stays "
    text += f"on the drive: reading its rows takes {(table_bytes - saved) / 2 ** 20:.0f} MiB.\n\nCommands:\n\n"
    return text + "".join(common.shown(command_of(place, options)) for place in PLACES)


def gguf_tensors(file):
    """(name, offset) of the tensors of a GGUF file that is read from its start, and where their data begins."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    alignment = 32

    def numbers(form):
        return struct.unpack("<" + form, file.read(struct.calcsize("<" + form)))

    def text():
        return file.read(numbers("Q")[0])

    def skip(kind):
        if kind == 8:
            text()
        elif kind == 9:
            element, count = numbers("IQ")
            for _ in range(count if element in (8, 9) else 0):
                skip(element)
            file.seek(0 if element in (8, 9) else sizes[element] * count, os.SEEK_CUR)
        else:
            file.seek(sizes[kind], os.SEEK_CUR)

    _, _, n_tensors, n_keys = numbers("IIQQ")
    for _ in range(n_keys):
        key, kind = text(), numbers("I")[0]
        if key == b"general.alignment":
            alignment = numbers("I")[0]
        else:
            skip(kind)
    tensors = []
    for _ in range(n_tensors):
        name, n_dims = text().decode(), numbers("I")[0]
        tensors.append((name, numbers(f"{n_dims}QIQ")[-1]))
    return tensors, -(-file.tell() // alignment) * alignment


def table_size(options):
    """Bytes of the table, up to the alignment of what stands behind it."""
    for part in common.parts_of(options.model):
        with open(part, "rb") as file:
            tensors, begin = gguf_tensors(file)
        at = dict(tensors).get("per_layer_token_embd.weight")
        if at is not None:
            return min([o for _, o in tensors if o > at] + [part.stat().st_size - begin]) - at
    sys.exit(f"{options.model}: the model has no n-gram table")


def main():
    options = common.decode_arguments("ngram.sh", __doc__, 7, ["--experts", "arena"], sys.argv[1:])
    options.machine = common.machine()
    size = table_size(options)
    rounds = [{place: measured(place, options) for place in PLACES} for _ in range(options.rounds)]
    print(report(rounds, size, options), end="")


if __name__ == "__main__":
    main()
