// What was said in a chat: the messages that its prompts are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace strata::cli {

struct Message {
  std::string role;  // system, user or assistant
  std::string content;
  std::string reasoning = {};  // of an assistant, what it said to itself

  bool operator==(const Message&) const = default;
};

class Transcript {
 public:
  // Empty for none.
  void set_system(std::string text);
  void add_user(std::string text);
  void add_answer(std::string text, std::string reasoning);
  // The last message of the user goes, and what follows it. False when there is none.
  bool drop_last_turn();
  // What follows the last message of the user goes. False when there is no such message.
  bool drop_last_answer();
  // All but the system message goes.
  void reset();

  const std::vector<Message>& messages() const { return messages_; }

  // An array of messages, as chat templates take it.
  nlohmann::ordered_json to_json() const;
  // Replaces PATH.
  Status save(const std::string& path) const;
  // kBadInput for what is not an array of messages with a role and a text as content.
  static Result<Transcript> load(const std::string& path);
  static Result<Transcript> parse(std::string_view json, const std::string& origin);

 private:
  // Index of the last message of the user; messages_.size() for none.
  size_t last_user() const;

  std::vector<Message> messages_;
};

}  // namespace strata::cli
