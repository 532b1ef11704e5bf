// Goal: wherever a request is when its client leaves, it ends without another step of the engine, its slot is free, and
// the next request gets a whole answer (A01). Method: the real APIs over a stub that steps when a test says so.
#include <gtest/gtest.h>

#include "server/api/endpoint.h"
#include "server/support/running.h"
#include "text/tokenizer_model.h"

namespace strata::server {
namespace {

using test::get;
using test::post;
using test::Wire;

constexpr int64_t kPromptSteps = 4;
constexpr const char* kCallBegin = "<tool_call>{\"name\": \"now\", \"arguments\": {\"zone\": \"";

// A vocabulary and a template, for APIs that chat.
class ChattyModel {
 public:
  ChattyModel() {
    files_.more_keys = [](gguf::Writer& writer) {
      writer.set_string("tokenizer.chat_template", "{# <think></think> <tool_call>\n{\"name\": #}"
                                                   "{% for m in messages %}{{ m.content }}{% endfor %}");
    };
    file_ = files_.open();
    tokenizer_ = text::Tokenizer::load(*file_).value();
    template_ = text::ChatTemplate::load(*file_, *tokenizer_).value();
  }
  void put_into(ServedModel& model) const {
    model.tokenizer = tokenizer_.get();
    model.chat_template = template_.get();
    find_styles(model);
  }

 private:
  text::test::TokenizerModel files_;
  std::unique_ptr<gguf::Model> file_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> template_;
};

struct Api {
  const char* path;
  const char* body;  // without its end
};
constexpr Api kApis[] = {
    {"/v1/chat/completions",
     R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"now"}}])"},
    {"/v1/messages", R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"now"}],"max_tokens":5000)"},
    {"/v1/responses", R"({"input":"Hi","tools":[{"type":"function","name":"now"}])"},
    {"/v1/completions", R"({"prompt":"Hi")"},
};

std::string request(const Api& api, bool stream) {
  return post(api.path, std::string(api.body) + (stream ? ",\"stream\":true}" : "}"));
}

// Where a request is when its client leaves: after so many steps; `sign` is what a stream has said by then.
struct Place {
  const char* name;
  int64_t steps;
  const char* first_piece;
  const char* sign;
};
constexpr Place kPlaces[] = {
    {"the prompt", 2, "x", ""},
    {"the answer", kPromptSteps + 5, "x", ":\"x"},
    {"reasoning", kPromptSteps + 5, "<think>x", ":\"x"},
    {"a tool call", kPromptSteps + 5, kCallBegin, "now"},
};

// One slot.
class Disconnect {
 public:
  explicit Disconnect(const char* first_piece)
      : running_({.slots = 1, .loading = true, .stepping = true, .first_piece = first_piece,
                  .prompt_steps = kPromptSteps}, {}, {endpoints().begin(), endpoints().end()}) {
    model_.put_into(running_.stub().served());
    running_.stub().finish_loading();
  }

  StubGenerator& stub() { return running_.stub(); }
  Wire begin(const std::string& text) {
    const int64_t before = stub().submitted();
    Wire wire = running_.connect();
    EXPECT_TRUE(wire.send(text));
    EXPECT_TRUE(soon([&] { return stub().submitted() == before + 1; }));
    return wire;
  }
  void step(int64_t n) {
    const int64_t end = stub().steps() + n;
    stub().step(n);
    EXPECT_TRUE(soon([&] { return stub().steps() == end; }));
  }
  // Of `n` requests, whose clients have left.
  void expect_ended(int64_t n) {
    const int64_t steps = stub().steps();
    EXPECT_TRUE(soon([&] { return stub().finished() == n; }));
    EXPECT_EQ(stub().steps(), steps);
    EXPECT_TRUE(soon([&] { return running_.server->under_way() == 0; }));
    EXPECT_EQ(running_.ask(get("/slots")).body, "[{\"id\":0,\"is_processing\":false}]\n");
  }
  void expect_whole_answer() {
    Wire wire = begin(post("/v1/completions", R"({"prompt":"Hi","max_tokens":3})"));
    step(kPromptSteps + 4);
    const auto answer = wire.answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_NE(answer->body.find("\"completion_tokens\":3"), std::string::npos) << answer->body;
  }

 private:
  ChattyModel model_;
  Running running_;
};

TEST(Disconnect, EndsARequestWhereverItIs) {
  for (const Api& api : kApis) {
    for (const Place& place : kPlaces) {
      for (const bool stream : {false, true}) {
        SCOPED_TRACE(std::string(api.path) + " in " + place.name + (stream ? ", streamed" : ""));
        Disconnect running(place.first_piece);
        Wire wire = running.begin(request(api, stream));
        running.step(place.steps);
        ASSERT_TRUE(!stream || wire.wait_for(place.sign));
        wire.close();
        running.expect_ended(1);
        running.expect_whole_answer();
      }
    }
  }
}

TEST(Disconnect, EndsARequestThatWaits) {
  for (const Api& api : kApis) {
    for (const bool stream : {false, true}) {
      SCOPED_TRACE(std::string(api.path) + (stream ? ", streamed" : ""));
      Disconnect running("x");
      Wire first = running.begin(post("/v1/completions", R"({"prompt":"Hi","max_tokens":3})"));
      running.step(2);
      Wire waits = running.begin(request(api, stream));
      waits.close();
      ASSERT_TRUE(soon([&] { return running.stub().finished() == 1; }));
      running.step(kPromptSteps + 2);
      EXPECT_EQ(first.answer().value_or(test::WireAnswer{}).status, 200);
      EXPECT_EQ(running.stub().started(), 1);  // the one that waited never began
      running.expect_ended(2);
      running.expect_whole_answer();
    }
  }
}

}  // namespace
}  // namespace strata::server
