#include "model/weights.h"

#include <algorithm>
#include <cstring>

#include "base/activity.h"
#include "base/bytes.h"
#include "base/format.h"

namespace strata::model {
namespace {

constexpr size_t kSlabBytes = 4 * kMiB;
constexpr size_t kSmallTensor = kMiB;
constexpr size_t kAlignment = 64;
constexpr size_t kUploadPiece = 4 * kMiB;

}  // namespace

Result<device::Memory*> WeightLoader::new_buffer(size_t bytes, const std::string& name) {
  allocated_bytes_ += bytes;
  if (measures()) {
    // Weights without memory would count as absent.
    static device::Memory nowhere(nullptr, device::MemoryKind::kDevice, "measured", nullptr, 0);
    return &nowhere;
  }
  ASSIGN_OR_RETURN(auto buffer, device_->allocate(bytes, name));
  buffers_.push_back(std::move(buffer));
  return buffers_.back().get();
}

Result<WeightLoader::Place> WeightLoader::allocate(size_t bytes, const std::string& name) {
  tensor_bytes_ += align_up(bytes, kAlignment);
  if (bytes > kSmallTensor) {
    ASSIGN_OR_RETURN(device::Memory * memory, new_buffer(bytes, name));
    return Place{memory, 0};
  }
  if (slab_ == nullptr || slab_used_ + bytes > kSlabBytes) {
    ASSIGN_OR_RETURN(slab_, new_buffer(kSlabBytes, "small weights"));
    slab_used_ = 0;
  }
  const Place place{slab_, slab_used_};
  slab_used_ = align_up(slab_used_ + bytes, kAlignment);
  return place;
}

Status WeightLoader::put(const Place& place, size_t offset, size_t bytes, const ReadBytes& read) {
  if (measures()) return {};
  if (!uploader_ && !device_->host_accessible()) {
    ASSIGN_OR_RETURN(uploader_, device::Uploader::create(*device_, *stream_, kUploadPiece, "weights on their way"));
  }
  for (size_t at = 0; at < bytes; at += kUploadPiece) {
    const size_t n = std::min(kUploadPiece, bytes - at);
    if (device_->host_accessible()) {
      RETURN_IF_ERROR(read(at, {place.memory->address() + place.offset + offset + at, n}));
    } else {
      const auto read_piece = [&](std::span<std::byte> to) { return read(at, to); };
      RETURN_IF_ERROR(uploader_->put(*place.memory, place.offset + offset + at, n, read_piece));
    }
    note_progress();
  }
  return {};
}

uint64_t WeightLoader::host_bytes_needed() { return device::Uploader::bytes_needed(kUploadPiece); }

Status WeightLoader::finish() {
  const Activity activity("waits for the device");
  RETURN_IF_ERROR(stream_->synchronize());
  uploader_.reset();
  return {};
}

Result<const gguf::TensorInfo*> WeightLoader::find(const std::string& name, uint64_t ne0, uint64_t ne1,
                                                   uint64_t ne2) const {
  const gguf::TensorInfo* t = model_.find_tensor(name);
  if (t == nullptr) return Error{ErrorCode::kBadInput, format("{}: tensor {} is missing", model_.path(), name)};
  if (t->ne[0] != ne0 || t->ne[1] != ne1 || t->ne[2] != ne2 || t->ne[3] != 1) {
    const std::string expected = ne2 == 1 ? format("[{}, {}]", ne0, ne1) : format("[{}, {}, {}]", ne0, ne1, ne2);
    return Error{ErrorCode::kBadInput, format("{}: tensor {} has shape [{}, {}, {}, {}], expected {}", model_.path(),
                                              name, t->ne[0], t->ne[1], t->ne[2], t->ne[3], expected)};
  }
  if (quant::info(t->type).decode == nullptr) {
    return Error{ErrorCode::kUnsupported, format("{}: tensor {} has type {}, which weights cannot have", model_.path(),
                                                 name, quant::info(t->type).name)};
  }
  if (asks_) model_.will_need(*t);
  return t;
}

Result<device::Weight> WeightLoader::matrix(const std::string& name, int64_t cols, int64_t rows) {
  ASSIGN_OR_RETURN(const gguf::TensorInfo* t, find(name, static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)));
  return whole_matrix(*t);
}

