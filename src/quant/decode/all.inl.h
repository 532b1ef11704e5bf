// The registration rows of all families in one table, indexed by the type's number in GGUF.
#pragma once

#include "quant/decode/bits.inl.h"
#include "quant/decode/blocks32.inl.h"
#include "quant/decode/fp4.inl.h"
#include "quant/decode/iq1.inl.h"
#include "quant/decode/iq2.inl.h"
#include "quant/decode/iq3.inl.h"
#include "quant/decode/iq4.inl.h"
#include "quant/decode/k.inl.h"
#include "quant/decode/plain.inl.h"
#include "quant/decode/ternary.inl.h"

namespace STRATA_DECODE_NS {

constexpr uint32_t kIdEnd = 43;

// Rows whose id is unknown or removed have no name.
struct FormatTable {
  Format by_id[kIdEnd];
};

template <size_t kCount>
constexpr void add_formats(FormatTable& table, const Format (&formats)[kCount]) {
  for (const Format& format : formats) table.by_id[static_cast<uint32_t>(format.info.type)] = format;
}

constexpr FormatTable make_format_table() {
  FormatTable table{};
  add_formats(table, kPlainFormats);
  add_formats(table, kBlocks32Formats);
  add_formats(table, kKFormats);
  add_formats(table, kIq1Formats);
  add_formats(table, kIq2Formats);
  add_formats(table, kIq3Formats);
  add_formats(table, kIq4Formats);
  add_formats(table, kTernaryFormats);
  add_formats(table, kFp4Formats);
  add_formats(table, kBitsFormats);
  return table;
}

constexpr FormatTable kFormats = make_format_table();

}  // namespace STRATA_DECODE_NS
