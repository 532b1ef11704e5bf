// A table of rows that tell their numbers, in a file in memory.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file_sim.h"
#include "base/stepped_clock.h"
#include "device/support.h"
#include "gguf/gguf_builder.h"
#include "model/ngram/ngram.h"
#include "model/ngram/table.h"
#include "model/range_faults.h"

namespace strata::test {

// Rows of 40 float32 values, 160 bytes: most blocks of 4 KiB hold parts of two at their borders.
inline constexpr int64_t kRowDim = 40;
inline constexpr size_t kRowBytes = kRowDim * sizeof(float);
inline float row_value(int64_t row, int64_t i) { return static_cast<float>(row) + static_cast<float>(i) / 64; }

inline std::vector<std::byte> table_file(int64_t n_rows) {
  std::vector<float> values;
  for (int64_t r = 0; r < n_rows; r++) {
    for (int64_t i = 0; i < kRowDim; i++) values.push_back(row_value(r, i));
  }
  std::vector<std::byte> data(values.size() * sizeof(float));
  std::memcpy(data.data(), values.data(), data.size());
  GgufBuilder builder;
  builder.tensor({.name = model::kNgramTable, .ne = {kRowDim, static_cast<uint64_t>(n_rows)}, .data = std::move(data)});
  return builder.bytes();
}

class TableRig {
 public:
  explicit TableRig(int64_t n_rows, std::string path = "/models/table.gguf") {
    memory_files.add_file(path, table_file(n_rows));
    open_model(memory_files, path);
  }
  // Of a file of the system.
  TableRig(FileSystem& files, const std::string& path) { open_model(files, path); }

  model::TableSpec spec(int64_t max_rows, FileSystem& files, Clock& clock = real_clock()) {
    return {.model = *model,
            .tensor = *tensor,
            .device = device,
            .files = files,
            .clock = clock,
            .stats = stats,
            .io_timeout_s = 60,
            .max_rows = max_rows};
  }
  model::TableSpec spec(int64_t max_rows) { return spec(max_rows, memory_files); }
  // Position in the file.
  uint64_t offset(int64_t row) const { return tensor->file_offset + static_cast<uint64_t>(row) * kRowBytes; }

  static bool right(std::span<const std::byte> bytes, int64_t row) {
    float values[kRowDim];
    std::memcpy(values, bytes.data(), sizeof values);
    for (int64_t i = 0; i < kRowDim; i++) {
      if (values[i] != row_value(row, i)) return false;
    }
    return true;
  }
  // Takes all of `rows`, which were wanted. The places whose rows did not come; the others are right.
  static std::vector<size_t> failed(model::RowTable& table, const std::vector<int64_t>& rows,
                                    std::string* message = nullptr) {
    std::vector<size_t> places;
    std::vector<std::byte> bytes(kRowBytes);
    for (size_t i = 0; i < rows.size(); i++) {
      const Status status = table.take(i, bytes);
      if (status.ok()) {
        EXPECT_TRUE(right(bytes, rows[i])) << "row " << rows[i];
      } else {
        EXPECT_EQ(status.error().code, ErrorCode::kIo);
        if (message != nullptr) *message = status.error().message;
        places.push_back(i);
      }
    }
    return places;
  }

  MemoryFileSystem memory_files;
  device::host::HostDevice device{host_options()};
  Stats stats;
  std::unique_ptr<gguf::Model> model;
  const gguf::TensorInfo* tensor = nullptr;

 private:
  void open_model(FileSystem& files, const std::string& path) {
    model = gguf::Model::open(path, files).value();
    tensor = model->find_tensor(model::kNgramTable);
  }
};

}  // namespace strata::test
