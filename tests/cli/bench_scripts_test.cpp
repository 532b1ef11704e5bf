// Goal: bench/compare.sh, startup.sh, serve.sh, drive.sh, ngram.sh, places.sh and two_gpus.sh put the right numbers
// into their tables and go on when a rival fails. The rivals are scripts that print made-up speeds.
#include <filesystem>

#include <gtest/gtest.h>

#include "cli/models.h"
#include "cli/program.h"
#include "support/golden.h"

namespace strata::test {
namespace {

using Args = std::vector<std::string>;

Outcome shell(const Args& args) { return call({.args = args, .program = "/bin/sh"}); }

class BenchScripts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (shell({"-c", "command -v python3"}).exit_code != 0) GTEST_SKIP() << "there is no python3";
  }

  std::string script(const std::string& name, const std::string& body) {
    const std::string path = dir_.file(name);
    write_file(path, "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  // A llama-bench whose prompt speed is 100 with -fa 1 and else 50 tokens a second, on every number of threads.
  std::string rival() {
    return script("rival-bench", R"(
      speed=50
      while [ $# -gt 0 ]; do
        case "$1" in -t) threads=$2;; -fa) [ "$2" = 1 ] && speed=100;; esac
        shift
      done
      echo "a message before the numbers"
      row() {
        echo "{\"n_prompt\": $1, \"n_gen\": $2, \"n_threads\": $threads, \"avg_ts\": 1, \"samples_ts\": [$3],"
        echo " \"build_commit\": \"abcdef\", \"build_number\": 7}"
      }
      echo "["; row 5 0 $speed; echo ","; row 0 4 20; echo "]")");
  }
  Outcome compare(const Args& rivals, const Args& options) {
    Args args = {STRATA_BENCH_DIR "/compare.sh", tiny_model()};
    args.insert(args.end(), rivals.begin(), rivals.end());
    args.insert(args.end(), {"--strata", STRATA_PROGRAM, "-p", "5", "-n", "4", "-t", "1", "--rounds", "2"});
    args.insert(args.end(), options.begin(), options.end());
    args.insert(args.end(), {"--", "--buffer-mib", "4"});
    return shell(args);
  }

  TempDir dir_;
};

bool has(const Outcome& outcome, const std::string& text) { return outcome.out.find(text) != std::string::npos; }

TEST_F(BenchScripts, ComparesWithTheBestFlagsOfARival) {
  const Outcome outcome = compare({"Fake=" + rival()}, {"--rival-flags", "-fa 0;-fa 1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, "# Strata against Fake\n")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| Fake -fa 1 | 100.00 (100.00 to 100.00) | **")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| Fake -fa 0 | pp5 | 1 | 50.00 (50.00 to 50.00) |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| Fake -fa 1 | tg4 | 1 | 20.00 (20.00 to 20.00) |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "build 7, commit abcdef"));
  EXPECT_TRUE(has(outcome, "of ceiling"));
}

// Ours is made up too, so that the ratio is known.
TEST_F(BenchScripts, TheRatioIsOursByTheirs) {
  const std::string ours = script("ours", R"(
    echo '{"tests": [{"test": "pp5", "threads": 1, "tokens_per_second": {"median": 125}, "bytes_per_token": 1e6,'
    echo ' "bytes_per_second": 125e6, "share_of_read_ceiling": 0.5}]}')");
  const Outcome outcome =
      shell({STRATA_BENCH_DIR "/compare.sh", tiny_model(), rival(), "--strata", ours, "-p", "5", "-n", "0", "-t", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, "| 50.00 (50.00 to 50.00) | **2.50** |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| pp5 | 1 | 1.0 | 0.12 | 50 % |")) << outcome.out;
}

TEST_F(BenchScripts, GoesOnWhenARivalFails) {
  const std::string crash = script("crash", "echo '['; kill -SEGV $$");
  const std::string refuse = script("refuse", "echo 'unknown flag -rtr' >&2; exit 3");
  const std::string babble = script("babble", "echo 'no numbers [today'");
  const Outcome outcome =
      compare({"crash=" + crash, "refuse=" + refuse, "babble=" + babble, "none=/none/there", "good=" + rival()}, {});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, "| crash | pp5 | 1 | failed: ended by SIGSEGV |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| refuse | tg4 | 1 | failed: exit code 3: unknown flag -rtr |"));
  EXPECT_TRUE(has(outcome, "| babble | pp5 | 1 | failed: its output is not the JSON that was expected |"));
  EXPECT_TRUE(has(outcome, "| none | pp5 | 1 | failed: cannot be started: No such file or directory |"));
  EXPECT_TRUE(has(outcome, "| good | 50.00 (50.00 to 50.00) | **")) << outcome.out;
}

TEST_F(BenchScripts, FailsWhenOursFails) {
  const Outcome outcome = compare({rival()}, {"--strata", script("ours", "exit 1")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(has(outcome, "| strata --buffer-mib 4 | pp5 | 1 | failed: exit code 1 |")) << outcome.out;
}

TEST_F(BenchScripts, RefusesWrongArguments) {
  for (const Args& args : {Args{}, Args{"none.gguf", "x"}, Args{tiny_model()}, Args{tiny_model(), "x", "-t", "a"},
                           Args{tiny_model(), "x", "-p", "0", "-n", "0"}, Args{tiny_model(), "x", "--rounds", "0"}}) {
    Args all = {STRATA_BENCH_DIR "/compare.sh"};
    all.insert(all.end(), args.begin(), args.end());
    EXPECT_EQ(shell(all).exit_code, 2) << ::testing::PrintToString(args);
  }
}

// Both sides are made up, so that all of the table is known.
TEST_F(BenchScripts, HybridTakesTheBestFlagsAtEachTest) {
  const std::string ours = script("ours", R"(
    echo '{"tests": [{"test": "pp5", "threads": 15, "tokens_per_second": {"median": 250},'
    echo '  "most_tokens_per_second": 500, "cache_hit_share": 0.25, "cpu_expert_bytes_per_token": 2e6,'
    echo '  "link_bytes_per_token": 1e6, "link_busy_share": 0.8}, {"test": "tg4", "threads": 15,'
    echo '  "tokens_per_second": {"median": 30}, "most_tokens_per_second": 0, "cache_hit_share": 0,'
    echo '  "cpu_expert_bytes_per_token": 0, "link_bytes_per_token": 0, "link_busy_share": 0}]}')");
  const std::string theirs = script("rival-bench", R"(
    case "$*" in *-bad*) echo "unknown flag" >&2; exit 3;; *-ot*) prompt=100 answer=10;; *) prompt=50 answer=20;; esac
    echo "[{\"n_prompt\": 5, \"n_gen\": 0, \"n_threads\": 1, \"avg_ts\": $prompt},"
    echo " {\"n_prompt\": 0, \"n_gen\": 4, \"n_threads\": 1, \"avg_ts\": $answer}]")");
  const auto hybrid = [&](const std::string& strata) {
    return shell({STRATA_BENCH_DIR "/hybrid.sh", tiny_model(), theirs, "--strata", strata, "-p", "5", "-n", "4",
                  "--rounds", "2", "--rival-flags", "-ncmoe 3;-ot x;-bad", "--", "--device", "cuda:0"});
  };
  const Outcome outcome = hybrid(ours);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, " -ot x | 100.00 (100.00 to 100.00) | **2.50** |")) << outcome.out;
  EXPECT_TRUE(has(outcome, " -ncmoe 3 | 20.00 (20.00 to 20.00) | **1.50** |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| pp5 | 500.0 | 50 % | 25 % | 2.0 | 1.0 | 80 % |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| tg4 | 0.0 | - | 0 % |")) << outcome.out;
  EXPECT_TRUE(has(outcome, " -bad | - | pp5 | failed: exit code 3: unknown flag |")) << outcome.out;
  EXPECT_EQ(hybrid(script("broken", "exit 1")).exit_code, 1);
}

