"""The table of two_gpus.sh engines: an engine on each GPU, all on one shared arena."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import common

GIB = 2 ** 30
SAMPLE_SECONDS = 0.1
BUFFER_MIB = 256  # of the measurement before the load, which is not to be the most memory that is used
MID_ANSWER_BYTES = 16
PROMPT = "Once upon a time there was a little girl who"


class Running:
    """A program that runs beside others; its output goes to files."""

    def __init__(self, command):
        print(shlex.join(command), file=sys.stderr, flush=True)
        self.command = command
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err)

    def text(self, file):
        file.seek(0)
        return file.read().decode("utf-8", "replace")

    def written(self):
        return os.fstat(self.out.fileno()).st_size

    def end(self, timeout):
        """Output and messages of a run that has to succeed."""
        status, _ = common.wait_for(self.process, timeout)
        err = self.text(self.err)
        failure = f"took more than {timeout} s" if status is None else common.end_of(status, err)
        if failure:
            sys.exit(f"{shlex.join(self.command)}: {failure}")
        return self.text(self.out), err

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def used_memory():
    """Bytes of the machine's memory that are in use."""
    text = common.read_text("/proc/meminfo")
    found = dict(re.findall(r"^(MemTotal|MemAvailable):\s+(\d+) kB", text, re.MULTILINE))
    return (int(found["MemTotal"]) - int(found["MemAvailable"])) * 1024


class Side:
    """One of the engines: its GPU and its cores."""

    def __init__(self, device, cpus, options):
        self.device, self.options = device, options
        self.flags = ["--device", device, "--cpus", cpus, "--shared-expert-arena", str(options.arena)]
        if options.expert_cache is not None:
            self.flags += ["--expert-cache", str(options.expert_cache)]
        self.flags += options.flags

    def bench(self):
        options = self.options
        return Running([str(options.strata), "bench", str(options.model), "--json", "--log-level", "info",
                        "--verify-arena", "--buffer-mib", str(BUFFER_MIB), "-p", options.prompts,
                        "-n", options.answers, "-r", str(options.rounds)] + self.flags)

    def answer(self):
        """Its tokens hang on nothing but the prompt."""
        options = self.options
        return Running([str(options.strata), "run", str(options.model), "-p", PROMPT, "-n", str(options.tokens),
                        "--temp", "0", "--deterministic"] + self.flags)


def speeds_of(out):
    return {test["test"]: test["tokens_per_second"] for test in json.loads(out)["tests"]}


def arena_lines(err):
    """What an engine says about the arena and its checksum."""
    found = re.findall(r"(?:shared arena \S+: |experts \(arena\): )(.*(?:attached|loaded|checksum|waiting).*)", err)
    return found or ["nothing"]


def checksum_of(err):
    found = re.search(r"checksum ([0-9a-f]{16})", err)
    return found.group(1) if found else None


def speed_rows(sides, alone, together, options):
    rows = []
    for side, one, two in zip(sides, alone, together):
        for test in options.tests:
            speeds = [f"{s[test]['median']:.1f} ({s[test]['min']:.1f} to {s[test]['max']:.1f})" for s in (one, two)]
            share = two[test]["median"] / one[test]["median"]
            rows.append([side.device, test] + speeds + [f"{100 * share:.1f} %"])
    return rows


def yes(condition):
    return "yes" if condition else "NO"


def kill_one(sides, options, alone):
    """The first engine is killed while it answers; whether the other's answer is the one that it gives alone."""
    victim, other = sides[0].answer(), sides[1].answer()
    both = [victim, other]
    end = time.monotonic() + options.timeout
    while min(run.written() for run in both) < MID_ANSWER_BYTES and time.monotonic() < end:
        time.sleep(0.002)
    in_time = all(run.written() >= MID_ANSWER_BYTES and run.process.poll() is None for run in both)
    victim.kill()
    if not in_time:
        other.kill()
        sys.exit("the engines were not both in the middle of an answer; give more --tokens")
    return other.end(options.timeout)[0] == alone


ARENA_MAGIC = b"STRATAXA"  # what an expert arena's file begins with


def remove_old_arena(path):
    """Nothing but an arena: whoever names a file of another kind has made a mistake."""
    if not path.exists():
        return
    with path.open("rb") as file:
        if file.read(len(ARENA_MAGIC)) != ARENA_MAGIC:
            print(f"--arena {path}: this file is no expert arena; it is left alone, name another place",
                  file=sys.stderr)
            sys.exit(2)
    path.unlink()


def engines(options):
    """Yields the page as it comes."""
    remove_old_arena(options.arena)
    folder = os.statvfs(options.arena.parent)
    room = folder.f_bavail * folder.f_frsize
    devices = [f"cuda:{number}" for number in options.devices.removeprefix("cuda:").split(",")]
    if not options.devices.startswith("cuda:"):
        devices = [options.one_device or options.devices] * 2
    sides = [Side(device, cpus, options) for device, cpus in zip(devices, options.cpus.split(";"))]
    try:
        yield from measure(sides, room, options)
    finally:
        options.arena.unlink(missing_ok=True)


def measure(sides, room, options):
    alone, rests = [], []
    with_file = 0
    for side in sides:
        with common.MostUsed(used_memory, SAMPLE_SECONDS) as memory:
            out, _ = side.bench().end(options.timeout)
        alone.append(speeds_of(out))
        copy = options.arena.stat().st_blocks * 512
        rests.append(memory.above() - (copy - with_file))
        with_file = copy
    yield f"{options.arena.parent} has room for {room / GIB:.1f} GiB; the arena takes {copy / GIB:.2f} GiB.\n"

    options.arena.unlink()
    with common.MostUsed(used_memory, SAMPLE_SECONDS) as memory:
        running = [side.bench() for side in sides]
        ended = [run.end(options.timeout) for run in running]
    yield common.table(["engine", "test", "alone, tokens/s", "beside the other", "share"],
                       speed_rows(sides, alone, [speeds_of(out) for out, _ in ended], options))
    yield common.table(["engine", "about the arena, when both start at once"],
                       [[side.device, line] for side, (_, err) in zip(sides, ended) for line in arena_lines(err)])
    sums = [checksum_of(err) for _, err in ended]
    yield f"* equal checksums: {yes(sums[0] is not None and sums[0] == sums[1])}"
    yield (f"* memory in use at the most: {memory.above() / GIB:.2f} GiB with both; the arena {copy / GIB:.2f} GiB, "
           f"and beside it {rests[0] / GIB:.2f} and {rests[1] / GIB:.2f} GiB of each alone")

    answers = [side.answer().end(options.timeout)[0] for side in sides]
    running = [side.answer() for side in sides]
    same = [run.end(options.timeout)[0] == answer for run, answer in zip(running, answers)]
    yield f"* {options.tokens} tokens as alone, both at once: {', '.join(yes(s) for s in same)}"
    survived = kill_one(sides, options, answers[1])
    yield f"* one killed in mid-decode, the other's tokens as alone: {yes(survived)}"
