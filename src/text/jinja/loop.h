// The object `loop` inside a for statement.
#pragma once

#include <utility>
#include <vector>

#include "text/jinja/runtime.h"

namespace strata::text::jinja {

class Loop final : public Object {
 public:
  explicit Loop(std::vector<Value> items) : items_(std::move(items)) {}
  void move_to(size_t index) { index_ = index; }
  size_t index() const { return index_; }

  const char* type_name() const override { return "loop"; }
  // index, index0, revindex, revindex0, first, last, length, previtem, nextitem, cycle(), changed().
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  // Whether the values differ from those of the last call.
  bool changed(Heap& heap, const std::vector<Value>& values);

 private:
  const std::vector<Value> items_;
  size_t index_ = 0;
  std::vector<Value> last_values_;
  bool has_last_values_ = false;
};

}  // namespace strata::text::jinja
