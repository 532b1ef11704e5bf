#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "base/file.h"
#include "base/counted.h"
#include "base/format.h"
#include "cli/eval/evaluation.h"
#include "cli/model_choice.h"
#include "cli/streams.h"

namespace strata::cli {
namespace {

// How far the probabilities of a row may be from 1 together. Rounding to float32 moves them by 1e-6 at most.
constexpr double kTotalError = 1e-4;

struct Divergence {
  int64_t n = 0;
  double sum = 0, max = 0;
  int64_t same_best = 0;  // rows with the same most probable token

  // Of log-probabilities from those of the reference, in nats. False for rows that are none.
  bool add(std::span<const float> reference, std::span<const float> row) {
    double kl = 0, total = 0;
    for (size_t i = 0; i < row.size(); i++) {
      const double p = reference[i];
      if (p == -HUGE_VAL) continue;
      total += std::exp(p);
      kl += std::exp(p) * (p - static_cast<double>(row[i]));
    }
    if (!(std::abs(total - 1) < kTotalError) || !std::isfinite(kl)) return false;
    n++;
    sum += kl;
    max = std::max(max, kl);
    const auto best = [](std::span<const float> values) {
      return std::max_element(values.begin(), values.end()) - values.begin();
    };
    if (best(reference) == best(row)) same_best++;
    return true;
  }
};

// Rows of log-probabilities in a file, as eval logprobs writes them.
class ReferenceRows {
 public:
  static Result<ReferenceRows> open(const std::string& path, size_t n_rows, int64_t n_vocab) {
    ASSIGN_OR_RETURN(std::unique_ptr<File> file, real_file_system().open(path));
    const uint64_t wanted = uint64_t{n_rows} * static_cast<uint64_t>(n_vocab) * sizeof(float);
    if (file->size() != wanted) {
      return Error{ErrorCode::kBadInput,
                   format("{} has {} bytes, but {} and a vocabulary of {} make {}; it belongs to other ids or another "
                          "model", path_text(path), file->size(), counted(static_cast<int64_t>(n_rows), "id"), n_vocab,
                          wanted)};
    }
    return ReferenceRows(std::move(file), n_vocab);
  }

  // Valid until the next call.
  Result<std::span<const float>> next() {
    RETURN_IF_ERROR(file_->read_exact(offset_, std::as_writable_bytes(std::span(row_))));
    offset_ += row_.size() * sizeof(float);
    return std::span<const float>(row_);
  }

 private:
  static_assert(std::endian::native == std::endian::little, "the file is little-endian");
  ReferenceRows(std::unique_ptr<File> file, int64_t n_vocab)
      : file_(std::move(file)), row_(static_cast<size_t>(n_vocab)) {}

  std::unique_ptr<File> file_;
  uint64_t offset_ = 0;
  std::vector<float> row_;
};

}  // namespace

Status eval_kl(const Settings& settings) {
  ASSIGN_OR_RETURN(engine::EngineConfig config, engine::config_from(settings, engine::NumericPath::kFloat));
  const std::string& path = settings.text(Key::kReference);
  ASSIGN_OR_RETURN(const auto model, open_model(settings.text(Key::kModel)));
  ASSIGN_OR_RETURN(const model::HParams hp, read_hparams(*model));
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, read_some_ids(settings.text(Key::kIdsFile), hp.n_vocab));
  RETURN_IF_ERROR(fit_context(config, ids.size(), "id"));
  ASSIGN_OR_RETURN(ReferenceRows reference, ReferenceRows::open(path, ids.size(), hp.n_vocab));
  Stats stats;
  ASSIGN_OR_RETURN(const auto engine, open_engine(settings, *model, config, stats));
  Divergence divergence;
  RETURN_IF_ERROR(for_each_row(*engine, ids, 0, [&](std::span<const float> row) -> Status {
    ASSIGN_OR_RETURN(const std::span<const float> wanted, reference.next());
    if (divergence.add(wanted, row)) return {};
    return Error{ErrorCode::kBadInput,
                 format("{}: row {} is not made of log-probabilities", path_text(path), divergence.n)};
  }));
  if (settings.on(Key::kStats)) write_stderr(stats.to_text());
  const double n = static_cast<double>(divergence.n);
  return write_stdout(format("mean KL: {:.6g} nats\nmax KL: {:.6g} nats\nsame top token: {:.2f} % ({})\n",
                             divergence.sum / n, divergence.max, 100 * static_cast<double>(divergence.same_best) / n,
                             counted(divergence.n, "token")));
}

}  // namespace strata::cli
