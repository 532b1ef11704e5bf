#include "engine/layer_split.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/counted.h"
#include "base/format.h"

namespace strata::engine {
namespace {

// What a step costs for each part that it goes through, whatever is computed: queueing, hand-off and waiting.
constexpr double kPartS = 50e-6;
// Multiplications and additions that a byte of weights stands for: those of eight-bit weights.
constexpr double kFlopsPerByte = 2;

struct PartTimes {
  double chunk_s = 0;
  double token_s = 0;
};

// A way to give the layers up to a border to the devices up to one. `sum_s` is what is spent in every part, `longest_s`
// what is spent in the slowest one.
struct Way {
  double longest_s = 0;
  double sum_s = 0;
  double token_s = 0;
  int last_count = 0;  // layers of the last device
  int before = 0;      // the way that it goes on from
};

class Chooser {
 public:
  explicit Chooser(const SplitInput& input) : input_(input), n_layers_(static_cast<int>(input.layers.size())) {
    for (const SplitLayer& layer : input.layers) {
      SplitLayer sum = sums_.back();
      sum.weights_bytes += layer.weights_bytes;
      sum.state_bytes += layer.state_bytes;
      sum.experts_bytes += layer.experts_bytes;
      sum.used_bytes += layer.used_bytes;
      sums_.push_back(sum);
    }
  }

  std::optional<LayerSplit> run() {
    ways_.assign(1, std::vector<std::vector<Way>>(static_cast<size_t>(n_layers_) + 1));
    ways_[0][0].push_back({});
    for (size_t d = 0; d < input_.devices.size(); d++) add_device(d);
    const std::vector<Way>& complete = ways_.back().back();
    if (complete.empty()) return std::nullopt;
    const auto total = [](const Way& way) { return (kSplitChunks - 1) * way.longest_s + way.sum_s; };
    const auto best = std::min_element(complete.begin(), complete.end(),
                                       [&](const Way& a, const Way& b) { return total(a) < total(b); });
    return trace(static_cast<int>(best - complete.begin()));
  }

 private:
  // The run of layers on the device; nothing when it does not fit.
  std::optional<PartTimes> part(const SplitDevice& device, int first, int last) const {
    const SplitLayer& from = sums_[static_cast<size_t>(first)];
    const SplitLayer& to = sums_[static_cast<size_t>(last)];
    const auto dense = static_cast<double>(to.weights_bytes - from.weights_bytes);
    const auto head = static_cast<double>(last == n_layers_ ? input_.last_bytes : 0);
    const uint64_t held = to.weights_bytes - from.weights_bytes + to.state_bytes - from.state_bytes +
                          (first == 0 ? input_.first_bytes : 0) + (last == n_layers_ ? input_.last_bytes : 0) +
                          device.fixed_bytes + (first > 0 ? device.received_bytes : 0) +
                          (last == n_layers_ ? device.head_bytes : 0);
    if (held > device.budget_bytes) return std::nullopt;
    const auto experts = static_cast<double>(to.experts_bytes - from.experts_bytes);
    const auto used = static_cast<double>(to.used_bytes - from.used_bytes);
    const double cached = experts > 0 ? std::min(1.0, static_cast<double>(device.budget_bytes - held) / experts) : 1;

    const DeviceRates& rates = device.rates;
    const auto rows = static_cast<double>(input_.chunk_rows);
    const double missing = (1 - cached) * experts, by_cpu = (1 - cached) * used;
    PartTimes times;
    times.token_s = kPartS + (dense + head) / rates.memory_bytes_per_s +
                    std::max(cached * used / rates.memory_bytes_per_s, by_cpu / input_.cpu_bytes_per_s);
    const double on_device = dense + used * (input_.streams ? 1 : cached);
    const double computing = std::max(kFlopsPerByte * rows * on_device / rates.flops_per_s,
                                      (dense + cached * experts) / rates.memory_bytes_per_s);
    const double others = input_.streams ? missing / rates.link_bytes_per_s
                                         : std::min(missing, rows * by_cpu) / input_.cpu_bytes_per_s;
    times.chunk_s = kPartS + std::max(computing, others);
    return times;
  }

