// Splits what a model says to itself from its answer, as it streams.
//
// Tags (<think>...</think>):
//   - An opener counts only in front of the answer, with nothing but white space before it: elsewhere the model talks
//     about the tag, and it stays text. Several blocks may follow one another.
//   - In a block, the first closer ends it. White space next to the tags goes with them.
//   - A closer without an opener is dropped in front of the answer, where it ends a block that the prompt opened and
//     the model had nothing to say in. In the middle of an answer it is text, and shown: what came before it has been
//     given out as answer already.
//   - A block that is never closed is reasoning to its end.
//
// Channels (harmony): messages of the channel "analysis" are reasoning, those of other channels answer, both without
// their headers. A message to a tool ("to=") is answer just as it was written, header and end included: who parses tool
// calls needs the marks. A header that the end of the answer cuts off is dropped.
//
// Only what can be the beginning of a mark that counts there is held back, and white space where tags may stand.
// The events are the same however the text was cut, but for where one part is cut into events.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace strata::text {

enum class TextPart { kReasoning, kAnswer };

struct TextEvent {
  TextPart part;
  std::string text;  // not empty
};

// One per answer; not for several threads at once. The work is linear in the text.
class ReasoningSplitter {
 public:
  virtual ~ReasoningSplitter() = default;
  // Takes text in whole characters; appends what is certain by then.
  virtual void push(std::string_view text, std::vector<TextEvent>& events) = 0;
  // The end of the answer: appends what was held back.
  virtual void flush(std::vector<TextEvent>& events) = 0;
};

struct ReasoningStyle {
  std::string_view name;
  std::span<const std::string_view> marks;  // all of them, in template or vocabulary, tell the style
  std::string_view end;      // what ends reasoning
  std::string_view closing;  // what a model that is reasoning would write to begin its answer
  // `inside`: whether the prompt ends in a block that it opened.
  std::unique_ptr<ReasoningSplitter> (*make)(const ReasoningStyle& style, bool inside);
  // For make(): whether a prompt ends so.
  bool (*opened_by)(const ReasoningStyle& style, std::string_view prompt);
};

std::span<const ReasoningStyle> reasoning_styles();

// The style whose marks the chat template has, else the one whose marks are tokens of the vocabulary; null for neither.
const ReasoningStyle* find_reasoning_style(std::string_view chat_template, const Tokenizer& tokenizer);

inline constexpr size_t kMaxTagBytes = 64;

// For tags that no style knows. kBadInput when a tag is empty, longer than kMaxTagBytes or begins with white space, or
// when one begins with the other.
Result<std::unique_ptr<ReasoningSplitter>> make_tag_splitter(std::string_view opener, std::string_view closer,
                                                             bool inside);

// Adds text to the events, to the last of them if that is of the same part.
void add_text(TextPart part, std::string_view text, std::vector<TextEvent>& events);

// The members, for their rows.
std::unique_ptr<ReasoningSplitter> make_tag_style(const ReasoningStyle& style, bool inside);
bool tag_opened_by(const ReasoningStyle& style, std::string_view prompt);
std::unique_ptr<ReasoningSplitter> make_channel_style(const ReasoningStyle& style, bool inside);
bool channel_opened_by(const ReasoningStyle& style, std::string_view prompt);

}  // namespace strata::text
