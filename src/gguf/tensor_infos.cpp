// Parser, third part: tensor infos, and where their data lies.
#include <optional>

#include "base/bytes.h"
#include "base/format.h"
#include "gguf/encoding.h"
#include "gguf/parser.h"
#include "gguf/sorted_order.h"

namespace strata::gguf {
namespace {

// Types that files had in 2023 and 2024, for the message; their numbers are not given out again.
const char* removed_type_name(uint32_t id) {
  switch (id) {
    case 4: return "Q4_2";
    case 5: return "Q4_3";
    case 31: return "Q4_0_4_4";
    case 32: return "Q4_0_4_8";
    case 33: return "Q4_0_8_8";
    case 36: return "IQ4_NL_4_4";
    case 37: return "IQ4_NL_4_8";
    case 38: return "IQ4_NL_8_8";
    default: return nullptr;
  }
}

std::string shape_text(const TensorInfo& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.n_dims; ++i) text += format("{}{}", i > 0 ? ", " : "", tensor.ne[i]);
  return text + "]";
}

}  // namespace

Status Parser::parse_tensor(uint64_t index) {
  where_ = {Part::kTensor, index, {}, position_};
  tensor_positions_.push_back(position_);
  TensorInfo tensor;
  ASSIGN_OR_RETURN(const std::string_view name, take_string(kMaxTensorNameBytes));
  if (name.empty()) return fail(ErrorCode::kBadInput, "empty name");
  where_.name = name;
  if (has_control_character(name)) return fail(ErrorCode::kBadInput, "name with a NUL or control character");
  tensor.name = name;
  RETURN_IF_ERROR(parse_shape(tensor));
  RETURN_IF_ERROR(parse_type(tensor));
  RETURN_IF_ERROR(compute_sizes(tensor));
  ASSIGN_OR_RETURN(tensor.file_offset, take_number<uint64_t>());  // relative until place_tensors
  if (tensor.file_offset % out_.alignment != 0) {
    return fail(ErrorCode::kBadInput, format("offset {} is not a multiple of the file's alignment {}",
                                             tensor.file_offset, out_.alignment));
  }
  out_.tensors.push_back(std::move(tensor));
  return {};
}

Status Parser::parse_shape(TensorInfo& tensor) {
  ASSIGN_OR_RETURN(const uint32_t n_dims, take_number<uint32_t>());
  if (n_dims > kMaxDims) {
    return fail(ErrorCode::kBadInput, format("{} dimensions, at most {} are allowed", n_dims, kMaxDims));
  }
  tensor.n_dims = static_cast<int>(n_dims);
  for (uint32_t i = 0; i < n_dims; ++i) {
    ASSIGN_OR_RETURN(tensor.ne[i], take_number<uint64_t>());
    if (tensor.ne[i] == 0 || tensor.ne[i] > static_cast<uint64_t>(INT64_MAX)) {
      return fail(ErrorCode::kBadInput, format("dimension must be positive: dimension {} is {}", i,
                                               static_cast<int64_t>(tensor.ne[i])));
    }
  }
  return {};
}

Status Parser::parse_type(TensorInfo& tensor) {
  ASSIGN_OR_RETURN(const uint32_t id, take_number<uint32_t>());
  const quant::TypeInfo* type = quant::find_type(id);
  if (!type) {
    const char* removed = removed_type_name(id);
    return fail(ErrorCode::kUnsupported,
                removed ? format("type {} ({}) was removed from the format: convert the model again", id, removed)
                        : format("unknown type {}", id));
  }
  if (!type->in_files) {
    return fail(ErrorCode::kBadInput,
                format("type {} ({}) holds activations while computing and is not allowed in files", id, type->name));
  }
  tensor.type = type->type;
  return {};
}

