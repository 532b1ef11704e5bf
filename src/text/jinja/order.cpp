#include "text/jinja/order.h"

#include <algorithm>
#include <charconv>

#include "text/jinja/texts.h"

namespace strata::text::jinja {
namespace {

Value path_step(Runtime& runtime, const Value& item, std::string_view name) {
  int64_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error == std::errc() && end == name.data() + name.size()) return get_item(runtime, item, Value::integer(index));
  return get_item(runtime, item, runtime.heap().text(std::string(name)));
}

}  // namespace

Value attribute_path(Runtime& runtime, const Value& item, const Value& path) {
  if (!path.is_string()) return get_item(runtime, item, path);
  std::string_view rest = path.bytes();
  Value value = item;
  for (;;) {
    runtime.heap().step();
    const size_t dot = rest.find('.');
    value = path_step(runtime, value, rest.substr(0, dot));
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

Value comparable(Runtime& runtime, const Value& value, bool case_sensitive) {
  return value.is_string() && !case_sensitive ? lower_text(runtime.heap(), value.text()) : value;
}

void sort_by_key(Runtime& runtime, std::vector<Keyed>& items, bool descending) {
  runtime.heap().take_memory(items.size() * sizeof(Keyed));
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    const int order = compare(runtime.heap(), a.key, b.key);
    return descending ? order > 0 : order < 0;
  });
}

}  // namespace strata::text::jinja
