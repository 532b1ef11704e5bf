"""Decoding with experts on the drive, beside what the drive gives, as markdown.

Measures in turn how fast the drive reads (strata bench system --file MODEL) and how fast the model decodes (strata
bench), with the model's files dropped from the system's cache before each. The bound of a round is the drive's rate, the
mean of the measurements before and after it, over the bytes that a token reads. A round in which the drive itself changed
(the two differ by more than a tenth: a shared drive has a rate for bursts and a sustained one) says nothing and is
measured again; how many those were is printed. Flags after -- are those of strata bench.
"""
import json
import shlex
import statistics
import sys

import common


def measured(command, options):
    """What a command prints as JSON."""
    return json.loads(common.call_uncached(command, options).out)


# By how much the drive's rate may differ before and after a round that counts.
STEADY = 0.1


def report(rounds, n_unsteady, commands, options):
    text = f"# Decoding from the drive\n\nDate {common.today()}; Strata {common.our_commit()}; {options.machine}.\n"
    text += f"Model: {common.file_line(options.model)}. Nothing of it was in the system's cache.\n\n"
    text += common.table(
        ["round", "drive, GB/s", "MB of the drive a token", "bound, tokens/s", "tokens/s", "of the bound"],
        [[str(i + 1), f"{r['rate'] / 1e9:.2f}", f"{r['bytes'] / 1e6:.1f}", f"{r['bound']:.2f}", f"{r['speed']:.2f}",
          f"{100 * r['speed'] / r['bound']:.0f} %"] for i, r in enumerate(rounds)])
    shares = [100 * r["speed"] / r["bound"] for r in rounds]
    text += f"\nMedians: {common.spread([r['speed'] for r in rounds])} tokens/s, "
    text += f"{common.spread(shares, 0)} % of the bound; {n_unsteady} rounds in which the drive changed do not count."
    text += "\n\nCommands:\n\n"
    return text + "".join(common.shown(command) for command in commands)


def main():
    options = common.decode_arguments("drive.sh", __doc__, 5, ["--experts", "direct"], sys.argv[1:])
    options.machine = common.machine()
    drive = [str(options.strata), "bench", "system", "--file", str(options.model), "--buffer-mib", "64", "--json"]
    decode = [str(options.strata), "bench", str(options.model), "-p", "0", "-n", str(options.n_gen), "-r", "1",
              "-t", str(options.threads), "--json"] + options.flags
    rates = [measured(drive, options)["drive"]["bytes_per_second"]]
    rounds = []
    n_unsteady = 0
    while len(rounds) < options.rounds:
        if n_unsteady > 5 * options.rounds:
            sys.exit(f"{options.model}: the drive's rate changes all the time ({n_unsteady} rounds, {len(rounds)} of "
                     "them steady); try again when nobody else uses it")
        test = measured(decode, options)["tests"][0]
        rates.append(measured(drive, options)["drive"]["bytes_per_second"])
        if test["drive_bytes_per_token"] == 0:
            sys.exit(f"{shlex.join(decode)}: no expert was read past the system's cache; give --experts direct")
        rate = statistics.mean(rates[-2:])
        if abs(rates[-1] - rates[-2]) > STEADY * rate:
            n_unsteady += 1
            continue
        rounds.append({"rate": rate, "bytes": test["drive_bytes_per_token"],
                       "bound": rate / test["drive_bytes_per_token"], "speed": test["tokens_per_second"]["median"]})
    print(report(rounds, n_unsteady, [drive, decode], options), end="")


if __name__ == "__main__":
    main()
