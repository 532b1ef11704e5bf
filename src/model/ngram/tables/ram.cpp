// The whole table in RAM, as its bytes stand in the file.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/activity.h"
#include "base/bytes.h"
#include "base/format.h"
#include "model/ngram/table.h"

namespace strata::model {
namespace {

constexpr uint64_t kReadBytes = 16 * kMiB;

class RamTable final : public RowTable {
 public:
  static Result<std::unique_ptr<RowTable>> open(const TableSpec& spec) {
    auto table = std::make_unique<RamTable>();
    const gguf::TensorInfo& tensor = spec.tensor;
    table->row_bytes_ = tensor.row_bytes;
    table->rows_.reserve(static_cast<size_t>(spec.max_rows));
    ASSIGN_OR_RETURN(table->bytes_, spec.device.allocate_host(tensor.bytes, device::MemoryKind::kPageable,
                                                              format("the table {}", tensor.name)));
    for (uint64_t at = 0; at < tensor.bytes; at += kReadBytes) {
      const auto to = table->bytes_->write<std::byte>(at, std::min(kReadBytes, tensor.bytes - at));
      RETURN_IF_ERROR(spec.model.read(tensor, at, to.span()));
      note_progress();
    }
    return std::unique_ptr<RowTable>(std::move(table));
  }

  void want(std::span<const int64_t> rows) override { rows_.assign(rows.begin(), rows.end()); }
  Status take(size_t i, std::span<std::byte> to) override {
    const auto row = bytes_->read<std::byte>(static_cast<size_t>(rows_[i]) * row_bytes_, row_bytes_);
    std::memcpy(to.data(), row.span().data(), row_bytes_);
    return {};
  }
  std::string report() const override { return format("in RAM, {}", format_bytes(bytes_->bytes())); }

 private:
  size_t row_bytes_ = 0;
  std::unique_ptr<device::HostBuffer> bytes_;
  std::vector<int64_t> rows_;  // that are wanted
};

}  // namespace

const TableKind kRamTable{"ram", RamTable::open,
                          [](const gguf::TensorInfo& tensor, int64_t) -> uint64_t { return tensor.bytes; }};

}  // namespace strata::model
