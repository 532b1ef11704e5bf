#include "server/api/dialects/json_call.h"

#include "server/api/json.h"

namespace strata::server {
namespace {

// Of what is kept because the name is not known yet.
constexpr size_t kMaxKeptBytes = 1 << 20;

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

// The text that a JSON string stands for; nothing where it is none.
std::optional<std::string> text_of(const std::string& json) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_string()) return std::nullopt;
  return parsed.get<std::string>();
}

bool means_arguments(const std::string& key) { return key == "\"arguments\"" || key == "\"parameters\""; }

}  // namespace

CallReader::Next JsonCallReader::push(char byte, EventWriter& out) {
  const bool kept = !begun_;
  const Next next = follow(byte, out);
  if (next == Next::kLeave) return next;
  if (kept && !begun_) raw_ += byte;
  return next;
}

CallReader::Next JsonCallReader::follow(char byte, EventWriter& out) {
  if (raw_.size() > kMaxKeptBytes) return Next::kLeave;
  const bool inside = state_ == State::kKey || state_ == State::kValue;
  if (!inside && is_space(byte)) return Next::kMore;
  switch (state_) {
    case State::kStart:
      if (byte != '{') return Next::kLeave;
      state_ = State::kKeyOrEnd;
      return Next::kMore;
    case State::kKeyOrEnd:
      if (byte == '}') return end_object(out);
      if (byte != '"') return Next::kLeave;
      key_.clear();
      scan_ = JsonText();
      state_ = State::kKey;
      [[fallthrough]];
    case State::kKey:
      if (scan_.push(byte, key_) == JsonText::Next::kDone) state_ = State::kColon;
      return Next::kMore;
    case State::kColon:
      if (byte != ':') return Next::kLeave;
      state_ = State::kValueStart;
      return Next::kMore;
    case State::kValueStart:
      value_.clear();
      scan_ = JsonText();
      streaming_ = begun_ && means_arguments(key_) && !has_arguments_ && (byte == '{' || byte == '[');
      state_ = State::kValue;
      [[fallthrough]];
    case State::kValue: return push_value(byte, out);
    case State::kCommaOrEnd:
      if (byte == '}') return end_object(out);
      if (byte != ',') return Next::kLeave;
      state_ = State::kKeyOrEnd;
      return Next::kMore;
  }
  return Next::kLeave;
}

CallReader::Next JsonCallReader::push_value(char byte, EventWriter& out) {
  const JsonText::Next next = scan_.push(byte, value_);
  if (next == JsonText::Next::kBad) return Next::kLeave;
  if (streaming_) {
    out.arguments(value_);
    value_.clear();
  }
  if (next == JsonText::Next::kMore) return Next::kMore;
  state_ = State::kCommaOrEnd;
  if (!end_value(out)) return Next::kLeave;
  return next == JsonText::Next::kAfter ? follow(byte, out) : Next::kMore;
}

// False where the value shows that this is no call.
bool JsonCallReader::end_value(EventWriter& out) {
  if (streaming_) {
    has_arguments_ = true;
  } else if (key_ == "\"name\"" && !has_name_) {
    const std::optional<std::string> name = text_of(value_);
    if (!name || name->empty() || (accepts_ && !accepts_(*name))) return false;
    name_ = *name;
    has_name_ = true;
    return begin(out);
  } else if (means_arguments(key_) && !has_arguments_) {
    // Some models put the object into a string.
    arguments_ = value_ == "null" ? "{}" : text_of(value_).value_or(value_);
    has_arguments_ = true;
    if (begun_) out.arguments(arguments_);
  }
  return true;
}

bool JsonCallReader::begin(EventWriter& out) {
  begun_ = true;
  raw_.clear();
  out.begin_call(name_);
  if (has_arguments_) out.arguments(arguments_);
  return true;
}

CallReader::Next JsonCallReader::end_object(EventWriter& out) {
  if (!begun_) return Next::kLeave;
  if (!has_arguments_) out.arguments("{}");
  out.end_call();
  return Next::kDone;
}

}  // namespace strata::server
