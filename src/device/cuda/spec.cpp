#include <charconv>

#include "base/format.h"
#include "device/cuda/cuda.h"

namespace strata::device::cuda {
namespace {

Error bad(std::string_view part, std::string_view why) {
  return {ErrorCode::kBadInput, format("--device cuda: '{}' {}", printable(part), why)};
}

constexpr int kMaxOrdinal = 63;

std::optional<int> parse_ordinal(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits = !text.empty() && text.front() >= '0' && text.front() <= '9';
  if (!digits || error != std::errc() || end != text.data() + text.size() || value > kMaxOrdinal) return std::nullopt;
  return value;
}

}  // namespace

Result<std::vector<int>> parse_cuda_spec(std::string_view text) {
  ASSERT(is_cuda_spec(text));
  if (text == "cuda") return std::vector<int>{0};
  std::string_view rest = text.substr(std::string_view("cuda:").size());
  std::vector<int> ordinals;
  for (;;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::optional<int> ordinal = parse_ordinal(part);
    if (!ordinal) return bad(part, format("has to be the number of a device, 0 to {}, as in cuda:0,1", kMaxOrdinal));
    ordinals.push_back(*ordinal);
    if (comma == std::string_view::npos) return ordinals;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace strata::device::cuda
