#include "text/pcre2_set.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <gtest/gtest.h>

#include "text/utf8.h"

namespace strata::text::test {

std::vector<bool> characters_matching(const std::string& pattern) {
  std::vector<bool> set(0x110000);
  std::string all;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(c, all);
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    ADD_FAILURE() << "bad pattern " << pattern;
    return set;
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  PCRE2_SIZE from = 0;
  while (pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(), from, PCRE2_NO_UTF_CHECK, match,
                     nullptr) >= 0) {
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
    set[utf8_char(all.data() + range[0]).code_point] = true;
    from = range[1];
  }
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return set;
}

std::string pcre2_unicode_version() {
  char version[64] = {};
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
  return version;
}

}  // namespace strata::text::test
