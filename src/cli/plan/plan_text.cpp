// The words of strata plan.
#include <algorithm>

#include "base/format.h"
#include "cli/plan/model_plan.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

constexpr double kGiga = 1e9;

std::string head_text(const ModelPlan& plan) {
  const experts::ExpertLayout& layout = plan.request.layout;
  const std::string layers = format("{}: {} layers", path_text(plan.request.model), layout.layers().size());
  if (layout.n_experts() == 0) return layers + " without experts\n\n";
  int32_t most = 0;
  int64_t n_dense = 0;
  for (const experts::LayerLayout& layer : layout.layers()) {
    most = std::max(most, layer.n_experts);
    n_dense += layer.n_experts == 0;
  }
  const std::string dense = n_dense > 0 ? format(", {} of them without", n_dense) : "";
  return format("{} with {} experts in all{}, {} of {} used in each, {} of them\n\n", layers, layout.n_experts(), dense,
                plan.needs.n_used, most, format_bytes(layout.total_bytes()));
}

std::string unknown(const std::string& why) {
  return format("decode: no speed can be told: {}; run strata bench system --file MODEL\n", why);
}

std::string decode_text(const ModelPlan& plan, const MeasuredRates& measured) {
  experts::MachineRates rates{.ram = measured.ram_rate(plan.threads),
                              .drive = measured.drive ? measured.drive->bytes_per_second : 0,
                              .devices = plan.device_rates,
                              .links = plan.link_rates};
  if (plan.on_gpus) {
    rates.layer_s = experts::kGpuLayerS;
    rates.task_s = experts::kHostTaskS;
  }
  const experts::DecodePrediction decode =
      experts::predict_decode(plan.request.input(), plan.plan, plan.needs, rates);
  if (decode.file_bytes > 0 && !measured.drive) return unknown("the drive has not been measured");
  std::string text = format("decode: about {:.1f} tokens/s, bound by {}; a token reads {:.2f} GB of RAM",
                            decode.tokens_per_s, experts::bound_name(decode.bound), decode.ram_bytes / kGiga);
  if (decode.device_bytes > 0) text += format(", {:.2f} GB of device memory", decode.device_bytes / kGiga);
  if (decode.link_bytes > 0) text += format(", {:.2f} GB over the link", decode.link_bytes / kGiga);
  if (decode.file_bytes > 0) text += format(", {:.2f} GB of the drive", decode.file_bytes / kGiga);
  text += format("\nmeasured: RAM {:.1f} GB/s with {} threads ({})", rates.ram / kGiga, plan.threads,
                 printable(measured.date));
  if (decode.file_bytes > 0) {
    text += format("; drive {:.2f} GB/s ({}, {})", rates.drive / kGiga, path_text(measured.drive->path),
                   printable(measured.drive->date));
  }
  return text + "\n";
}

}  // namespace

std::string plan_text(const ModelPlan& plan, const Result<MeasuredRates>& rates, const std::string& this_cpu) {
  const std::string text = head_text(plan) + placement_text(plan.request.input(), plan.plan) + "\n";
  if (!rates.ok()) {
    const bool none = rates.error().code == ErrorCode::kNotFound;
    return text + unknown(none ? "this machine has not been measured" : rates.error().message);
  }
  if (rates->cpu != this_cpu) return text + unknown("what was measured is another processor");
  return text + decode_text(plan, *rates);
}

}  // namespace strata::cli
