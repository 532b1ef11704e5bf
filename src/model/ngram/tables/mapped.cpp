// The pages of the table's file, mapped read-only: RAM only as far as the system keeps them.
#include <cstring>
#include <vector>

#include "base/format.h"
#include "model/ngram/table.h"

namespace strata::model {
namespace {

class MappedTable final : public RowTable {
 public:
  static Result<std::unique_ptr<RowTable>> open(const TableSpec& spec) {
    auto table = std::make_unique<MappedTable>();
    const gguf::Shard& shard = spec.model.shards()[static_cast<size_t>(spec.tensor.shard)];
    ASSIGN_OR_RETURN(table->mapping_, shard.file->map());
    if (table->mapping_->bytes().size() < shard.file_bytes) {
      return Error{ErrorCode::kIo, format("{}: the file shrank from {} to {} bytes while it was opened", shard.path,
                                          shard.file_bytes, table->mapping_->bytes().size())};
    }
    table->path_ = shard.path;
    table->begin_ = spec.tensor.file_offset;
    table->row_bytes_ = spec.tensor.row_bytes;
    table->rows_.reserve(static_cast<size_t>(spec.max_rows));
    return std::unique_ptr<RowTable>(std::move(table));
  }

  // Their pages are on their way before the first of them is touched.
  void want(std::span<const int64_t> rows) override {
    rows_.assign(rows.begin(), rows.end());
    for (const int64_t row : rows_) mapping_->will_need(offset_of(row), row_bytes_);
  }
  // The mark is looked at after the bytes: a page that is lost while they are copied has left zeros among them.
  Status take(size_t i, std::span<std::byte> to) override {
    std::memcpy(to.data(), mapping_->bytes().data() + offset_of(rows_[i]), row_bytes_);
    if (!mapping_->failed()) return {};
    return Error{ErrorCode::kIo, format("{}: the file was cut or became unreadable while its pages were in use; "
                                        "restore it and start again",
                                        path_)};
  }
  std::string report() const override { return "in mapped pages of the file"; }

 private:
  size_t offset_of(int64_t row) const { return begin_ + static_cast<size_t>(row) * row_bytes_; }
  std::unique_ptr<Mapping> mapping_;
  std::string path_;
  size_t begin_ = 0, row_bytes_ = 0;
  std::vector<int64_t> rows_;  // that are wanted
};

}  // namespace

const TableKind kMappedTable{"mapped", MappedTable::open,
                             [](const gguf::TensorInfo&, int64_t) -> uint64_t { return 0; }};

}  // namespace strata::model
