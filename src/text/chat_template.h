// Chat templates: from a conversation, given as JSON in the form of the OpenAI API, to the prompt of a model.
//
// The prompt comes as segments, so that text of the template and content (everything that came with the request: texts
// of messages, tools, extra variables) can be tokenised apart: content never becomes control tokens. Joined, the
// segments are the plain rendering. Roles known to templates ("user", "tool", ...) count as text of the template.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

namespace strata::text {

struct Segment {
  std::string text;  // not empty
  bool is_content = false;
};

struct ChatOptions {
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;              // undefined in the template where absent
  const nlohmann::ordered_json* extra = nullptr;    // more variables, an object; they win over the two above
  std::function<std::tm()> now;                     // for strftime_now; local time where empty
};

// Immutable after load; any thread.
class ChatTemplate {
 public:
  // `override_text` replaces the model's template: Jinja source, or the name of a built-in template. Where the model
  // has none, or none that can be used (not Jinja, a failure on the simplest conversation), a built-in one takes its
  // place and a warning tells. An override that can't be used is kBadInput.
  static Result<std::unique_ptr<ChatTemplate>> load(const gguf::Model& model, const Tokenizer& tokenizer,
                                                    const std::optional<std::string>& override_text = std::nullopt);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // `messages`: a non-empty array of objects with a role. What templates differ in is adapted to this one's abilities:
  // content that is null or absent, content in parts, arguments of tool calls as text or as object, `reasoning_content`
  // and `thinking`. `tools`: an array; null for none. kBadInput for other data, and when the template refuses.
  Result<std::vector<Segment>> render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json* tools,
                                      const ChatOptions& options) const;

  // Source of the template in use for conversations without tools.
  std::string_view source() const;
  // What a person should know about the choice of the template, one line each; also written to the log by load(), with
  // the model's path, which clients of a server are not told: neither these nor the errors of render() name it.
  const std::vector<std::string>& warnings() const;

 private:
  struct Parts;
  explicit ChatTemplate(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

// The segments as one text.
std::string plain_text(std::span<const Segment> segments);

// Token ids of a prompt. Its control tokens are those of the template text: where the plain rendering has the same
// ones, its tokens are taken, as models have seen them in training; else content wrote some, and every segment is
// tokenised apart, content without special tokens. A model that expects a token for the beginning of a text gets one,
// whether the template writes it or not.
Result<std::vector<int32_t>> encode_prompt(const Tokenizer& tokenizer, std::vector<Segment> segments);

}  // namespace strata::text
