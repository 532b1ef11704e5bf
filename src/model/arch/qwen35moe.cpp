// qwen35moe: Qwen3.5-35B-A3B, 122B-A10B, 397B-A17B. As qwen3next, but with value heads in turns for each key head, two
// matrices for the gates of the delta net, and rope by sections, which in text is rope.
#include "model/arch/arch.h"
#include "model/arch/hybrid.h"

namespace strata::model {
namespace {

Result<HParams> read(const Keys& keys) {
  ASSIGN_OR_RETURN(HParams hp, read_common(keys, "qwen35moe"));
  hp.route.gating = kernels::Gating::kSoftmax;
  hp.route.normalize = true;
  RETURN_IF_ERROR(check_text_sections(keys, hp));
  RETURN_IF_ERROR(read_hybrid(keys, true, hp));
  return hp;
}

Result<std::unique_ptr<Network>> build(const NetworkSpec& spec) { return build_hybrid(spec, {}); }

}  // namespace

const ArchInfo kQwen35Moe{"qwen35moe", read, build};

}  // namespace strata::model
