#include "experts/prediction.h"

#include <algorithm>

namespace strata::experts {
namespace {

uint64_t blob_file_bytes(const LayerLayout& layer) {
  uint64_t bytes = 0;
  for (const BlobPart& part : layer.parts) bytes += part.bytes;
  return bytes;
}

// Bytes of a token's experts by the tier that they are in.
struct TierBytes {
  double device = 0, ram = 0, file = 0;
};

TierBytes expert_bytes(const PlacementInput& input, const PlacementPlan& plan, const TokenNeeds& needs, int layer) {
  const LayerLayout& layout = input.layout.layer(layer);
  const auto bytes = static_cast<double>(blob_file_bytes(layout)) * static_cast<double>(needs.n_used);
  TierBytes sums;
  for (int32_t e = 0; e < layout.n_experts; e++) {
    const double share = needs.shares.empty()
                             ? 1.0 / layout.n_experts
                             : needs.shares[static_cast<size_t>(layer)][static_cast<size_t>(e)];
    const Tier tier = plan.tier({layer, e});
    (tier == Tier::kDevice ? sums.device : tier == Tier::kRam ? sums.ram : sums.file) += share * bytes;
  }
  return sums;
}

// Of the bytes that lie in files alone, the share that the system's cache has room for.
double cached_share(const PlacementInput& input, const PlacementPlan& plan) {
  const bool mapped = plan.source == SourceKind::kMapped ||
                      (plan.source == SourceKind::kResident && plan.below == SourceKind::kMapped);
  if (!mapped) return 0;
  double in_files = 0;
  for (size_t l = 0; l < plan.tiers.size(); l++) {
    const auto n = std::count(plan.tiers[l].begin(), plan.tiers[l].end(), Tier::kFile);
    in_files += static_cast<double>(n) * static_cast<double>(blob_file_bytes(input.layout.layers()[l]));
  }
  const auto room = static_cast<double>(input.ram_bytes - std::min(input.ram_bytes, plan.ram_bytes()));
  return in_files > 0 ? std::min(1.0, room / in_files) : 0;
}

}  // namespace

const char* bound_name(Bound bound) {
  switch (bound) {
    case Bound::kRam:
      return "reading RAM";
    case Bound::kDevice:
      return "reading device memory";
    case Bound::kDrive:
      return "reading the drive";
  }
  return "";
}

DecodePrediction predict_decode(const PlacementInput& input, const PlacementPlan& plan, const TokenNeeds& needs,
                                const MachineRates& rates) {
  DecodePrediction out;
  const double ram_rate = rates.ram * kProductShare;
  const double from_drive = 1 - cached_share(input, plan);
  for (size_t p = 0; p < input.parts.size(); p++) {
    const PartNeeds& part = input.parts[p];
    const auto dense = static_cast<double>(needs.dense_bytes[p]);
    TierBytes experts;
    for (int layer = part.first_layer; layer < part.last_layer; layer++) {
      const TierBytes of_layer = expert_bytes(input, plan, needs, layer);
      experts.device += of_layer.device;
      experts.ram += of_layer.ram;
      experts.file += of_layer.file;
    }
    const double by_cpu = experts.ram + experts.file;
    out.file_bytes += experts.file * from_drive;
    if (part.on_host) {
      out.ram_bytes += dense + experts.device + by_cpu;
      out.ram_s += (dense + experts.device + by_cpu) / ram_rate;
      continue;
    }
    const double link = plan.source == SourceKind::kArena && !rates.links.empty() ? rates.links[p] : 0;
    const double linked = by_cpu * link / (ram_rate + link);
    out.device_bytes += dense + experts.device;
    out.link_bytes += linked;
    out.ram_bytes += by_cpu - linked;
    const double n_layers = part.last_layer - part.first_layer;
    const double others_s = by_cpu / (ram_rate + link), device_s = experts.device / rates.devices[p];
    out.device_s += dense / rates.devices[p] + n_layers * rates.layer_s + (device_s >= others_s ? device_s : 0);
    out.ram_s += (others_s > device_s ? others_s : 0) + (by_cpu > 0 ? n_layers * rates.task_s : 0);
  }
  out.drive_s = out.file_bytes > 0 ? out.file_bytes / (rates.drive * kDriveShare) : 0;
  const double computing = out.ram_s + out.device_s;
  out.bound = out.drive_s > computing ? Bound::kDrive : out.ram_s >= out.device_s ? Bound::kRam : Bound::kDevice;
  out.tokens_per_s = 1 / std::max(out.drive_s, computing);
  return out;
}

}  // namespace strata::experts
