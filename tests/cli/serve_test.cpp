// Goal: strata serve says where it is, answers, and ends in order; run --connect and bench serve use it.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
Outcome serve(std::vector<std::string> flags, const std::function<void(const std::string& url)>& use) {
  TempDir dir;
  const std::string out = dir.file("out");
  std::ofstream(out).close();  // call() opens what is there
  ProgramCall program{.args = {"serve", demo_model(), "--port=0", "--parallel=2", "--ctx=256", "--log-level=info"},
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

// Takes one connection, reads what comes first, answers with these bytes and closes.
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
    thread_ = std::thread([this, answer = std::move(answer)] {
      const int peer = ::accept(listener_, nullptr, nullptr);
      char bytes[4096];
      EXPECT_GT(::recv(peer, bytes, sizeof bytes, 0), 0);
      EXPECT_EQ(::send(peer, answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
      ::shutdown(peer, SHUT_WR);
      while (::recv(peer, bytes, sizeof bytes, 0) > 0) {
      }
      ::close(peer);
    });
  }
  ~OneAnswer() {
    thread_.join();
    ::close(listener_);
  }
  const std::string& url() const { return url_; }

 private:
  int listener_;
  std::string url_;
  std::thread thread_;
};

// What is at the other end may be no server of ours, or none at all.
TEST(RunConnect, StrangersAreSaidToBeStrangers) {
  const auto run = [](const std::string& answer) {
    const OneAnswer server(answer);
    return strata({"run", "--connect", server.url(), "-p", "x", "-n", "2"});
  };
  EXPECT_TRUE(refused(run(""), 1, "ended the connection before its answer was complete"));
  EXPECT_TRUE(refused(run("hello\r\n\r\n"), 1, "not an answer of HTTP"));
  const auto page = [](const std::string& body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  for (const char* body : {"<html></html>", "data: {\"choices\":5}\n\n", "data: {\n\n",
                           "data: {\"choices\":[7],\"usage\":{\"prompt_tokens\":\"a\"}}\n\n",
                           "data: {\"choices\":[{\"delta\":3}]}\n\n"}) {
    EXPECT_TRUE(refused(run(page(body)), 1, "not a whole stream of OpenAI's API")) << body;
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
