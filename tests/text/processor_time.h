// Tests of how work grows with the text.
#pragma once

#include <functional>
#include <string>

namespace strata::text::test {

// Fails the running test when `work` on a long run of `unit` costs more processor time than linear work may: 16 times
// the text at most 80 times the time, which is far from the 256 times of quadratic work, and enough for caches that no
// longer hold the data.
void expect_linear_work(const std::string& what, const std::string& unit,
                        const std::function<void(const std::string& text)>& work);

}  // namespace strata::text::test
