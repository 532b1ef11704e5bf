// Recorded routings: which experts every token of a text was sent to, in a file that policies are measured on.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/output_file.h"
#include "experts/routing.h"

namespace strata::experts {

// No expert: of the layers that have none.
inline constexpr uint16_t kNoExpert = 0xffff;
inline constexpr std::string_view kRoutingMagic = "STRAROUT";

// Rows that were computed together: ids [n_layers][n_rows][n_used].
struct RoutingBlock {
  int64_t n_rows = 0;
  int64_t n_used = 0;
  std::vector<uint16_t> ids;

  std::span<const uint16_t> row(int32_t layer, int64_t r) const {
    const size_t first = (static_cast<size_t>(layer) * static_cast<size_t>(n_rows) + static_cast<size_t>(r)) *
                         static_cast<size_t>(n_used);
    return std::span(ids).subspan(first, static_cast<size_t>(n_used));
  }
};

// Writes what it hears. The file (docs/FORMATS.md) appears under its name with commit().
class RoutingRecorder final : public RoutingObserver {
 public:
  // `max_rows` of a step; `last_layer` is the last one that has experts.
  RoutingRecorder(RoutedModel model, int64_t n_used, int64_t max_rows, std::string path);
  Status open();
  void routed(int32_t layer, const device::In<int32_t>& ids) override;
  // After a step that succeeded: its rows go to the file.
  Status write_step();
  Status commit() { return file_.commit(); }
  int64_t n_rows() const { return n_rows_; }  // written

 private:
  RoutedModel model_;
  int64_t n_used_;
  OutputFile file_;
  RoutingBlock block_;
  int64_t n_rows_ = 0;
};

// Whether a file begins as recordings do.
Result<bool> is_recording(FileSystem& files, const std::string& path);

// Reads one block after another. Whatever the file says, it neither crashes nor allocates more than the file's size.
class RoutingReader {
 public:
  // kBadInput names the file and what is wrong with its header.
  static Result<std::unique_ptr<RoutingReader>> open(FileSystem& files, const std::string& path);

  const RoutedModel& model() const { return model_; }
  int64_t n_used() const { return n_used_; }
  // False at the end of the file. kBadInput for a block that is cut off or names what the model does not have.
  Result<bool> next(RoutingBlock& block);

 private:
  explicit RoutingReader(std::unique_ptr<File> file) : file_(std::move(file)) {}
  Status read_header();
  Error damaged(const std::string& what) const;

  std::unique_ptr<File> file_;
  uint64_t offset_ = 0;
  RoutedModel model_;
  int64_t n_used_ = 0;
};

}  // namespace strata::experts
