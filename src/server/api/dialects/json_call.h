// A call that is one JSON object: {"name": ..., "arguments": {...}}; "parameters" is another word for "arguments".
#pragma once

#include <functional>
#include <string>

#include "server/api/dialects/json_text.h"
#include "server/api/dialects/marked_parser.h"

namespace strata::server {

class JsonCallReader final : public CallReader {
 public:
  // `raw`: what was taken before the object. `accepts`: whether a name makes it a call; empty for any name.
  explicit JsonCallReader(std::string raw, std::function<bool(const std::string&)> accepts = {})
      : CallReader(std::move(raw)), accepts_(std::move(accepts)) {}

  Next push(char byte, EventWriter& out) override;

 private:
  enum class State { kStart, kKeyOrEnd, kKey, kColon, kValueStart, kValue, kCommaOrEnd };
  Next follow(char byte, EventWriter& out);
  Next push_value(char byte, EventWriter& out);
  bool end_value(EventWriter& out);
  Next end_object(EventWriter& out);
  bool begin(EventWriter& out);

  const std::function<bool(const std::string&)> accepts_;
  State state_ = State::kStart;
  JsonText scan_;
  std::string key_, value_;
  std::string name_, arguments_;  // as found so far
  bool has_name_ = false, has_arguments_ = false;
  bool begun_ = false;
  bool streaming_ = false;  // the value is given out as it comes
};

}  // namespace strata::server
