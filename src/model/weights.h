// Loads a part's tensors into its device's memory.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "device/uploader.h"
#include "device/view.h"
#include "device/weight.h"
#include "gguf/gguf.h"

namespace strata::model {

// Owns the memory of the weights it loaded; must outlive their use. Every shape is compared with what the file has
// (missing dimensions count as 1); errors name file, tensor, found and expected. A measuring loader checks and counts
// the same way, but allocates and reads nothing: its weights are for their shapes only. An asking one does so too, and
// asks the system to begin to read what a loading one will read.
class WeightLoader {
 public:
  // `round_activations`: products with matrices whose type has integer products use those. Where the host cannot read
  // the device's memory, bytes go there through pinned buffers, in the order of `stream`.
  WeightLoader(const gguf::Model& model, device::Device& device, device::Stream& stream, bool round_activations)
      : model_(model), device_(&device), stream_(&stream), round_activations_(round_activations) {}
  static WeightLoader measuring(const gguf::Model& model) { return WeightLoader(model, false); }
  static WeightLoader asking(const gguf::Model& model) { return WeightLoader(model, true); }

  // A matrix of any float or block type, as its bytes stand in the file.
  Result<device::Weight> matrix(const std::string& name, int64_t cols, int64_t rows);
  // The matrices of n heads in one tensor of three dimensions, one after another.
  Result<device::Weight> head_matrices(const std::string& name, int64_t cols, int64_t rows, int64_t n);
  // Its rows in another order: row i of the result is row order[i] of the tensor, whose rows number is `rows`.
  Result<device::Weight> matrix_rows(const std::string& name, int64_t cols, int64_t rows,
                                     const std::vector<int64_t>& order);
  // n values as float32, whatever type they have in the file.
  Result<device::In<float>> vector(const std::string& name, int64_t n) { return float_rows(name, n, 1); }
  // rows x cols values as float32, packed.
  Result<device::In<float>> float_rows(const std::string& name, int64_t cols, int64_t rows);
  // The same on the host; measuring, ones.
  Result<std::vector<float>> values(const std::string& name, int64_t cols, int64_t rows = 1);
  // vector(); an empty view when the file has no such tensor.
  Result<device::In<float>> optional_vector(const std::string& name, int64_t n);
  // float32 values that the program made itself.
  Result<device::In<float>> constant(const std::string& name, const std::vector<float>& values);

  bool has(const std::string& name) const { return model_.find_tensor(name) != nullptr; }
  const gguf::Model& model() const { return model_; }
  // Device memory taken (or, measuring, needed): tensors and the slabs that small ones share.
  uint64_t allocated_bytes() const { return allocated_bytes_; }
  // The same without the room in slabs that no tensor has.
  uint64_t tensor_bytes() const { return tensor_bytes_; }
  // Host memory that loading takes on a device whose memory the host cannot read, until finish().
  static uint64_t host_bytes_needed();
  // Waits until everything is in place, and gives the pinned buffers back. Nothing is loaded afterwards.
  Status finish();

 private:
  WeightLoader(const gguf::Model& model, bool asks) : model_(model), asks_(asks) {}
  struct Place {
    device::Memory* memory;
    size_t offset;
  };
  bool measures() const { return device_ == nullptr; }
  device::Rounding rounding(quant::Type type) const {
    const bool rounds = round_activations_ && kernels::act_format(type) != kernels::ActFormat::kNone;
    return rounds ? device::Rounding::kOnce : device::Rounding::kNone;
  }
  Result<Place> allocate(size_t bytes, const std::string& name);
  Result<device::Memory*> new_buffer(size_t bytes, const std::string& name);
  // Puts `bytes` bytes to a place (`offset` bytes into it): read(at, to) gives those from `at` on.
  using ReadBytes = std::function<Status(size_t at, std::span<std::byte> to)>;
  Status put(const Place& place, size_t offset, size_t bytes, const ReadBytes& read);
  Result<const gguf::TensorInfo*> find(const std::string& name, uint64_t ne0, uint64_t ne1, uint64_t ne2 = 1) const;
  Result<device::Weight> whole_matrix(const gguf::TensorInfo& t);

  const gguf::Model& model_;
  device::Device* device_ = nullptr;  // null: measuring
  device::Stream* stream_ = nullptr;
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
  bool asks_ = false;
  bool round_activations_ = false;
  std::unique_ptr<device::Uploader> uploader_;
  device::Memory* slab_ = nullptr;  // where small tensors go
  size_t slab_used_ = 0;
  uint64_t allocated_bytes_ = 0;
  uint64_t tensor_bytes_ = 0;
};

}  // namespace strata::model
