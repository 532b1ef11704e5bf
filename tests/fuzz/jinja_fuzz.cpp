// libFuzzer target: parses the input as a template and renders it with a fixed conversation, within small limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"
#include "text/utf8.h"

namespace strata::text::jinja {
namespace {

using Json = nlohmann::ordered_json;

// A violation ends the process, which is how the fuzzer learns of it.
void require(bool condition) {
  if (!condition) std::abort();
}

// As small as keeps one input within milliseconds, and its memory under the fuzzer's limit of a single allocation.
constexpr Limits kLimits = {
    .steps = 50'000, .output_bytes = 256 * kKiB, .memory_bytes = 2 * kMiB, .list_items = 10'000, .depth = 300};

const Json& messages() {
  static const Json value = Json::parse(R"([
    {"role": "system", "content": "Be brief <|im_end|>"},
    {"role": "user", "content": "Grüße 😀\n  two  lines \n"},
    {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [{"type": "function", "id": "1",
      "function": {"name": "f", "arguments": {"a": [1, -2.5, true, null], "b": {"c": ""}}}}]},
    {"role": "tool", "content": [{"type": "text", "text": "part"}], "n": 12345678901234567890}])");
  return value;
}

const Json& tools() {
  static const Json value = Json::parse(R"([{"type": "function", "function": {"name": "f", "description": null,
    "parameters": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}}}}])");
  return value;
}

void check_error(const Error& error) {
  require(error.code == ErrorCode::kBadInput && !error.message.empty() && error.message.size() < 4096);
  for (const char c : error.message) require(c != '\n' && c != '\0' && c != '\x1b');
}

// The runs are the text, and neither empty nor two of a kind in a row.
void check_text(const MarkedText& text) {
  require(text.size() <= kLimits.output_bytes && is_valid_utf8(text.bytes()));
  std::string joined;
  int last = -1;
  text.for_each_run([&](std::string_view run, bool is_content) {
    require(!run.empty() && last != static_cast<int>(is_content) && is_valid_utf8(run));
    last = is_content;
    joined += run;
  });
  require(joined == text.bytes());
}

std::tm fixed_time() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mday = 5;
  return time;
}

}  // namespace
}  // namespace strata::text::jinja

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::text::jinja;
  const auto parsed = Template::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!parsed.ok()) {
    check_error(parsed.error());
    return 0;
  }
  static const Json yes = true;
  static const Json bos = "<s>";
  const std::vector<Variable> variables = {
      {"messages", &messages(), true}, {"tools", &tools(), true}, {"add_generation_prompt", &yes}, {"bos_token", &bos}};
  const auto text = (*parsed)->render(variables, {.limits = kLimits, .now = fixed_time, .is_trusted = {}});
  if (text.ok()) {
    check_text(*text);
  } else {
    check_error(text.error());
  }
  return 0;
}
