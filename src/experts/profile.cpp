#include "experts/profile.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/format.h"
#include "base/output_file.h"

namespace strata::experts {
namespace {

// Sums stay finite however many files are merged.
constexpr double kMaxUses = 1e15;

// Takes a file's text apart, a line at a time.
class Lines {
 public:
  Lines(std::string_view text, const std::string& origin) : rest_(text), origin_(origin) {}

  // False at the end. A line ends with \n or \r\n; the last one may lack it.
  bool next() {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    number_++;
    return true;
  }
  std::string_view line() const { return line_; }
  Error error(const char* expected) const {
    return {ErrorCode::kBadInput, format("{}: line {} is '{}', expected {}", printable(origin_), number_,
                                         printable(line_, 60), expected)};
  }
  // The value of a line "NAME VALUE".
  Result<std::string_view> value(std::string_view name, const char* expected) {
    if (!next() || !line_.starts_with(name) || line_.size() <= name.size() || line_[name.size()] != ' ') {
      return error(expected);
    }
    return line_.substr(name.size() + 1);
  }
  Result<int32_t> number(std::string_view name, const char* expected) {
    ASSIGN_OR_RETURN(std::string_view text, value(name, expected));
    int32_t number = 0;
    if (!take(text, number) || !text.empty()) return error(expected);
    return number;
  }
  // A number from the front of `text`, which loses it.
  template <class T>
  static bool take(std::string_view& text, T& number) {
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  }
  static bool take_space(std::string_view& text) {
    if (!text.starts_with(' ')) return false;
    text.remove_prefix(1);
    return true;
  }

