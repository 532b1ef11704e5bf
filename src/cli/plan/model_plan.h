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

// A device of the plan, with the rate at which it reads its own memory; 0 on the host.
struct DeviceRate {
  engine::PlannedDevice device;
  double bytes_per_second = 0;
};

// What --device and --vram-budget-gib name: the host, or devices of a simulated machine. None of them is made.
Result<std::vector<DeviceRate>> planned_devices(const Settings& settings, uint64_t ram_bytes);

struct ModelPlan {
  engine::PlacementRequest request;
  experts::PlacementPlan plan;
  experts::TokenNeeds needs;
  std::vector<double> device_rates;  // [parts]
  int threads = 0;                   // that compute
};

// As an engine with the same settings would place the model. Reads its metadata alone.
Result<ModelPlan> plan_model(const gguf::Model& model, const Settings& settings);

// For people: the placement, then the predicted speed, or why there is none.
std::string plan_text(const ModelPlan& plan, const Result<MeasuredRates>& rates, const std::string& this_cpu);

}  // namespace strata::cli
