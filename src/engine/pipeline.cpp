#include "engine/pipeline.h"

#include <algorithm>
#include <utility>

namespace strata::engine {

Pipeline::Pipeline(std::vector<PipelineStage> stages, std::vector<std::unique_ptr<HandOff>> hand_offs,
                   size_t max_sequences)
    : stages_(std::move(stages)), hand_offs_(std::move(hand_offs)), held_(stages_.size() + 1) {
  ASSERT(hand_offs_.size() + 1 == stages_.size());
  for (PipelinedStep& step : held_) {
    step.batch.reserve(max_sequences);
    step.streams.resize(stages_.size());
  }
}

bool Pipeline::empty() const {
  return std::all_of(held_.begin(), held_.end() - 1, [](const PipelinedStep& step) { return step.n_rows == 0; });
}

int64_t Pipeline::rows_under_way(const model::SequenceState& sequence) const {
  int64_t n = 0;
  for (size_t i = 0; i < stages_.size(); i++) {
    if (held_[i].n_rows == 0) continue;
    for (const model::BatchRows& rows : held_[i].batch) n += rows.sequence == &sequence ? rows.n() : 0;
  }
  return n;
}

void Pipeline::add(std::span<const model::BatchRows> batch, const std::vector<bool>& streams) {
  PipelinedStep& step = held_.front();
  ASSERT(step.n_rows == 0);
  step.number = n_added_++;
  step.batch.clear();
  int64_t n_rows = 0;
  for (model::BatchRows rows : batch) {
    rows.position = rows.sequence->n_tokens() + rows_under_way(*rows.sequence);
    rows.sequence->note_ids(rows.position, rows.ids);
    step.batch.push_back(rows);
    n_rows += rows.n();
  }
  step.n_rows = n_rows;
  step.streams = streams;
}

Status Pipeline::compute() {
  held_.back().n_rows = 0;
  for (size_t i = 0; i < stages_.size(); i++) begin(i);
  queue();
  for (size_t i = 0; i < hand_offs_.size(); i++) {
    if (held_[i].n_rows > 0) hand_offs_[i]->send(stages_[i].part->hidden(held_[i].n_rows));
  }
  return finish();
}

void Pipeline::advance() { std::rotate(held_.begin(), held_.end() - 1, held_.end()); }

void Pipeline::begin(size_t i) {
  const PipelinedStep& step = held_[i];
  if (step.n_rows == 0) return;
  const PipelineStage& stage = stages_[i];
  if (stage.log != nullptr) stage.log->begin(step.number);
  stage.part->begin(step.batch, step.streams[i]);
  if (i > 0) hand_offs_[i - 1]->receive(stage.part->hidden(step.n_rows));
}

void Pipeline::queue() {
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < stages_.size(); i++) {
      if (held_[i].n_rows == 0) continue;
      if (stages_[i].part->queue_more()) more = true;
      if (stages_[i].part->given_up()) return give_up_all_but(i);
    }
  }
}

void Pipeline::give_up_all_but(size_t i) {
  for (size_t other = 0; other < stages_.size(); other++) {
    if (other == i || held_[other].n_rows == 0) continue;
    stages_[other].part->stream().abort({ErrorCode::kCancelled, "another part of the model gave its step up"});
  }
}

// What the part says that gave up is why the others had to.
Status Pipeline::finish() {
  Status first;
  for (size_t i = 0; i < stages_.size(); i++) {
    if (held_[i].n_rows == 0) continue;
    model::Part& part = *stages_[i].part;
    Status status = part.finish();
    if (!status.ok() && (first.ok() || part.given_up())) first = std::move(status);
  }
  return first;
}

void Pipeline::abandon() {
  for (size_t i = 0; i < stages_.size(); i++) {
    if (held_[i].n_rows == 0) continue;
    for (const model::BatchRows& rows : held_[i].batch) rows.sequence->step_failed();
    held_[i].n_rows = 0;
  }
  for (const auto& hand_off : hand_offs_) hand_off->clear();
}

}  // namespace strata::engine