TEST_F(BenchScripts, HybridDropsFlagsThatWereBestNowhere) {
  const std::string ours = script("ours", "echo '{\"tests\": []}'");
  // The set that loses its first round would win the second one.
  const std::string theirs = script("rival-bench", R"(
    speed=10; case "$*" in *-slow*) speed=5; [ -e "$0.seen" ] && speed=90; touch "$0.seen";; esac
    echo "[{\"n_prompt\": 0, \"n_gen\": 4, \"n_threads\": 1, \"avg_ts\": $speed}]")");
  const Outcome outcome = shell({STRATA_BENCH_DIR "/hybrid.sh", tiny_model(), theirs, "--strata", ours, "-p", "0", "-n",
                                 "4", "--rounds", "3", "--tries", "1", "--rival-flags", "-good;-slow"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, " -good | 10.00 (10.00 to 10.00) |")) << outcome.out;
  EXPECT_TRUE(has(outcome, " -slow | - | tg4 | 5.00 (5.00 to 5.00) |") ||
              has(outcome, " -slow | 0 | tg4 | 5.00 (5.00 to 5.00) |")) << outcome.out;
}

// What is measured is made up, so that all of the table is known.
TEST_F(BenchScripts, PlacesOfExpertsAreMeasuredInTurn) {
  const std::string ours = script("ours", R"(
    [ "$1" = bench ] || exit 0
    case "$*" in *direct*) speed=10 drive=3e6 said="";; *) speed=40 drive=0 said="4 GiB of 5 GiB page-locked";; esac
    echo "{\"engines\": [{\"description\": \"$said\"}], \"tests\": [{\"tokens_per_second\": {\"median\": $speed},"
    echo " \"cache_hit_share\": 0.25, \"cpu_expert_bytes_per_token\": 2e6, \"link_bytes_per_token\": 1e6,"
    echo " \"drive_bytes_per_token\": $drive}]}")");
  const Outcome outcome = shell({STRATA_BENCH_DIR "/places.sh", tiny_model(), "--strata", ours, "--rounds", "2",
                                 "--places", "--experts arena;--experts direct", "--", "--device", "cuda:0"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, "| --experts arena | 40.00 (40.00 to 40.00) | 25 % | 2.0 | 1.0 | 0.0 | 4 GiB |"))
      << outcome.out;
  EXPECT_TRUE(has(outcome, "| --experts direct | 10.00 (10.00 to 10.00) | 25 % | 2.0 | 1.0 | 3.0 | none |"));
  EXPECT_TRUE(has(outcome, "--experts direct --device cuda:0\n")) << outcome.out;
}

