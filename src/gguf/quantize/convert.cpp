#include "gguf/quantize/convert.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "gguf/encoding.h"
#include "quant/encode.h"

namespace strata::gguf {
namespace {

constexpr uint64_t kPieceElems = uint64_t{1} << 20;  // read, converted and written together
constexpr size_t kRunElems = 4096;                   // that a worker takes at once; a multiple of every block

// The first value that is infinite or NaN; n when there is none.
size_t first_not_finite(const float* values, size_t n) {
  constexpr uint32_t kExponent = 0x7F800000;
  size_t count = 0;  // counted rather than returned at once, so that it is done in vectors
  for (size_t i = 0; i < n; i++) count += (load_le<uint32_t>(values + i) & kExponent) == kExponent;
  if (count == 0) return n;
  size_t i = 0;
  while ((load_le<uint32_t>(values + i) & kExponent) != kExponent) i++;
  return i;
}

void lower_to(std::atomic<size_t>& least, size_t value) {
  size_t seen = least.load(std::memory_order_relaxed);
  while (value < seen && !least.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

Converter::Converter(const Model& model, ThreadPool& pool, const std::atomic<bool>* cancel)
    : model_(model), pool_(pool), cancel_(cancel), values_(static_cast<size_t>(pool.n_threads()) * kRunElems) {}

Status Converter::check_cancelled() const {
  if (cancel_ == nullptr || !cancel_->load(std::memory_order_relaxed)) return {};
  return Error{ErrorCode::kCancelled, "interrupted; nothing was written"};
}

Status Converter::copy(const TensorInfo& tensor, const Writer::Sink& sink) {
  constexpr uint64_t kBytes = kPieceElems * sizeof(float);
  for (uint64_t begin = 0; begin < tensor.bytes; begin += kBytes) {
    RETURN_IF_ERROR(check_cancelled());
    source_.resize(std::min(kBytes, tensor.bytes - begin));
    RETURN_IF_ERROR(model_.read(tensor, begin, source_));
    RETURN_IF_ERROR(sink(source_));
  }
  return {};
}

Status Converter::convert(const TensorInfo& tensor, quant::Type to, const Writer::Sink& sink) {
  const quant::TypeInfo& from = quant::info(tensor.type);
  for (uint64_t begin = 0; begin < tensor.n_elements; begin += kPieceElems) {
    RETURN_IF_ERROR(check_cancelled());
    const size_t n = std::min(kPieceElems, tensor.n_elements - begin);
    source_.resize(quant::row_bytes(from.type, n));
    target_.resize(quant::row_bytes(to, n));
    RETURN_IF_ERROR(model_.read(tensor, quant::row_bytes(from.type, begin), source_));
    const size_t bad = convert_piece(from, quant::info(to), n);
    if (bad < n) {
      return Error{ErrorCode::kBadInput,
                   format("{}: tensor '{}' cannot be quantised, its value {} is infinite or not a number",
                          printable(model_.shards()[static_cast<size_t>(tensor.shard)].path, kMaxPathPrinted),
                          printable(tensor.name), begin + bad)};
    }
    RETURN_IF_ERROR(sink(target_));
  }
  return {};
}

size_t Converter::convert_piece(const quant::TypeInfo& from, const quant::TypeInfo& to, size_t n) {
  const quant::EncodeFn encode = quant::find_encoder(to.type);
  ASSERT(from.decode != nullptr && encode != nullptr);
  const auto* source = reinterpret_cast<const uint8_t*>(source_.data());
  auto* target = reinterpret_cast<uint8_t*>(target_.data());
  std::atomic<size_t> bad{n};
  const auto n_runs = static_cast<int64_t>((n + kRunElems - 1) / kRunElems);
  pool_.for_each(n_runs, 1, [&](int64_t begin, int64_t end, int worker) {
    float* values = values_.data() + static_cast<size_t>(worker) * kRunElems;
    for (int64_t run = begin; run < end; run++) {
      const size_t first = static_cast<size_t>(run) * kRunElems;
      const size_t count = std::min(kRunElems, n - first);
      from.decode(source + quant::row_bytes(from.type, first), values, count);
      const size_t bad_here = first_not_finite(values, count);
      if (bad_here < count) return lower_to(bad, first + bad_here);
      encode(values, target + quant::row_bytes(to.type, first), count);
    }
  });
  return bad.load();
}

}  // namespace strata::gguf
