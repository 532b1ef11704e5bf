// What PCRE2 says about characters: the independent judge of our Unicode tables.
#pragma once

#include <string>
#include <vector>

namespace strata::text::test {

// By code point, to U+10FFFF: whether the one-character pattern matches it. Surrogates never do.
std::vector<bool> characters_matching(const std::string& pattern);

// Version of PCRE2's Unicode tables, as "14.0.0".
std::string pcre2_unicode_version();

}  // namespace strata::text::test
