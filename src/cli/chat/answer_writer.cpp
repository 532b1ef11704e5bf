#include "cli/chat/answer_writer.h"

#include "cli/chat/terminal_style.h"
#include "cli/interrupt.h"
#include "cli/streams.h"

namespace strata::cli {

AnswerWriter::AnswerWriter(std::unique_ptr<text::ReasoningSplitter> splitter)
    : terminal_(stdout_is_terminal()), styled_(stdout_is_styled()), splitter_(std::move(splitter)) {}

Result<engine::RequestResult> AnswerWriter::run(engine::Scheduler& scheduler, engine::Conversation* conversation,
                                                std::vector<int32_t> prompt, const engine::RequestParams& params) {
  ASSIGN_OR_RETURN(handle_, scheduler.submit(conversation, std::move(prompt), params, *this));
  {
    const InterruptRequest interrupt(*handle_);
    while (scheduler.step()) continue;
  }
  ASSERT(finished_);  // nobody else holds a sequence that it could wait for
  RETURN_IF_ERROR(written_);
  RETURN_IF_ERROR(result_.error);
  return result_;
}

void AnswerWriter::on_text(std::string_view text) {
  if (splitter_ == nullptr) {
    answer_ += text;
    write(text, false);
    return;
  }
  events_.clear();
  splitter_->push(text, events_);
  show(events_);
}

void AnswerWriter::on_finish(const engine::RequestResult& result) {
  result_ = result;
  finished_ = true;
  if (splitter_ == nullptr) return;
  events_.clear();
  splitter_->flush(events_);
  show(events_);
}

void AnswerWriter::show(const std::vector<text::TextEvent>& events) {
  for (const text::TextEvent& event : events) {
    if (event.part == text::TextPart::kReasoning) {
      reasoning_ += event.text;
      if (terminal_) write(event.text, true);
      continue;
    }
    if (terminal_ && answer_.empty() && !reasoning_.empty()) write("\n\n", false);
    answer_ += event.text;
    write(event.text, false);
  }
}

void AnswerWriter::write(std::string_view text, bool dimmed) {
  if (!written_.ok()) return;
  const std::string shown = terminal_ ? without_controls(text) : std::string(text);
  written_ = write_stdout(dim(shown, dimmed && styled_));
  if (!written_.ok()) handle_->cancel();
}

}  // namespace strata::cli
