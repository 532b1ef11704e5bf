// Experts that are read from the model's files when they are asked for, past the page cache, into a few stage buffers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/file.h"
#include "base/topology.h"
#include "experts/source.h"
#include "gguf/gguf.h"

namespace strata::experts {

// All references outlive the source.
struct DirectOptions {
  const gguf::Model& model;
  const ExpertLayout& layout;
  FileSystem& files;       // that the model's files are opened in once more
  device::Device& device;  // that the stage buffers come from; the first buffers are allocated by the calling thread,
                           // later ones (see lease_limit) by whoever fetches
  Clock& clock;
  Stats& stats;
  int64_t n_buffers = 64;      // stage buffers, each of the largest blob; at least 1
  bool pin = true;             // page-lock them, where that leaves enough RAM free
  // Reads under way at once; 1 to kReadDepthMax. Reads of a matrix are large: a few fill the drive, and with 32 at once
  // some drives give less than with 16.
  int io_depth = 16;
  int64_t io_timeout_s = 600;  // after which a read fails; > 0
  std::function<Result<uint64_t>()> available_ram = [] { return available_ram_bytes(); };  // asked before page-locking
};

// Streams noted with its leases outlive the source, or are synchronised before they die.
class DirectSource : public ExpertSource {
 public:
  // How files are read and what the buffers are: lines for the start report.
  virtual std::string report() const = 0;
  // After a start-up that leased more experts at once than steps will: nobody holds a lease or calls meanwhile. Waits
  // for reads and copies and gives the additional buffers back.
  virtual void end_start_up() = 0;
  // Buffers there are now.
  virtual int64_t n_buffers() const = 0;
};

// What the buffers of a source take; the reads' alignment is 4 KiB on the usual drives.
uint64_t direct_buffer_bytes(const ExpertLayout& layout, size_t alignment = 4096);

// kIo when a file has changed since the model was opened, so that an expert lies beyond its end; kNoMemory when the
// system does not have the buffers; else what opening a file fails with.
Result<std::unique_ptr<DirectSource>> make_direct_source(const DirectOptions& options);

}  // namespace strata::experts
