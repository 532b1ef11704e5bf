// The kinds of file that a model can be quantised to, by the names and numbers of llama-quantize and
// general.file_type. Most are mixes: the base type for nearly all tensors, better ones where errors cost most.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "quant/type.h"

namespace strata::gguf {

// Where in a model a tensor lies, as far as rules ask for it.
struct Position {
  int64_t index = 0;  // of its layer, or among the tensors of its kind
  int64_t count = 0;  // how many there are
  bool gqa4 = false;  // four or more heads share the keys and values of one
};

enum class When {
  kAlways,
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,  // of the layers
  kFirstEighth,
  kMoreBits,        // the first and the last eighth, and every third between
  kGqa4,
};
bool holds(When when, const Position& position);

// `type` where `when` holds, else `otherwise`.
struct Rule {
  When when;
  quant::Type type;
  quant::Type otherwise;

  quant::Type at(const Position& position) const { return holds(when, position) ? type : otherwise; }
};

struct FileType {
  const char* name;   // "Q4_K_M"
  const char* alias;  // "Q4_K"; null for none
  uint32_t number;    // value of general.file_type
  quant::Type base;
  quant::Type embedding;
  Rule attn_v, attn_output, ffn_down;
  bool eight_experts;  // models of exactly eight experts get Q5_K for attn_output
  bool experts_only;   // merged expert tensors take the base type, all others Q8_0
};

std::span<const FileType> file_types();

// By name or alias, whatever the case. kUnsupported for kinds that exist but have no quantiser here, kBadInput with a
// list of names for others.
Result<const FileType*> find_file_type(std::string_view name);

// "Q4_0, Q4_1, ..."
std::string file_type_names();

}  // namespace strata::gguf