Result<device::Weight> WeightLoader::head_matrices(const std::string& name, int64_t cols, int64_t rows, int64_t n) {
  ASSIGN_OR_RETURN(const gguf::TensorInfo* t, find(name, static_cast<uint64_t>(cols), static_cast<uint64_t>(rows),
                                                   static_cast<uint64_t>(n)));
  return whole_matrix(*t);
}

Result<device::Weight> WeightLoader::whole_matrix(const gguf::TensorInfo& t) {
  ASSIGN_OR_RETURN(const Place place, allocate(t.bytes, t.name));
  RETURN_IF_ERROR(put(place, 0, t.bytes, [&](size_t at, std::span<std::byte> to) { return model_.read(t, at, to); }));
  return device::Weight{.memory = place.memory,
                        .offset = place.offset,
                        .type = t.type,
                        .rows = static_cast<int64_t>(t.ne[1] * t.ne[2]),
                        .cols = static_cast<int64_t>(t.ne[0]),
                        .row_bytes = t.row_bytes,
                        .rounding = rounding(t.type)};
}

Result<device::Weight> WeightLoader::matrix_rows(const std::string& name, int64_t cols, int64_t rows,
                                                 const std::vector<int64_t>& order) {
  ASSIGN_OR_RETURN(const gguf::TensorInfo* t, find(name, static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)));
  const int64_t n = static_cast<int64_t>(order.size());
  ASSIGN_OR_RETURN(const Place place, allocate(t->row_bytes * order.size(), name));
  for (int64_t i = 0; i < n && !measures();) {
    int64_t run = 1;  // rows that stand side by side in both orders are read at once
    while (i + run < n && order[static_cast<size_t>(i + run)] == order[static_cast<size_t>(i)] + run) run++;
    const uint64_t first = static_cast<uint64_t>(order[static_cast<size_t>(i)]) * t->row_bytes;
    RETURN_IF_ERROR(put(place, static_cast<size_t>(i) * t->row_bytes, static_cast<size_t>(run) * t->row_bytes,
                        [&](size_t at, std::span<std::byte> to) { return model_.read(*t, first + at, to); }));
    i += run;
  }
  return device::Weight{place.memory, place.offset, t->type, n, cols, t->row_bytes, rounding(t->type)};
}

Result<std::vector<float>> WeightLoader::values(const std::string& name, int64_t cols, int64_t rows) {
  ASSIGN_OR_RETURN(const gguf::TensorInfo* t, find(name, static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)));
  std::vector<float> values(t->n_elements, 1.0f);
  if (measures()) return values;
  std::vector<std::byte> bytes(t->bytes);
  RETURN_IF_ERROR(model_.read(*t, 0, bytes));
  quant::info(t->type).decode(reinterpret_cast<const uint8_t*>(bytes.data()), values.data(), values.size());
  return values;
}

Result<device::In<float>> WeightLoader::float_rows(const std::string& name, int64_t cols, int64_t rows) {
  ASSIGN_OR_RETURN(const std::vector<float> read, values(name, cols, rows));
  return constant(name, read);
}

Result<device::In<float>> WeightLoader::optional_vector(const std::string& name, int64_t n) {
  if (!has(name)) return device::In<float>{};
  return vector(name, n);
}

Result<device::In<float>> WeightLoader::constant(const std::string& name, const std::vector<float>& values) {
  ASSIGN_OR_RETURN(const Place place, allocate(values.size() * sizeof(float), name));
  const auto copy = [&](size_t at, std::span<std::byte> to) -> Status {
    std::memcpy(to.data(), reinterpret_cast<const std::byte*>(values.data()) + at, to.size());
    return {};
  };
  RETURN_IF_ERROR(put(place, 0, values.size() * sizeof(float), copy));
  const int64_t n = static_cast<int64_t>(values.size());
  return device::In<float>(device::View<float>{place.memory, place.offset, 1, n, n});
}

}  // namespace strata::model
