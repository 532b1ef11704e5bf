// Which layers each device gets: what rates and memory mean for the choice, and which splits are refused.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/bytes.h"
#include "engine/layer_split.h"

namespace strata::test {
namespace {

using engine::check_split;
using engine::choose_split;
using engine::parse_split;
using engine::SplitDevice;
using engine::SplitInput;
using engine::SplitLayer;
using testing::HasSubstr;

// A layer of 20 MiB of weights and 400 MiB of experts, of which a row uses 25.
constexpr SplitLayer kLayer{
    .weights_bytes = 20 * kMiB, .state_bytes = kMiB, .experts_bytes = 400 * kMiB, .used_bytes = 25 * kMiB};

SplitDevice device(double gib) {
  const auto bytes = static_cast<uint64_t>(gib * static_cast<double>(kGiB));
  return {.budget_bytes = bytes, .fixed_bytes = 10 * kMiB, .received_bytes = 0, .head_bytes = 0, .rates = {}};
}
SplitDevice with_link(SplitDevice device, double bytes_per_s) {
  device.rates.link_bytes_per_s = bytes_per_s;
  return device;
}

std::vector<int> split(const std::vector<SplitDevice>& devices, int n_layers = 24) {
  const std::vector<SplitLayer> layers(static_cast<size_t>(n_layers), kLayer);
  const auto chosen = choose_split({.layers = layers, .devices = devices});
  return chosen ? chosen->counts : std::vector<int>{};
}

TEST(LayerSplit, DevicesAlikeShareAlike) {
  EXPECT_EQ(split({device(12)}), (std::vector<int>{24}));
  EXPECT_EQ(split({device(12), device(12)}), (std::vector<int>{12, 12}));
  EXPECT_EQ(split({device(3), device(3)}), (std::vector<int>{12, 12}));
  EXPECT_EQ(split({device(6), device(6), device(6)}), (std::vector<int>{8, 8, 8}));
}

TEST(LayerSplit, ALargerDeviceGetsMore) {
  const std::vector<int> counts = split({device(8), device(2)});
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_GT(counts[0], 2 * counts[1]);
}

TEST(LayerSplit, ASlowLinkGetsFewStreamedLayers) {
  // Neither device holds half of the experts, so that prompts stream the others.
  const std::vector<int> alike = split({device(3), device(3)});
  const std::vector<int> slow = split({device(3), with_link(device(3), 1e9)});
  EXPECT_EQ(alike[1], 12);
  EXPECT_LE(slow[1], 8) << "about as many as it has room for";
  EXPECT_GT(slow[1], 0);
  // One that holds all its experts streams none.
  EXPECT_EQ(split({device(12), with_link(device(12), 1e9)}), (std::vector<int>{12, 12}));
}

TEST(LayerSplit, ADeviceThatMakesNothingFasterIsLeftOut) {
  SplitDevice slow = device(0.2);
  slow.rates = {.memory_bytes_per_s = 1e9, .link_bytes_per_s = 1e8, .flops_per_s = 1e10};
  EXPECT_EQ(split({device(12), slow}), (std::vector<int>{24, 0}));
  EXPECT_EQ(split({slow, device(12)}), (std::vector<int>{0, 24}));
  EXPECT_EQ(split({device(12), slow, device(12)}), (std::vector<int>{12, 0, 12}));
  const std::vector<int> few = split(std::vector<SplitDevice>(5, device(12)), 3);
  EXPECT_EQ(std::accumulate(few.begin(), few.end(), 0), 3);
}

TEST(LayerSplit, NothingFitsWhereNoSplitDoes) {
  EXPECT_TRUE(split({device(0.1), device(0.1)}).empty());
  EXPECT_TRUE(split({device(0.001), device(0.4)}).empty());
  EXPECT_EQ(split({device(0.001), device(0.6)}), (std::vector<int>{0, 24}));
}

// The embedding and the head are where their layers are.
TEST(LayerSplit, TheEndsTakeRoom) {
  const std::vector<SplitLayer> layers(8, kLayer);
  const std::vector<SplitDevice> devices = {device(0.12), device(12)};
  const auto chosen = choose_split({.layers = layers, .devices = devices, .first_bytes = kGiB});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->counts, (std::vector<int>{0, 8})) << "the first device has no room for the embedding";
}

SplitInput random_input(std::vector<SplitLayer>& layers, std::vector<SplitDevice>& devices) {
  const auto up_to = [](uint64_t most) { return *rc::gen::inRange<uint64_t>(1, most + 1); };
  layers.resize(*rc::gen::inRange<size_t>(1, 7));
  for (SplitLayer& layer : layers) {
    layer = {.weights_bytes = up_to(100),
             .state_bytes = up_to(20),
             .experts_bytes = up_to(1000),
             .used_bytes = up_to(100)};
  }
  devices.resize(*rc::gen::inRange<size_t>(1, 5));
  for (SplitDevice& d : devices) {
    const auto rate = [&] { return static_cast<double>(up_to(1000)); };
    d = {.budget_bytes = up_to(3000),
         .fixed_bytes = up_to(50),
         .received_bytes = up_to(20),
         .head_bytes = up_to(20),
         .rates = {.memory_bytes_per_s = rate(), .link_bytes_per_s = rate(), .flops_per_s = 1000 * rate()}};
  }
  return {.layers = layers,
          .devices = devices,
          .first_bytes = up_to(100),
          .last_bytes = up_to(100),
          .cpu_bytes_per_s = static_cast<double>(up_to(1000)),
          .chunk_rows = static_cast<int64_t>(up_to(64)),
          .streams = *rc::gen::inRange(0, 2) == 0};
}

RC_GTEST_PROP(LayerSplit, EveryLayerIsSomewhereInMemoryThatHasRoom, ()) {
  std::vector<SplitLayer> layers;
  std::vector<SplitDevice> devices;
  SplitInput input = random_input(layers, devices);
  const auto all = choose_split(input);
  if (all) {
    RC_ASSERT(all->counts.size() == devices.size());
    RC_ASSERT(std::accumulate(all->counts.begin(), all->counts.end(), 0) == static_cast<int>(layers.size()));
    size_t layer = 0;
    for (size_t d = 0; d < devices.size(); d++) {
      if (all->counts[d] == 0) continue;
      uint64_t held = devices[d].fixed_bytes + (layer == 0 ? input.first_bytes : devices[d].received_bytes);
      for (int i = 0; i < all->counts[d]; i++, layer++) held += layers[layer].weights_bytes + layers[layer].state_bytes;
      if (layer == layers.size()) held += input.last_bytes + devices[d].head_bytes;
      RC_ASSERT(held <= devices[d].budget_bytes);
    }
  }
  input.devices = input.devices.first(input.devices.size() - 1);
  if (input.devices.empty()) return;
  RC_ASSERT(!choose_split(input) || all);  // a device more can be left out
}

std::string refusal(const std::vector<int>& counts, size_t n_devices, int n_layers) {
  const Status status = check_split(counts, n_devices, n_layers);
  return status.ok() ? "" : status.error().message;
}

TEST(CheckSplit, SaysWhatCannotBe) {
  EXPECT_EQ(refusal({5, 3}, 2, 8), "");
  EXPECT_THAT(refusal({5, 3}, 3, 8), HasSubstr("--layer-split 5,3 is for 2 devices, but --device names 3"));
  EXPECT_THAT(refusal({5, 4}, 2, 8), HasSubstr("gives out 9 layers, but the model has 8"));
  EXPECT_THAT(refusal({1}, 1, 8), HasSubstr("gives out 1 layer,"));
  EXPECT_THAT(refusal({5, 0, 3}, 3, 8), HasSubstr("leaves a device without layers"));
}

TEST(ParseSplit, TakesNumbersOfLayers) {
  EXPECT_EQ(parse_split("5,3").value(), (std::vector<int>{5, 3}));
  EXPECT_EQ(parse_split("8").value(), (std::vector<int>{8}));
  for (const char* text : {"", ",", "5,", "5,,3", "5;3", "-1,9", "5, 3", "x", "99999999999"}) {
    EXPECT_THAT(parse_split(text).error().message, HasSubstr("numbers of layers are wanted")) << text;
  }
}

}  // namespace
}  // namespace strata::test
