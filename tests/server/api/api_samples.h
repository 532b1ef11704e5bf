// Answers as models write them in each dialect, and what they mean.
#pragma once

#include <string>
#include <vector>

#include "server/api/dialects/dialect.h"

namespace strata::server {

struct DialectSample {
  const ToolDialect* dialect;
  std::string text;
  AnswerEvents events;  // pieces of one kind put together
  bool ended = true;    // the model ended the answer by itself
};

const std::vector<DialectSample>& dialect_samples();

}  // namespace strata::server
