// Reads many blobs from the model's files into RAM, as fast as the drive gives them.
#pragma once

#include <span>

#include "base/stats.h"
#include "base/thread_pool.h"
#include "experts/expert.h"
#include "gguf/gguf.h"

namespace strata::experts {

struct BlobTarget {
  ExpertKey key;
  std::byte* to;  // part i of the blob goes to LayerLayout::part_offset(i) from here
};

// Fills every target, with the threads of the pool, in the order of the files. What lies together in a file is one
// read, up to kLoadBufferBytes; each thread that reads so takes a buffer of that size until the end of the call. kIo
// names the file and offset of a failed read; targets are unspecified then.
Status load_blobs(const gguf::Model& model, const ExpertLayout& layout, std::span<const BlobTarget> targets,
                  ThreadPool& pool, Stats& stats);

// Reads of one MiB and more get from several threads what a drive can give; of smaller ones it serves fewer bytes.
inline constexpr size_t kLoadBufferBytes = size_t{1} << 20;

}  // namespace strata::experts
