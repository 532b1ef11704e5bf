"""strata serve beside llama-server on one model file, as markdown.

Every round starts each server once, one after the other and never two at a time, has "strata bench serve" ask it as
1, 4 and 16 clients do, and ends it. Both get the same prompts, the same number of slots and the same context for each.
Compared are medians over the rounds; what is above 1 is in favour of Strata.
"""
import argparse
import collections
import dataclasses
import http.client
import json
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import common

POLL_SECONDS = 0.1
END_SECONDS = 30
HOST = "127.0.0.1"


@dataclasses.dataclass
class Measure:
    """A column of "bench serve". `read` takes it from a row of its JSON."""
    name: str
    more_is_better: bool
    digits: int
    read: object


MEASURES = [
    Measure("answer tok/s", True, 1, lambda row: row["answer_tokens"] / row["seconds"]),
    Measure("prompt tok/s", True, 1, lambda row: row["prompt_tokens"] / row["seconds"]),
    Measure("first token p50, ms", False, 0, lambda row: 1e3 * row["first_token_s"]["p50"]),
    Measure("first token p99, ms", False, 0, lambda row: 1e3 * row["first_token_s"]["p99"]),
    Measure("next token p50, ms", False, 1, lambda row: 1e3 * row["between_tokens_s"]["p50"]),
    Measure("next token p99, ms", False, 1, lambda row: 1e3 * row["between_tokens_s"]["p99"]),
]


@dataclasses.dataclass
class Contender:
    """A server. `values` has a list for every (clients, name of a measure)."""
    name: str
    program: pathlib.Path
    is_strata: bool
    flags: list
    version: str = ""
    failure: str = ""
    values: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(list))

    def command(self, options, port):
        slots, context = options.slots, options.context
        if self.is_strata:
            words = ["serve", str(options.model), "--host", HOST, "--port", str(port), "--parallel", str(slots),
                     "--ctx", str(context)]
            threads = "--threads"
        else:  # its context is that of all slots together
            words = ["-m", str(options.model), "--host", HOST, "--port", str(port), "-np", str(slots),
                     "-c", str(slots * context)]
            threads = "-t"
        if options.threads:
            words += [threads, str(options.threads)]
        return [str(self.program)] + words + self.flags


class Failure(Exception):
    """Why a server could not be measured."""


def free_port():
    with socket.socket() as made:
        made.bind((HOST, 0))
        return made.getsockname()[1]


def is_ready(port):
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (http.client.HTTPException, OSError):
        return False
    finally:
        connection.close()


