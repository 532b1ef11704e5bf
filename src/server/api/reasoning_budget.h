// Ends reasoning that has gone on for too long.
#pragma once

#include <memory>

#include "server/api/answer_parser.h"
#include "server/api/endpoint.h"

namespace strata::server {

// After `budget` tokens of reasoning the model is made to write what ends it, and answers. A call of a tool that begins
// inside reasoning stops the count: nothing is put into its arguments. Null for a model without reasoning.
std::function<std::unique_ptr<engine::TokenGuide>()> reasoning_guide(const AnswerStyle& style, const ToolSet& tools,
                                                                     int64_t budget, const ServedModel& model,
                                                                     const std::vector<int32_t>& shown);

}  // namespace strata::server