TEST_F(BenchScripts, StartupMeasuresWarmAndCold) {
  const std::string model = dir_.file("m.gguf");
  std::filesystem::copy_file(tiny_model(), model);
  const std::string rival = script("llama-completion", "case \"$*\" in *-no-cnv*) exit 0;; esac; exit 9");
  const std::string bad = script("bad", "exit 4");
  const Outcome outcome = shell({STRATA_BENCH_DIR "/startup.sh", model, "talks=" + rival, "bad=" + bad, "--strata",
                                 STRATA_PROGRAM, "--rounds", "1", "--threads", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const std::string program : {"strata --experts mapped", "strata --experts auto", "talks"}) {
    EXPECT_TRUE(has(outcome, "| " + program + " | ")) << outcome.out;
    EXPECT_FALSE(has(outcome, "| " + program + " | failed")) << outcome.out;
  }
  EXPECT_TRUE(has(outcome, "| bad | failed | - | failed | - | exit code 4 |")) << outcome.out;
}

// Both servers and what is measured of them are made up, so that all of the table is known. Each server notes that it
// runs, and what is measured goes by that: none may run beside the other.
TEST_F(BenchScripts, ServersAreComparedInTurn) {
  const std::string running = dir_.file("running");
  const std::string server = script("server", "[ -e " + running + R"( ] && exit 7
    for word; do [ "$word" = -bad ] && { echo "unknown flag" >&2; exit 3; }; done
    echo "$1" > )" + running + R"(
    exec python3 -c '
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: (os.remove(sys.argv[1]), os._exit(0)))
listener = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
while True:
    peer = listener.accept()[0]
    peer.recv(4096)
    peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
    peer.close()
' )" + running + R"( "$@")");
  const std::string ours = script("ours", R"([ "$1" = serve ] && exec )" + server + R"( "$@"
    [ "$1" = bench ] || exit 0
    [ "$(cat )" + running + R"sh()" = serve ] && { n=250; first=0.1; } || { n=100; first=0.2; }
    row() {
      echo "{\"clients\": $1, \"requests\": 9, \"prompt_tokens\": 500, \"answer_tokens\": $n, \"seconds\": 10,"
      echo " \"first_token_s\": {\"p50\": $first, \"p99\": 1}, \"between_tokens_s\": {\"p50\": 0.01, \"p99\": 0}}"
    }
    echo "["; row 1; echo ","; row 3; echo "]")sh");
  const auto compare = [&](const Args& more) {
    Args args = {STRATA_BENCH_DIR "/serve.sh", tiny_model(), "Fake=" + server, "--strata", ours, "--clients", "1,3",
                 "--rounds", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return shell(args);
  };
  const Outcome outcome = compare({"-t", "2", "--rival-flags", "-fa on", "--", "--experts", "arena"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, "| 3 | answer tok/s | 25.0 (25.0 to 25.0) | 10.0 (10.0 to 10.0) | **2.50** |"))
      << outcome.out;
  EXPECT_TRUE(has(outcome, "| 1 | prompt tok/s | 50.0 (50.0 to 50.0) | 50.0 (50.0 to 50.0) | **1.00** |"));
  EXPECT_TRUE(has(outcome, "| 1 | first token p50, ms | 100 (100 to 100) | 200 (200 to 200) | **2.00** |"));
  EXPECT_TRUE(has(outcome, "| 1 | next token p99, ms | 0.0 (0.0 to 0.0) | 0.0 (0.0 to 0.0) | - |"));
  EXPECT_TRUE(has(outcome, "--port PORT --parallel 3 --ctx 2048 --threads 2 --experts arena\n"));
  EXPECT_TRUE(has(outcome, "--port PORT -np 3 -c 6144 -t 2 -fa on\n"));
  EXPECT_FALSE(std::filesystem::exists(running)) << "a server was left running";

  const Outcome failing = compare({"--rival-flags", "-bad"});
  EXPECT_EQ(failing.exit_code, 0) << failing.err;
  EXPECT_TRUE(has(failing, "| 3 | answer tok/s | 25.0 (25.0 to 25.0) | failed | - |")) << failing.out;
  EXPECT_TRUE(has(failing, "\nFake failed: ended with exit code 3: unknown flag\n"));
  EXPECT_EQ(compare({"--", "-bad"}).exit_code, 1);
  for (const Args& wrong : {Args{"--clients", "0"}, Args{"--clients", "a"}, Args{"-r", "0"}, Args{"-t", "-1"}}) {
    EXPECT_EQ(compare(wrong).exit_code, 2) << ::testing::PrintToString(wrong);
  }
}

// The bound follows from the rates around each run: 30 and 50, then 50 and 70, at 10 bytes a token.
// A stand-in whose drive has the given rates one after another, the last for ever, and whose tokens read 10 bytes.
std::string drive_stand_in(const std::string& rates) {
  return "rates=" + rates + R"(
    if [ "$2" = system ]; then
      rate=$(head -n 1 $rates)
      if [ $(wc -l < $rates) -gt 1 ]; then sed -i 1d $rates; fi
      echo "{\"drive\": {\"bytes_per_second\": $rate}}"; exit
    fi
    echo '{"tests": [{"tokens_per_second": {"median": 3}, "drive_bytes_per_token": 10}]}')";
}

TEST_F(BenchScripts, DecodingFromTheDriveIsHeldAgainstTheDrive) {
  // Between 42 and 60 the drive has changed: that round says nothing.
  write_file(dir_.file("rates"), "38\n42\n60\n60\n");
  const std::string ours = script("ours", drive_stand_in(dir_.file("rates")));
  const Outcome outcome = shell({STRATA_BENCH_DIR "/drive.sh", tiny_model(), "--strata", ours, "--rounds", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, "| 1 | 0.00 | 0.0 | 4.00 | 3.00 | 75 % |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| 2 | 0.00 | 0.0 | 6.00 | 3.00 | 50 % |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "of the bound; 1 rounds in which the drive changed do not count")) << outcome.out;
  EXPECT_TRUE(has(outcome, "--experts direct")) << outcome.out;
}

// Two rounds of a program that is slower from the drive, and counts 16 rows a token, of which 15 are different.
TEST_F(BenchScripts, ATableOnTheDriveIsHeldAgainstOneInRam) {
  const std::string ours = script("ours", R"(
    case "$*" in
      *"--ple-io direct"*) echo '{"tests": [{"tokens_per_second": {"median": 19}}]}'
        printf 'tokens_forward 10\nngram_rows 160\nngram_distinct_rows 150\nngram_reads 140\n' >&2;;
      *"--ple-io ram"*) echo '{"tests": [{"tokens_per_second": {"median": 20}}]}';;
    esac)");
  const std::string model = golden_path("arch/qwen4exp/model-bf16.gguf");
  const Outcome outcome = shell({STRATA_BENCH_DIR "/ngram.sh", model, "--strata", ours, "--rounds", "2"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, "| 2 | 19.00 | 20.00 | 0.950 | 16.00 | 15.00 | 14.00 | 0.00 | 0.0 |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "with the table in RAM: 95.0 %.")) << outcome.out;
  EXPECT_TRUE(has(outcome, "--ple-io ram --experts arena")) << outcome.out;
  const Outcome none = shell({STRATA_BENCH_DIR "/ngram.sh", tiny_model(), "--strata", ours, "--rounds", "1"});
  EXPECT_NE(none.exit_code, 0);
  EXPECT_NE(none.err.find("has no n-gram table"), std::string::npos) << none.err;
}

// Experts of a tenth of a GiB, of which a budget of 5 GiB caches five; speeds by where the others are.
constexpr const char* kTwoGpus = R"(
  words=" $* "
  if [ "$1" = inspect ]; then
    echo '{"metadata": {"a.block_count": 5}, "experts": ['
    for i in 1 2 3; do echo '{"experts": 10, "expert_bytes": 107374182},'; done
    echo '{"experts": 10, "expert_bytes": 107374182}]}'; exit
  fi
  if [ "$1" = plan ]; then
    n=0
    while [ "$1" != --vram-budget-gib ]; do shift; done
    for budget in $(echo $2 | tr , ' '); do
      echo $budget | awk '{printf "| cuda:'$n' | expert cache | x | %d |\n", ($1 - 4.5) * 10 + 0.5}'; n=1
    done
    exit
  fi
  reads=0
  case "$words" in
    *--lend-regions*) speed=50 lent=0 drive=2e9 reads=7;;
    *resident*) speed=98 lent=322122547 drive=0;;
    *cuda:0,1*) speed=170 lent=0 drive=0;;
    *) speed=100 lent=0 drive=0;;
  esac
  part() {
    echo "{\"device\": \"cuda:$1\", \"first_layer\": $1, \"last_layer\": $2, \"cached_experts\": $2,"
    echo " \"cached_bytes\": 107374182, \"lent_experts\": 3, \"lent_in_ram_bytes\": $lent,"
    echo " \"link_bytes_per_second\": 5e10}"
  }
  echo '{"engines": [{"load_ns": 2e9, "expert_bytes": 429496729, "experts_in_ram_bytes": 1073741824,'
  echo ' "experts_pinned_bytes": 536870912, "parts": ['; part 0 1; echo ,; part 1 4; echo ']}],'
  echo '"tests": [{"test": "pp5", "n_prompt": 5, "n_gen": 0, "link_busy_share": 0.25,'
  echo " \"file_reads\": $reads,"
  echo " \"drive_bytes_per_token\": $drive, \"tokens_per_second\": {\"median\": $speed, \"min\": 1, \"max\": 200}}]}"
)";

