// Goal: strata serve says where it is, answers, and ends in order; run --connect and bench serve use it.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/format.h"
#include "base/settings.h"
#include "cli/bench/serve_bench.h"
#include "cli/models.h"
#include "cli/program.h"
#include "cli/serve/server_settings.h"
#include "server/http/client.h"

namespace strata::test {
namespace {

using ::testing::HasSubstr;

// Runs "strata serve" with these flags, calls `use` with its URL when it is ready, then sends SIGTERM.
Outcome serve(std::vector<std::string> flags, const std::function<void(const std::string& url)>& use,
              std::vector<std::pair<std::string, std::string>> environment = {},
              const std::string& model = demo_model()) {
  TempDir dir;
  const std::string out = dir.file("out");
  std::ofstream(out).close();  // call() opens what is there
  for (const std::string& usual : {std::string("--parallel=2"), std::string("--ctx=256")}) {
    const std::string name = usual.substr(0, usual.find('=') + 1);
    const auto names_it = [&](const std::string& flag) { return flag.starts_with(name); };
    if (std::none_of(flags.begin(), flags.end(), names_it)) flags.push_back(usual);
  }
  ProgramCall program{.args = {"serve", model, "--port=0", "--log-level=info"},
                      .environment = std::move(environment),
                      .out_path = out,
                      .signal = SIGTERM};
  program.args.insert(program.args.end(), flags.begin(), flags.end());
  program.signal_when = [&] {
    const std::string text = read_file(out);
    const size_t at = text.find("http://");
    if (text.find(" is ready") == std::string::npos || at == std::string::npos) return false;
    use(text.substr(at, text.find(' ', at) - at));
    return true;
  };
  Outcome outcome = call(program);
  outcome.out = read_file(out);
  return outcome;
}

std::string body_of(server::http::Client& client, const server::http::ClientRequest& request, int status) {
  std::string body;
  const auto answered = client.ask(request, [&](std::string_view piece) {
    body += piece;
    return true;
  });
  if (!answered.ok()) {
    ADD_FAILURE() << answered.error().message;
    return body;
  }
  EXPECT_EQ(*answered, status) << body;
  return body;
}

TEST(Serve, AnswersAndEndsInOrder) {
  const Outcome outcome = serve({"--api-key=k1,k2"}, [](const std::string& url) {
    server::http::Client client(*server::http::parse_url(url));
    EXPECT_THAT(body_of(client, {.path = "/health"}, 200), HasSubstr("\"ok\""));
    const server::http::ClientRequest question{
        .method = "POST", .path = "/v1/completions",
        .body = R"({"prompt":"Once upon a secret time","max_tokens":3,"temperature":0})", .api_key = "k2"};
    EXPECT_THAT(body_of(client, question, 200), HasSubstr("\"completion_tokens\":3"));
    EXPECT_THAT(body_of(client, {.path = "/v1/models", .api_key = "k1"}, 200), HasSubstr("tales-moe-q4_k_m"));
    EXPECT_THAT(body_of(client, {.path = "/v1/models", .api_key = "k3"}, 401), HasSubstr("invalid_api_key"));

    const std::vector<std::string> run = {"run", "--connect", url, "--api-key=k1", "-p", "Once upon a time",
                                          "--temp=0", "-n", "4"};
    const Outcome there = strata(run);
    EXPECT_TRUE(succeeded(there)) << there.err;
    EXPECT_EQ(there.out, strata({"run", demo_model(), "-p", "Once upon a time", "--temp=0", "-n", "4"}).out);
    EXPECT_TRUE(refused(strata({"run", "--connect", url, "-p", "x"}), 2, "an API key is needed"));
    EXPECT_TRUE(refused(strata({"run", "--connect", url, "--api-key=k1", "-p", "x", "--temp=3"}), 2, "(--temp)"));
    const Outcome bench = strata({"bench", "serve", "--connect", url, "--api-key=k1", "--clients=1,3", "-r", "1", "-p",
                                  "8", "-n", "4"});
    EXPECT_TRUE(succeeded(bench)) << bench.err;
    EXPECT_THAT(bench.out, HasSubstr("|       3 |        3 |"));
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("256 tokens of context, 2 slots"));
  EXPECT_THAT(outcome.err, HasSubstr("shutting down"));
  // Requests are logged, but neither what was asked nor with which key.
  EXPECT_THAT(outcome.err, HasSubstr("POST /v1/completions 200 in "));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("secret time")));
  EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("k3")));
}

