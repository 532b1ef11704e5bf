// Golden models and the places that their experts may be in, of the tests that go through all of them.
#pragma once

#include <string>

#include "engine/sim_support.h"
#include "experts/expert.h"

namespace strata::test {

struct TierModel {
  GoldenModel golden;
  int64_t n_experts = 0;  // of all layers
  uint64_t expert_bytes = 0;
};

// "demo", or the name of a golden architecture.
inline TierModel tier_model(const std::string& name) {
  TierModel m{.golden = name == "demo" ? load_demo_golden() : load_arch_golden(name)};
  const auto model = open_golden(m.golden);
  const model::HParams hp = hparams_of(m.golden);
  m.n_experts = n_experts(m.golden);
  m.expert_bytes = experts::ExpertLayout::from_model(*model, hp.n_layers, hp.dim, hp.expert_ffn, hp.route.n_experts)
                       .value()
                       .total_bytes();
  return m;
}

struct TierRow {
  const char* name;
  engine::ExpertPlace place;
  bool budget = false;  // RAM for a third of the experts
};
inline constexpr TierRow kTierRows[] = {
    {"arena", engine::ExpertPlace::kArena},          {"resident", engine::ExpertPlace::kResident},
    {"budget", engine::ExpertPlace::kResident, true}, {"mapped", engine::ExpertPlace::kMapped},
    {"direct", engine::ExpertPlace::kDirect},        {"both", engine::ExpertPlace::kDirect, true},
};

}  // namespace strata::test
