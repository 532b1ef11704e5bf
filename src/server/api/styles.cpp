#include "server/api/dialects/dialect.h"
#include "server/api/endpoint.h"

namespace strata::server {

void find_styles(ServedModel& model) {
  model.reasoning = text::find_reasoning_style(model.chat_template->source(), *model.tokenizer);
  model.tools = find_tool_dialect(model.chat_template->source());
}

}  // namespace strata::server
