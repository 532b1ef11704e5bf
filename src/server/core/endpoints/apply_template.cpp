// POST /apply-template: {"messages", "tools", "add_generation_prompt": true, "enable_thinking", "chat_template_kwargs"}
// -> {"prompt"}, the text that the model would continue.
#include "server/api/text_limit.h"
#include "server/core/endpoints/answered.h"
#include "server/core/endpoints/own.h"

namespace strata::server {
namespace {

const Json* member(const Json& body, const char* name) {
  const auto it = body.find(name);
  return it == body.end() || it->is_null() ? nullptr : &*it;
}

class ApplyTemplate final : public AnsweredEndpoint {
 public:
  std::string_view path() const override { return "/apply-template"; }

 protected:
  ApiResult<std::string> answer(const Json& body, const ServedModel& model) const override {
    const Json* messages = member(body, "messages");
    if (messages == nullptr || !messages->is_array()) {
      return invalid_request("messages has to be an array of messages", "messages");
    }
    RETURN_IF_ERROR(check_size(text_cost(body), max_text_bytes(model), "bytes", "messages"));
    text::ChatOptions options{.enable_thinking = {}, .extra = member(body, "chat_template_kwargs"), .now = {}};
    if (options.extra != nullptr && !options.extra->is_object()) {
      return invalid_request("chat_template_kwargs has to be an object", "chat_template_kwargs");
    }
    ASSIGN_OR_RETURN(options.add_generation_prompt, switch_of(body, "add_generation_prompt", true));
    if (member(body, "enable_thinking") != nullptr) {
      ASSIGN_OR_RETURN(options.enable_thinking, switch_of(body, "enable_thinking", false));
    }
    const auto segments = model.chat_template->render(*messages, member(body, "tools"), options);
    if (!segments.ok()) return from_engine(segments.error(), "messages");
    return dump({{"prompt", text::plain_text(*segments)}});
  }
};

}  // namespace

const Endpoint& apply_template_endpoint() {
  static const ApplyTemplate endpoint;
  return endpoint;
}

}  // namespace strata::server
