// <tool_call>f
// <arg_key>x</arg_key>
// <arg_value>1</arg_value>
// </tool_call>: GLM 4.5 and later.
#include "server/api/dialects/argument_writer.h"
#include "server/api/dialects/marked_parser.h"

namespace strata::server {
namespace {

constexpr std::string_view kCall = "<tool_call>", kCallEnd = "</tool_call>";
constexpr std::string_view kArgKey = "<arg_key>", kArgKeyEnd = "</arg_key>";
constexpr std::string_view kArgValue = "<arg_value>", kArgValueEnd = "</arg_value>";
constexpr std::string_view kSigns[] = {kArgKey, kArgValue};
constexpr std::string_view kMarks[] = {kCall, kCallEnd, kArgKey, kArgKeyEnd, kArgValue, kArgValueEnd};
constexpr Mark kRoles[] = {{kCall, Mark::kOpener}, {kCallEnd, Mark::kCloser}};
constexpr size_t kMaxNameBytes = 256;

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

class GlmReader final : public CallReader {
 public:
  GlmReader(std::string_view opener, const ToolSet& tools)
      : CallReader(std::string(opener)),
        arguments_(tools, false),
        key_end_({std::string(kArgKeyEnd)}),
        value_ends_({std::string(kArgValueEnd), std::string(kCallEnd)}) {}

  Next push(char byte, EventWriter& out) override {
    switch (state_) {
      case State::kName: return push_name(byte);
      case State::kBetween: return push_between(byte, out);
      case State::kKey: return push_key(byte);
      case State::kBeforeValue: return push_before_value(byte, out);
      case State::kValue: return push_value(byte, out);
    }
    return Next::kLeave;
  }

  void close(bool ended, EventWriter& out) override {
    if (!begun_) raw_ += held_;
    if (state_ == State::kValue) {
      for (const char byte : held_) arguments_.value(byte, out);
    }
    if (begun_ && ended && state_ == State::kBetween && held_.empty()) complete(out);
  }

 private:
  enum class State { kName, kBetween, kKey, kBeforeValue, kValue };

  // Behind <tool_call>. Nothing is given out before a mark shows that it is a name.
  Next push_name(char byte) {
    const bool ends = byte == '<' || is_space(byte);
    if (byte == '{' || name_.size() == kMaxNameBytes || (byte == '<' && name_.empty())) return Next::kLeave;
    if (!ends) name_ += byte;
    if (ends && !name_.empty()) state_ = State::kBetween;
    (byte == '<' ? held_ : raw_) += byte;
    return Next::kMore;
  }

  // Collects what is a beginning of one of the marks; gives the mark when it is complete. A mismatch sets failed.
  template <size_t n>
  std::string_view match(char byte, const std::string_view (&marks)[n], bool& failed) {
    held_ += byte;
    for (const std::string_view mark : marks) {
      if (held_ == mark) return mark;
    }
    for (const std::string_view mark : marks) {
      if (mark.starts_with(held_)) return {};
    }
    failed = true;
    held_.pop_back();
    untaken_ = std::exchange(held_, {});
    return {};
  }

  Next push_between(char byte, EventWriter& out) {
    if (held_.empty() && is_space(byte)) {
      if (!begun_) raw_ += byte;
      return Next::kMore;
    }
    bool failed = false;
    const std::string_view mark = match(byte, {kArgKey, kCallEnd, kCall}, failed);
    if (failed) return Next::kLeave;
    if (mark.empty()) return Next::kMore;
    begin(out);
    if (mark == kArgKey) {
      held_.clear();
      key_end_.reset();
      state_ = State::kKey;
      return Next::kMore;
    }
    complete(out);
    if (mark == kCallEnd) return Next::kDone;
    held_.pop_back();
    untaken_ = std::exchange(held_, {});
    return Next::kLeave;
  }

  Next push_key(char byte) {
    held_ += byte;
    if (key_end_.advance(byte)) {
      key_ = held_.substr(0, held_.size() - kArgKeyEnd.size());
      held_.clear();
      state_ = State::kBeforeValue;
    } else if (held_.size() > kMaxNameBytes) {
      held_.pop_back();
      untaken_ = std::string(kArgKey) + std::exchange(held_, {});
      return Next::kLeave;
    }
    return Next::kMore;
  }

  Next push_before_value(char byte, EventWriter& out) {
    if (held_.empty() && is_space(byte)) return Next::kMore;
    bool failed = false;
    const std::string_view mark = match(byte, {kArgValue}, failed);
    if (failed) return Next::kLeave;
    if (mark.empty()) return Next::kMore;
    arguments_.begin_value(key_, out);
    held_.clear();
    value_ends_.reset();
    state_ = State::kValue;
    return Next::kMore;
  }

  Next push_value(char byte, EventWriter& out) {
    const std::optional<size_t> found = arguments_.value_until(byte, value_ends_, held_, out);
    if (!found) return Next::kMore;
    state_ = State::kBetween;
    if (*found == 0) return Next::kMore;
    complete(out);
    return Next::kDone;
  }

  void begin(EventWriter& out) {
    if (std::exchange(begun_, true)) return;
    raw_.clear();
    out.begin_call(name_);
    arguments_.begin(name_, out);
  }

  void complete(EventWriter& out) {
    arguments_.end(out);
    out.end_call();
  }

  State state_ = State::kName;
  bool begun_ = false;
  ArgumentWriter arguments_;
  text::PatternSet key_end_, value_ends_;
  std::string name_, key_;
  std::string held_;  // the beginning of a mark, a key
};

std::unique_ptr<ToolCallParser> make(const ToolSet& tools) {
  const auto reader = [&tools](std::string_view opener) { return std::make_unique<GlmReader>(opener, tools); };
  return std::make_unique<MarkedParser>(kRoles, false, reader);
}

}  // namespace

const ToolDialect kGlmTools = {.name = "glm", .signs = kSigns, .marks = kMarks, .make = make};

}  // namespace strata::server
