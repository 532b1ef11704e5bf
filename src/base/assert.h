// Checks of our own logic. A failed check is a bug of the program, never bad input: input is answered with Result.
#pragma once

namespace strata {

[[noreturn]] void assert_failed(const char* condition, const char* file, int line);

}  // namespace strata

// Always on; keep the condition cheap and one to an assert.
#define ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::strata::assert_failed(#condition, __FILE__, __LINE__))

// Debug, test and simulation builds only.
#if defined(STRATA_DEBUG)
#define DASSERT(condition) ASSERT(condition)
#else
#define DASSERT(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#endif
