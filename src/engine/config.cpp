#include "engine/config.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/format.h"
#include "base/topology.h"
#include "device/cuda/cuda.h"
#include "device/sim/spec.h"
#include "engine/layer_split.h"

namespace strata::engine {
namespace {

uint64_t gib(double value) { return static_cast<uint64_t>(value * static_cast<double>(kGiB)); }

kernels::KvType kv_type_of(const std::string& name, NumericPath auto_path) {
  for (const kernels::KvType type : kernels::kKvTypes) {
    if (name == kernels::kv_type_name(type)) return type;
  }
  return auto_path == NumericPath::kFast ? kernels::KvType::kF16 : kernels::KvType::kF32;
}

constexpr std::pair<const char*, ExpertPlace> kPlaces[] = {{"auto", ExpertPlace::kAuto},
                                                           {"arena", ExpertPlace::kArena},
                                                           {"resident", ExpertPlace::kResident},
                                                           {"mapped", ExpertPlace::kMapped},
                                                           {"direct", ExpertPlace::kDirect}};

const char* place_name(ExpertPlace place) {
  return std::find_if(std::begin(kPlaces), std::end(kPlaces), [&](const auto& p) { return p.second == place; })->first;
}

// --experts, or one of its short forms, which must not say something else.
Result<ExpertPlace> expert_place(const Settings& settings) {
  std::string name = settings.text(Key::kExperts);
  for (const auto& [key, place] : {std::pair{Key::kResidentExperts, "resident"}, {Key::kMmapExperts, "mapped"}}) {
    if (!settings.on(key)) continue;
    if (name != "auto" && name != place) {
      return Error{ErrorCode::kBadInput,
                   format("--{} and --experts {} contradict each other; give one of them", setting(key).name, name)};
    }
    name = place;
  }
  const auto* found =
      std::find_if(std::begin(kPlaces), std::end(kPlaces), [&](const auto& p) { return name == p.first; });
  ASSERT(found != std::end(kPlaces));
  return found->second;
}

// --shared-expert-arena names where all experts are; --experts must not say another place.
Status take_shared_arena(const Settings& settings, EngineConfig& config) {
  config.verify_arena = settings.on(Key::kVerifyArena);
  config.shared_arena_timeout_s = settings.integer(Key::kSharedArenaTimeoutS);
  config.shared_arena = settings.text(Key::kSharedExpertArena);
  if (config.shared_arena.empty()) return {};
  if (config.experts != ExpertPlace::kAuto && config.experts != ExpertPlace::kArena) {
    return Error{ErrorCode::kBadInput,
                 format("--shared-expert-arena {} holds all experts, which --experts {} contradicts; give one of them",
                        printable(config.shared_arena), place_name(config.experts))};
  }
  config.experts = ExpertPlace::kArena;
  return {};
}

std::optional<double> number_if_set(const Settings& settings, Key key) {
  return settings.is_auto(key) ? std::nullopt : std::optional<double>(settings.number(key));
}

Result<model::RopeOverrides> rope_overrides(const Settings& settings) {
  model::RopeOverrides rope;
  const std::string& scaling = settings.text(Key::kRopeScaling);
  if (scaling == "none") rope.scaling = kernels::RopeScalingType::kNone;
  if (scaling == "linear") rope.scaling = kernels::RopeScalingType::kLinear;
  if (scaling == "yarn") rope.scaling = kernels::RopeScalingType::kYarn;
  rope.factor = number_if_set(settings, Key::kRopeScale);
  if (const std::optional<double> scale = number_if_set(settings, Key::kRopeFreqScale)) {
    if (rope.factor) {
      return Error{ErrorCode::kBadInput,
                   format("--rope-scale {} and --rope-freq-scale {} say the same thing twice; give one of them",
                          *rope.factor, *scale)};
    }
    rope.factor = 1 / *scale;
  }
  rope.base = number_if_set(settings, Key::kRopeFreqBase);
  if (!settings.is_auto(Key::kYarnOrigCtx)) {
    rope.original_context = static_cast<double>(settings.integer(Key::kYarnOrigCtx));
  }
  rope.ext_factor = number_if_set(settings, Key::kYarnExtFactor);
  rope.attn_factor = number_if_set(settings, Key::kYarnAttnFactor);
  rope.beta_fast = number_if_set(settings, Key::kYarnBetaFast);
  rope.beta_slow = number_if_set(settings, Key::kYarnBetaSlow);
  RETURN_IF_ERROR(check_overrides(rope));
  return rope;
}

}  // namespace

Result<EngineConfig> config_from(const Settings& settings, NumericPath auto_path) {
  EngineConfig config;
  config.device = settings.text(Key::kDevice);
  if (config.device != "cpu" && !device::cuda::is_cuda_spec(config.device) &&
      !device::sim::is_sim_spec(config.device)) {
    return Error{ErrorCode::kUnsupported,
                 format("--device {}: there are cpu, NVIDIA GPUs (cuda:0) and simulated devices (sim:64MiB)",
                        printable(config.device))};
  }
  config.vram_budget = settings.text(Key::kVramBudgetGib);
  config.vram_reserve_bytes = static_cast<uint64_t>(settings.integer(Key::kVramReserveMib)) * kMiB;
  if (!settings.is_auto(Key::kExpertCache)) config.expert_cache = settings.integer(Key::kExpertCache);
  config.cache_min_slots = settings.integer(Key::kCacheMinSlots);
  if (!settings.is_auto(Key::kPcieFrac)) config.pcie_frac = settings.number(Key::kPcieFrac);
  if (!settings.is_auto(Key::kStreamRows)) config.stream_rows = settings.integer(Key::kStreamRows);
  config.prefill_borrow = settings.on(Key::kPrefillBorrow);
  config.lend_regions = settings.on(Key::kLendRegions);
  if (settings.text(Key::kLayerSplit) != "auto") {
    ASSIGN_OR_RETURN(config.layer_split, parse_split(settings.text(Key::kLayerSplit)));
  }
  if (settings.on(Key::kAdapt)) config.adapt_every = settings.integer(Key::kAdaptEvery);
  config.expert_profile = settings.text(Key::kExpertProfile);
  config.expert_profile_save = settings.text(Key::kExpertProfileSave);
  config.kv_type = kv_type_of(settings.text(Key::kKvType), auto_path);
  const std::string& act = settings.text(Key::kAct);
  config.round_activations = act == "q8" || (act == "auto" && auto_path == NumericPath::kFast);
  if (!settings.is_auto(Key::kCtx)) config.context = settings.integer(Key::kCtx);
  if (!settings.is_auto(Key::kThreads)) config.threads = static_cast<int>(settings.integer(Key::kThreads));
  if (!settings.text(Key::kCpus).empty()) {
    Result<std::vector<int>> cpus = parse_cpu_list(settings.text(Key::kCpus));
    if (!cpus.ok()) return Error{cpus.error().code, "--cpus: " + cpus.error().message};
    config.cpus = std::move(cpus).value();
    const std::vector<int> usable = read_topology().cpus;
    for (const int cpu : config.cpus) {
      if (std::find(usable.begin(), usable.end(), cpu) != usable.end()) continue;
      return Error{ErrorCode::kBadInput,
                   format("--cpus: this process may not use core {}; it may use {}", cpu,
                          usable.size() == 1
                              ? format("core {}", usable.front())
                              : format("{} of the cores from {} to {}", usable.size(), usable.front(), usable.back()))};
    }
  }
  ASSIGN_OR_RETURN(config.experts, expert_place(settings));
  if (!settings.is_auto(Key::kResidentBudgetGib)) {
    config.resident_budget_bytes = gib(settings.number(Key::kResidentBudgetGib));
  }
  RETURN_IF_ERROR(take_shared_arena(settings, config));
  config.peer_copies = settings.on(Key::kPeerCopies);
  config.stage_pin = settings.on(Key::kStagePin);
  config.io_timeout_s = settings.integer(Key::kIoTimeoutS);
  config.stall_notice_s = settings.integer(Key::kStallNoticeS);
  config.table = model::find_table_kind(settings.text(Key::kPleIo));
  ASSERT(config.table != nullptr);
  config.ram_bytes = gib(settings.number(Key::kRamGib));
  if (!settings.is_auto(Key::kRamHeadroomGib)) config.ram_headroom_bytes = gib(settings.number(Key::kRamHeadroomGib));
  if (!settings.is_auto(Key::kPrefill)) {
    config.chunk = static_cast<int>(settings.integer(Key::kPrefill));
  } else if (device::cuda::is_cuda_spec(config.device)) {
    config.chunk = kGpuChunk;
    config.chunk_may_grow = true;
  }
  config.deterministic = settings.on(Key::kDeterministic);
  config.use_graphs = settings.on(Key::kGraph);
  config.isa = settings.text(Key::kIsa);
  ASSIGN_OR_RETURN(config.rope, rope_overrides(settings));
  return config;
}

}  // namespace strata::engine
