// Model: answers from what the opener has checked.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "gguf/encoding.h"
#include "gguf/model_impl.h"

namespace strata::gguf {
namespace {

Error about_key(const Model& model, std::string_view key, const std::string& text) {
  return {ErrorCode::kBadInput,
          format("{}: key '{}' {}", printable(model.path(), kMaxPathPrinted), printable(key), text)};
}

// The value of a key that must not be an array; null when it is absent.
Result<const Value*> find_scalar(const Model& model, std::string_view key) {
  const Value* value = model.find(key);
  if (value && value->is_array()) {
    return about_key(model, key,
                     format("is an array of {}, not a single value", value_type_name(value->element_type())));
  }
  return value;
}

// A key's value through one of Value's accessors; nullopt when it is absent.
template <class T>
Result<std::optional<T>> look_up(const Model& model, std::string_view key, Result<T> (Value::*as)(uint64_t) const) {
  ASSIGN_OR_RETURN(const Value* value, find_scalar(model, key));
  if (!value) return std::optional<T>();
  Result<T> result = (value->*as)(0);
  if (!result.ok()) return about_key(model, key, result.error().message);
  return std::optional<T>(std::move(*result));
}

template <class T>
Result<T> require(const Model& model, std::string_view key, Result<T> (Value::*as)(uint64_t) const) {
  ASSIGN_OR_RETURN(std::optional<T> found, look_up(model, key, as));
  if (!found) return about_key(model, key, "is missing");
  return std::move(*found);
}

Result<int64_t> in_range(const Model& model, std::string_view key, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return value;
  return about_key(model, key, format("is {}, must be in {}..{}", value, min, max));
}

Result<double> finite(const Model& model, std::string_view key, double value) {
  if (std::isfinite(value)) return value;
  return about_key(model, key, format("is {}, must be finite", value));
}

}  // namespace

Model::Model() : impl_(std::make_unique<Impl>()) {}
Model::~Model() = default;

const std::vector<Shard>& Model::shards() const { return impl_->shards; }
const std::vector<TensorInfo>& Model::tensors() const { return impl_->tensors; }
const std::string& Model::path() const { return impl_->shards.front().path; }
std::span<const std::pair<std::string, Value>> Model::entries() const { return impl_->first.entries; }
const Value* Model::find(std::string_view key) const { return impl_->first.find(key); }

const TensorInfo* Model::find_tensor(std::string_view name) const {
  const auto& tensors = impl_->tensors;
  const auto& order = impl_->by_name;
  const auto at = std::lower_bound(order.begin(), order.end(), name,
                                   [&](uint32_t i, std::string_view wanted) { return tensors[i].name < wanted; });
  return at != order.end() && tensors[*at].name == name ? &tensors[*at] : nullptr;
}

Result<int64_t> Model::require_int(std::string_view key, int64_t min, int64_t max) const {
  ASSIGN_OR_RETURN(const int64_t value, require(*this, key, &Value::as_int));
  return in_range(*this, key, value, min, max);
}

Result<int64_t> Model::int_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const {
  ASSIGN_OR_RETURN(const auto value, look_up(*this, key, &Value::as_int));
  if (!value) return fallback;
  return in_range(*this, key, *value, min, max);
}

Result<double> Model::require_float(std::string_view key) const {
  ASSIGN_OR_RETURN(const double value, require(*this, key, &Value::as_float));
  return finite(*this, key, value);
}

Result<double> Model::float_or(std::string_view key, double fallback) const {
  ASSIGN_OR_RETURN(const auto value, look_up(*this, key, &Value::as_float));
  if (!value) return fallback;
  return finite(*this, key, *value);
}

Result<bool> Model::bool_or(std::string_view key, bool fallback) const {
  ASSIGN_OR_RETURN(const auto value, look_up(*this, key, &Value::as_bool));
  return value.value_or(fallback);
}

Result<std::string> Model::require_string(std::string_view key) const {
  ASSIGN_OR_RETURN(const std::string_view value, require(*this, key, &Value::as_string));
  return std::string(value);
}

Result<std::string> Model::string_or(std::string_view key, std::string_view fallback) const {
  ASSIGN_OR_RETURN(const auto value, look_up(*this, key, &Value::as_string));
  return std::string(value.value_or(fallback));
}

Status Model::read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> dst) const {
  const Shard& shard = impl_->shards[static_cast<size_t>(tensor.shard)];
  if (offset > tensor.bytes || dst.size() > tensor.bytes - offset) {
    return Error{ErrorCode::kBadInput, format("{}: tensor '{}' has {} bytes, cannot read {} bytes at {}",
                                              printable(shard.path, kMaxPathPrinted), printable(tensor.name),
                                              tensor.bytes, dst.size(), offset)};
  }
  return shard.file->read_exact(tensor.file_offset + offset, dst);
}

void Model::will_need(const TensorInfo& tensor) const {
  impl_->shards[static_cast<size_t>(tensor.shard)].file->will_need(tensor.file_offset, tensor.bytes);
}

}  // namespace strata::gguf
