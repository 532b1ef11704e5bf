// Holds what an operation left in memory to what its case wants, and to the bytes around that.
#pragma once

#include <gtest/gtest.h>

#include "device/op_case.h"

namespace strata::test {

inline double value_at(const Want& want) {
  switch (want.kind) {
    case Want::Kind::kF32: return load_le<float>(want.at);
    case Want::Kind::kF16: return quant::f16_to_f32(load_le<uint16_t>(want.at));
    case Want::Kind::kI32: return load_le<int32_t>(want.at);
    case Want::Kind::kScratch: return want.value;
  }
  return NAN;
}
inline size_t size_of(const Want& want) { return want.kind == Want::Kind::kF16 ? 2 : 4; }

inline void expect_values(const OpCase& c, const std::vector<Want>& wants) {
  for (size_t i = 0; i < wants.size(); i++) {
    const double got = value_at(wants[i]);
    if (std::abs(got - wants[i].value) <= wants[i].tolerance) continue;
    ADD_FAILURE() << c.name() << ": value " << i << " of " << wants.size() << " is " << got << ", should be "
                  << wants[i].value << ", off by " << std::abs(got - wants[i].value) << ", allowed "
                  << wants[i].tolerance;
    return;
  }
}

// Every byte that no want covers is what it was.
inline void expect_rest_untouched(const OpCase& c, const std::vector<Want>& wants,
                                  const std::vector<std::vector<std::byte>>& before) {
  for (size_t m = 0; m < before.size(); m++) {
    const device::Memory& memory = *c.memories()[m];
    std::vector<bool> written(memory.bytes());
    for (const Want& want : wants) {
      const auto* at = static_cast<const std::byte*>(want.at);
      if (at < memory.address() || at >= memory.address() + memory.bytes()) continue;
      for (size_t i = 0; i < size_of(want); i++) written[static_cast<size_t>(at - memory.address()) + i] = true;
    }
    for (size_t i = 0; i < memory.bytes(); i++) {
      if (written[i] || memory.address()[i] == before[m][i]) continue;
      ADD_FAILURE() << c.name() << ": byte " << i << " of buffer " << m << " was written";
      return;
    }
  }
}

}  // namespace strata::test
