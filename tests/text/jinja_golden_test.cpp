// Goal: every construct, filter, test and method does what Jinja2 does. Method: the cases of tests/golden/jinja, whose
// texts Jinja2 wrote; where it refuses, so must the engine.
#include <fstream>

#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/jinja_render.h"

namespace strata::text::jinja {
namespace {

TEST(JinjaGolden, TextsAreThoseOfJinja2) {
  std::ifstream file(::strata::test::golden_path("jinja/cases.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const nlohmann::ordered_json variables = nlohmann::ordered_json::parse(line)["variables"];
  int n_cases = 0;
  int n_refused = 0;
  while (std::getline(file, line)) {
    const auto golden = nlohmann::ordered_json::parse(line);
    const auto text = test::render(golden["template"], variables);
    ++n_cases;
    n_refused += golden["text"].is_null();
    if (golden["text"].is_null()) {
      EXPECT_FALSE(text.ok()) << line << " gives " << text->bytes();
    } else if (text.ok()) {
      EXPECT_EQ(text->bytes(), golden["text"].get<std::string>()) << line;
    } else {
      ADD_FAILURE() << line << ": " << text.error().message;
    }
  }
  EXPECT_GT(n_cases, 500);
  EXPECT_GT(n_refused, 50);
}

}  // namespace
}  // namespace strata::text::jinja
