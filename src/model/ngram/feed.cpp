#include "model/ngram/feed.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"

namespace strata::model {
namespace {

// Tokens that go to the device at once: what is decoded needs room for so many, and a step of few tokens is one piece.
constexpr int64_t kPieceRows = 256;

int64_t piece_rows(const StepLimits& limits) { return std::min<int64_t>(kPieceRows, limits.max_rows); }
size_t decoded_bytes(const NgramParams& params, const StepLimits& limits) {
  return static_cast<size_t>(piece_rows(limits) * params.width()) * sizeof(float);
}

}  // namespace

Result<std::unique_ptr<NgramFeed>> NgramFeed::create(const FeedSpec& spec) {
  std::unique_ptr<NgramFeed> feed(new NgramFeed(spec));
  RETURN_IF_ERROR(feed->build());
  return feed;
}

uint64_t NgramFeed::bytes_needed(const gguf::Model& model, const HParams& hp, const StepLimits& limits,
                                 const TableKind& kind) {
  const gguf::TensorInfo* tensor = model.find_tensor(kNgramTable);
  const int64_t uses = int64_t{limits.max_rows} * hp.ngram.n_heads();
  const uint64_t of_use = tensor->row_bytes + sizeof(Status) + 2 * sizeof(int64_t) + 2 * sizeof(int32_t);
  return kind.bytes_needed(*tensor, uses) + decoded_bytes(hp.ngram, limits) + static_cast<uint64_t>(uses) * of_use;
}

Status NgramFeed::build() {
  tensor_ = spec_.model.find_tensor(kNgramTable);
  const auto uses = static_cast<size_t>(spec_.limits.max_rows) * params_.head_rows.size();
  ASSIGN_OR_RETURN(table_, spec_.table.kind->open({.model = spec_.model,
                                                   .tensor = *tensor_,
                                                   .device = spec_.device,
                                                   .files = *spec_.table.files,
                                                   .clock = *spec_.table.clock,
                                                   .stats = spec_.stats,
                                                   .io_timeout_s = spec_.table.io_timeout_s,
                                                   .max_rows = static_cast<int64_t>(uses)}));
  ASSIGN_OR_RETURN(decoded_, spec_.device.allocate_host(decoded_bytes(params_, spec_.limits),
                                                        device::MemoryKind::kPinned, "n-gram rows"));
  rows_.resize(uses);
  order_.resize(uses);
  number_.resize(uses);
  wanted_.reserve(uses);
  bytes_.resize(uses * tensor_->row_bytes);
  statuses_.resize(uses);
  members_.reserve(static_cast<size_t>(spec_.limits.max_rows));
  for (int64_t piece = 0; piece * kPieceRows < spec_.limits.max_rows; piece++) {
    tasks_.push_back({.name = "n-gram rows", .run = [this, piece] { return fill(piece); }, .ranges = {}});
  }
  return {};
}

void NgramFeed::begin(std::span<const BatchRows> batch) {
  const size_t heads = params_.head_rows.size();
  members_.clear();
  n_tokens_ = 0;
  for (const BatchRows& part : batch) {
    members_.push_back({part.sequence, part.n(), {}});
    const std::span<const int32_t> ids = part.sequence->ids();
    ASSERT(std::ssize(ids) >= part.first() + part.n());
    for (int64_t i = 0; i < part.n(); i++, n_tokens_++) {
      ngram_rows(params_, ids.first(static_cast<size_t>(part.first() + i + 1)),
                 std::span(rows_).subspan(static_cast<size_t>(n_tokens_) * heads, heads));
    }
  }
  number_rows(std::span(rows_).first(static_cast<size_t>(n_tokens_) * heads));
  n_taken_ = 0;
  spec_.stats.add(Counter::kNgramRows, n_tokens_ * static_cast<int64_t>(heads));
  spec_.stats.add(Counter::kNgramDistinctRows, std::ssize(wanted_));
  table_->want(wanted_);
}

// Equal rows get one number; numbers count up in order of the first use.
void NgramFeed::number_rows(std::span<const int64_t> rows) {
  const auto order = std::span(order_).first(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const int64_t row_a = rows[static_cast<size_t>(a)], row_b = rows[static_cast<size_t>(b)];
    return row_a != row_b ? row_a < row_b : a < b;
  });
  // First the place of the first use of the same row, which is at or before each use's own.
  int32_t first = 0;
  for (size_t i = 0; i < order.size(); i++) {
    const auto use = static_cast<size_t>(order[i]);
    if (i == 0 || rows[use] != rows[static_cast<size_t>(first)]) first = order[i];
    number_[use] = first;
  }
  wanted_.clear();
  for (size_t use = 0; use < rows.size(); use++) {
    const auto at = static_cast<size_t>(number_[use]);
    if (at == use) wanted_.push_back(rows[use]);
    number_[use] = at == use ? static_cast<int32_t>(wanted_.size()) - 1 : number_[at];
  }
}

void NgramFeed::enqueue(device::Stream& stream, int64_t rows, const device::View<float>& to) const {
  ASSERT(to.cols == params_.width());
  ASSERT(to.stride == to.cols);
  for (int64_t first = 0; first < rows; first += kPieceRows) {
    stream.wait(stream.host_task(tasks_[static_cast<size_t>(first / kPieceRows)]));
    const auto row_bytes = static_cast<size_t>(to.cols) * sizeof(float);
    stream.copy(*to.memory, to.offset + static_cast<size_t>(first) * row_bytes, *decoded_, 0,
                static_cast<size_t>(std::min(kPieceRows, rows - first)) * row_bytes);
  }
}

void NgramFeed::take_up_to(int32_t row) {
  const size_t row_bytes = tensor_->row_bytes;
  for (; n_taken_ <= static_cast<size_t>(row); n_taken_++) {
    statuses_[n_taken_] = table_->take(n_taken_, std::span(bytes_).subspan(n_taken_ * row_bytes, row_bytes));
  }
}

// Rows that don't come are zeros: whatever is computed from them nobody sees, and it must not be what another step has
// left there.
Status NgramFeed::fill(int64_t piece) {
  const int64_t first = piece * kPieceRows;
  const int64_t last = std::min(first + kPieceRows, n_tokens_);
  if (first >= last) return {};
  const auto heads = static_cast<int64_t>(params_.head_rows.size());
  const auto decoded = decoded_->write<float>(0, static_cast<size_t>((last - first) * params_.width()));
  const auto row_dim = static_cast<size_t>(params_.row_dim);
  float* out = decoded.span().data();
  size_t member = 0;
  int64_t member_end = members_.front().rows;
  for (int64_t token = 0; token < last; token++) {
    while (token >= member_end) member_end += members_[++member].rows;
    if (token < first) continue;
    for (int64_t head = 0; head < heads; head++, out += row_dim) {
      const int32_t number = number_[static_cast<size_t>(token * heads + head)];
      take_up_to(number);
      const Status& status = statuses_[static_cast<size_t>(number)];
      if (status.ok()) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(bytes_.data()) +
                            static_cast<size_t>(number) * tensor_->row_bytes;
        quant::info(tensor_->type).decode(bytes, out, row_dim);
      } else {
        std::fill_n(out, row_dim, 0.0f);
        if (members_[member].status.ok()) members_[member].status = status;
      }
    }
  }
  return {};
}

void NgramFeed::end() {
  for (Member& member : members_) {
    if (!member.status.ok()) member.sequence->fail(std::move(member.status).error());
  }
  members_.clear();
}

std::string NgramFeed::report() const {
  return format("the n-gram table ({}) is {}", format_bytes(tensor_->bytes), table_->report());
}

}  // namespace strata::model
