#include "text/fragment_encoder.h"

#include "base/format.h"

namespace strata::text {

namespace {

constexpr char kModelKey[] = "tokenizer.ggml.model";

constexpr EncoderKind kKinds[] = {
    {"gpt2", bpe_defaults, make_bpe_encoder},
    {"llama", spm_defaults, make_spm_encoder},
};

}  // namespace

Result<const EncoderKind*> find_encoder_kind(const gguf::Model& model) {
  ASSIGN_OR_RETURN(const std::string name, model.require_string(kModelKey));
  for (const EncoderKind& kind : kKinds) {
    if (kind.name == name) return &kind;
  }
  return Error{ErrorCode::kUnsupported,
               format("{}: {} is \"{}\"; only \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece) are supported",
                      model.path(), kModelKey, printable(name))};
}

}  // namespace strata::text