server::http::ClientRequest question(const nlohmann::json& body) {
  return {.method = "POST", .path = "/v1/completions", .body = body.dump()};
}

nlohmann::json asked(const std::string& url, const nlohmann::json& body, int status) {
  server::http::Client client(*server::http::parse_url(url));
  return nlohmann::json::parse(body_of(client, question(body), status), nullptr, false);
}

// X05, X07, X11: each slot has all of the context; prompt and answer fill it together and no more, and only a prompt
// that does not fit is refused.
TEST(Serve, KeepsToTheContextOfASlot) {
  const Outcome outcome = serve({"--ctx=64", "--parallel=8"}, [](const std::string& url) {
    const auto ids = [](int n) { return std::vector<int>(static_cast<size_t>(n), 300); };
    const auto ask = [&](int n_prompt, const nlohmann::json& limit) {
      nlohmann::json body = {{"prompt", ids(n_prompt)}, {"ignore_eos", true}};
      if (!limit.is_null()) body["max_tokens"] = limit;
      return asked(url, body, n_prompt > 64 ? 400 : 200);
    };
    for (const nlohmann::json& limit : {nlohmann::json(50), nlohmann::json(1'000'000), nlohmann::json()}) {
      const auto full = ask(54, limit);
      EXPECT_EQ(full["usage"]["completion_tokens"], 10) << full;
      EXPECT_EQ(full["usage"]["total_tokens"], 64);
      EXPECT_EQ(full["choices"][0]["finish_reason"], "length");
      EXPECT_FALSE(full["choices"][0]["text"].get<std::string>().empty());
    }
    EXPECT_EQ(ask(54, 3)["usage"]["completion_tokens"], 3);
    EXPECT_EQ(ask(64, nullptr)["usage"]["completion_tokens"], 1);
    EXPECT_EQ(ask(65, 1)["error"]["code"], "context_length_exceeded");
    // All slots at once.
    std::vector<std::thread> clients;
    std::atomic<int> whole{0};
    for (int i = 0; i < 8; i++) {
      clients.emplace_back([&] { whole += ask(50, nullptr)["usage"]["completion_tokens"] == 14; });
    }
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(whole, 8);
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

// F04: characters are the same bytes whatever the locale. W11: a key in an address is no key, and is not logged.
TEST(Serve, SpeaksUtf8InEveryLocale) {
  const std::string text = "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE3\x81\xA7 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80";
  std::vector<std::string> answers;
  for (const char* locale : {"C", "C.UTF-8"}) {
    const Outcome outcome = serve({"--ctx=128", "--deterministic", "--alias=" + text}, [&](const std::string& url) {
      server::http::Client client(*server::http::parse_url(url));
      const auto post = [&](const char* path, const nlohmann::json& body) {
        return body_of(client, {.method = "POST", .path = path, .body = body.dump()}, 200);
      };
      const auto tokens = nlohmann::json::parse(post("/tokenize", {{"content", text}}));
      EXPECT_EQ(nlohmann::json::parse(post("/detokenize", tokens))["content"], text);
      const auto reply = nlohmann::json::parse(
          post("/v1/completions", {{"prompt", text}, {"max_tokens", 12}, {"temperature", 0}, {"ignore_eos", true}}));
      EXPECT_EQ(reply["model"], text);
      answers.push_back(reply["choices"][0]["text"]);
      body_of(client, {.path = "/v1/models?key=in-an-address"}, 200);
    }, {{"LC_ALL", locale}, {"LANG", locale}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("GET /v1/models 200"));
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("in-an-address")));
  }
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0], answers[1]);
}