Status Parser::compute_sizes(TensorInfo& tensor) {
  const quant::TypeInfo& type = quant::info(tensor.type);
  if (tensor.ne[0] % type.block_elems != 0) {
    return fail(ErrorCode::kBadInput, format("rows of {} elements, but {} needs a multiple of {}", tensor.ne[0],
                                             type.name, type.block_elems));
  }
  std::optional<uint64_t> elements = tensor.ne[0];
  std::optional<uint64_t> bytes = checked_mul(tensor.ne[0] / type.block_elems, type.block_bytes);
  tensor.row_bytes = bytes.value_or(0);
  for (int i = 1; i < kMaxDims; ++i) {
    if (elements) elements = checked_mul(*elements, tensor.ne[i]);
    if (bytes) bytes = checked_mul(*bytes, tensor.ne[i]);
  }
  // Room for the fill behind it too, so that no later sum of an offset and an aligned size starts from a wrapped one.
  if (!elements || !bytes || !checked_align_up(*bytes, out_.alignment)) {
    return fail(ErrorCode::kBadInput, format("tensor too large: the size of {} {} does not fit 64 bits",
                                             shape_text(tensor), type.name));
  }
  tensor.n_elements = *elements;
  tensor.bytes = *bytes;
  return {};
}

Parser::Where Parser::tensor_at(size_t index) const {
  return {Part::kTensor, index, out_.tensors[index].name, tensor_positions_[index]};
}

Status Parser::check_unique_names() {
  const auto& tensors = out_.tensors;
  const auto order = sorted_order(tensors.size(), [&](uint32_t i) -> const std::string& { return tensors[i].name; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensors[order[i]].name == tensors[order[i - 1]].name) {
      return fail_at(tensor_at(order[i]), ErrorCode::kBadInput,
                     format("name appears a second time, first as tensor {}", order[i - 1]));
    }
  }
  return {};
}

// Turns offsets into positions in the file.
Status Parser::place_tensors() {
  for (size_t i = 0; i < out_.tensors.size(); ++i) {
    TensorInfo& tensor = out_.tensors[i];
    const auto begin = checked_add(out_.data_offset, tensor.file_offset);
    if (!begin || !checked_add(*begin, tensor.bytes)) {
      return fail_at(tensor_at(i), ErrorCode::kBadInput,
                     format("offset {} plus size {} does not fit 64 bits", tensor.file_offset, tensor.bytes));
    }
    tensor.file_offset = *begin;
  }
  return {};
}

Status Parser::check_truncation() {
  uint64_t end_max = 0;
  size_t last = 0;
  for (size_t i = 0; i < out_.tensors.size(); ++i) {
    const uint64_t end = out_.tensors[i].file_offset + out_.tensors[i].bytes;
    if (end > end_max) {
      end_max = end;
      last = i;
    }
  }
  if (end_max <= file_.size()) return {};
  return fail_at(tensor_at(last), ErrorCode::kBadInput,
                 format("its data ends at byte {}, but the file has {} bytes: {} bytes are missing (an incomplete "
                        "download?)",
                        end_max, file_.size(), end_max - file_.size()));
}

// Gaps and any order are fine; two tensors that share bytes are not. The usual cause is a type whose block size differs
// from the one the file was written with, so both offsets are named.
Status Parser::check_overlaps() {
  const auto& tensors = out_.tensors;
  const auto order = sorted_order(tensors.size(), [&](uint32_t i) { return tensors[i].file_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = tensors[order[i - 1]];
    const TensorInfo& tensor = tensors[order[i]];
    const uint64_t end = before.file_offset + before.bytes;
    if (tensor.file_offset >= end) continue;
    return fail_at(tensor_at(order[i]), ErrorCode::kBadInput,
                   format("overlaps tensor '{}' ({} {}, {} bytes): found offset {}, expected at least {}",
                          printable(before.name), quant::info(before.type).name, shape_text(before), before.bytes,
                          tensor.file_offset - out_.data_offset,
                          align_up(end - out_.data_offset, out_.alignment)));
  }
  return {};
}

}  // namespace strata::gguf
