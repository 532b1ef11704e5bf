"""What two GPUs of one host give, as markdown.

tiers    A split whose GPUs hold the shares --shares of all expert bytes: the other experts in an arena, in a resident
         copy without what prompts borrow, and in one with it.
speed    The same prompts on one GPU and on both.
engines  An engine on each GPU, all on one shared arena: speeds beside those of each alone with its cores, tokens,
         memory, and an engine that is killed.

Without a second GPU, cuda:0,0 shows all but speeds, and simulated devices (--devices sim:2x8GiB/...) tell simulated
times; what those cache is a matter of --expert-cache, not of --shares.
"""
import argparse
import json
import pathlib
import re
import shlex
import sys

import common
import two_engines

CACHE_ROW = re.compile(r"^\| \S+ \| expert cache \| [^|]* \| (\d+) \|$", re.MULTILINE)
GIB = 2 ** 30


def called(command, options):
    """A call that has to succeed."""
    print(shlex.join(command), file=sys.stderr, flush=True)
    result = common.call(command, options.timeout)
    if result.failure:
        sys.exit(f"{shlex.join(command)}: {result.failure}")
    return result


def bench(options, flags):
    """The engine, and its tests by name, of one run of strata bench."""
    command = [str(options.strata), "bench", str(options.model), "--json", "--buffer-mib", str(two_engines.BUFFER_MIB),
               "-p", options.prompts, "-n", options.answers, "-r", str(options.rounds)] + flags + options.flags
    found = json.loads(called(command, options).out)
    return found["engines"][0], {test["test"]: test for test in found["tests"]}


def speed_of(test):
    speed = test["tokens_per_second"]
    return f"{speed['median']:.1f} ({speed['min']:.1f} to {speed['max']:.1f})"


def inspected(options):
    return json.loads(called([str(options.strata), "inspect", str(options.model), "--json"], options).out)


def split_flags(options, model):
    """Both devices, with half of the layers each if nothing else is said."""
    n_layers = next(n for key, n in model["metadata"].items() if key.endswith(".block_count"))
    return ["--device", options.devices, "--layer-split",
            options.layer_split or f"{n_layers // 2},{n_layers - n_layers // 2}"]


def cached_slots(options, split, budgets):
    """Experts that each device caches with these budgets in GiB."""
    command = [str(options.strata), "plan", str(options.model), "--vram-budget-gib", ",".join(map(str, budgets))]
    slots = [int(n) for n in CACHE_ROW.findall(called(command + split + options.flags, options).out)]
    if len(slots) != len(budgets):
        sys.exit(f"with budgets of {budgets} GiB not every device caches experts; raise --beside")
    return slots


def budgets_for(options, model, split):
    """Budgets with which each device caches its share of all experts, to a hundredth of a GiB."""
    n_experts = sum(layer["experts"] for layer in model["experts"])
    total = sum(layer["experts"] * layer["expert_bytes"] for layer in model["experts"])
    wanted = [share / 100 * n_experts for share in options.shares]
    budgets = [share / 100 * total / GIB + options.beside for share in options.shares]
    for _ in range(2):
        missing = [want - have for want, have in zip(wanted, cached_slots(options, split, budgets))]
        budgets = [round(budget + n * total / n_experts / GIB, 2) for budget, n in zip(budgets, missing)]
    return budgets


def tier_row(name, engine, tests, options):
    parts = engine["parts"]
    copied = engine["experts_in_ram_bytes"]
    regions = "-"
    if name != "arena":  # which has all of them once
        regions = f"{sum(part['lent_in_ram_bytes'] for part in parts) / GIB:.2f}"
    row = [name, f"{engine['experts_pinned_bytes'] / GIB:.2f}", f"{copied / GIB:.2f}", regions]
    for test in options.tests:
        drive = tests[test]["drive_bytes_per_token"] * (tests[test]["n_prompt"] + tests[test]["n_gen"]) / 1e9
        row += [speed_of(tests[test]), f"{tests[test]['file_reads']:.0f} ({drive:.2f})"]
    return row


def tiers(options):
    model = inspected(options)
    split = split_flags(options, model) + ["--prefill", str(options.prefill), "--ram-gib", str(options.ram_gib)]
    text = ""
    if options.devices.startswith("cuda"):
        longest = max(int(test[2:]) for test in options.tests)
        budgets = budgets_for(options, model, split + ["--ctx", str(longest)])
        split += ["--vram-budget-gib", ",".join(map(str, budgets))]
        text = f"Budgets: {', '.join(map(str, budgets))} GiB. "
    variants = [("arena", ["--experts", "arena"]),
                ("resident, no regions", ["--experts", "resident", "--lend-regions", "off"]),
                ("resident, regions", ["--experts", "resident"])]
    rows, engines = [], []
    for name, flags in variants:
        engine, tests = bench(options, split + flags)
        engines.append(engine)
        rows.append(tier_row(name, engine, tests, options))
    text += f"Chunks of {options.prefill} rows, --ram-gib {options.ram_gib:g}.\n\n"
    text += common.table(["part", "layers", "experts cached", "of all expert bytes", "lent to prompts",
                          "link GB/s"], part_rows(engines[-1])) + "\n"
    head = ["experts", "pinned GiB", "in RAM GiB", "regions GiB"]
    for test in options.tests:
        head += [f"{test} tok/s", "experts read (drive GB)"]
    yield text + common.table(head, rows) + shares_text(rows, options)


