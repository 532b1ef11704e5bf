// A model with experts, opened, and checks on errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/support.h"
#include "experts/expert_files.h"
#include "experts/source.h"

namespace strata::test {

// An opened model in memory and its layout.
struct ExpertModel {
  ExpertModel(const ExpertSpec& model_spec, const FillPart& fill, int n_files = 1)
      : spec(model_spec), files(expert_tensors(model_spec, fill), n_files),
        model(gguf::Model::open(files.path(), files.system()).value()),
        layout(experts::ExpertLayout::from_model(*model, spec.n_layers, spec.dim, spec.ffn, spec.n_experts).value()) {}

  ExpertSpec spec;
  ExpertFiles files;
  std::unique_ptr<gguf::Model> model;
  experts::ExpertLayout layout;
};

template <class T>
void expect_error(const Result<T>& result, ErrorCode code, std::initializer_list<const char*> pieces) {
  ASSERT_FALSE(result.ok()) << "was accepted";
  const std::string& message = result.error().message;
  EXPECT_EQ(result.error().code, code) << message;
  for (const char* piece : pieces) EXPECT_THAT(message, testing::HasSubstr(piece));
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("\n")));
}

}  // namespace strata::test