 private:
  std::string_view rest_, line_;
  const std::string& origin_;
  int64_t number_ = 0;
};

// "LAYER EXPERT USES".
bool parse_use(std::string_view line, ExpertKey& key, double& uses) {
  return Lines::take(line, key.layer) && Lines::take_space(line) && Lines::take(line, key.expert) &&
         Lines::take_space(line) && Lines::take(line, uses) && line.empty() && std::isfinite(uses) && uses > 0 &&
         uses <= kMaxUses;
}

Result<RoutedModel> parse_model(Lines& lines, const std::string& origin) {
  RoutedModel model;
  if (!lines.next() || lines.line() != kProfileTitle) return lines.error("'strata expert profile 1'");
  ASSIGN_OR_RETURN(model.name, lines.value("model", "'model NAME'"));
  ASSIGN_OR_RETURN(model.n_layers, lines.number("layers", "'layers N'"));
  ASSIGN_OR_RETURN(model.n_experts, lines.number("experts", "'experts N'"));
  RETURN_IF_ERROR(check_routed_model(model, origin));
  return model;
}

}  // namespace

double ExpertProfile::total() const { return std::accumulate(uses_.begin(), uses_.end(), 0.0); }

double ExpertProfile::layer_total(int32_t layer) const {
  const auto first = uses_.begin() + static_cast<std::ptrdiff_t>(model_.index({layer, 0}));
  return std::accumulate(first, first + model_.n_experts, 0.0);
}

Status ExpertProfile::merge(const ExpertProfile& other, const std::string& origin) {
  RETURN_IF_ERROR(check_same_model(other.model_, model_, origin));
  for (size_t i = 0; i < uses_.size(); i++) uses_[i] = std::min(uses_[i] + other.uses_[i], kMaxUses);
  return {};
}

std::vector<ExpertKey> ExpertProfile::ranking(const ExpertLayout& layout) const {
  std::vector<int32_t> n_experts;
  for (const LayerLayout& layer : layout.layers()) n_experts.push_back(layer.n_experts);
  return ranking(n_experts);
}

std::vector<ExpertKey> ExpertProfile::ranking(std::span<const int32_t> n_experts) const {
  const auto more_used = [&](const ExpertKey& a, const ExpertKey& b) {
    const double in_a = uses(a), in_b = uses(b);
    if (in_a != in_b) return in_a > in_b;
    return a.expert != b.expert ? a.expert < b.expert : a.layer < b.layer;
  };
  std::vector<std::vector<ExpertKey>> layers;  // each sorted
  std::vector<ExpertKey> all;
  for (int32_t l = 0; l < static_cast<int32_t>(n_experts.size()); l++) {
    std::vector<ExpertKey>& layer = layers.emplace_back();
    for (int32_t e = 0; e < n_experts[static_cast<size_t>(l)]; e++) layer.push_back({l, e});
    std::sort(layer.begin(), layer.end(), more_used);
    all.insert(all.end(), layer.begin(), layer.end());
  }
  std::sort(all.begin(), all.end(), more_used);

  // In turn: the best of every layer, then as many of the best of all.
  std::vector<bool> listed(model_.n_keys());
  std::vector<ExpertKey> ranking;
  const auto list = [&](const ExpertKey& key) {
    if (listed[model_.index(key)]) return false;
    listed[model_.index(key)] = true;
    ranking.push_back(key);
    return true;
  };
  std::vector<size_t> next(layers.size());
  for (size_t best = 0; ranking.size() < all.size();) {
    size_t dealt = 0;
    for (size_t l = 0; l < layers.size(); l++) {
      bool found = false;
      while (!found && next[l] < layers[l].size()) found = list(layers[l][next[l]++]);
      dealt += found;
    }
    for (; dealt > 0 && best < all.size(); best++) dealt -= list(all[best]);
  }
  return ranking;
}

std::string ExpertProfile::to_text() const {
  std::vector<ExpertKey> used;
  for (int32_t l = 0; l < model_.n_layers; l++) {
    for (int32_t e = 0; e < model_.n_experts; e++) {
      if (uses({l, e}) > 0) used.push_back({l, e});
    }
  }
  std::stable_sort(used.begin(), used.end(), [&](ExpertKey a, ExpertKey b) { return uses(a) > uses(b); });
  std::string text = format("{}\nmodel {}\nlayers {}\nexperts {}\n", kProfileTitle, model_.name, model_.n_layers,
                            model_.n_experts);
  for (const ExpertKey& key : used) text += format("{} {} {}\n", key.layer, key.expert, uses(key));
  return text;
}

Result<ExpertProfile> ExpertProfile::parse(std::string_view text, const std::string& origin) {
  Lines lines(text, origin);
  ASSIGN_OR_RETURN(RoutedModel model, parse_model(lines, origin));
  ExpertProfile profile(std::move(model));
  while (lines.next()) {
    ExpertKey key;
    double uses = 0;
    if (!parse_use(lines.line(), key, uses)) return lines.error("'LAYER EXPERT USES'");
    if (!profile.model_.has(key)) return lines.error("a layer and an expert that the model has");
    if (profile.uses(key) > 0) return lines.error("each expert once");
    profile.add(key, uses);
  }
  return profile;
}

Result<ExpertProfile> ExpertProfile::load(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const auto file, files.open(path));
  if (file->size() > kMaxProfileBytes) {
    return Error{ErrorCode::kBadInput, format("{}: {} are more than an expert profile has", printable(path),
                                              format_bytes(file->size()))};
  }
  std::string text(file->size(), '\0');
  RETURN_IF_ERROR(file->read_exact(0, std::as_writable_bytes(std::span(text))));
  return parse(text, path);
}

Status ExpertProfile::save(const std::string& path) const {
  OutputFile file(path);
  RETURN_IF_ERROR(file.open());
  const std::string text = to_text();
  RETURN_IF_ERROR(file.append(std::as_bytes(std::span(text))));
  return file.commit();
}

void ProfileCounter::routed(int32_t layer, const device::In<int32_t>& ids) {
  for (int64_t r = 0; r < ids.rows; r++) {
    for (int64_t j = 0; j < ids.cols; j++) profile_.add({layer, ids.row(r)[j]}, 1);
  }
}

}  // namespace strata::experts
