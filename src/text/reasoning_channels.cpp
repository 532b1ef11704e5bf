// Reasoning in a channel of its own: messages of the harmony format,
// <|start|>ROLE<|channel|>CHANNEL<|message|>...<|end|>.
#include <algorithm>
#include <utility>

#include "text/pattern_set.h"
#include "text/reasoning.h"

namespace strata::text {
namespace {

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kEnd = "<|end|>";
constexpr std::string_view kReasoningChannel = "analysis";

// What a message may begin with: the prompt gave "<|start|>assistant" already, or nothing.
constexpr std::string_view kHeaderBegins[] = {kStart, kChannel, kMessage, " to=", "to="};

// Longer ones are no headers, but text of a model that has lost the format.
constexpr size_t kMaxHeaderBytes = 1024;

std::string_view channel_of(std::string_view header) {
  const size_t mark = header.rfind(kChannel);
  if (mark == std::string_view::npos) return {};
  const std::string_view rest = header.substr(mark + kChannel.size());
  return rest.substr(0, rest.find_first_of(" <"));
}

bool has_recipient(std::string_view header) {
  return header.starts_with("to=") || header.find(" to=") != std::string_view::npos;
}

class ChannelSplitter : public ReasoningSplitter {
 public:
  explicit ChannelSplitter(bool inside)
      : marks_({std::string(kStart), std::string(kChannel), std::string(kEnd)}),
        state_(inside ? State::kBody : State::kFront),
        part_(inside ? TextPart::kReasoning : TextPart::kAnswer) {}

  void push(std::string_view text, std::vector<TextEvent>& events) override {
    for (const char byte : text) {
      held_ += byte;
      switch (state_) {
        case State::kFront: push_front(events); break;
        case State::kHeader: push_header(events); break;
        case State::kBody: push_body(byte, events); break;
      }
    }
    if (state_ == State::kBody) give_certain(events);
  }

  void flush(std::vector<TextEvent>& events) override {
    if (state_ == State::kFront) part_ = TextPart::kAnswer;
    if (state_ != State::kHeader) add_text(part_, held_, events);
    held_.clear();
  }

 private:
  enum class State {
    kFront,   // between messages. held_: what may begin a header
    kHeader,  // held_: the header so far
    kBody,    // held_: text of the message, at last what may become a mark
  };

  void push_front(std::vector<TextEvent>& events) {
    const auto matches = [&](std::string_view begin) { return begin == held_; };
    const auto may_match = [&](std::string_view begin) { return begin.starts_with(held_); };
    if (std::any_of(std::begin(kHeaderBegins), std::end(kHeaderBegins), matches)) {
      state_ = State::kHeader;
      push_header(events);
    } else if (std::none_of(std::begin(kHeaderBegins), std::end(kHeaderBegins), may_match)) {
      begin_body(TextPart::kAnswer, false);
      replay(events);
    }
  }

  void push_header(std::vector<TextEvent>& events) {
    if (held_.ends_with(kMessage)) {
      const bool to_tool = has_recipient(held_);
      const bool reasoning = !to_tool && channel_of(held_) == kReasoningChannel;
      if (to_tool) add_text(TextPart::kAnswer, held_, events);
      held_.clear();
      begin_body(reasoning ? TextPart::kReasoning : TextPart::kAnswer, to_tool);
    } else if (held_.size() > kMaxHeaderBytes) {
      add_text(TextPart::kAnswer, held_, events);
      held_.clear();
      begin_body(TextPart::kAnswer, false);
    }
  }

  void push_body(char byte, std::vector<TextEvent>& events) {
    const std::optional<size_t> found = marks_.advance(byte);
    if (!found) return;
    const std::string& mark = marks_.pattern(*found);
    const bool ends = mark == kEnd;
    const size_t n_text = held_.size() - (ends && verbatim_ ? 0 : mark.size());
    add_text(part_, std::string_view(held_).substr(0, n_text), events);
    // Without its end, a message to a tool would run into the text that follows.
    if (!ends && verbatim_) add_text(part_, kEnd, events);
    held_.clear();
    if (!ends) held_ = mark;
    state_ = ends ? State::kFront : State::kHeader;
  }

  // The few bytes that turned out not to begin a header.
  void replay(std::vector<TextEvent>& events) {
    const std::string text = std::exchange(held_, {});
    for (const char byte : text) {
      held_ += byte;
      push_body(byte, events);
    }
  }

  void give_certain(std::vector<TextEvent>& events) {
    const size_t n = held_.size() - marks_.n_open();
    add_text(part_, std::string_view(held_).substr(0, n), events);
    held_.erase(0, n);
  }

  void begin_body(TextPart part, bool verbatim) {
    state_ = State::kBody;
    part_ = part;
    verbatim_ = verbatim;
    marks_.reset();
  }

  PatternSet marks_;  // that end a message
  State state_;
  TextPart part_;          // of the message
  bool verbatim_ = false;  // the message goes to a tool, its end is kept
  std::string held_;
};

}  // namespace

std::unique_ptr<ReasoningSplitter> make_channel_style(const ReasoningStyle&, bool inside) {
  return std::make_unique<ChannelSplitter>(inside);
}

// It ends within a message of the reasoning channel.
bool channel_opened_by(const ReasoningStyle&, std::string_view prompt) {
  const size_t message = prompt.rfind(kMessage);
  if (message == std::string_view::npos) return false;
  const size_t start = prompt.rfind(kStart);
  if (start == std::string_view::npos || start > message) return false;
  const bool ended = prompt.find(kEnd, message) != std::string_view::npos;
  const std::string_view header = prompt.substr(start, message - start);
  return !ended && !has_recipient(header) && channel_of(header) == kReasoningChannel;
}

}  // namespace strata::text
