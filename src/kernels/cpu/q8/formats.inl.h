// The types with integer products, by their number in GGUF.
#pragma once

#include "kernels/cpu/q8/blocks.inl.h"
#include "kernels/cpu/q8/iq.inl.h"
#include "kernels/cpu/q8/k.inl.h"
#include "kernels/cpu/q8/ternary.inl.h"

namespace strata::kernels::STRATA_ISA_NS {

// Types without integer products have kind kNone.
struct Q8FormatTable {
  Q8Format by_id[kIdEnd];
};

template <size_t kCount>
constexpr void add_q8_formats(Q8FormatTable& table, const Q8Format (&formats)[kCount]) {
  for (const Q8Format& format : formats) table.by_id[static_cast<uint32_t>(format.type)] = format;
}

constexpr Q8FormatTable make_q8_format_table() {
  Q8FormatTable table{};
  add_q8_formats(table, kQ8KFormats);
  add_q8_formats(table, kQ8IqFormats);
  add_q8_formats(table, kQ8TernaryFormats);
  add_q8_formats(table, kQ8BlockFormats);
  return table;
}

constexpr Q8FormatTable kQ8Formats = make_q8_format_table();

static const Q8Format& q8_format(quant::Type type) {
  const uint32_t id = static_cast<uint32_t>(type);
  ASSERT(id < kIdEnd);
  return kQ8Formats.by_id[id];
}

static ActFormat act_format_of(quant::Type weight) { return q8_format(weight).kind; }

}  // namespace strata::kernels::STRATA_ISA_NS
