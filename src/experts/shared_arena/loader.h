// Fills an arena file that this engine has to itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/stats.h"
#include "base/thread_pool.h"
#include "experts/expert.h"
#include "experts/shared_arena/identity.h"
#include "gguf/gguf.h"

namespace strata::experts::shared_arena {

struct LoadSpec {
  SharedFile& file;  // with FILL, and USER exclusively
  const Identity& identity;
  const gguf::Model& model;
  const ExpertLayout& layout;
  ThreadPool& threads;
  Stats& stats;
};

class Loader {
 public:
  explicit Loader(const LoadSpec& spec) : spec_(spec) {}

  // Takes all memory, writes the header and the payload, and makes the payload read-only. kNoMemory names needed and
  // available bytes; kIo file and offset of a failed read, or that the file was changed meanwhile.
  Status load();
  // After a load() that went well. The last write.
  Status publish();

  uint64_t checksum() const { return checksum_; }
  SharedFile::Size published() const { return published_; }  // the file, as it is to stay
  std::unique_ptr<Mapping> take_payload() { return std::move(payload_); }

 private:
  Status check_room() const;
  // Whether the file has all its memory.
  Result<bool> is_whole() const;
  Status allocate();
  Status open_header();
  void populate();
  Status load_layer(int32_t l);
  void hash_layer(int32_t l);
  std::byte* blob(ExpertKey key);

  LoadSpec spec_;
  std::unique_ptr<WritableMapping> page_;  // the header's
  std::unique_ptr<WritableMapping> payload_;
  std::optional<HeaderWriter> header_;
  std::vector<uint64_t> blob_checksums_;  // [all experts]
  uint64_t checksum_ = 0;
  SharedFile::Size published_;
};

}  // namespace strata::experts::shared_arena
