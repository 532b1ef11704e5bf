#include "server/api/reasoning_budget.h"

#include <algorithm>

#include "text/detokenizer.h"
#include "text/pattern_set.h"

namespace strata::server {
namespace {

class ReasoningBudget final : public engine::TokenGuide {
 public:
  ReasoningBudget(const AnswerStyle& style, const ToolSet& tools, int64_t budget, const ServedModel& model,
                  std::vector<int32_t> closing, std::vector<int32_t> shown)
      : tools_(tools),
        tokenizer_(*model.tokenizer),
        closing_(std::move(closing)),
        shown_(std::move(shown)),
        left_(budget),
        splitter_(style.reasoning->make(*style.reasoning, style.reasoning_opened)),
        end_({std::string(style.reasoning->end)}),
        reasoning_(style.reasoning_opened) {
    if (style.dialect != nullptr) calls_ = style.dialect->make(tools_);
  }

  int32_t next() override {
    if (n_said_ > 0 && n_said_ < closing_.size()) return closing_[n_said_++];
    if (!reasoning_ || in_call_ || left_ > 0 || n_said_ > 0) return text::kNoToken;
    return closing_[n_said_++];
  }

  void accept(int32_t id) override {
    const bool shown = std::binary_search(shown_.begin(), shown_.end(), id);
    parts_.clear();
    const std::string text = decoder_.push(tokenizer_.piece(id, shown));
    splitter_->push(text, parts_);
    for (const text::TextEvent& part : parts_) take(part);
    // The splitter is silent between the end and what follows.
    for (const char byte : text) reasoning_ = !end_.advance(byte) && reasoning_;
    if (reasoning_) --left_;
  }

 private:
  void take(const text::TextEvent& part) {
    reasoning_ = part.part == text::TextPart::kReasoning;
    if (!reasoning_ || !calls_) return;
    AnswerEvents events;
    calls_->push(part.text, events);
    for (const AnswerEvent& event : events) in_call_ = in_call_ || event.kind == AnswerEvent::kCallBegin;
  }

  const ToolSet tools_;
  const text::Tokenizer& tokenizer_;
  const std::vector<int32_t> closing_, shown_;
  int64_t left_;
  size_t n_said_ = 0;  // of closing_
  text::StreamDecoder decoder_{text::InvalidBytes::kReplace};
  std::unique_ptr<text::ReasoningSplitter> splitter_;
  text::PatternSet end_;  // of reasoning
  std::unique_ptr<ToolCallParser> calls_;
  std::vector<text::TextEvent> parts_;
  bool reasoning_;
  bool in_call_ = false;
};

}  // namespace

std::function<std::unique_ptr<engine::TokenGuide>()> reasoning_guide(const AnswerStyle& style, const ToolSet& tools,
                                                                     int64_t budget, const ServedModel& model,
                                                                     const std::vector<int32_t>& shown) {
  if (style.reasoning == nullptr) return {};
  const auto closing = model.tokenizer->encode(style.reasoning->closing, {.parse_special = true, .opens = false});
  if (!closing.ok() || closing->empty()) return {};
  return [=, &model, closing = *closing] {
    return std::make_unique<ReasoningBudget>(style, tools, budget, model, closing, shown);
  };
}

}  // namespace strata::server