// A05: whoever stops strata run --connect stops the answer at the server, too.
TEST(Serve, HearsThatItsClientWasStopped) {
  const Outcome outcome = serve({"--ctx=8192"}, [](const std::string& url) {
    const Outcome stopped = call({.args = {"run", "--connect", url, "-p", "Once upon a time", "--ignore-eos",
                                           "--temp=0.8", "-n", "8000"},
                                  .interrupt_after = 40});
    EXPECT_EQ(stopped.exit_code, 1) << stopped.err;
    EXPECT_GE(stopped.out.size(), 40u);
    server::http::Client client(*server::http::parse_url(url));
    const char* const kAborted = "finished_reason=\"abort\",cause=\"cancelled\"} 1\n";
    std::string metrics;
    for (int i = 0; i < 1000 && metrics.find(kAborted) == std::string::npos; i++) {
      real_clock().sleep_ns(10'000'000);
      metrics = body_of(client, {.path = "/metrics"}, 200);
    }
    EXPECT_THAT(metrics, HasSubstr(kAborted));
    EXPECT_THAT(body_of(client, {.path = "/slots"}, 200), ::testing::Not(HasSubstr("\"is_processing\":true")));
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

// What is not there is refused clearly: sessions in files (W04), downloads (W08), unloading when idle (A10), drafts
// (A04), a web page (F05), other models (A08).
TEST(Serve, SaysThatThereIsNone) {
  const Outcome outcome = serve({"--ctx=64"}, [](const std::string& url) {
    server::http::Client client(*server::http::parse_url(url));
    for (const char* path : {"/slots/0?action=save", "/slots/0?action=restore", "/slots/0?action=erase",
                             "/session/save",
                             "/models", "/models/load", "/api/pull", "/api/unload", "/download", "/lora-adapters",
                             "/completion", "/infill", "/rerank"}) {
      EXPECT_THAT(body_of(client, {.method = "POST", .path = path, .body = R"({"filename":"../../x"})"}, 404),
                  HasSubstr("there is nothing under")) << path;
    }
    for (const char* path : {"/", "/index.html", "/favicon.ico"}) {
      EXPECT_THAT(body_of(client, {.path = path}, 404), HasSubstr("\"error\"")) << path;
    }
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* flag : {"--slot-save-path=x", "--model-draft=x", "--draft-max=4", "--sleep-idle-seconds=1",
                           "--hf-repo=a/b", "--model-url=http://x", "--lora=x", "--mmproj=x", "--models-dir=x"}) {
    EXPECT_TRUE(refused(strata({"serve", demo_model(), flag}), 2, "unknown flag")) << flag;
  }
}

// Loading waits for somebody to write the template.
TEST(Serve, EndsInOrderWhileItLoads) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TempDir dir;
    const std::string out = dir.file("out"), pipe = dir.file("template");
    std::ofstream(out).close();
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const Outcome outcome = call({.args = {"serve", demo_model(), "--port=0", "--chat-template", pipe},
                                  .out_path = out,
                                  .signal = signal,
                                  .signal_when = [&] { return read_file(out).find(" loads ") != std::string::npos; }});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "strata: shutting down before the model is loaded\n");
    EXPECT_EQ(read_file(out).find("is ready"), std::string::npos);
  }
}

// The demo model with another chat template, padded with white space.
std::string with_template(std::string text) {
  const std::string own =
      "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  text.resize(own.size(), ' ');
  return with_text(read_file(demo_model()), own, text);
}

// Everything that a client can ask about itself, or ask for in a way that fails; all answers in one text.
std::string all_answers(const std::string& url) {
  server::http::Client client(*server::http::parse_url(url));
  std::string text;
  const auto ask = [&](const char* method, const std::string& path, const std::string& body = "") {
    const auto status = client.ask({.method = method, .path = path, .body = body}, [&](std::string_view piece) {
      text += piece;
      return true;
    });
    EXPECT_TRUE(status.ok()) << path;
    text += format("[{} {}]\n", path, status.ok() ? *status : 0);
  };
  for (const char* path : {"/", "/health", "/props", "/slots", "/metrics", "/v1/models", "/v1/models/other",
                           "/v1/models/..%2f..%2fm.gguf", "/m.gguf"}) {
    ask("GET", path);
  }
  const nlohmann::json failing = {{{"role", "user"}, {"content", "boom"}}};
  for (const char* path : {"/v1/chat/completions", "/v1/messages", "/apply-template", "/v1/responses",
                           "/v1/completions", "/v1/messages/count_tokens", "/tokenize", "/detokenize",
                           "/v1/embeddings"}) {
    for (const bool stream : {false, true}) {
      nlohmann::json body = {{"messages", failing}, {"max_tokens", 4}, {"stream", stream}};
      if (path == std::string("/v1/responses")) body = {{"input", "boom"}, {"stream", stream}};
      if (path == std::string("/v1/completions")) body["prompt"] = std::string(5000, 'x');
      ask("POST", path, body.dump());
    }
    ask("POST", path, "{");
    ask("POST", path, R"({"model": "other", "messages": 5, "input": [5], "content": 5, "tokens": [-1]})");
  }
  ask("POST", "/props", R"({"default_generation_settings": {"temperature": 0}})");  // P11: there is nothing to set
  return text;
}

// W07: of a template that fails on some conversations, one that can't be used at all, and one that was given by name.
TEST(Serve, TellsClientsNoPaths) {
  const TempDir dir;
  const std::string fails = "{% for m in messages %}{% if m.content == 'boom' %}{{ raise_exception('not that') }}"
                            "{% endif %}{{ m.content }}{% endfor %}";
  const std::string model = dir.file("m.gguf"), file = dir.file("template.jinja");
  write_file(file, fails);
  const struct { std::string own; std::vector<std::string> flags; const char* said; } cases[] = {
      {fails, {}, "tokenizer.chat_template, line 1, column 70: the template refuses: not that"},
      {"{% broken", {}, "tokenizer.chat_template, line 1, column 1: the tag is not closed"},
      {"{{ 1 }}", {"--chat-template", file}, "chat template, line 1, column 70: the template refuses: not that"}};
  for (const auto& [own, flags, said] : cases) {
    write_file(model, with_template(own));
    std::string text;
    const auto use = [&](const std::string& url) { text = all_answers(url); };
    EXPECT_EQ(serve(flags, use, {}, model).exit_code, 0);
    const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
    EXPECT_TRUE(has(said)) << said << "\n" << text;
    EXPECT_TRUE(has("[/v1/chat/completions 400]") && has("[/v1/responses 400]") && has("[/props 405]")) << text;
    EXPECT_FALSE(has(dir.path()) || has("internal_error")) << text;
  }
}

TEST(Serve, RefusesWhatCannotBe) {
  const auto model = demo_model();
  EXPECT_TRUE(refused(strata({"serve", model, "--host=0.0.0.0"}), 2, "--api-key"));
  EXPECT_TRUE(refused(strata({"serve", model, "--port=70000"}), 2, "--port"));  // M16
  EXPECT_TRUE(refused(strata({"serve", model, "--parallel=0"}), 2, "--parallel"));
  EXPECT_TRUE(refused(strata({"serve", model, "--api-key-file=/nowhere"}), 2, "/nowhere"));
  EXPECT_TRUE(refused(strata({"serve", model, "--api-key= , "}), 2, "holds no API key"));
  EXPECT_TRUE(refused(strata({"serve", model, "--cors-origin=https://a.example,b.example"}), 2,
                      "--cors-origin: 'b.example' is no origin"));
  EXPECT_TRUE(refused(strata({"serve", model, "--allow-host=box:8080"}), 2, "--allow-host: 'box:8080'"));
  EXPECT_TRUE(refused(strata({"run", "--connect", "http://[::1]:1", "-p", "x"}), 1, "http://[::1]:1: "));
  EXPECT_TRUE(refused(strata({"run", "--connect", "https://x", "-p", "x"}), 2, "https is not spoken"));
  EXPECT_TRUE(refused(strata({"run", "--connect", "a..b", "-p", "x"}), 2, "http://a..b:80: there is no host"));
  EXPECT_TRUE(refused(strata({"bench", "serve", "--connect", "a..b"}), 2, "there is no host"));
  EXPECT_TRUE(refused(strata({"bench", "serve", "--connect", "http://127.0.0.1:1"}), 1, "strata serve starts one"));
  EXPECT_TRUE(refused(strata({"run", "--connect", "http://127.0.0.1:1", "-p", "x"}), 1, "strata serve starts one"));
  EXPECT_TRUE(refused(strata({"bench", "serve", "-p", "1,2"}), 2, "one number above 0"));
}

TEST(ModelName, IsThatOfTheFile) {
  EXPECT_EQ(cli::model_name("/models/qwen3-q4.gguf"), "qwen3-q4");
  EXPECT_EQ(cli::model_name("a/big-00001-of-00003.gguf"), "big");
  EXPECT_EQ(cli::model_name("models/folder/"), "folder");
}

TEST(ParseUrl, TakesWhatPeopleWrite) {
  const auto text = [](const char* url) {
    const auto parsed = server::http::parse_url(url);
    return parsed.ok() ? parsed->host + "|" + std::to_string(parsed->port) + "|" + parsed->prefix : "refused";
  };
  EXPECT_EQ(text("http://127.0.0.1:8080"), "127.0.0.1|8080|");
  EXPECT_EQ(text("localhost:99/"), "localhost|99|");
  EXPECT_EQ(text("http://host/a/b/"), "host|80|/a/b");
  EXPECT_EQ(text("http://[::1]:7/x"), "::1|7|/x");
  EXPECT_EQ(text("http://host:7/v1/"), "host|7|");
  for (const char* wrong : {"", "http://", "http://a:b", "http://a:70000", "http://u@h", "http://a b", "https://a"}) {
    EXPECT_EQ(text(wrong), "refused") << wrong;
  }
}

TEST(SseReader, FindsEventsHoweverTheyAreCut) {
  const std::string stream = ": c\n\nevent: a\ndata: 1\r\ndata: 2\n\ndata:3\n\nid: 9\n\ndata: unfinished";
  for (size_t cut = 0; cut <= stream.size(); cut++) {
    server::http::SseReader reader;
    std::string seen;
    const auto event = [&](std::string_view name, std::string_view data) {
      seen.append(name).append("=").append(data).append(";");
    };
    reader.push(stream.substr(0, cut), event);
    reader.push(stream.substr(cut), event);
    EXPECT_EQ(seen, "a=1\n2;=3;") << cut;
  }
}

// A stream without an end is given up, and finding that out takes no second look at what has come.
TEST(SseReader, TakesNoEventWithoutAnEnd) {
  server::http::SseReader reader;
  const std::string piece(64 << 10, 'x');
  size_t taken = 0;
  while (reader.push(piece, [](std::string_view, std::string_view) {})) taken += piece.size();
  EXPECT_EQ(taken, server::http::SseReader::kMaxEventBytes);
  server::http::SseReader lines;  // many lines of one event
  taken = 0;
  while (lines.push("data: " + piece + "\n", [](std::string_view, std::string_view) {})) taken += piece.size();
  EXPECT_LE(taken, server::http::SseReader::kMaxEventBytes);
  server::http::SseReader ended;  // each with an end: as many as come
  for (int i = 0; i < 1000; i++) {
    ASSERT_TRUE(ended.push("data: " + piece + "\n\n", [](std::string_view, std::string_view) {}));
  }
}

TEST(Percentiles, AreByTheNearestRank) {
  EXPECT_EQ(cli::percentiles_of({}).p99, 0);
  EXPECT_EQ(cli::percentiles_of({5}).p50, 5);
  std::vector<double> values;
  for (int i = 100; i > 0; i--) values.push_back(i);
  EXPECT_EQ(cli::percentiles_of(values).p50, 50);
  EXPECT_EQ(cli::percentiles_of(values).p99, 99);
}

}  // namespace
}  // namespace strata::test
