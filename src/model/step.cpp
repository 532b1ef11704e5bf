#include "model/step.h"

#include <algorithm>

#include "base/format.h"
#include "base/mutation.h"

namespace strata::model {

StepInputs::Offsets StepInputs::layout(const StepLimits& limits, const StateLimits& state) {
  const size_t rows = static_cast<size_t>(limits.max_rows);
  const size_t sequences = static_cast<size_t>(state.max_sequences);
  const size_t sizes[kFields] = {4,
                                 rows,
                                 rows,
                                 rows,
                                 3 * sequences,
                                 static_cast<size_t>(limits.max_outputs),
                                 sequences * static_cast<size_t>(state.blocks_per_sequence())};
  Offsets offsets{};
  for (size_t f = 0; f < kFields; f++) offsets[f + 1] = offsets[f] + (sizes[f] + 15) / 16 * 16;
  return offsets;
}

uint64_t StepInputs::bytes_needed(const StepLimits& limits, const StateLimits& state) {
  return layout(limits, state)[kFields] * sizeof(int32_t);
}

Result<std::unique_ptr<StepInputs>> StepInputs::create(device::Device& device, const StepLimits& limits,
                                                       const StateLimits& state) {
  auto inputs = std::make_unique<StepInputs>();
  inputs->limits_ = limits;
  inputs->state_ = state;
  inputs->offsets_ = layout(limits, state);
  const size_t bytes = inputs->offsets_[kFields] * sizeof(int32_t);
  ASSIGN_OR_RETURN(inputs->device_ints_, device.allocate(bytes, "step inputs"));
  ASSIGN_OR_RETURN(inputs->host_ints_, device.allocate_host(bytes, device::MemoryKind::kPinned, "step inputs"));
  return inputs;
}

device::RowMap StepInputs::row_map(int64_t rows) const {
  return {.live = live(),
          .positions = view(kPositions, 1, rows),
          .slots = view(kSlots, 1, rows),
          .block_table = view(kBlockTable, state_.max_sequences, state_.blocks_per_sequence())};
}
device::SegmentMap StepInputs::segments() const {
  return {.n_segments = count(1), .segments = view(kSegments, state_.max_sequences, 3)};
}

void StepInputs::set_batch(device::Stream& stream, std::span<const BatchRows> batch,
                           std::span<const int32_t> outputs) {
  ASSERT(batch.size() <= static_cast<size_t>(state_.max_sequences));
  ASSERT(outputs.size() <= static_cast<size_t>(limits_.max_outputs));
  {
    const auto ints = host_ints_->write<int32_t>(0, offsets_[kFields]);
    const auto field = [&](Field f) { return ints.span().data() + offsets_[f]; };
    int32_t row = 0;
    int32_t segment = 0;
    for (const BatchRows& part : batch) {
      const int32_t slot = part.sequence->slot();
      const int32_t n = static_cast<int32_t>(part.ids.size());
      ASSERT(row + n <= limits_.max_rows);
      int64_t position = part.first();
      if (mutated(Mutation::kChunkBorderOffByOne) && position > 0 && n > 1) position--;
      std::copy(part.ids.begin(), part.ids.end(), field(kIds) + row);
      for (int32_t i = 0; i < n; i++) field(kPositions)[row + i] = static_cast<int32_t>(position + i);
      std::fill_n(field(kSlots) + row, n, slot);
      int32_t* entry = field(kSegments) + 3 * segment++;
      entry[0] = slot;
      entry[1] = row;
      entry[2] = n;
      std::copy(part.sequence->blocks().begin(), part.sequence->blocks().end(),
                field(kBlockTable) + static_cast<size_t>(slot) * static_cast<size_t>(state_.blocks_per_sequence()));
      row += n;
    }
    field(kCounts)[0] = row;
    field(kCounts)[1] = segment;
    field(kCounts)[2] = static_cast<int32_t>(outputs.size());
    std::copy(outputs.begin(), outputs.end(), field(kOutputs));
  }
  stream.copy(*device_ints_, 0, *host_ints_, 0, offsets_[kFields] * sizeof(int32_t));
}

void StepInputs::set_outputs(device::Stream& stream, std::span<const int32_t> rows) {
  ASSERT(rows.size() <= static_cast<size_t>(limits_.max_outputs));
  {
    const auto ints = host_ints_->write<int32_t>(0, offsets_[kFields]);
    std::copy(rows.begin(), rows.end(), ints.span().data() + offsets_[kOutputs]);
    ints[offsets_[kCounts] + 2] = static_cast<int32_t>(rows.size());
  }
  stream.copy(*device_ints_, offsets_[kOutputs] * sizeof(int32_t), *host_ints_, offsets_[kOutputs] * sizeof(int32_t),
              rows.size() * sizeof(int32_t));
  stream.copy(*device_ints_, (offsets_[kCounts] + 2) * sizeof(int32_t), *host_ints_,
              (offsets_[kCounts] + 2) * sizeof(int32_t), sizeof(int32_t));
}

void Activations::need(Act act, int64_t cols) {
  const size_t i = static_cast<size_t>(act);
  ASSERT(buffers_[i] == nullptr);
  cols_[i] = std::max(cols_[i], cols);
}

size_t Activations::bytes_of(size_t act, const StepLimits& limits) const {
  const bool output = act >= static_cast<size_t>(Act::kOutputHidden);
  const int64_t rows = output ? limits.max_outputs : limits.max_rows;
  return static_cast<size_t>(rows * cols_[act]) * sizeof(float);
}

uint64_t Activations::bytes_needed(const StepLimits& limits) const {
  uint64_t total = 0;
  for (size_t i = 0; i < kActs; i++) total += bytes_of(i, limits);
  return total;
}

Status Activations::allocate(device::Device& device, const StepLimits& limits) {
  for (size_t i = 0; i < kActs; i++) {
    if (cols_[i] == 0) continue;
    ASSIGN_OR_RETURN(buffers_[i], device.allocate(bytes_of(i, limits), "activations"));
  }
  return {};
}

}  // namespace strata::model
