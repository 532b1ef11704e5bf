// Rows of a table that is far larger than what a step reads of it: where they are read from. tables/ has a file for
// each place, tables/registry.cpp the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/stats.h"
#include "device/device.h"
#include "gguf/gguf.h"

namespace strata::model {

// All references outlive the table.
struct TableSpec {
  const gguf::Model& model;
  const gguf::TensorInfo& tensor;  // of the model, [values of a row][rows]
  device::Device& device;          // that host memory comes from
  FileSystem& files;               // that the tensor's file is opened in once more, where it is read past the cache
  Clock& clock;
  Stats& stats;
  int64_t io_timeout_s = 600;  // after which a read fails; > 0
  int64_t max_rows = 1;        // of one want()
};

// want() and take() are called by one thread at a time. What a row's bytes are is never left open: they are those of
// the file, or the row has failed.
class RowTable {
 public:
  virtual ~RowTable() = default;
  // Begins to bring these rows, distinct ones, each once, and returns at once; forgets those that were wanted before.
  virtual void want(std::span<const int64_t> rows) = 0;
  // Copies the bytes of row i of those that are wanted, waiting for them; called for each i at most once, in ascending
  // order. kIo names the file; other rows are not the worse for it.
  virtual Status take(size_t i, std::span<std::byte> to) = 0;
  // How it is read, for people; may be empty.
  virtual std::string report() const = 0;
};

// A place that rows are read from.
struct TableKind {
  const char* name;
  // kNoMemory where RAM lacks, kIo where the file has changed since the model was opened; else what opening it fails
  // with.
  Result<std::unique_ptr<RowTable>> (*open)(const TableSpec& spec);
  // Host memory that open() takes.
  uint64_t (*bytes_needed)(const gguf::TensorInfo& tensor, int64_t max_rows);
};

extern const TableKind kDirectTable;  // read when they are asked for, past the page cache
extern const TableKind kRamTable;     // copied to RAM at start
extern const TableKind kMappedTable;  // the file's pages, through the page cache

// Null for a name that no kind has.
const TableKind* find_table_kind(std::string_view name);

}  // namespace strata::model
