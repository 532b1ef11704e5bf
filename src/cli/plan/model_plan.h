// A model's plan for a machine, and how fast it would run there.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/settings.h"
#include "cli/plan/measured_rates.h"
#include "engine/placing.h"
#include "experts/prediction.h"
#include "gguf/gguf.h"

namespace strata::cli {

// A device of the plan, with the rates at which it reads its own memory, and RAM over its link; 0 on the host, and
// where they are not known.
struct DeviceRate {
  engine::PlannedDevice device;
  double bytes_per_second = 0;
  double link_bytes_per_second = 0;
};

// What --device and --vram-budget-gib name: the host, GPUs, which are opened for a moment, or devices of a simulated
// machine, none of which is made.
Result<std::vector<DeviceRate>> planned_devices(const Settings& settings, uint64_t ram_bytes);

struct ModelPlan {
  engine::PlacementRequest request;
  experts::PlacementPlan plan;
  experts::TokenNeeds needs;
  std::vector<double> device_rates;  // [parts]
  std::vector<double> link_rates;    // [parts]
  bool on_gpus = false;
  int threads = 0;                   // that compute
};

// As an engine with the same settings would place the model. Reads its metadata alone.
Result<ModelPlan> plan_model(const gguf::Model& model, const Settings& settings);

// For people: the placement, then the predicted speed, or why there is none.
std::string plan_text(const ModelPlan& plan, const Result<MeasuredRates>& rates, const std::string& this_cpu);

}  // namespace strata::cli
