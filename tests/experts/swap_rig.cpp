#include "experts/swap_rig.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "device/support.h"

namespace strata::test {

using experts::ExpertKey;
using experts::LayerLayout;

namespace {

MixedModel swap_model() {
  ExpertSpec a{.dim = 32, .ffn = 32, .n_experts = 6, .biases = true, .scales = true};
  ExpertSpec b = a;
  b.gate_up_type = quant::Type::Q8_0;
  return MixedModel({a, kDenseLayer, b}, numbered_parts());
}

// Of a blob whose part i is at part(i).
template <class Part>
std::optional<std::string> difference_of(const LayerLayout& layer, ExpertKey key, const char* where, const Part& part) {
  for (size_t i = 0; i < layer.parts.size(); i++) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(part(static_cast<int>(i)));
    const uint8_t expected = part_number(key, layer.parts[i].kind);
    for (size_t b = 0; b < layer.parts[i].bytes; b++) {
      if (bytes[b] == expected) continue;
      return format("{}: byte {} of part {} of expert {} of layer {} is {}, not {}", where, b, i, key.expert,
                    key.layer, bytes[b], expected);
    }
  }
  return std::nullopt;
}

}  // namespace

SwapRig::SwapRig(const SwapRigOptions& options)
    : model_(swap_model()), host_(host_options(1)), beside_(options.beside) {
  if (options.sim) {
    device::sim::SimOptions sim;
    sim.kernels = &host_.compute().kernels();
    sim.manual = options.manual;
    machine_ = device::sim::make_sim(format("sim:64MiB/seed={}", options.seed), sim).value();
  }
  device_ = machine_ ? static_cast<device::Device*>(&machine_->device(0)) : &host_;
  stream_ = device_->make_stream("compute");
  keys_ = experts::even_ranking(layout());
  read_back_ = device_->allocate_host(keys_.size() * layout().largest_blob_bytes(), device::MemoryKind::kPinned, "test")
                   .value();
  auto plan =
      experts::SlotPlan::make(layout(), keys_, {.budget_bytes = kMiB, .max_slots = options.slots}).value();
  std::vector<ExpertKey> kept;
  for (size_t i = 0; i < keys_.size(); i++) {
    const bool in_cache = static_cast<int64_t>(i) < options.slots;
    const bool lendable = static_cast<int64_t>(i) + 2 >= options.slots;
    if (!in_cache || options.beside == Beside::kAll || (options.beside == Beside::kLendRegionToo && lendable)) {
      kept.push_back(keys_[i]);
    }
  }
  everything = std::make_unique<ExchangeSource>(layout(), keys_, numbered_parts());
  cache = experts::ExpertCache::create({.device = *device_,
                                        .stream = *stream_,
                                        .source = *everything,
                                        .layout = layout(),
                                        .stats = stats,
                                        .min_slots = 0},
                                       std::move(plan))
              .value();
  const Status filled = cache->fill();
  ASSERT(filled.ok());
  if (beside_ == Beside::kRealCopy) make_copy();
  source = std::make_unique<ExchangeSource>(layout(), std::move(kept), numbered_parts());
  swaps = experts::ExpertSwaps::create(this->spec()).value();
  stats.reset();
}

void SwapRig::make_copy() {
  experts::CachedKeys cached;
  for (const experts::Slot& slot : cache->plan().slots()) cached.push_back(slot.key);
  const auto plan = experts::ResidentPlan::complement(experts::blobs_of(layout()), {{cached}}, kMiB).value();
  copy = experts::ResidentSource::create({.model = *model_.model,
                                          .layout = layout(),
                                          .device = *device_,
                                          .threads = host_.compute().pool(),
                                          .stats = stats,
                                          .pin_bytes_max = plan.bytes() / 2,
                                          .step_bytes = plan.bytes() / 4},
                                         plan, make_mapped_source(*model_.model, layout(), stats).value())
             .value();
}

experts::SwapSpec SwapRig::spec() {
  experts::ResidentExchange* resident = source.get();
  if (copy) resident = copy.get();
  if (beside_ == Beside::kAll) resident = nullptr;
  return {.device = *device_,
          .compute = *stream_,
          .cache = *cache,
          .source = ram(),
          .layout = layout(),
          .stats = stats,
          .resident = resident,
          .max_moves = 3};
}

