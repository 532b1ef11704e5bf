#include "text/reasoning.h"

#include <algorithm>

namespace strata::text {
namespace {

constexpr std::string_view kThink[] = {"<think>", "</think>"};
constexpr std::string_view kSeedThink[] = {"<seed:think>", "</seed:think>"};
constexpr std::string_view kBracketThink[] = {"[THINK]", "[/THINK]"};
constexpr std::string_view kHarmony[] = {"<|start|>", "<|channel|>", "<|message|>"};

constexpr ReasoningStyle kStyles[] = {
    {.name = "harmony",
     .marks = kHarmony,
     .end = "<|end|>",
     .closing = "<|end|><|start|>assistant<|channel|>final<|message|>",
     .make = make_channel_style,
     .opened_by = channel_opened_by},
    {.name = "think",
     .marks = kThink,
     .end = kThink[1],
     .closing = "\n</think>\n\n",
     .make = make_tag_style,
     .opened_by = tag_opened_by},
    {.name = "seed",
     .marks = kSeedThink,
     .end = kSeedThink[1],
     .closing = "\n</seed:think>\n\n",
     .make = make_tag_style,
     .opened_by = tag_opened_by},
    {.name = "bracket",
     .marks = kBracketThink,
     .end = kBracketThink[1],
     .closing = "[/THINK]",
     .make = make_tag_style,
     .opened_by = tag_opened_by},
};

bool is_token(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text, {.parse_special = true});
  return ids.ok() && ids->size() == 1;
}

template <class Has>
const ReasoningStyle* first_style(const Has& has) {
  for (const ReasoningStyle& style : kStyles) {
    if (std::all_of(style.marks.begin(), style.marks.end(), has)) return &style;
  }
  return nullptr;
}

}  // namespace

std::span<const ReasoningStyle> reasoning_styles() { return kStyles; }

const ReasoningStyle* find_reasoning_style(std::string_view chat_template, const Tokenizer& tokenizer) {
  const auto in_template = [&](std::string_view mark) { return chat_template.find(mark) != std::string_view::npos; };
  if (const ReasoningStyle* style = first_style(in_template)) return style;
  return first_style([&](std::string_view mark) { return is_token(tokenizer, mark); });
}

void add_text(TextPart part, std::string_view text, std::vector<TextEvent>& events) {
  if (text.empty()) return;
  if (events.empty() || events.back().part != part) events.push_back({part, {}});
  events.back().text += text;
}

}  // namespace strata::text
