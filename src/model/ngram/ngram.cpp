#include "model/ngram/ngram.h"

#include <algorithm>

#include "base/format.h"
#include "model/hparams.h"

namespace strata::model {
namespace {

constexpr int kMaxSize = 8;         // tokens of an n-gram
constexpr int kMaxHeadsPerOrder = 64;
constexpr int kMaxKernel = 16;
constexpr int64_t kMaxRowDim = 1 << 14;
// Far above any table, far below where sums overflow.
constexpr uint64_t kMaxTableRows = uint64_t{1} << 40;

// What the released model's constants were made with.
constexpr uint64_t kSeed = 1234;
constexpr uint64_t kFirstPrime = 20'000'000;
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

// SplitMix64 (Steele, Lea, Flood 2014): the output for the state v.
uint64_t split_mix(uint64_t v) {
  v += kGolden;
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EB;
  return v ^ (v >> 31);
}

bool is_prime(uint64_t n) {
  if (n % 2 == 0) return n == 2;
  for (uint64_t d = 3; d * d <= n; d += 2) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

// An array of exactly `count` integers from `min` to `max`; empty where the key is absent.
Result<std::vector<uint64_t>> read_array(const Keys& keys, const char* name, size_t count, uint64_t min, uint64_t max) {
  const std::string& path = keys.model().path();
  const gguf::Value* value = keys.model().find(keys.full(name));
  std::vector<uint64_t> all;
  if (value == nullptr) return all;
  if (!value->is_array() || value->count() != count) {
    return Error{ErrorCode::kBadInput, format("{}: key {} has {} elements, expected an array of {}", path,
                                              keys.full(name), value->count(), count)};
  }
  for (size_t i = 0; i < count; i++) {
    const Result<uint64_t> element = value->as_uint(i);
    if (!element.ok()) {
      return Error{element.error().code, format("{}: key {} {}", path, keys.full(name), element.error().message)};
    }
    if (*element < min || *element > max) {
      return Error{ErrorCode::kBadInput, format("{}: key {} has an element {}, expected {} to {}", path,
                                                keys.full(name), *element, min, max)};
    }
    all.push_back(*element);
  }
  return all;
}

Status read_layer(const Keys& keys, const HParams& hp, NgramParams& params) {
  constexpr const char* kKey = "ple.layers";
  ASSIGN_OR_RETURN(const std::vector<uint64_t> layers,
                   read_array(keys, kKey, 1, 0, static_cast<uint64_t>(hp.n_layers) - 1));
  if (layers.empty()) {
    return Error{ErrorCode::kBadInput, format("{}: key {} is missing", keys.model().path(), keys.full(kKey))};
  }
  params.layer = static_cast<int>(layers.front());
  if (!hp.recurrent[static_cast<size_t>(params.layer)]) {
    return Error{ErrorCode::kBadInput, format("{}: key {} names layer {}, which is no delta-net layer",
                                              keys.model().path(), keys.full(kKey), params.layer)};
  }
  return {};
}

Status read_constants(const Keys& keys, const HParams& hp, NgramParams& params) {
  const auto n_heads = static_cast<size_t>((params.size - 1) * params.heads_per_order);
  ASSIGN_OR_RETURN(params.multipliers, read_array(keys, "ple.layer_multipliers", static_cast<size_t>(params.size), 0,
                                                  UINT64_MAX));
  ASSIGN_OR_RETURN(params.head_rows, read_array(keys, "ple.head_vocab_sizes", n_heads, 1, kMaxTableRows));
  ASSIGN_OR_RETURN(params.head_offsets, read_array(keys, "ple.head_offsets", n_heads, 0, kMaxTableRows));
  if (params.multipliers.empty()) params.multipliers = derive_multipliers(params.size, hp.n_vocab);
  if (params.head_rows.empty()) params.head_rows = derive_head_rows(static_cast<int>(n_heads));
  if (!params.head_offsets.empty()) return {};
  uint64_t offset = 0;
  for (const uint64_t rows : params.head_rows) {
    params.head_offsets.push_back(offset);
    offset += rows;
  }
  return {};
}

Status check_table(const Keys& keys, const NgramParams& params) {
  const gguf::Model& model = keys.model();
  const gguf::TensorInfo* table = model.find_tensor(kNgramTable);
  if (table == nullptr) {
    return Error{ErrorCode::kBadInput, format("{}: tensor {} is missing", model.path(), kNgramTable)};
  }
  const auto row_dim = static_cast<uint64_t>(params.row_dim);
  if (table->ne[0] != row_dim || table->ne[1] < params.table_rows() || table->ne[2] != 1 || table->ne[3] != 1) {
    return Error{ErrorCode::kBadInput,
                 format("{}: tensor {} has shape [{}, {}, {}, {}], expected [{}, {} or more] by the keys {}",
                        model.path(), kNgramTable, table->ne[0], table->ne[1], table->ne[2], table->ne[3], row_dim,
                        params.table_rows(), keys.full("ple.*"))};
  }
  if (quant::info(table->type).decode == nullptr) {
    return Error{ErrorCode::kUnsupported, format("{}: tensor {} has type {}, which weights cannot have", model.path(),
                                                 kNgramTable, quant::info(table->type).name)};
  }
  return {};
}

}  // namespace

uint64_t NgramParams::table_rows() const {
  uint64_t rows = 0;
  for (size_t h = 0; h < head_rows.size(); h++) rows = std::max(rows, head_offsets[h] + head_rows[h]);
  return rows;
}

std::vector<uint64_t> derive_multipliers(int size, int64_t n_vocab) {
  const uint64_t half = std::max<uint64_t>(1, static_cast<uint64_t>(INT64_MAX) / static_cast<uint64_t>(n_vocab) / 2);
  std::vector<uint64_t> multipliers;
  for (int i = 0; i < size; i++) {
    multipliers.push_back(2 * (split_mix(kSeed + kGolden * static_cast<uint64_t>(i + 1)) % half) + 1);
  }
  return multipliers;
}

std::vector<uint64_t> derive_head_rows(int n_heads) {
  std::vector<uint64_t> primes;
  for (uint64_t n = kFirstPrime; primes.size() < static_cast<size_t>(n_heads); n++) {
    if (is_prime(n)) primes.push_back(n);
  }
  return primes;
}

Result<NgramParams> read_ngram(const Keys& keys, const HParams& hp) {
  NgramParams params;
  RETURN_IF_ERROR(read_layer(keys, hp, params));
  ASSIGN_OR_RETURN(const int64_t size, keys.require_int("ple.ngram_size", 2, kMaxSize));
  ASSIGN_OR_RETURN(const int64_t heads, keys.require_int("ple.heads_per_ngram", 1, kMaxHeadsPerOrder));
  ASSIGN_OR_RETURN(const int64_t kernel, keys.require_int("ple.conv_kernel", 2, kMaxKernel));
  ASSIGN_OR_RETURN(const int64_t separator, keys.require_int("ple.eos_token_id", 0, INT32_MAX));
  ASSIGN_OR_RETURN(params.row_dim, keys.require_int("embedding_length_per_layer_input", 1, kMaxRowDim));
  params.size = static_cast<int>(size);
  params.heads_per_order = static_cast<int>(heads);
  params.kernel = static_cast<int>(kernel);
  params.separator = static_cast<int32_t>(separator);
  params.channels = hp.hidden_width();
  RETURN_IF_ERROR(read_constants(keys, hp, params));
  RETURN_IF_ERROR(check_table(keys, params));
  return params;
}

void ngram_rows(const NgramParams& params, std::span<const int32_t> ids, std::span<int64_t> rows) {
  ASSERT(rows.size() == params.head_rows.size());
  const auto size = static_cast<size_t>(params.size);
  uint64_t mix = static_cast<uint64_t>(ids.back()) * params.multipliers[0];
  bool cut = false;  // a separator was passed, or the start
  size_t head = 0;
  for (size_t back = 1; back < size; back++) {
    cut = cut || back >= ids.size() || ids[ids.size() - 1 - back] == params.separator;
    const int32_t id = cut ? params.separator : ids[ids.size() - 1 - back];
    mix ^= static_cast<uint64_t>(id) * params.multipliers[back];
    for (int g = 0; g < params.heads_per_order; g++, head++) {
      rows[head] = static_cast<int64_t>(mix % params.head_rows[head] + params.head_offsets[head]);
    }
  }
}

}  // namespace strata::model