TEST_F(BenchScripts, TwoGpusAreHeldAgainstOneAndAgainstAnArena) {
  const std::string strata = script("ours", kTwoGpus);
  const auto two_gpus = [&](const Args& more) {
    Args args = {STRATA_BENCH_DIR "/two_gpus.sh"};
    args.insert(args.end(), more.begin(), more.end());
    args.insert(args.end(), {"--strata", strata, "-p", "5", "-n", "0"});
    return shell(args);
  };
  const Outcome tiers = two_gpus({"tiers", tiny_model()});
  EXPECT_EQ(tiers.exit_code, 0) << tiers.err;
  EXPECT_NE(tiers.err.find("--layer-split 2,3"), std::string::npos) << tiers.err;
  EXPECT_TRUE(has(tiers, "Budgets: 5.3, 5.7 GiB. Chunks of 8192 rows")) << tiers.out << tiers.err;
  EXPECT_TRUE(has(tiers, "| cuda:1 | 1 to 4 | 4 | 25.0 % | 3 | 50.0 |")) << tiers.out;
  EXPECT_TRUE(has(tiers, "| arena | 0.50 | 1.00 | - | 170.0 (1.0 to 200.0) | 0 (0.00) |")) << tiers.out;
  EXPECT_TRUE(has(tiers, "| resident, no regions | 0.50 | 1.00 | 0.00 | 50.0 (1.0 to 200.0) | 7 (10.00) |"));
  EXPECT_TRUE(has(tiers, "| resident, regions | 0.50 | 1.00 | 0.60 | 98.0 (1.0 to 200.0) | 0 (0.00) |"));
  EXPECT_TRUE(has(tiers, "resident, no regions 29.4 %, resident, regions 57.6 %")) << tiers.out;

  const Outcome speed = two_gpus({"speed", tiny_model()});
  EXPECT_EQ(speed.exit_code, 0) << speed.err;
  EXPECT_TRUE(has(speed, "| cuda:0 | pp5 | 100.0 (1.0 to 200.0) | 25 % | 1.00 | 2.0 |")) << speed.out;
  EXPECT_TRUE(has(speed, "| cuda:0,1 | pp5 | 170.0 (1.0 to 200.0) | 25 % | 1.70 | 2.0 |")) << speed.out;

  EXPECT_EQ(two_gpus({"tiers", tiny_model(), "--strata", script("broken", "exit 1")}).exit_code, 0)
      << "the last --strata counts";
  for (const Args& wrong : {Args{"none", tiny_model()}, Args{"tiers", "none.gguf"}, Args{"tiers", tiny_model(),
                            "--shares", "20"}, Args{"speed", tiny_model(), "--rounds", "0"}}) {
    EXPECT_EQ(two_gpus(wrong).exit_code, 2) << ::testing::PrintToString(wrong);
  }
}

