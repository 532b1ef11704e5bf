// Brings the rows of the n-gram table that the tokens of a step read to where its layers compute: they are asked for as
// soon as the step's tokens are known, and taken, decoded and copied to the device by host tasks of the step's stream
// when the layer that uses them is reached.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/hparams.h"
#include "model/ngram/table.h"
#include "model/step.h"

namespace strata::model {

// How the table is read.
struct TableOptions {
  const TableKind* kind = &kDirectTable;
  int64_t io_timeout_s = 600;
  FileSystem* files = &real_file_system();
  Clock* clock = &real_clock();
};

// All references outlive the feed.
struct FeedSpec {
  const gguf::Model& model;
  const HParams& hp;  // with an n-gram layer
  device::Device& device;
  Stats& stats;
  StepLimits limits;
  TableOptions table;
};

// begin(), enqueue() and end() are called by one thread, the tasks run between begin() and end(). Allocates when it is
// created, and nothing afterwards but what reads of the table past the page cache do.
class NgramFeed {
 public:
  // Errors are those of TableKind::open().
  static Result<std::unique_ptr<NgramFeed>> create(const FeedSpec& spec);
  // Host memory that create() takes.
  static uint64_t bytes_needed(const gguf::Model& model, const HParams& hp, const StepLimits& limits,
                               const TableKind& kind);

  // A step begins: asks for its rows. The sequences know the ids of the batch, and live until end().
  void begin(std::span<const BatchRows> batch);
  // Queues what fills `to` [rows][NgramParams::width()], packed, with the rows of the step's tokens, head by head.
  void enqueue(device::Stream& stream, int64_t rows, const device::View<float>& to) const;
  // The step is over. Sequences of which a row could not be read have zeros in its place, and fail; the others are none
  // the worse.
  void end();

  std::string report() const;

 private:
  explicit NgramFeed(const FeedSpec& spec) : spec_(spec), params_(spec.hp.ngram) {}
  Status build();
  void number_rows(std::span<const int64_t> rows);
  Status fill(int64_t piece);
  void take_up_to(int32_t row);

  // A sequence of the step.
  struct Member {
    SequenceState* sequence;
    int64_t rows;  // of the step, behind those of the members before
    Status status;
  };

  const FeedSpec spec_;
  const NgramParams& params_;
  const gguf::TensorInfo* tensor_ = nullptr;
  std::unique_ptr<RowTable> table_;
  std::unique_ptr<device::HostBuffer> decoded_;  // [kPieceRows][width] on their way to the device
  std::vector<device::HostTask> tasks_;          // [pieces]
  // The step: what each head of each token reads, as a number in `wanted_`; those are in order of their first use.
  std::vector<Member> members_;
  int64_t n_tokens_ = 0;
  std::vector<int64_t> rows_;    // [tokens * heads]
  std::vector<int32_t> order_;   // [tokens * heads] scratch
  std::vector<int32_t> number_;  // [tokens * heads]
  std::vector<int64_t> wanted_;  // distinct rows
  // Those that were taken out of the table so far.
  size_t n_taken_ = 0;
  std::vector<std::byte> bytes_;    // [wanted][row bytes]
  std::vector<Status> statuses_;    // [wanted]
};

}  // namespace strata::model
