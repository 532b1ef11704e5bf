#include "text/json_reader.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/format.h"

namespace strata::text {
namespace {

using Json = nlohmann::ordered_json;
using Members = Json::object_t;

// Of members with the same name the first one's place and the last one's value stay.
void merge_equal_names(Members& object) {
  Members::Container& members = object;  // a vector of pairs; its own [] looks for names
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int names = members[a].first.compare(members[b].first);
    return names != 0 ? names < 0 : a < b;
  });
  std::vector<bool> dropped(members.size(), false);
  bool any = false;
  for (size_t i = 0, first = 0; i < order.size(); ++i) {
    if (members[order[i]].first != members[order[first]].first) first = i;
    if (i == first) continue;
    members[order[first]].second = std::move(members[order[i]].second);
    any = dropped[order[i]] = true;
  }
  if (!any) return;
  Members kept;
  for (size_t i = 0; i < members.size(); ++i) {
    if (!dropped[i]) kept.emplace_back(members[i].first, std::move(members[i].second));
  }
  object = std::move(kept);
}

// Puts the value together as the parser meets its parts. A container under way is the last of its parent, which does
// not grow meanwhile, so that pointers to it stay.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(int max_depth) : max_depth_(static_cast<size_t>(max_depth)) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in texts
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& name) override {
    open_.back()->get_ref<Members&>().emplace_back(std::move(name), nullptr);
    return true;
  }
  bool end_object() override {
    merge_equal_names(open_.back()->get_ref<Members&>());
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    fault_byte_ = position == 0 ? 0 : position - 1;  // the parser counts from 1
    is_range_ = dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr;
    return false;
  }

  Json take() { return std::move(root_); }
  // The byte at which it could not go on; nullopt for too many levels.
  std::optional<size_t> fault_byte() const { return fault_byte_; }
  bool is_number_out_of_range() const { return is_range_; }

 private:
  Json* place() {
    if (open_.empty()) return &root_;
    Json& parent = *open_.back();
    if (parent.is_object()) return &parent.get_ref<Members&>().back().second;
    parent.push_back(nullptr);
    return &parent.back();
  }
  bool add(Json value) {
    *place() = std::move(value);
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= max_depth_) return false;
    Json* const at = place();
    *at = std::move(container);
    open_.push_back(at);
    return true;
  }

  const size_t max_depth_;
  Json root_;
  std::vector<Json*> open_;
  std::optional<size_t> fault_byte_;
  bool is_range_ = false;
};

// "line 2, column 5 (byte 17)". Columns are characters.
std::string place_of(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  const auto column = 1 + std::count_if(before.begin() + static_cast<ptrdiff_t>(line_begin), before.end(), begins);
  return format("line {}, column {} (byte {})", line, column, byte);
}

}  // namespace

Result<Json> read_json(std::string_view text, int max_depth) {
  Builder builder(max_depth);
  if (Json::sax_parse(text, &builder)) return builder.take();
  if (!builder.fault_byte()) return Error{ErrorCode::kBadInput, format("is nested more than {} deep", max_depth)};
  const size_t byte = std::min(*builder.fault_byte(), text.size());
  const char* why = builder.is_number_out_of_range() ? "a number ends there that is too large"
                    : byte == text.size()            ? "it ends too early"
                                                     : "check quotes, commas, brackets and that it is UTF-8";
  return Error{ErrorCode::kBadInput, format("is not JSON at {}: {}", place_of(text, byte), why)};
}

}  // namespace strata::text
