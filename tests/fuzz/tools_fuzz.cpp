// libFuzzer target: an answer in each dialect of tool calls, with the cuts that the first byte names. However it is
// cut, the events are the same; calls are well formed; text is not made up.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/api/dialects/dialect.h"
#include "text/utf8.h"

namespace strata::server {
namespace {

// A violation ends the process, which is how the fuzzer learns of it.
void require(bool condition) {
  if (!condition) std::abort();
}

const ToolSet& tools() {
  static const ToolSet set(Json::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
      "s": {"type": "string"}, "n": {"type": ["string", "null"]}, "o": {"type": "object"}, "i": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "g"}}])"));
  return set;
}

void append(const AnswerEvents& from, AnswerEvents& to) {
  for (const AnswerEvent& event : from) {
    const bool grows = event.kind == AnswerEvent::kText || event.kind == AnswerEvent::kArguments;
    if (grows && !to.empty() && to.back().kind == event.kind) {
      to.back().text += event.text;
    } else {
      to.push_back(event);
    }
  }
}

// Pieces of 1 to `most` bytes, between characters.
AnswerEvents parsed(const ToolDialect& dialect, std::string_view text, size_t most, bool ended) {
  const auto parser = dialect.make(tools());
  AnswerEvents all;
  while (!text.empty()) {
    size_t n = std::min(most, text.size());
    while (n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) ++n;
    AnswerEvents events;
    parser->push(text.substr(0, n), events);
    append(events, all);
    text.remove_prefix(n);
  }
  AnswerEvents events;
  parser->flush(ended, events);
  append(events, all);
  return all;
}

// Ends belong to calls, arguments too.
void check(const AnswerEvents& events, std::string_view text) {
  bool open = false;
  size_t n_text = 0;
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::kReasoning: require(false); break;
      case AnswerEvent::kText:
        require(!event.text.empty());
        n_text += event.text.size();
        open = false;
        break;
      case AnswerEvent::kCallBegin:
        require(!event.text.empty());
        open = true;
        break;
      case AnswerEvent::kArguments: require(open && !event.text.empty()); break;
      case AnswerEvent::kCallEnd: require(open); open = false; break;
    }
  }
  require(n_text <= text.size());
}

}  // namespace
}  // namespace strata::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::server;
  if (size < 1) return 0;
  const size_t most = 1 + data[0] % 32;
  const bool ended = data[0] >= 128;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (!strata::text::is_valid_utf8(text)) return 0;  // what parsers are given is
  for (const ToolDialect* dialect : tool_dialects()) {
    const AnswerEvents whole = parsed(*dialect, text, text.size() + 1, ended);
    check(whole, text);
    require(parsed(*dialect, text, most, ended) == whole);
    require(parsed(*dialect, text, 1, ended) == whole);
  }
  return 0;
}
