#include "experts/routing_file.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/format.h"

namespace strata::experts {
namespace {

constexpr uint32_t kVersion = 1;
constexpr int64_t kMaxUsed = 1024;
constexpr int64_t kMaxBlockRows = 1 << 16;

// What a file begins with; the model's name follows.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t n_layers;
  uint32_t n_experts;
  uint32_t n_used;
  uint32_t name_bytes;
};
static_assert(sizeof(Header) == 28);

}  // namespace

RoutingRecorder::RoutingRecorder(RoutedModel model, int64_t n_used, int64_t max_rows, std::string path)
    : model_(std::move(model)), n_used_(n_used), file_(std::move(path)) {
  block_.n_used = n_used;
  block_.ids.reserve(static_cast<size_t>(model_.n_layers * max_rows * n_used));
}

Status RoutingRecorder::open() {
  RETURN_IF_ERROR(file_.open());
  Header header{.magic = {},
                .version = kVersion,
                .n_layers = static_cast<uint32_t>(model_.n_layers),
                .n_experts = static_cast<uint32_t>(model_.n_experts),
                .n_used = static_cast<uint32_t>(n_used_),
                .name_bytes = static_cast<uint32_t>(model_.name.size())};
  std::memcpy(header.magic, kRoutingMagic.data(), sizeof header.magic);
  RETURN_IF_ERROR(file_.append(std::as_bytes(std::span(&header, 1))));
  return file_.append(std::as_bytes(std::span(model_.name)));
}

void RoutingRecorder::routed(int32_t layer, const device::In<int32_t>& ids) {
  ASSERT(ids.cols == n_used_);
  const auto layer_ids = static_cast<size_t>(ids.rows * n_used_);
  // What a step left that failed is overwritten by the next one, which may have another number of rows.
  if (layer == 0 || block_.n_rows != ids.rows) {
    block_.n_rows = ids.rows;
    block_.ids.assign(static_cast<size_t>(model_.n_layers) * layer_ids, kNoExpert);
  }
  uint16_t* to = block_.ids.data() + static_cast<size_t>(layer) * layer_ids;
  for (int64_t r = 0; r < ids.rows; r++) {
    for (int64_t j = 0; j < n_used_; j++) *to++ = static_cast<uint16_t>(ids.row(r)[j]);
  }
}

Status RoutingRecorder::write_step() {
  if (block_.n_rows == 0) return {};
  const auto n_rows = static_cast<uint32_t>(block_.n_rows);
  RETURN_IF_ERROR(file_.append(std::as_bytes(std::span(&n_rows, 1))));
  RETURN_IF_ERROR(file_.append(std::as_bytes(std::span(block_.ids))));
  n_rows_ += std::exchange(block_.n_rows, 0);
  return {};
}

Result<bool> is_recording(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, files.open(path));
  std::string begin(kRoutingMagic.size(), '\0');
  if (file->size() < begin.size()) return false;
  RETURN_IF_ERROR(file->read_exact(0, std::as_writable_bytes(std::span(begin))));
  return begin == kRoutingMagic;
}

Result<std::unique_ptr<RoutingReader>> RoutingReader::open(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(auto file, files.open(path));
  std::unique_ptr<RoutingReader> reader(new RoutingReader(std::move(file)));
  RETURN_IF_ERROR(reader->read_header());
  return reader;
}

Error RoutingReader::damaged(const std::string& what) const {
  return {ErrorCode::kBadInput, format("{}: not a recording of routings, or a damaged one: {}; record it anew with "
                                       "strata profile record",
                                       printable(file_->path()), what)};
}

Status RoutingReader::read_header() {
  Header header{};
  if (file_->size() < sizeof header) return damaged("it is too short");
  RETURN_IF_ERROR(file_->read_exact(0, std::as_writable_bytes(std::span(&header, 1))));
  const std::string_view magic(header.magic, sizeof header.magic);
  if (magic != kRoutingMagic) return damaged("its first bytes are others");
  if (header.version != kVersion) return damaged(format("its version is {}, not {}", header.version, kVersion));
  if (header.name_bytes > kMaxRoutedNameBytes || header.name_bytes > file_->size() - sizeof header) {
    return damaged(format("a name of {} bytes", header.name_bytes));
  }
  if (header.n_layers > kMaxRoutedLayers || header.n_experts > kMaxRoutedExperts || header.n_used < 1 ||
      header.n_used > kMaxUsed || header.n_used > header.n_experts) {
    return damaged(format("{} layers, {} experts, {} of them used", header.n_layers, header.n_experts, header.n_used));
  }
  model_.name.resize(header.name_bytes);
  RETURN_IF_ERROR(file_->read_exact(sizeof header, std::as_writable_bytes(std::span(model_.name))));
  model_.n_layers = static_cast<int32_t>(header.n_layers);
  model_.n_experts = static_cast<int32_t>(header.n_experts);
  n_used_ = header.n_used;
  offset_ = sizeof header + header.name_bytes;
  return check_routed_model(model_, file_->path());
}

Result<bool> RoutingReader::next(RoutingBlock& block) {
  if (offset_ == file_->size()) return false;
  uint32_t n_rows = 0;
  if (file_->size() - offset_ < sizeof n_rows) return damaged(format("it ends inside the block at {}", offset_));
  RETURN_IF_ERROR(file_->read_exact(offset_, std::as_writable_bytes(std::span(&n_rows, 1))));
  // None of the factors is large: the product fits.
  const uint64_t bytes = uint64_t{n_rows} * static_cast<uint64_t>(model_.n_layers * n_used_) * sizeof(uint16_t);
  if (n_rows < 1 || n_rows > kMaxBlockRows || bytes > file_->size() - offset_ - sizeof n_rows) {
    return damaged(format("the block at {} of {} rows does not fit into it", offset_, n_rows));
  }
  block.n_rows = n_rows;
  block.n_used = n_used_;
  block.ids.resize(bytes / sizeof(uint16_t));
  RETURN_IF_ERROR(file_->read_exact(offset_ + sizeof n_rows, std::as_writable_bytes(std::span(block.ids))));
  for (const uint16_t id : block.ids) {
    if (id != kNoExpert && id >= model_.n_experts) return damaged(format("expert {} in the block at {}", id, offset_));
  }
  offset_ += sizeof n_rows + bytes;
  return true;
}

}  // namespace strata::experts
