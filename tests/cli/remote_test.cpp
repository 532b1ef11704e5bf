// Goal: run --connect and bench serve send what the user has set, refuse what no server can be told, and say in one
// line what is wrong with an answer, whoever gave it. Method: a server that answers one request with the bytes of a
// test.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/openai_event.h"
#include "cli/program.h"

namespace strata::test {
namespace {

using Json = nlohmann::json;

// Takes one connection, reads a request, answers with these bytes and closes.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this, answer = std::move(answer)] { serve(answer); });
  }
  ~OneAnswer() {
    thread_.join();
    ::close(listener_);
  }
  const std::string& url() const { return url_; }
  // Of the request, once its client has ended.
  std::string body() {
    thread_.join();
    thread_ = std::thread([] {});
    return request_.substr(std::min(request_.find("\r\n\r\n"), request_.size() - 4) + 4);
  }

 private:
  bool is_whole() const {
    const size_t end = request_.find("\r\n\r\n"), length = request_.find("Content-Length: ");
    if (end == std::string::npos) return false;
    return length == std::string::npos || request_.size() >= end + 4 + std::stoul(request_.substr(length + 16));
  }
  void serve(const std::string& answer) {
    const int peer = ::accept(listener_, nullptr, nullptr);
    char bytes[4096];
    while (!is_whole()) {
      const ssize_t n = ::recv(peer, bytes, sizeof bytes, 0);
      if (n <= 0) break;
      request_.append(bytes, static_cast<size_t>(n));
    }
    for (size_t at = 0; at < answer.size();) {
      const ssize_t n = ::send(peer, answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    ::shutdown(peer, SHUT_WR);
    while (::recv(peer, bytes, sizeof bytes, 0) > 0) {
    }
    ::close(peer);
  }

  int listener_;
  std::string url_, request_;
  std::thread thread_;
};

std::string page(const std::string& body, const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const char* const kGood = "data: {\"choices\":[{\"text\":\"fine\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

// Of "run --connect" against a server that answers well: what it sent. The flags end with the way it is asked.
Json sent(const std::vector<std::string>& flags) {
  OneAnswer server(page(kGood));
  std::vector<std::string> args = {"run", "--connect", server.url()};
  args.insert(args.end(), flags.begin(), flags.end());
  EXPECT_TRUE(succeeded(strata(args)));
  return Json::parse(server.body(), nullptr, false);
}

TEST(RunConnect, SendsWhatTheUserHasSet) {
  const Json plain = sent({"-p", "x"});
  EXPECT_EQ(plain, (Json{{"model", "default"}, {"prompt", "x"}, {"stream", true},
                         {"stream_options", {{"include_usage", true}}}}));
  const Json all = sent({"-p", "x", "--temp=0.5", "--top-p=0.25", "--top-k=7", "--min-p=0.125", "--typical=0.75",
                         "--top-nsigma=1.5", "--xtc-probability=0.5", "--xtc-threshold=0.25", "--min-keep=3",
                         "--dynatemp-range=0.5", "--dynatemp-exp=2", "--repeat-last-n=9", "--repeat-penalty=1.5",
                         "--presence-penalty=0.5", "--frequency-penalty=0.25", "--dry-multiplier=0.5", "--dry-base=2",
                         "--dry-allowed-length=4", "--dry-penalty-last-n=5", "--dry-sequence-breaker=a,b\\n",
                         "--mirostat=2", "--mirostat-lr=0.25", "--mirostat-ent=4", "--adaptive-target=-1",
                         "--adaptive-decay=0.5", "--samplers=top_k;temperature", "--logit-bias=5+1.5,7-100,5+1",
                         "--ignore-eos", "--seed=8", "-n", "6"});
  Json expected = plain;
  expected.update(Json::parse(R"({"temperature": 0.5, "top_p": 0.25, "top_k": 7, "min_p": 0.125, "typical_p": 0.75,
      "top_n_sigma": 1.5, "xtc_probability": 0.5, "xtc_threshold": 0.25, "min_keep": 3, "dynatemp_range": 0.5,
      "dynatemp_exponent": 2.0, "repeat_last_n": 9, "repeat_penalty": 1.5, "presence_penalty": 0.5,
      "frequency_penalty": 0.25, "dry_multiplier": 0.5, "dry_base": 2.0, "dry_allowed_length": 4,
      "dry_penalty_last_n": 5, "dry_sequence_breakers": ["a", "b\n"], "mirostat": 2, "mirostat_eta": 0.25,
      "mirostat_tau": 4.0, "adaptive_target": -1.0, "adaptive_decay": 0.5, "samplers": "top_k;temperature",
      "logit_bias": {"5": 2.5, "7": -100.0}, "ignore_eos": true, "seed": 8, "max_tokens": 6})"));
  EXPECT_EQ(all, expected) << Json::diff(expected, all);
  const Json chat = sent({"--chat", "-p", "Hi", "--reasoning=off"});
  EXPECT_EQ(chat["messages"], Json::parse(R"([{"role": "user", "content": "Hi"}])"));
  EXPECT_EQ(chat["chat_template_kwargs"]["enable_thinking"], false);
}

// Every flag of run is sent or refused by its name: none is dropped in silence.
TEST(RunConnect, RefusesWhatOnlyCountsWhereTheModelRuns) {
  const auto run = [](const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"run", "--connect", "http://127.0.0.1:1", "-p", "x"};
    args.insert(args.end(), flags.begin(), flags.end());
    return strata(args);
  };
  for (const char* flag : {"--device=cuda:0", "--threads=2", "--ctx=100", "--experts=mapped", "--kv-type=f32",
                           "--chat-template=chatml", "--repeat-stop-tokens=5", "--stats", "--deterministic",
                           "--vram-budget-gib=1", "--expert-profile-save=x", "--no-graph"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find('='));
    const std::string shown = name == "--no-graph" ? "--graph" : name;
    EXPECT_TRUE(refused(run({flag}), 2, shown + " means nothing with --connect")) << flag;
  }
  EXPECT_TRUE(refused(run({"--model=x.gguf"}), 2, "--connect and a model exclude each other"));
  EXPECT_TRUE(refused(run({"--logit-bias=5-inf"}), 2, "--logit-bias: token 5 gets -inf, but a server takes"));
  EXPECT_TRUE(refused(run({"--logit-bias=5+101"}), 2, "--logit-bias: token 5 gets 101"));
  EXPECT_TRUE(refused(run({"--dry-sequence-breaker=\\x"}), 2, "--dry-sequence-breaker: "));
  // The environment may be meant for other calls.
  OneAnswer server(page(kGood));
  EXPECT_TRUE(succeeded(call({.args = {"run", "--connect", server.url(), "-p", "x"},
                              .environment = {{"STRATA_DEVICE", "cuda:0"}, {"STRATA_MODEL", "x.gguf"}}})));
}

// 2 for what the user has to change, 1 for what may be otherwise a minute later.
TEST(RunConnect, TellsFailuresFromBadInput) {
  const struct { const char* status; int exit_code; } cases[] = {
      {"400 Bad Request", 2},       {"401 Unauthorized", 2},        {"403 Forbidden", 2},
      {"404 Not Found", 2},         {"413 Content Too Large", 2},   {"408 Request Timeout", 1},
      {"429 Too Many Requests", 1}, {"500 Internal Server Error", 1}, {"503 Service Unavailable", 1},
      {"504 Gateway Timeout", 1},   {"529 Overloaded", 1},          {"302 Found", 1}};
  for (const auto& [status, exit_code] : cases) {
    const OneAnswer server(page(R"({"error":{"message":"because","type":"t"}})", status));
    const std::string line = "the server answered " + std::string(status).substr(0, 3) + ": because";
    EXPECT_TRUE(refused(strata({"run", "--connect", server.url(), "-p", "x"}), exit_code, line)) << status;
  }
}

// A server names its field; the user has set a flag.
TEST(RunConnect, NamesTheFlagOfAFieldThatIsRefused) {
  const auto answered = [](const char* field, const std::vector<std::string>& flags) {
    const std::string error = R"({"error":{"message":"it is too much","param":")" + std::string(field) + "\"}}";
    const OneAnswer server(page(error, "400 Bad Request"));
    std::vector<std::string> args = {"run", "--connect", server.url(), "-p", "x"};
    args.insert(args.end(), flags.begin(), flags.end());
    return strata(args);
  };
  EXPECT_TRUE(refused(answered("temperature", {"--temp=3"}), 2, "400: it is too much (--temp)\n"));
  EXPECT_TRUE(refused(answered("presence_penalty", {"--presence-penalty=9"}), 2, "much (--presence-penalty)\n"));
  EXPECT_TRUE(refused(answered("max_tokens", {"-n", "5"}), 2, "much (--predict)\n"));
  EXPECT_TRUE(refused(answered("logit_bias.5", {"--logit-bias=5+1"}), 2, "much (--logit-bias)\n"));
  EXPECT_TRUE(refused(answered("dry_sequence_breakers[0]", {"--dry-sequence-breaker=a"}), 2,
                      "much (--dry-sequence-breaker)\n"));
  // One that was not set, one that is no flag's.
  EXPECT_TRUE(refused(answered("temperature", {"--top-k=3"}), 2, "400: it is too much\n"));
  EXPECT_TRUE(refused(answered("prompt", {"--temp=3"}), 2, "400: it is too much\n"));
}

const char* const kStrangers[] = {"<html></html>", "data: {\"choices\":5}\n\n", "data: {\n\n", "data: [1]\n\n",
                                  "data: {\"choices\":[7],\"usage\":{\"prompt_tokens\":\"a\"}}\n\n",
                                  "data: {\"choices\":[7],\"usage\":[]}\n\n", "data: {\"choices\":{\"a\":1}}\n\n",
                                  "data: {\"choices\":[{\"delta\":3}]}\n\n", "data: {\"choices\":[{\"text\":3}]}\n\n",
                                  "data: {\"choices\":[{\"text\":null,\"finish_reason\":1}]}\n\n"};

// What is at the other end may be no server of ours, or none at all.
TEST(RunConnect, StrangersAreSaidToBeStrangers) {
  const auto run = [](const std::string& answer) {
    const OneAnswer server(answer);
    return strata({"run", "--connect", server.url(), "-p", "x", "-n", "2"});
  };
  EXPECT_TRUE(refused(run(""), 1, "ended the connection before its answer was complete"));
  EXPECT_TRUE(refused(run("hello\r\n\r\n"), 1, "not an answer of HTTP"));
  for (const char* body : kStrangers) {
    EXPECT_TRUE(refused(run(page(body)), 1, "not a whole stream of OpenAI's API")) << body;
  }
  EXPECT_TRUE(refused(run(page("data: " + std::string(20 << 20, 'x'))), 1, "not a whole stream of OpenAI's API"));
  EXPECT_TRUE(refused(run(page("data: {\"error\":{\"message\":\"so it is\"}}\n\n")), 1, "server failed: so it is"));
  EXPECT_TRUE(refused(run(page("data: {\"error\":\"as text\"}\n\n")), 1, "the server failed: as text"));
}

TEST(BenchServe, StrangersAreSaidToBeStrangers) {
  const auto bench = [](const std::string& answer) {
    const OneAnswer server(answer);
    Outcome outcome = strata({"bench", "serve", "--connect", server.url(), "--clients=1", "-r", "1", "-p", "2", "-n",
                              "2", "--json"});
    return outcome;
  };
  EXPECT_TRUE(refused(bench(""), 1, "ended the connection before its answer was complete"));
  for (const char* body : kStrangers) {
    EXPECT_TRUE(refused(bench(page(body)), 1, "not a whole stream of OpenAI's completions")) << body;
  }
  // Cut in the middle, after text has come.
  EXPECT_TRUE(refused(bench(page("data: {\"choices\":[{\"text\":\"a\"}]}\n\n")), 1, "not a whole stream"));
  EXPECT_TRUE(refused(bench(page("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n")), 1,
                      "has no text"));
  // Errors in words, not in JSON.
  const std::string error = R"({"error":{"message":"no room","type":"t"}})";
  EXPECT_TRUE(refused(bench(page(error, "429 Too Many Requests")), 1, "the server answered 429: no room\n"));
  EXPECT_TRUE(refused(bench(page(error, "401 Unauthorized")), 2, "the server answered 401: no room\n"));
  EXPECT_TRUE(refused(bench(page("data: " + error + "\n\n")), 1, "the server failed: no room\n"));
  EXPECT_TRUE(refused(bench(page("data: " + std::string(20 << 20, 'x'))), 1, "not a whole stream"));
}

TEST(OpenAiEvent, ReadsChatsAndCompletions) {
  const auto chat = cli::read_openai_event(
      R"({"choices":[{"delta":{"content":"a","reasoning_content":"b"},"finish_reason":null}]})");
  EXPECT_EQ(chat.text + "|" + chat.reasoning + "|" + chat.finish, "a|b|");
  const auto text = cli::read_openai_event(R"({"choices":[{"text":"c","finish_reason":"length"}]})");
  EXPECT_EQ(text.text + "|" + text.reasoning + "|" + text.finish, "c||length");
  const auto usage = cli::read_openai_event(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}})");
  EXPECT_EQ(usage.prompt_tokens.value_or(0) * 10 + usage.answer_tokens.value_or(0), 34);
  EXPECT_FALSE(cli::read_openai_event("[DONE]").error);
  EXPECT_EQ(cli::openai_error_text("no\njson").find('\n'), std::string::npos);
}

}  // namespace
}  // namespace strata::test
