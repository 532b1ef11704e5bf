#include "gguf/quantize/quantize.h"

#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "base/output_file.h"
#include "gguf/encoding.h"
#include "gguf/quantize/convert.h"
#include "gguf/quantize/mix.h"
#include "gguf/split.h"
#include "gguf/writer.h"

namespace strata::gguf {
namespace {

constexpr std::string_view kFileTypeKey = "general.file_type";
constexpr uint32_t kQuantizationVersion = 2;  // of the block layouts that are written

std::string path_text(const std::string& path) { return printable(path, kMaxPathPrinted); }

Error bad_output(const std::string& out, const std::string& why) {
  return {ErrorCode::kBadInput, format("cannot write {}: {}", path_text(out), why)};
}

Status check_output(const Model& model, const std::string& out) {
  if (parse_split_name(file_name_of(out))) return bad_output(out, "this is the name of a part of a split model");
  for (const Shard& shard : model.shards()) {
    if (!would_replace(out, shard.path)) continue;
    return bad_output(out, format("it would replace {}, which is read; give another name", path_text(shard.path)));
  }
  return {};
}

Status check_sources(const Model& model, std::span<const Choice> choices, bool allow_requantize) {
  if (allow_requantize) return {};
  for (size_t i = 0; i < choices.size(); i++) {
    const TensorInfo& tensor = model.tensors()[i];
    const quant::TypeInfo& type = quant::info(tensor.type);
    if (type.block_elems == 1 || choices[i].type == tensor.type) continue;
    return Error{ErrorCode::kBadInput,
                 format("{}: tensor '{}' is {} already, and quantising it again costs quality; start from the original "
                        "model, or give --allow-requantize",
                        path_text(model.path()), printable(tensor.name), type.name)};
  }
  return {};
}

// Everything but what belongs to the old file's own form.
void copy_metadata(const Model& model, uint32_t file_type, Writer& writer) {
  writer.set_u32(kFileTypeKey, file_type);
  writer.set_u32(kQuantizationVersionKey, kQuantizationVersion);
  for (const auto& [key, value] : model.entries()) {
    const bool replaced = key == kArchitectureKey || key == kFileTypeKey || key == kQuantizationVersionKey ||
                          key == kAlignmentKey || key == kSplitNoKey || key == kSplitCountKey ||
                          key == kSplitTensorsKey;
    if (!replaced) writer.set_value(key, value);
  }
  writer.set_alignment(model.shards().front().alignment);
}

void note_fallback(const TensorInfo& tensor, const Choice& choice) {
  log_info("tensor '{}': rows of {} do not fit {}, {} is written", printable(tensor.name), tensor.ne[0],
           quant::info(choice.wanted).name, quant::info(choice.type).name);
}

uint64_t bytes_in(const TensorInfo& tensor, quant::Type type) {
  return tensor.n_elements / tensor.ne[0] * quant::row_bytes(type, tensor.ne[0]);
}

}  // namespace

Result<QuantizeSummary> quantize(const Model& model, const std::string& out, const FileType& file,
                                 const QuantizeOptions& options, ThreadPool& pool) {
  RETURN_IF_ERROR(check_output(model, out));
  const std::vector<TensorInfo>& tensors = model.tensors();
  const std::vector<Choice> choices = choose_types(file, read_shape(model), tensors, options.pure);
  RETURN_IF_ERROR(check_sources(model, choices, options.allow_requantize));
  ASSIGN_OR_RETURN(const std::string architecture, model.require_string(kArchitectureKey));

  Writer writer(architecture);
  copy_metadata(model, file.number, writer);
  Converter converter(model, pool, options.cancel);
  QuantizeSummary summary{.n_tensors = tensors.size()};
  for (size_t i = 0; i < tensors.size(); i++) {
    const TensorInfo& tensor = tensors[i];
    const Choice& choice = choices[i];
    const bool converted = choice.type != tensor.type;
    if (choice.type != choice.wanted) note_fallback(tensor, choice);
    summary.n_converted += converted;
    summary.n_fallbacks += choice.type != choice.wanted;
    summary.bytes_before += tensor.bytes;
    summary.bytes_after += bytes_in(tensor, choice.type);
    std::vector<uint64_t> ne(tensor.ne, tensor.ne + std::max(tensor.n_dims, 1));
    writer.add_tensor(tensor.name, choice.type, std::move(ne), [&, i, converted](const Writer::Sink& sink) {
      if (options.progress) options.progress({i, tensors.size(), &tensors[i], choices[i].type});
      return converted ? converter.convert(tensors[i], choices[i].type, sink) : converter.copy(tensors[i], sink);
    });
  }
  RETURN_IF_ERROR(writer.write(out));
  return summary;
}

}  // namespace strata::gguf
