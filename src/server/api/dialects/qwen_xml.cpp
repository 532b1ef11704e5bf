// <tool_call><function=f><parameter=x>1</parameter></function></tool_call>, each mark on a line of its own: Qwen 3
// Coder and Qwen 3.5. Models leave out marks; a call in JSON between <tool_call> marks is taken too.
#include "server/api/dialects/argument_writer.h"
#include "server/api/dialects/json_call.h"

namespace strata::server {
namespace {

constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";
constexpr std::string_view kFunction = "<function=", kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter=", kParameterEnd = "</parameter>";
constexpr std::string_view kSigns[] = {kFunction, kParameter};
constexpr std::string_view kMarks[] = {kCall, kCallEnd};
constexpr Mark kRoles[] = {{kCall, Mark::kOpener}, {kFunction, Mark::kOpener}, {kCallEnd, Mark::kCloser}};
// What may follow a parameter; the openers, because a model has left out what ends this call.
constexpr std::string_view kAfterParameter[] = {kParameter, kFunctionEnd, kCallEnd, kCall, kFunction};
constexpr size_t kMaxNameBytes = 256;

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

class QwenXmlReader final : public CallReader {
 public:
  QwenXmlReader(std::string_view opener, const ToolSet& tools)
      : CallReader(std::string(opener)),
        state_(opener == kFunction ? State::kName : State::kOpen),
        arguments_(tools, true),
        value_ends_({std::string(kParameterEnd), std::string(kFunctionEnd), std::string(kCallEnd)}) {}

  Next push(char byte, EventWriter& out) override {
    switch (state_) {
      case State::kOpen: return push_open(byte, out);
      case State::kJson: return push_json(byte, out);
      case State::kName: return push_name(byte, out);
      case State::kBetween: return push_between(byte, out);
      case State::kKey: return push_key(byte, out);
      case State::kValue: return push_value(byte, out);
    }
    return Next::kLeave;
  }

  void close(bool ended, EventWriter& out) override {
    if (state_ == State::kOpen) raw_ += held_;
    if (state_ == State::kValue) {
      for (const char byte : held_) arguments_.value(byte, out);
    }
    if (state_ != State::kBetween || !ended || !held_.empty()) return;
    arguments_.end(out);
    out.end_call();
  }

 private:
  enum class State { kOpen, kJson, kName, kBetween, kKey, kValue };

  // Behind <tool_call>.
  Next push_open(char byte, EventWriter& out) {
    if (held_.empty() && byte == '{') {
      json_ = std::make_unique<JsonCallReader>(std::exchange(raw_, {}));
      state_ = State::kJson;
      return push_json(byte, out);
    }
    if (held_.empty() && is_space(byte)) {
      raw_ += byte;
      return Next::kMore;
    }
    held_ += byte;
    if (!kFunction.starts_with(held_)) {
      held_.pop_back();
      untaken_ = std::exchange(held_, {});
      return Next::kLeave;
    }
    if (held_ == kFunction) {
      raw_ += std::exchange(held_, {});
      state_ = State::kName;
    }
    return Next::kMore;
  }

  Next push_json(char byte, EventWriter& out) {
    const Next next = json_->push(byte, out);
    raw_ = json_->raw();
    return next;
  }

  Next push_name(char byte, EventWriter& out) {
    if (byte == '>' && !held_.empty()) {
      raw_.clear();
      out.begin_call(held_);
      arguments_.begin(held_, out);
      held_.clear();
      state_ = State::kBetween;
      return Next::kMore;
    }
    if (is_space(byte) || byte == '<' || byte == '>' || held_.size() == kMaxNameBytes) return Next::kLeave;
    held_ += byte;
    raw_ += byte;
    return Next::kMore;
  }

  Next push_between(char byte, EventWriter& out) {
    if (held_.empty() && is_space(byte)) return Next::kMore;
    held_ += byte;
    bool may_match = false;
    for (const std::string_view mark : kAfterParameter) {
      if (held_ == mark) return take_between(mark, out);
      may_match = may_match || mark.starts_with(held_);
    }
    if (may_match) return Next::kMore;
    held_.pop_back();
    untaken_ = std::exchange(held_, {});
    return Next::kLeave;
  }

  Next take_between(std::string_view mark, EventWriter& out) {
    if (mark == kParameter) {
      held_.clear();
      state_ = State::kKey;
      return Next::kMore;
    }
    arguments_.end(out);
    out.end_call();
    if (mark != kCall && mark != kFunction) return Next::kDone;
    held_.pop_back();
    untaken_ = std::exchange(held_, {});
    return Next::kLeave;
  }

  Next push_key(char byte, EventWriter& out) {
    if (byte == '>') {
      arguments_.begin_value(held_, out);
      held_.clear();
      value_ends_.reset();
      state_ = State::kValue;
      return Next::kMore;
    }
    if (byte == '\n' || byte == '<' || held_.size() == kMaxNameBytes) {
      untaken_ = std::string(kParameter) + std::exchange(held_, {});
      return Next::kLeave;
    }
    held_ += byte;
    return Next::kMore;
  }

  Next push_value(char byte, EventWriter& out) {
    const std::optional<size_t> found = arguments_.value_until(byte, value_ends_, held_, out);
    if (!found) return Next::kMore;
    state_ = State::kBetween;
    if (*found == 0) return Next::kMore;
    arguments_.end(out);
    out.end_call();
    return Next::kDone;
  }

  State state_;
  ArgumentWriter arguments_;
  text::PatternSet value_ends_;
  std::string held_;  // the beginning of a mark, a name
  std::unique_ptr<JsonCallReader> json_;
};

std::unique_ptr<ToolCallParser> make(const ToolSet& tools) {
  const auto reader = [&tools](std::string_view opener) { return std::make_unique<QwenXmlReader>(opener, tools); };
  return std::make_unique<MarkedParser>(kRoles, false, reader);
}

}  // namespace

const ToolDialect kQwenXmlTools = {.name = "qwen-xml", .signs = kSigns, .marks = kMarks, .make = make};

}  // namespace strata::server