def part_rows(engine):
    return [[part["device"], f"{part['first_layer']} to {part['last_layer']}", str(part["cached_experts"]),
             f"{100 * part['cached_bytes'] / engine['expert_bytes']:.1f} %", str(part["lent_experts"]),
             f"{part['link_bytes_per_second'] / 1e9:.1f}"] for part in engine["parts"]]


def shares_text(rows, options):
    """Each variant's median speeds as shares of the arena's."""
    text = "\n"
    for i, test in enumerate(options.tests):
        speeds = [float(row[4 + 2 * i].split()[0]) for row in rows]
        shares = ", ".join(f"{row[0]} {100 * speed / speeds[0]:.1f} %" for row, speed in zip(rows[1:], speeds[1:]))
        text += f"* {test}, of the arena's speed: {shares}\n"
    return text


def speed(options):
    one = options.one_device or options.devices.split(",")[0]
    rows, speeds = [], []
    for flags in [["--device", one], split_flags(options, inspected(options))]:
        engine, tests = bench(options, flags)
        speeds.append({test: tests[test]["tokens_per_second"]["median"] for test in options.tests})
        rows += [[flags[1], test, speed_of(tests[test]), f"{100 * tests[test]['link_busy_share']:.0f} %",
                  f"{speeds[-1][test] / speeds[0][test]:.2f}", f"{engine['load_ns'] / 1e9:.1f}"]
                 for test in options.tests]
    yield common.table(["device", "test", "tokens/s", "links busy", "times one device", "start, s"], rows)


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="two_gpus.sh", usage="%(prog)s tiers|speed|engines MODEL [options] [-- flags of strata bench and plan]",
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tiers", "speed", "engines"])
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("--strata", type=pathlib.Path, default=common.default_strata())
    parser.add_argument("--devices", default="cuda:0,1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", "-p", help="lengths of prompts")
    parser.add_argument("--answers", "-n", default="64", help="lengths of answers")
    parser.add_argument("--one-device", help="speed: what both are held against, else the first of them; engines: "
                        "each one's, if simulated")
    parser.add_argument("--layer-split", help="half of the layers each")
    parser.add_argument("--shares", default="20,30", help="tiers: percent of all expert bytes in each GPU's cache")
    parser.add_argument("--prefill", type=int, default=8192, help="tiers: rows of a chunk")
    parser.add_argument("--ram-gib", type=float, default=64, help="tiers: RAM that the plan counts on")
    parser.add_argument("--beside", type=float, default=4, help="tiers: GiB beside the cache, for a first guess")
    parser.add_argument("--arena", type=pathlib.Path, default=pathlib.Path("/dev/shm/strata-two-gpus"),
                        help="engines: file of the arena; an arena that is there is removed, before and after")
    parser.add_argument("--cpus", default="0-15;16-31", help="engines: cores of each, separated by ;")
    parser.add_argument("--expert-cache", type=int, help="engines: slots of each GPU's cache")
    parser.add_argument("--tokens", type=int, default=64, help="engines: tokens of the answers that are compared")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a run is ended")
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    options.flags = words[cut + 1:]
    options.prompts = options.prompts or ("4096" if options.what == "engines" else "70,16384")
    try:
        options.shares = [float(share) for share in options.shares.split(",")]
        options.tests = [f"pp{int(n)}" for n in options.prompts.split(",") if int(n) > 0]
        options.tests += [f"tg{int(n)}" for n in options.answers.split(",") if int(n) > 0]
    except ValueError:
        parser.error("--shares, --prompts and --answers are numbers separated by commas")
    if options.rounds < 1 or not options.tests or len(options.shares) != 2:
        parser.error("rounds are at least 1, something is to be measured, and there are two shares")
    if not options.model.is_file():
        parser.error(f"{options.model}: no such file")
    options.model = common.absolute(options.model)
    options.strata = common.absolute(options.strata)
    return options


def main():
    options = parse_arguments(sys.argv[1:])
    machine = common.machine()
    gpus = common.call(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], 30).out.split("\n")
    print(f"# Two GPUs: {options.what}\n\nDate {common.today()}; {', '.join(gpu for gpu in gpus if gpu) or 'no GPU'}; {machine}.\n"
          f"Model: {common.file_line(options.model)}. Medians of {options.rounds} (least to most); "
          f"strata {common.our_commit()}.\n", flush=True)
    for text in {"tiers": tiers, "speed": speed, "engines": two_engines.engines}[options.what](options):
        print(text, flush=True)


if __name__ == "__main__":
    main()