  void add_device(size_t d) {
    std::vector<std::vector<Way>>& to = ways_.emplace_back(static_cast<size_t>(n_layers_) + 1);
    const std::vector<std::vector<Way>>& from = ways_[ways_.size() - 2];
    for (int first = 0; first <= n_layers_; first++) {
      const std::vector<Way>& ways = from[static_cast<size_t>(first)];
      if (ways.empty()) continue;
      for (int last = first; last <= n_layers_; last++) {
        const std::optional<PartTimes> times =
            last == first ? PartTimes{} : part(input_.devices[d], first, last);
        if (!times) break;  // more layers need more memory
        for (size_t w = 0; w < ways.size(); w++) {
          add_way(to[static_cast<size_t>(last)],
                  {.longest_s = std::max(ways[w].longest_s, times->chunk_s),
                   .sum_s = ways[w].sum_s + times->chunk_s + kSplitTokens * times->token_s,
                   .token_s = ways[w].token_s + times->token_s,
                   .last_count = last - first,
                   .before = static_cast<int>(w)});
        }
      }
    }
  }

  // Keeps ways none of which is better than another in all that counts; of equal ones the first, which uses fewer of
  // the later devices.
  static void add_way(std::vector<Way>& ways, const Way& way) {
    const auto no_worse = [](const Way& a, const Way& b) { return a.longest_s <= b.longest_s && a.sum_s <= b.sum_s; };
    if (std::any_of(ways.begin(), ways.end(), [&](const Way& known) { return no_worse(known, way); })) return;
    std::erase_if(ways, [&](const Way& known) { return no_worse(way, known); });
    ways.push_back(way);
  }

  LayerSplit trace(int way) const {
    LayerSplit split{.counts = std::vector<int>(input_.devices.size()), .times = {}};
    int layer = n_layers_;
    const Way& whole = ways_.back()[static_cast<size_t>(layer)][static_cast<size_t>(way)];
    split.times = {.chunk_s = whole.longest_s, .token_s = whole.token_s};
    for (size_t d = input_.devices.size(); d-- > 0;) {
      const Way& step = ways_[d + 1][static_cast<size_t>(layer)][static_cast<size_t>(way)];
      split.counts[d] = step.last_count;
      layer -= step.last_count;
      way = step.before;
    }
    return split;
  }

  const SplitInput& input_;
  int n_layers_;
  std::vector<SplitLayer> sums_ = {{}};  // [layers + 1] of the layers before
  // [devices + 1][layers + 1] ways to give so many layers to so many devices.
  std::vector<std::vector<std::vector<Way>>> ways_;
};

}  // namespace

std::optional<LayerSplit> choose_split(const SplitInput& input) { return Chooser(input).run(); }

Status check_split(std::span<const int> counts, size_t n_devices, int n_layers) {
  const std::string text = split_text(counts);
  if (counts.size() != n_devices) {
    return Error{ErrorCode::kBadInput,
                 format("--layer-split {} is for {}, but --device names {}; give a number of layers for each, or auto",
                        text, counted(static_cast<int64_t>(counts.size()), "device"), n_devices)};
  }
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (sum != n_layers) {
    return Error{ErrorCode::kBadInput, format("--layer-split {} gives out {}, but the model has {}", text,
                                              counted(sum, "layer"), n_layers)};
  }
  if (std::find(counts.begin(), counts.end(), 0) == counts.end()) return {};
  return Error{ErrorCode::kBadInput,
               format("--layer-split {} leaves a device without layers; leave it out of --device, or use auto", text)};
}

Result<std::vector<int>> parse_split(const std::string& text) {
  std::vector<int> counts;
  for (const char *at = text.data(), *end = at + text.size();; at++) {
    int count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 0 || (stop != end && *stop != ',')) {
      return Error{ErrorCode::kBadInput,
                   format("--layer-split {}: numbers of layers are wanted, one for each device, separated by commas, "
                          "or auto",
                          printable(text))};
    }
    counts.push_back(count);
    at = stop;
    if (at == end) return counts;
  }
}

std::string split_text(std::span<const int> counts) {
  std::string text;
  for (const int count : counts) text += format("{}{}", text.empty() ? "" : ",", count);
  return text;
}

}  // namespace strata::engine
