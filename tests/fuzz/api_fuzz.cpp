// libFuzzer target: the input is a body for the endpoint that its first byte names. It is refused with a 400, or the
// answer to it is by the grammar of its protocol.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

#include "server/api/sse_grammar.h"

namespace strata::server {
namespace {

// A violation ends the process, which is how the fuzzer learns of it.
void require(bool condition) {
  if (!condition) std::abort();
}

constexpr const char* kPaths[] = {"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions",
                                  "/v1/messages/count_tokens"};

std::string fault_of(size_t path, const std::vector<SseEvent>& events) {
  const bool with_usage = events.size() > 2 && events[events.size() - 2].data.find("\"usage\"") != std::string::npos;
  switch (path) {
    case 0: return fault_of_chunks(events, "chat.completion.chunk", with_usage);
    case 1: return fault_of_message_stream(events);
    case 2: return fault_of_response_stream(events);
    default: return fault_of_chunks(events, "text_completion", with_usage);
  }
}

}  // namespace
}  // namespace strata::server

// What the rig itself expects ends the process too.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  GTEST_FLAG_SET(break_on_failure, true);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::server;
  static ApiRig hermes(kHermesTemplate), plain(kPlainTemplate);
  static const Script script{.answer = "<think>a</think>b <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"};
  if (size < 1) return 0;
  const size_t path = data[0] % std::size(kPaths);
  ApiRig& rig = data[0] >= 128 ? hermes : plain;
  const Reply reply =
      rig.ask_text(kPaths[path], {reinterpret_cast<const char*>(data) + 1, size - 1}, script);
  if (reply.streamed) {
    require(reply.ended && fault_of(path, reply.events).empty());
  } else {
    require(reply.status == 200 || reply.status == 400);
    require(reply.body.is_object());
  }
  return 0;
}
