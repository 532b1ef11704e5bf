"""What the scripts beside this one share: calls of programs, the machine, tables. Python standard library only."""
import argparse
import dataclasses
import datetime
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
# Instructions that the speed of matrix products hangs on.
CPU_FLAGS = ["avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
             "amx_tile", "amx_int8"]
MAX_REASON = 160


class MostUsed:
    """The most that `used`, a function, says while this is open, less what it said before."""

    def __init__(self, used, sample_seconds=0.2):
        self.used = used
        self.sample_seconds = sample_seconds
        self.before = self.most = used()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.ended.wait(self.sample_seconds):
            self.most = max(self.most, self.used())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def above(self):
        return self.most - self.before


@dataclasses.dataclass
class Call:
    """How a program ended. `failure` is empty when it ended well."""
    out: str
    failure: str
    seconds: float
    peak_bytes: int
    err: str = ""


def with_joined(words, flag):
    """The words with `flag` and its value as one: argparse takes a value that begins with a dash for another flag."""
    joined = list(words)
    for at in reversed([i for i, word in enumerate(joined[:-1]) if word == flag]):
        joined[at:at + 2] = [f"{flag}={joined[at + 1]}"]
    return joined


def decode_arguments(prog, description, rounds, flags, words, threads=2):
    """What scripts take that decode one model with strata bench; what stands after -- becomes .flags, else `flags`.

    With 0 `threads`, as many as the program takes by itself unless some are asked for."""
    parser = argparse.ArgumentParser(
        prog=prog, usage="%(prog)s MODEL [options] [-- FLAGS OF STRATA BENCH]", description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("--strata", type=pathlib.Path, default=default_strata())
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", "-t", type=int, default=threads)
    parser.add_argument("--n-gen", "-n", type=int, default=64)
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a run is ended")
    cut = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:cut])
    options.flags = words[cut + 1:] or flags
    if options.rounds < 1 or options.threads < min(threads, 1) or options.n_gen < 1:
        parser.error("rounds, threads and tokens are at least 1")
    if not options.model.is_file():
        parser.error(f"{options.model}: no such file")
    options.model = absolute(options.model)
    options.strata = absolute(options.strata)
    return options


def call_uncached(command, options):
    """A call that has to succeed, with nothing of the model in the system's cache before it."""
    drop_from_cache(options.model)
    print(shlex.join(command), file=sys.stderr, flush=True)
    result = call(command, options.timeout)
    if result.failure:
        sys.exit(f"{shlex.join(command)}: {result.failure}")
    return result


def end_of(status, err):
    """What a wait status says, with the last line of stderr."""
    lines = [line for line in err.splitlines() if line.strip()]
    last = ": " + lines[-1].strip()[:MAX_REASON] if lines else ""
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}{last}"
    code = os.WEXITSTATUS(status)
    return f"exit code {code}{last}" if code != 0 else ""


def wait_for(process, timeout):
    """Status and usage of the process, or None for the status when it had to be ended."""
    end = time.monotonic() + timeout
    delay = 0.001
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            return status, usage
        if time.monotonic() > end:
            process.kill()
            _, _, usage = os.wait4(process.pid, 0)
            return None, usage
        time.sleep(delay)
        delay = min(delay * 1.1, 0.02)


def absolute(path):
    """For calls, which are made in another folder. A name that is no file here is left to the search path."""
    path = pathlib.Path(path)
    return path.absolute() if path.exists() or len(path.parts) > 1 else path


def call(command, timeout):
    """Runs a program to its end, whatever that is, in a folder where it may leave what it likes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder)
        except OSError as error:
            return Call("", f"cannot be started: {error.strerror}", 0.0, 0)
        try:
            status, usage = wait_for(process, timeout)
        except BaseException:
            process.kill()
            raise
        seconds = time.monotonic() - begin
        out.seek(0)
        err.seek(0)
        out_text = out.read().decode("utf-8", "replace")
        err_text = err.read().decode("utf-8", "replace")
    failure = f"took more than {timeout} s" if status is None else end_of(status, err_text)
    return Call(out_text, failure, seconds, usage.ru_maxrss * 1024, err_text)


def text_of(command):
    """First line of a program's output; empty when it failed."""
    result = call([str(word) for word in command], 30)
    return "" if result.failure or not result.out.strip() else result.out.strip().splitlines()[0]


def our_commit():
    git = ["git", "-C", REPOSITORY]
    commit = text_of(git + ["rev-parse", "--short", "HEAD"]) or "unknown"
    changed = text_of(git + ["status", "--porcelain", "--untracked-files=no"])
    return commit + (" with changes" if changed else "")


def read_text(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def machine():
    """One line about the machine."""
    lscpu = call(["lscpu"], 30).out
    cpuinfo = read_text("/proc/cpuinfo")

    def field(text, name):
        match = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
        return match.group(1).strip() if match else ""

    granted = field(cpuinfo, "flags").split()
    flags = " ".join(flag for flag in CPU_FLAGS if flag in granted)
    memory = re.match(r"(\d+)", field(read_text("/proc/meminfo"), "MemTotal"))
    ram = f"{int(memory.group(1)) / 2 ** 20:.0f} GiB RAM" if memory else "unknown RAM"
    name = field(lscpu, "Model name") or field(cpuinfo, "model name") or "unknown processor"
    return f"{name}; {os.cpu_count()} logical CPUs; {flags}; {ram}; load {os.getloadavg()[0]:.1f} at the beginning"


def file_line(path):
    return f"{path.name}, {sum(part.stat().st_size for part in parts_of(path)) / 1e9:.2f} GB"


def parts_of(path):
    """All files of a split model, or the one."""
    match = re.fullmatch(r"(.*-)\d{5}(-of-\d{5}\.gguf)", path.name)
    if not match:
        return [path]
    return sorted(p for p in path.parent.iterdir()
                  if re.fullmatch(re.escape(match.group(1)) + r"\d{5}" + re.escape(match.group(2)), p.name))


def drop_from_cache(model):
    """The clean pages of a file leave the cache; those that somebody has mapped stay."""
    for path in parts_of(model):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def today():
    return datetime.date.today().isoformat()


def spread(values, digits=2):
    """Median (least to most)."""
    if not values:
        return "failed"
    median = statistics.median(values)
    return f"{median:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def table(head, rows):
    """A markdown table; a row is a list of texts."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def shown(command):
    """For a page that others read: files of the repository by their place in it, others by their names."""
    words = []
    for word in command:
        path = pathlib.Path(word)
        if path.is_absolute():
            word = path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path.name
        words.append(str(word))
    return "    " + shlex.join(words) + "\n"


def default_strata():
    return REPOSITORY / "build" / "release" / "bin" / "strata"