// An engine that is alone, or loads, is twice as fast. The third answers are those of which one is killed: it never
// ends by itself, and the other waits until it is gone.
constexpr const char* kTwoEngines = R"(
  state=$0.state
  case "$*" in *cuda:0*) side=0;; *) side=1;; esac
  if [ "$1" = bench ]; then
    n=$(cat $state.benches 2> /dev/null || echo 0); echo $((n + 1)) > $state.benches
    while [ "$1" != --shared-expert-arena ]; do shift; done
    [ -e "$2" ] || : > "$2"
    [ $n -lt 2 ] && speed=100 || speed=97
    echo "strata: shared arena x: attached 1 GiB another engine loaded, nothing read" >&2
    echo "experts (arena): checksum 0123456789abcde$side of 1 GiB" >&2
    echo "{\"tests\": [{\"test\": \"pp5\", \"tokens_per_second\": "
    echo "{\"median\": $speed, \"min\": 1, \"max\": 2}}]}"
    exit
  fi
  [ $side = 0 ] && echo $$ > $state.pid
  echo run >> $state.$side
  echo "an answer with many words"
  [ $(wc -l < $state.$side) -lt 3 ] && exit
  [ $side = 0 ] && exec sleep 600
  while [ $(wc -l < $state.0) -lt 3 ] || kill -0 $(cat $state.pid) 2> /dev/null; do sleep 0.01; done
)";

