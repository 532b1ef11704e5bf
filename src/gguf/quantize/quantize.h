// Writes a model again with its weights in other types. Everything else is copied: metadata, and the tensors that a
// model needs exact.
//
// Memory: a few MiB, whatever the model's size; tensors are read, converted and written in pieces.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/gguf.h"
#include "gguf/quantize/file_types.h"

namespace strata::gguf {

struct QuantizeProgress {
  size_t index = 0;  // of the tensor, from 0
  size_t n_tensors = 0;
  const TensorInfo* tensor = nullptr;
  quant::Type type = quant::Type::F32;  // that it gets
};

struct QuantizeOptions {
  bool pure = false;                            // the base type for every tensor that is quantised
  bool allow_requantize = false;                // also convert tensors that are quantised already
  const std::atomic<bool>* cancel = nullptr;    // asked for between pieces
  std::function<void(const QuantizeProgress&)> progress = nullptr;  // before each tensor, on the calling thread
};

struct QuantizeSummary {
  size_t n_tensors = 0;
  size_t n_converted = 0;
  size_t n_fallbacks = 0;  // whose rows do not fit the type that the mix says
  uint64_t bytes_before = 0, bytes_after = 0;  // of all tensors
};

// Writes one file, `out`, from all files of `model`, as base/output_file.h says: nothing is left of it after a failure.
// kBadInput: `out` is or would replace a file of the model, is a folder, has a name of a split set; a tensor to convert
// is quantised already or holds a value that is not finite. kIo from reading and writing; kCancelled.
Result<QuantizeSummary> quantize(const Model& model, const std::string& out, const FileType& file,
                                 const QuantizeOptions& options, ThreadPool& pool);

}  // namespace strata::gguf
