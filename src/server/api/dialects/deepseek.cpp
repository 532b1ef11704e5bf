// Calls between control tokens, DeepSeek V3, R1 and later:
//   <calls begin><call begin>function<sep>f\n```json\n{...}\n```<call end><calls end>    (V3, R1)
//   <calls begin><call begin>f<sep>{...}<call end><calls end>                            (V3.1)
#include "server/api/dialects/json_text.h"
#include "server/api/dialects/marked_parser.h"

namespace strata::server {
namespace {

// "tool calls begin" and so on, between full-width bars, with U+2581 for spaces.
#define STRATA_BAR "\xEF\xBD\x9C"
#define STRATA_GAP "\xE2\x96\x81"
constexpr std::string_view kCalls = "<" STRATA_BAR "tool" STRATA_GAP "calls" STRATA_GAP "begin" STRATA_BAR ">";
constexpr std::string_view kCallsEnd = "<" STRATA_BAR "tool" STRATA_GAP "calls" STRATA_GAP "end" STRATA_BAR ">";
constexpr std::string_view kCall = "<" STRATA_BAR "tool" STRATA_GAP "call" STRATA_GAP "begin" STRATA_BAR ">";
constexpr std::string_view kCallEnd = "<" STRATA_BAR "tool" STRATA_GAP "call" STRATA_GAP "end" STRATA_BAR ">";
constexpr std::string_view kSeparator = "<" STRATA_BAR "tool" STRATA_GAP "sep" STRATA_BAR ">";
#undef STRATA_BAR
#undef STRATA_GAP

constexpr std::string_view kSigns[] = {kCall, kSeparator};
constexpr std::string_view kMarks[] = {kCalls, kCallsEnd, kCall, kCallEnd, kSeparator};
constexpr Mark kRoles[] = {{kCalls, Mark::kSilent},
                           {kCallsEnd, Mark::kSilent},
                           {kCall, Mark::kOpener},
                           {kCallEnd, Mark::kCloser},
                           {kSeparator, Mark::kInner}};
constexpr size_t kMaxNameBytes = 256;

class DeepSeekReader final : public CallReader {
 public:
  explicit DeepSeekReader(std::string_view opener) : CallReader(std::string(opener)) {}

  Next push(char byte, EventWriter& out) override {
    switch (state_) {
      case State::kHead: return take_name(byte);
      case State::kName:
        if (byte != '\n') return take_name(byte);
        begin(out);
        return Next::kMore;
      case State::kArguments: return push_arguments(byte, out);
      case State::kTail: return is_fence(byte) ? Next::kMore : Next::kLeave;
    }
    return Next::kLeave;
  }

  bool mark(std::string_view mark, EventWriter& out) override {
    if (state_ != State::kHead || mark != kSeparator || name_.empty()) return false;
    if (name_ == "function") {
      raw_ += mark;
      name_.clear();
      state_ = State::kName;
    } else {
      begin(out);
    }
    return true;
  }

 private:
  enum class State { kHead, kName, kArguments, kTail };

  static bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }
  static bool is_fence(char byte) { return is_space(byte) || byte == '`'; }

  Next take_name(char byte) {
    if (name_.size() == kMaxNameBytes || is_space(byte)) return Next::kLeave;
    name_ += byte;
    raw_ += byte;
    return Next::kMore;
  }

  void begin(EventWriter& out) {
    raw_.clear();
    out.begin_call(name_);
    state_ = State::kArguments;
  }

  // The object, or ``` with "json" and the object.
  Next push_arguments(char byte, EventWriter& out) {
    if (!in_object_) {
      if (is_fence(byte) || std::string_view("json").find(byte) != std::string_view::npos) return Next::kMore;
      if (byte != '{') return Next::kLeave;
      in_object_ = true;
    }
    std::string text;
    const JsonText::Next next = scan_.push(byte, text);
    if (next == JsonText::Next::kBad) return Next::kLeave;
    out.arguments(text);
    if (next == JsonText::Next::kDone) {
      out.end_call();
      state_ = State::kTail;
    }
    return Next::kMore;
  }

  State state_ = State::kHead;
  std::string name_;
  JsonText scan_;
  bool in_object_ = false;
};

std::unique_ptr<ToolCallParser> make(const ToolSet&) {
  const auto reader = [](std::string_view opener) { return std::make_unique<DeepSeekReader>(opener); };
  return std::make_unique<MarkedParser>(kRoles, true, reader);
}

}  // namespace

const ToolDialect kDeepSeekTools = {.name = "deepseek", .signs = kSigns, .marks = kMarks, .make = make};

}  // namespace strata::server