std::set<ExpertKey> SwapRig::residents() const {
  std::set<ExpertKey> found;
  for (const ExpertKey& key : keys_) {
    if (resident(key)) found.insert(key);
  }
  return found;
}

std::vector<experts::Move> SwapRig::some_moves(uint64_t seed, int64_t n) const {
  Random random(seed);
  std::vector<ExpertKey> in, out;
  for (const ExpertKey& key : keys_) (resident(key) ? out : in).push_back(key);
  std::vector<experts::Move> moves;
  while (static_cast<int64_t>(moves.size()) < n) {
    const size_t i = random.below(in.size()), o = random.below(out.size());
    if (in[i].layer != out[o].layer) continue;
    moves.push_back({in[i], out[o], 1});
    in.erase(in.begin() + static_cast<int64_t>(i));
    out.erase(out.begin() + static_cast<int64_t>(o));
  }
  return moves;
}

Status SwapRig::read_slots(std::optional<std::string>& difference) {
  const size_t stride = layout().largest_blob_bytes();
  for (size_t i = 0; i < keys_.size(); i++) {
    const int32_t slot = cache->slot(keys_[i]);
    if (slot < 0) continue;
    const auto offset = static_cast<size_t>(cache->plan().slots()[static_cast<size_t>(slot)].offset);
    stream_->copy(*read_back_, i * stride, *cache->slots().memory, offset, layout().layer(keys_[i].layer).blob_bytes());
  }
  RETURN_IF_ERROR(stream_->synchronize());
  const auto guard = read_back_->read<std::byte>(0, read_back_->bytes());
  for (size_t i = 0; i < keys_.size() && !difference; i++) {
    if (!resident(keys_[i])) continue;
    const LayerLayout& layer = layout().layer(keys_[i].layer);
    difference = difference_of(layer, keys_[i], "slot", [&](int part) {
      return guard.span().data() + i * stride + layer.part_offset(part);
    });
  }
  return {};
}

void SwapRig::read_ram(std::optional<std::string>& difference) {
  for (size_t i = 0; i < keys_.size() && !difference; i++) {
    if (resident(keys_[i])) continue;
    const std::optional<experts::Lease> lease = ram().try_lease(keys_[i]);
    if (!lease) {
      difference = format("expert {} of layer {} is nowhere", keys_[i].expert, keys_[i].layer);
      return;
    }
    difference = difference_of(layout().layer(keys_[i].layer), keys_[i], "RAM",
                               [&](int part) { return lease->part(part); });
  }
}

std::optional<std::string> SwapRig::step() {
  std::optional<std::string> difference;
  for (int i = 0; i < 2; i++) {
    const Status status = read_slots(difference);
    stream_->reset();
    if (status.ok()) break;
    if (i == 1) return status.error().message;
  }
  read_ram(difference);
  return difference;
}

const char* name_of(Beside beside) {
  switch (beside) {
    case Beside::kTheOthers:
      return "TheOthers";
    case Beside::kLendRegionToo:
      return "LendRegion";
    case Beside::kAll:
      return "Arena";
    default:
      return "RealCopy";
  }
}

int run_to_the_end(SwapRig& rig) {
  int failures = 0;
  for (int i = 0; i < 20 && rig.swaps->state() != experts::SwapState::kIdle; i++) {
    EXPECT_EQ(rig.step(), kRight) << "state " << static_cast<int>(rig.swaps->state());
    failures += !rig.swaps->advance().ok();
  }
  EXPECT_EQ(rig.swaps->state(), experts::SwapState::kIdle);
  EXPECT_EQ(rig.step(), kRight);
  EXPECT_FALSE(rig.cache->withdrawn());
  EXPECT_EQ(rig.source->n_overridden(), 0u);
  return failures;
}

void expect_done(SwapRig& rig, const std::vector<experts::Move>& moves, bool done) {
  for (const experts::Move& move : moves) {
    EXPECT_EQ(rig.resident(move.in), done);
    EXPECT_EQ(rig.resident(move.out), !done);
  }
}

}  // namespace strata::test
