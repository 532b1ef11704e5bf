// The data of one tensor in another type.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"

namespace strata::gguf {

// Buffers for one tensor after another. One thread; the work is shared out over the pool.
class Converter {
 public:
  // `cancel`: null, or asked between pieces.
  Converter(const Model& model, ThreadPool& pool, const std::atomic<bool>* cancel);

  // Appends the tensor's bytes as they are.
  Status copy(const TensorInfo& tensor, const Writer::Sink& sink);
  // Appends the tensor in type `to`, whose blocks fit its rows. kBadInput names the first value that is not finite.
  Status convert(const TensorInfo& tensor, quant::Type to, const Writer::Sink& sink);

 private:
  Status check_cancelled() const;
  // target_ from source_; the index of the first value that is not finite, or n.
  size_t convert_piece(const quant::TypeInfo& from, const quant::TypeInfo& to, size_t n);

  const Model& model_;
  ThreadPool& pool_;
  const std::atomic<bool>* cancel_;
  std::vector<std::byte> source_, target_;
  std::vector<float> values_;  // kRunElems for each worker
};

}  // namespace strata::gguf
