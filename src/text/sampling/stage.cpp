#include "text/sampling/stage.h"

#include <algorithm>
#include <optional>

#include "base/assert.h"
#include "base/format.h"

namespace strata::text {
namespace {

// In the default order, and by StageKind.
constexpr StageRow kRows[] = {
    {.kind = StageKind::kPenalties, .name = "penalties", .alias = "", .letter = 'e', .keeps_best = false,
     .active =
         [](const SamplerParams& p) {
           return p.repeat_last_n != 0 &&
                  (p.repeat_penalty != 1 || p.frequency_penalty != 0 || p.presence_penalty != 0);
         },
     .make = make_penalties},
    {.kind = StageKind::kDry, .name = "dry", .alias = "", .letter = 'd', .keeps_best = false,
     .active =
         [](const SamplerParams& p) { return p.dry_multiplier != 0 && p.dry_base >= 1 && p.dry_penalty_last_n != 0; },
     .make = make_dry},
    {.kind = StageKind::kTopNSigma, .name = "top_n_sigma", .alias = "", .letter = 's', .keeps_best = true,
     .active = [](const SamplerParams& p) { return p.top_n_sigma > 0; },
     .make = make_top_n_sigma},
    {.kind = StageKind::kTopK, .name = "top_k", .alias = "", .letter = 'k', .keeps_best = true,
     .active = [](const SamplerParams& p) { return p.top_k > 0; },
     .make = make_top_k},
    {.kind = StageKind::kTypical, .name = "typ_p", .alias = "typical", .letter = 'y', .keeps_best = false,
     .active = [](const SamplerParams& p) { return p.typical_p < 1; },
     .make = make_typical},
    {.kind = StageKind::kTopP, .name = "top_p", .alias = "", .letter = 'p', .keeps_best = true,
     .active = [](const SamplerParams& p) { return p.top_p < 1; },
     .make = make_top_p},
    {.kind = StageKind::kMinP, .name = "min_p", .alias = "", .letter = 'm', .keeps_best = true,
     .active = [](const SamplerParams& p) { return p.min_p > 0; },
     .make = make_min_p},
    {.kind = StageKind::kXtc, .name = "xtc", .alias = "", .letter = 'x', .keeps_best = false,
     .active = [](const SamplerParams& p) { return p.xtc_probability > 0 && p.xtc_threshold <= 0.5f; },
     .make = make_xtc},
    {.kind = StageKind::kTemperature, .name = "temperature", .alias = "temp", .letter = 't', .keeps_best = true,
     .active = [](const SamplerParams&) { return true; },
     .make = make_temperature},
};

constexpr StageKind kDefaultOrder[] = {
    StageKind::kPenalties, StageKind::kDry,  StageKind::kTopNSigma, StageKind::kTopK,        StageKind::kTypical,
    StageKind::kTopP,      StageKind::kMinP, StageKind::kXtc,       StageKind::kTemperature,
};
static_assert(std::size(kDefaultOrder) == std::size(kRows));

const StageRow* find_name(std::string_view text) {
  std::string name(text);
  std::replace(name.begin(), name.end(), '-', '_');
  for (const StageRow& row : kRows) {
    if (name == row.name || (!row.alias.empty() && name == row.alias)) return &row;
  }
  return nullptr;
}

const StageRow* find_letter(char letter) {
  for (const StageRow& row : kRows) {
    if (letter == row.letter) return &row;
  }
  return nullptr;
}

Error unknown_stage(std::string_view text) {
  std::string names, letters;
  for (const StageRow& row : kRows) {
    if (!names.empty()) names += ';';
    names += row.name;
    letters += row.letter;
  }
  return {ErrorCode::kBadInput,
          format("'{}' is no sampling stage; give names separated by ; of {}, or letters of {}", printable(text), names,
                 letters)};
}

Status add_once(const StageRow& row, std::vector<StageKind>& order) {
  if (std::find(order.begin(), order.end(), row.kind) != order.end()) {
    return Error{ErrorCode::kBadInput, format("the sampling stage {} is given twice; give each once", row.name)};
  }
  order.push_back(row.kind);
  return {};
}

Result<std::vector<StageKind>> parse_names(std::string_view text) {
  std::vector<StageKind> order;
  for (;;) {
    const size_t end = text.find(';');
    const std::string_view name = text.substr(0, end);
    const StageRow* row = find_name(name);
    if (row == nullptr) return unknown_stage(name);
    RETURN_IF_ERROR(add_once(*row, order));
    if (end == std::string_view::npos) return order;
    text.remove_prefix(end + 1);
  }
}

Result<std::vector<StageKind>> parse_letters(std::string_view text) {
  std::vector<StageKind> order;
  for (const char letter : text) {
    const StageRow* row = find_letter(letter);
    if (row == nullptr) return unknown_stage(text);
    RETURN_IF_ERROR(add_once(*row, order));
  }
  return order;
}

}  // namespace

const StageRow& stage_row(StageKind kind) {
  const StageRow& row = kRows[static_cast<size_t>(kind)];
  ASSERT(row.kind == kind);
  return row;
}

std::span<const StageKind> default_stage_order() { return kDefaultOrder; }

Result<std::vector<StageKind>> parse_stage_order(std::string_view text) {
  const bool names = text.find(';') != std::string_view::npos || find_name(text) != nullptr;
  return names ? parse_names(text) : parse_letters(text);
}

}  // namespace strata::text
