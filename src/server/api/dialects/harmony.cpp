// Messages to a recipient: <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...} and
// <|call|>, with the recipient before or behind the channel. The prompt gives the first "<|start|>assistant". Reasoning
// and the headers of other messages were taken out before (see text/reasoning.h).
#include <algorithm>
#include <cctype>

#include "server/api/dialects/json_text.h"
#include "server/api/dialects/marked_parser.h"

namespace strata::server {
namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>";
constexpr std::string_view kConstrain = "<|constrain|>", kEnd = "<|end|>", kCall = "<|call|>";
constexpr std::string_view kSigns[] = {kStart, kChannel, kMessage};
constexpr std::string_view kMarks[] = {kStart, kChannel, kMessage, kConstrain, kEnd, kCall};
constexpr Mark kRoles[] = {{kStart, Mark::kOpener},   {kChannel, Mark::kOpener},  {" to=", Mark::kOpener, true},
                           {"to=", Mark::kOpener, true}, {kMessage, Mark::kInner}, {kConstrain, Mark::kInner},
                           {kEnd, Mark::kCloser},     {kCall, Mark::kCloser}};
constexpr size_t kMaxHeaderBytes = 512;

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

class HarmonyReader final : public CallReader {
 public:
  explicit HarmonyReader(std::string_view opener) : CallReader(std::string(opener)) {}

  Next push(char byte, EventWriter& out) override {
    if (!in_body_) {
      const bool of_header = std::isalnum(static_cast<unsigned char>(byte)) != 0 ||
                             std::string_view(" _-./:").find(byte) != std::string_view::npos;
      if (!of_header || raw_.size() == kMaxHeaderBytes) return Next::kLeave;
      raw_ += byte;
      return Next::kMore;
    }
    return push_body(byte, out);
  }

  bool mark(std::string_view mark, EventWriter& out) override {
    if (in_body_) return (mark == " to=" || mark == "to=") && take_plain(mark, out);
    if (mark == kEnd || mark == kCall || mark == kStart) return false;
    if (mark == kMessage) {
      const std::string name = recipient();
      if (name.empty()) return false;
      raw_.clear();
      out.begin_call(name);
      in_body_ = true;
      return true;
    }
    raw_ += mark;
    return true;
  }

  void close(bool ended, EventWriter& out) override {
    if (!in_body_ || !ended || is_complete_) return;
    // Arguments that are not JSON end with the message; JSON that is cut open was left so by the model.
    if (kind_ == Kind::kJson) return;
    if (kind_ == Kind::kNone) out.arguments("{}");
    out.end_call();
  }

 private:
  enum class Kind { kNone, kJson, kOther };

  // "functions.f" is f; other recipients are tools of other kinds, by their own names.
  std::string recipient() const {
    const size_t at = raw_.find("to=");
    if (at == std::string::npos) return {};
    std::string_view name = std::string_view(raw_).substr(at + 3);
    name = name.substr(0, name.find_first_of(" <"));
    constexpr std::string_view kNamespace = "functions.";
    if (name.starts_with(kNamespace)) name.remove_prefix(kNamespace.size());
    return std::string(name);
  }

  // What is a mark in headers only.
  bool take_plain(std::string_view text, EventWriter& out) {
    std::string nowhere;
    JsonText probe = scan_;
    const auto fits = [&](char byte) { return probe.push(byte, nowhere) == JsonText::Next::kMore; };
    if (is_complete_ || (kind_ == Kind::kJson && !std::all_of(text.begin(), text.end(), fits))) return false;
    for (const char byte : text) static_cast<void>(push_body(byte, out));
    return true;
  }

  Next push_body(char byte, EventWriter& out) {
    if (is_complete_) return is_space(byte) ? Next::kMore : Next::kLeave;
    if (kind_ == Kind::kNone) {
      if (is_space(byte)) return Next::kMore;
      kind_ = byte == '{' ? Kind::kJson : Kind::kOther;
    }
    if (kind_ == Kind::kOther) {
      out.arguments({&byte, 1});
      return Next::kMore;
    }
    std::string text;
    const JsonText::Next next = scan_.push(byte, text);
    if (next == JsonText::Next::kBad) return Next::kLeave;
    out.arguments(text);
    if (next != JsonText::Next::kDone) return Next::kMore;
    is_complete_ = true;
    out.end_call();
    return Next::kMore;
  }

  bool in_body_ = false;
  Kind kind_ = Kind::kNone;
  JsonText scan_;
  bool is_complete_ = false;
};

std::unique_ptr<ToolCallParser> make(const ToolSet&) {
  const auto reader = [](std::string_view opener) { return std::make_unique<HarmonyReader>(opener); };
  return std::make_unique<MarkedParser>(kRoles, true, reader);
}

}  // namespace

const ToolDialect kHarmonyTools = {.name = "harmony", .signs = kSigns, .marks = kMarks, .make = make};

}  // namespace strata::server