class Server:
    """A server that runs from `with` to its end."""

    def __init__(self, contender, options):
        self.port = free_port()
        self.command = contender.command(options, self.port)
        self.timeout = options.timeout

    def __enter__(self):
        print(shlex.join(self.command), file=sys.stderr, flush=True)
        self.folder = tempfile.TemporaryDirectory()
        self.log = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                            cwd=self.folder.name)
        except OSError as error:
            self.folder.cleanup()
            raise Failure(f"cannot be started: {error.strerror}") from error
        try:
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait_until_ready(self):
        end = time.monotonic() + self.timeout
        while not is_ready(self.port):
            if self.process.poll() is not None:
                raise Failure(f"ended with exit code {self.process.returncode}: {self.last_words()}")
            if time.monotonic() > end:
                raise Failure(f"was not ready after {self.timeout} s")
            time.sleep(POLL_SECONDS)

    def last_words(self):
        self.log.seek(0)
        lines = [line for line in self.log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip()[:common.MAX_REASON] if lines else "it said nothing"

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        self.folder.cleanup()


def client_command(options, port):
    return [str(options.strata), "bench", "serve", "--json", "--connect", f"http://{HOST}:{port}",
            "--clients", ",".join(map(str, options.clients)), "-r", str(options.requests),
            "-p", str(options.n_prompt), "-n", str(options.n_gen)]


def rows_of(text):
    """{clients: row}; a Failure for what is not what bench serve prints."""
    try:
        rows = {row["clients"]: {m.name: m.read(row) for m in MEASURES} for row in json.loads(text)}
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise Failure("bench serve printed no JSON of its own") from error
    return rows


def measure(contender, options):
    """One round. A failure is kept, and the server not started again."""
    if contender.failure:
        return
    try:
        with Server(contender, options) as server:
            result = common.call(client_command(options, server.port), options.timeout)
        if result.failure:
            raise Failure(f"bench serve: {result.failure}")
        rows = rows_of(result.out)
    except Failure as failure:
        contender.failure = str(failure)
        print(f"  {failure}", file=sys.stderr, flush=True)
        return
    for clients, row in rows.items():
        for name, value in row.items():
            contender.values[(clients, name)].append(value)


def parse_arguments(words):
    parser = argparse.ArgumentParser(
        prog="serve.sh", usage="%(prog)s MODEL LLAMA_SERVER [options] [-- flags of strata serve]",
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("rival", metavar="LLAMA_SERVER", help="NAME=PATH names it in the tables")
    parser.add_argument("--strata", type=pathlib.Path, default=common.default_strata())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", default="1,4,16", help="numbers of clients at once")
    parser.add_argument("--requests", "-r", type=int, default=3, help="of each client, one after another")
    parser.add_argument("--n-prompt", "-p", type=int, default=256, help="words of a prompt")
    parser.add_argument("--n-gen", "-n", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--context", "-c", type=int, default=2048, help="tokens of prompt and answer, for each slot")
    parser.add_argument("--threads", "-t", type=int, default=0, help="of both; what they choose themselves without")
    parser.add_argument("--rival-flags", default="", metavar="FLAGS", help='more flags, as "-fa on --no-webui"')
    parser.add_argument("--rival-version", default="", help="what to print as the rival's version")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a start and for a measurement")
    ours = words[words.index("--") + 1:] if "--" in words else []
    own = words[:words.index("--")] if "--" in words else words
    options = parser.parse_args(common.with_joined(own, "--rival-flags"))
    options.strata_flags = ours
    try:
        options.clients = [int(n) for n in options.clients.split(",")]
    except ValueError:
        parser.error(f"--clients {options.clients}: not numbers separated by commas")
    counts = options.clients + [options.rounds, options.requests, options.n_prompt, options.n_gen, options.context]
    if min(counts) < 1 or options.threads < 0:
        parser.error("clients, rounds, requests, -p, -n and -c are at least 1")
    if not options.model.is_file():
        parser.error(f"{options.model}: no such file")
    options.model = common.absolute(options.model)
    options.strata = common.absolute(options.strata)
    options.slots = max(options.clients)
    return options


def contenders_of(options):
    name, equals, path = options.rival.partition("=")
    ours = Contender("strata", options.strata, True, options.strata_flags)
    ours.version = common.text_of([options.strata, "--version"]) + ", commit " + common.our_commit()
    rival = Contender(name if equals else "llama-server", common.absolute(path if equals else name), False,
                      shlex.split(options.rival_flags))
    rival.version = options.rival_version or "unknown version"
    return ours, rival


def ratio(measured, ours, theirs):
    if not ours or not theirs:
        return "-"
    mine, other = statistics.median(ours), statistics.median(theirs)
    above, below = (mine, other) if measured.more_is_better else (other, mine)
    return f"**{above / below:.2f}**" if below > 0 else "-"


def rows(ours, rival, options):
    table = []
    for clients in options.clients:
        for measured in MEASURES:
            key = (clients, measured.name)
            mine, other = ours.values[key], rival.values[key]
            table.append([str(clients), measured.name, common.spread(mine, measured.digits),
                          common.spread(other, measured.digits), ratio(measured, mine, other)])
    return table


def report(ours, rival, options):
    text = f"# strata serve against {rival.name}\n\nDate {common.today()}; {options.machine}.\n"
    text += f"Model: {common.file_line(options.model)}. Each client sends {options.requests} requests of "
    text += f"{options.n_prompt} words, one after another, for answers of {options.n_gen} tokens; {options.slots} slots."
    text += f" Median of {options.rounds} rounds (least to most). A ratio above 1 is in favour of Strata: ours / theirs "
    text += "of speeds, theirs / ours of times.\n\n"
    text += common.table(["clients", "measured", "strata", rival.name, "ratio"], rows(ours, rival, options))
    for contender in (ours, rival):
        if contender.failure:
            text += f"\n{contender.name} failed: {contender.failure}\n"
    text += "\nVersions and commands:\n\n"
    for contender in (ours, rival):
        text += f"* {contender.name}: {contender.version}\n\n"
        text += "  " + common.shown(contender.command(options, "PORT")) + "\n"
    return text + "  " + common.shown(client_command(options, "PORT"))


def main():
    options = parse_arguments(sys.argv[1:])
    options.machine = common.machine()
    ours, rival = contenders_of(options)
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        # In turn, so that neither always comes after the other.
        for contender in (ours, rival) if number % 2 == 0 else (rival, ours):
            measure(contender, options)
    print(report(ours, rival, options), end="")
    return 1 if ours.failure else 0


if __name__ == "__main__":
    sys.exit(main())
