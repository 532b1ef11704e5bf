#include "text/jinja/filters/filter.h"

namespace strata::text::jinja {

FilterFn find_filter(std::string_view name) {
  for (const auto group : {text_filters(), list_filters(), select_filters(), value_filters()}) {
    for (const FilterRow& row : group) {
      if (name == row.name) return row.apply;
    }
  }
  return nullptr;
}

}  // namespace strata::text::jinja