TEST_F(BenchScripts, TwoEnginesAreHeldAgainstEachAlone) {
  const Outcome outcome = shell({STRATA_BENCH_DIR "/two_gpus.sh", "engines", tiny_model(), "--strata",
                                 script("ours", kTwoEngines), "-p", "5", "-n", "0", "--arena", dir_.file("arena"),
                                 "--timeout", "60"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome, "| cuda:0 | pp5 | 100.0 (1.0 to 2.0) | 97.0 (1.0 to 2.0) | 97.0 % |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "| cuda:1 | attached 1 GiB another engine loaded, nothing read |")) << outcome.out;
  EXPECT_TRUE(has(outcome, "* equal checksums: NO\n")) << outcome.out;
  EXPECT_TRUE(has(outcome, "as alone, both at once: yes, yes\n")) << outcome.out;
  EXPECT_TRUE(has(outcome, "* one killed in mid-decode, the other's tokens as alone: yes\n")) << outcome.out;
  EXPECT_FALSE(std::filesystem::exists(dir_.file("arena")));
}

TEST_F(BenchScripts, TwoEnginesRemoveNoFileOfAnotherKind) {
  write_file(dir_.file("precious"), "a letter");
  const Outcome outcome = shell({STRATA_BENCH_DIR "/two_gpus.sh", "engines", tiny_model(), "--strata",
                                 script("ours", kTwoEngines), "-p", "5", "-n", "0", "--arena", dir_.file("precious")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("this file is no expert arena"), std::string::npos) << outcome.err;
  EXPECT_EQ(read_file(dir_.file("precious")), "a letter");
}

TEST_F(BenchScripts, ADriveThatNeverSettlesEndsTheMeasurement) {
  write_file(dir_.file("rates"), "1\n2\n4\n8\n16\n32\n64\n128\n");
  const std::string ours = script("ours", drive_stand_in(dir_.file("rates")));
  const Outcome outcome = shell({STRATA_BENCH_DIR "/drive.sh", tiny_model(), "--strata", ours, "--rounds", "1"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("the drive's rate changes all the time (6 rounds, 0 of them steady)"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace strata::test
