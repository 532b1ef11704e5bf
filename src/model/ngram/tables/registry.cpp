#include "model/ngram/table.h"

namespace strata::model {

const TableKind* find_table_kind(std::string_view name) {
  for (const TableKind* kind : {&kDirectTable, &kRamTable, &kMappedTable}) {
    if (name == kind->name) return kind;
  }
  return nullptr;
}

}  // namespace strata::model
