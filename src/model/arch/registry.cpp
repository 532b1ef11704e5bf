#include "base/format.h"
#include "model/arch/arch.h"

namespace strata::model {
namespace {

const ArchInfo* const kRows[] = {
    &kDeepseek2, &kGlm4Moe,   &kGptOss,   &kLlama,     &kOlmoe,    &kQwen2Moe,
    &kQwen3,     &kQwen35Moe, &kQwen3Moe, &kQwen3Next, &kQwen4Exp,
};

}  // namespace

std::span<const ArchInfo* const> all_architectures() { return kRows; }

Result<const ArchInfo*> find_architecture(const gguf::Model& model) {
  ASSIGN_OR_RETURN(const std::string name, model.require_string("general.architecture"));
  std::string known;
  for (const ArchInfo* row : kRows) {
    if (name == row->name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row->name);
  }
  return Error{ErrorCode::kUnsupported, format("{}: architecture '{}' is not supported; those that are: {}",
                                               model.path(), printable(name), known)};
}

}  // namespace strata::model
